"""One file per action; the file's name is the action's name."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from engine.ports import Action


def discover() -> dict[str, Action]:
    """Every action there is, by name."""
    return {it.name: Action.of(import_module(f"{__name__}.{it.name}")) for it in iter_modules(__path__)}
