"""Say which inputs profiles of the inventory gave hosts."""

from __future__ import annotations

from collections.abc import Mapping

from runbook.text.name_ranges import fold
from runbook.text.printable import json_text
from runbook.values.run_origin import InputsByPlaybook


def profile_lines(profile_inputs: Mapping[str, InputsByPlaybook]) -> list[str]:
    """Return a line for each set of inputs, with the hosts that have it: ``gpu-[1-8]: confirm=3s (zombie-gpu)``."""
    hosts: dict[str, list[str]] = {}
    for host, books in profile_inputs.items():
        said = [f"{_pairs(inputs)} ({book})" for book, inputs in sorted(books.items())]
        hosts.setdefault(", ".join(said), []).append(host)
    return [f"{fold(names)}: {words}" for words, names in hosts.items()]


def _pairs(inputs: Mapping[str, object]) -> str:
    return ", ".join(
        f"{name}={value if isinstance(value, str) else json_text(value, 'utf-8')}" for name, value in inputs.items()
    )
