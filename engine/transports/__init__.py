"""One file per way to get in; the file's name is what an inventory's ``transport`` says."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import cast

from engine.ports import Transport


def names() -> tuple[str, ...]:
    """Every transport there is."""
    return tuple(it.name for it in iter_modules(__path__))


def load(name: str) -> Transport:
    """The transport called *name*, which must be one of ``names``."""
    return cast(Transport, import_module(f"{__name__}.{name}"))
