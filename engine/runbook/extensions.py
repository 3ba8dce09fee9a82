"""Find what other installed packages add: actions, inventory formats, transports, reporters, playbooks."""

from __future__ import annotations

import re
import site
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

from runbook.dataclass import dataclass
from runbook.errors import ConfigError, Problem

ACTIONS, INVENTORIES, TRANSPORTS, REPORTERS, PLAYBOOKS = (
    f"runbook.{name}" for name in ("actions", "inventories", "transports", "reporters", "playbooks")
)
"""The groups of entry points."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """One entry point of an installed package."""

    name: str
    module: str
    """The module; for playbooks, the package whose folder has them."""
    package: str
    """The distribution with its version, such as ``runbook-racks 1.2``."""


@cache
def installed(group: str) -> tuple[Extension, ...]:
    """Every extension of *group*, by name.

    Only from the directories that packages are installed to: the working directory and ``PYTHONPATH`` are where another
    user could have put one (law 9).
    """
    found = []
    for place in _candidates():
        from importlib.metadata import Distribution  # only where there is an extension: it is slow to import

        package = Distribution.at(place)
        found += [
            Extension(name=entry.name, module=entry.value, package=f"{package.metadata['Name']} {package.version}")
            for entry in package.entry_points
            if entry.group == group
        ]
    return tuple(sorted(found, key=lambda extension: (extension.name, extension.package)))


def is_installed(package: str) -> bool:
    """Whether *package* is installed, in whatever spelling of its name."""
    plain = _plain_name(package)
    there = (place for folder in _folders() for place in Path(folder).glob("*.dist-info"))
    return any(_plain_name(place.name.partition("-")[0]) == plain for place in there)


def _plain_name(package: str) -> str:
    return re.sub(r"[-_.]+", "_", package).lower()


def _folders() -> tuple[str, ...]:
    """The directories that packages are installed to."""
    return (*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else []))


@cache
def _candidates() -> tuple[Path, ...]:
    """The ``.dist-info`` of every installed package that has an extension of any group."""
    files = [file for folder in _folders() for file in sorted(Path(folder).glob("*.dist-info/entry_points.txt"))]
    return tuple(file.parent for file in files if "[runbook." in file.read_text(encoding="utf-8", errors="replace"))


def with_extensions(group: str, own: Mapping[str, str]) -> Mapping[str, str]:
    """Return the modules of *own*, by name, and those of the extensions of *group*.

    Raises ConfigError if two have the same name: the meaning of a name must not depend on other installed packages.
    """
    found, problems = dict(own), []
    origins = dict.fromkeys(own, "runbook itself")
    for extension in installed(group):
        if other := origins.get(extension.name):
            words = f"{_kind(group)} {extension.name} is in {other} and in {extension.package}"
            problems.append(Problem(message=words, hint="uninstall one of them"))
        found[extension.name], origins[extension.name] = extension.module, extension.package
    if problems:
        raise ConfigError(*problems)
    return found


def load(group: str, name: str, module: str) -> ModuleType:
    """Import *module*, which is *name* of *group*.  Raises ConfigError where another package has it and it fails."""
    try:
        return import_module(module)
    except Exception as error:  # whatever another package raises while it is imported
        if not (package := package_of(group, name)):
            raise
        words = f"{_kind(group)} {name} of {package} cannot be loaded: {type(error).__name__}: {error}"
        raise ConfigError(Problem(message=words, hint="install that package again, with what it needs")) from error


def _kind(group: str) -> str:
    word = group.removeprefix("runbook.")
    return f"the {'inventory format' if group == INVENTORIES else word.removesuffix('s')}"


def package_of(group: str, name: str) -> str:
    """The package that adds *name* to *group*; empty: runbook itself."""
    return next((extension.package for extension in installed(group) if extension.name == name), "")
