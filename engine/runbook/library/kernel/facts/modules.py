"""A module of a host's kernel: which version is loaded, which is installed, and what uses it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.shell import script
from runbook.values.command import Command, Completed, read_script, write_script
from runbook.values.types import Unknown

MODULE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,62}")
LIBRARY = re.compile(r"lib[A-Za-z0-9_+-]+\.so(\.[0-9]+)*")
TIMEOUT = 120.0
"""Seconds that unloading or loading may take; neither is ended half-way."""
IN_USE = 16
"""The exit code of the script that found a module in use."""

_VERSION = re.compile(r"\b([0-9]{2,4}\.[0-9]+(?:\.[0-9]+)*)\b")
_OF_FILE = re.compile(r"\.so\.([0-9]+(?:\.[0-9]+)+)\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelModule:
    """One module, and those that use it."""

    name: str
    loaded: bool
    built_in: bool
    """Whether it is a part of the kernel itself, which cannot be unloaded."""
    version: str | Unknown
    """The version that is loaded."""
    installed: str | Unknown
    """The version in the file that would be loaded for the running kernel."""
    library: str | Unknown
    """The version of the library of programs, by the name of its file."""
    modules: tuple[str, ...]
    """The module and every module above it, those that use others first: the order in which they can be unloaded."""
    users: int | Unknown
    """References to these modules that are not from each other: open files, and other uses in the kernel."""
    container: bool
    root: bool


def ask_module(name: str, library: str = "", root: str = "") -> Command:
    """One script on the module *name* and on *library*; *root* is where the file system begins."""
    return read_script(_ASK, root, name.replace("-", "_"), library)


_ASK = script(__package__, "module_probe")


def read_module(name: str, done: Completed) -> KernelModule:
    """The answer to ``ask_module``.  Raises ProbeError where the host did not say."""
    if done.timed_out or done.exit_code != 0:
        raise ProbeError(f"the kernel's modules cannot be inspected: {done.why_not()}")
    lines = [line.partition(" ")[::2] for line in done.stdout.splitlines()]
    reported = dict(lines)
    loaded = "loaded" in reported
    return KernelModule(
        name=name,
        loaded=loaded,
        built_in="built-in" in reported,
        version=_loaded_version(reported.get("version", ""), reported.get("driver", ""), loaded=loaded),
        installed=_installed(reported),
        library=_library(reported.get("library", "")),
        modules=tuple(value.split()[0] for key, value in lines if key == "module" and value.split()),
        users=_users([value.split() for key, value in lines if key == "module"]),
        container="container" in reported,
        root=reported.get("user") == "0",
    )


def _loaded_version(version: str, driver: str, *, loaded: bool) -> str | Unknown:
    """Return the version in sysfs, else in the line of the driver's own file in /proc/driver."""
    if version:
        return version
    if found := _VERSION.search(driver):
        return found[1]
    return Unknown(why="the loaded module does not say its version" if loaded else "the module is not loaded")


def _installed(reported: dict[str, str]) -> str | Unknown:
    if version := reported.get("installed"):
        return version
    if "installed" in reported:
        return Unknown(why="the installed module says no version")
    if "absent" in reported:
        return Unknown(why=f"no module is installed for the running kernel: {reported['absent']}")
    return Unknown(why="this host has no modinfo")


def _library(path: str) -> str | Unknown:
    found = _OF_FILE.search(path)
    if found:
        return found[1]
    return Unknown(why=f"the name of {path} has no version" if path else "the library was not found")


def _users(rows: Sequence[Sequence[str]]) -> int | Unknown:
    """References that are not from a module of *rows*: name, number of references, names of modules that use it."""
    total = 0
    for row in rows:
        if len(row) < 2 or not (row[1].isascii() and row[1].isdigit()):
            return Unknown(why=f"the kernel does not say how often {row[0] if row else 'the module'} is in use")
        total += max(0, int(row[1]) - len(row[2:]))
    return total


def unload(modules: Sequence[str]) -> Command:
    """Unload *modules* in this order, up to the first that is in use; never ended half-way."""
    command = write_script(_UNLOAD, *modules, called=("unload-modules", *modules))
    return replace(command, timeout=TIMEOUT, unkillable=True)


def load(modules: Sequence[str]) -> Command:
    """Load those of *modules* that are not loaded."""
    command = write_script(_LOAD, *modules, called=("load-modules", *modules))
    return replace(command, timeout=TIMEOUT, unkillable=True)


_UNLOAD = script(__package__, "module_unload")

_LOAD = script(__package__, "module_load")
