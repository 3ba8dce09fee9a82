"""One file per way of telling; the file's name is what ``--output`` takes."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import TextIO

from engine.errors import ConfigError
from engine.protocols import Reporter


def names() -> tuple[str, ...]:
    """Every reporter there is."""
    return tuple(it.name for it in iter_modules(__path__))


def make(name: str, stream: TextIO) -> Reporter:
    """The reporter *name*, writing to *stream*.  Raises ConfigError when there is none."""
    if name not in names():
        raise ConfigError(f"no output is called {name!r}; there are: {', '.join(names())}")
    module = import_module(f"{__name__}.{name}")
    reporter: Reporter = module.Reporter(stream)
    return reporter


def for_file(path: str) -> str:
    """The reporter whose files end like *path*.  Raises ConfigError when there is none."""
    ending = path.rpartition(".")[2].lower()
    for name in names():
        if ending in import_module(f"{__name__}.{name}").ENDINGS:
            return name
    known = " ".join(f".{it}" for name in names() for it in import_module(f"{__name__}.{name}").ENDINGS)
    raise ConfigError(f"--report {path}: the file's ending says what is written; write one of: {known}")
