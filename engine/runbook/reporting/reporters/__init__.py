"""The output formats: one file or package each; its name is the value of ``--output``."""

from __future__ import annotations

from collections.abc import Mapping
from pkgutil import iter_modules
from types import ModuleType
from typing import TextIO

from runbook.errors import ConfigError
from runbook.extensions import REPORTERS, load, with_extensions
from runbook.protocols import Reporter
from runbook.values.verbosity import Verbosity


def names() -> tuple[str, ...]:
    """Return the names of all reporters.  Raises ConfigError if two packages have the same name."""
    return tuple(_modules())


def _modules() -> Mapping[str, str]:
    return with_extensions(REPORTERS, {module.name: f"{__name__}.{module.name}" for module in iter_modules(__path__)})


def _load(name: str) -> ModuleType:
    return load(REPORTERS, name, _modules()[name])


def make(name: str, stream: TextIO, verbosity: Verbosity = Verbosity.VERBOSE) -> Reporter:
    """Return the reporter *name*, which writes to *stream*; *verbosity* applies to the console only.

    Raises ConfigError if there is no such reporter.
    """
    if name not in names():
        raise ConfigError(f"no output is called {name!r}; there are: {', '.join(names())}")
    reporter: Reporter = _load(name).Reporter(stream, *([verbosity] if name == "console" else []))
    return reporter


def for_file(path: str) -> str:
    """Return the reporter for files with the ending of *path*.  Raises ConfigError if there is none."""
    ending = path.rpartition(".")[2].lower()
    for name in names():
        if ending in _load(name).ENDINGS:
            return name
    known = " ".join(f".{ending}" for name in names() for ending in _load(name).ENDINGS)
    raise ConfigError(f"--report {path}: the file's ending sets the format; use one of: {known}")


def replaces(name: str) -> bool:
    """Whether a file of the reporter *name* must be replaced as a whole, because other programs read it at any time."""
    return bool(getattr(_load(name), "REPLACES", False))
