"""The section ``requires`` of a playbook."""

from __future__ import annotations

from typing import Any

from runbook.extensions import is_installed
from runbook.language.sections.placed_values import PlacedValues


def required_packages(listed: Any, values: PlacedValues) -> tuple[str, ...]:
    """Return the packages in *listed*, the list under ``requires``; a package that is not installed is a mistake."""
    names = tuple(name for name in listed if isinstance(name, str)) if isinstance(listed, list) else ()
    for number, name in enumerate(names):
        if not is_installed(name):
            words = f"the package {name} is not installed: `pip install {name}` into the environment of runbook"
            values.wrong(("requires", number), words)
    return names
