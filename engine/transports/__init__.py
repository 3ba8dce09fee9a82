"""One file per way to get in; the file's name is what an inventory's ``transport`` says."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pkgutil import iter_modules
from typing import cast

from engine.protocols import Transport
from engine.values.inventory import Host


def names() -> tuple[str, ...]:
    """Every transport there is."""
    return tuple(it.name for it in iter_modules(__path__))


def load(name: str) -> Transport:
    """The transport called *name*, which must be one of ``names``."""
    return cast(Transport, import_module(f"{__name__}.{name}"))


def locked(name: str, hosts: Sequence[Host]) -> tuple[str, ...]:
    """The files of private keys that *hosts* need and that want a passphrase, where the transport knows of such."""
    find = getattr(import_module(f"{__name__}.{name}"), "locked", None)
    return tuple(find(hosts)) if find else ()
