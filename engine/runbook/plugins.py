"""Find the actions of the library, and of other packages, by name; nothing is imported before it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pkgutil import iter_modules

from runbook.extensions import ACTIONS, load, with_extensions
from runbook.protocols import Action

LIBRARY = "runbook.library"
FACTS = "facts"
"""The folder of the scripts and parsers of a subject: it stands among the actions, and is none."""


def discover() -> Mapping[str, Action]:
    """Every action there is, by name; its file is read when it is asked for."""
    return _Actions(modules())


def modules() -> Mapping[str, str]:
    """The module of every action, by the action's name.  Raises ConfigError where two packages have one name."""
    spec = find_spec(LIBRARY)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    subjects = [module.name for module in iter_modules(folders) if module.ispkg]
    own = {
        action.name: f"{LIBRARY}.{subject}.{action.name}"
        for subject in subjects
        for action in iter_modules([f"{folder}/{subject}" for folder in folders])
        if action.name != FACTS
    }
    return with_extensions(ACTIONS, own)


class _Actions(Mapping[str, Action]):
    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def __getitem__(self, name: str) -> Action:
        if name not in self._names:
            raise KeyError(name)
        return _action(name, self._names[name])

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@cache
def _action(name: str, module: str) -> Action:
    return Action.of(load(ACTIONS, name, module))
