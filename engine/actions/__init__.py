"""One file per action; the file's name is the action's name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from engine.ports import Action


def discover() -> Mapping[str, Action]:
    """Every action there is, by name; its file is read when it is asked for."""
    return _Actions(tuple(it.name for it in iter_modules(__path__)))


class _Actions(Mapping[str, Action]):
    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = dict.fromkeys(names)

    def __getitem__(self, name: str) -> Action:
        if name not in self._names:
            raise KeyError(name)
        return _action(name)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@cache
def _action(name: str) -> Action:
    return Action.of(import_module(f"{__name__}.{name}"))
