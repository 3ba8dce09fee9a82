"""Read the cases of tests/data: one file a case, with what a host answers and what is concluded from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

DATA = Path(__file__).parents[1] / "data"
KEYS = {"about", "source", "given", "says", "concludes"}
NEEDED = {"says", "concludes"}


class CaseError(Exception):
    """A file that is no case; the text says which file, why, and what belongs there."""


@dataclass(frozen=True)
class Case:
    """One file of tests/data."""

    subject: str
    """The directory: which reader it is for."""
    name: str
    says: object
    """What the host answers: a text, or columns by their names."""
    given: Mapping[str, object]
    """What the reader is told beside the answer."""
    concludes: Mapping[str, object]
    """What follows, by names of the reader; at least one."""

    @property
    def text(self) -> str:
        """The answer of a reader of text."""
        assert isinstance(self.says, str), f"{self.subject}/{self.name}: `says` is a text here"
        return self.says


@dataclass(frozen=True)
class Contains:
    """``!contains WORDS``: a text with these words in it, or a list with such a text."""

    words: str


@dataclass(frozen=True)
class Includes:
    """``!includes WORD``: a list with this very element."""

    element: str


@dataclass(frozen=True)
class UnknownFor:
    """``!unknown WORDS``: a value that is not known, with these words in its reason."""

    words: str


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML with the tags above, in which no key stands twice."""

    def mapping(self, node: yaml.MappingNode) -> dict[object, object]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        if twice := [key for key in keys if keys.count(key) > 1]:
            raise CaseError(f"the key {twice[0]!r} stands there twice")
        return self.construct_mapping(node, deep=True)


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _Loader.mapping)
_Loader.add_constructor("!contains", lambda loader, node: Contains(str(loader.construct_scalar(node))))
_Loader.add_constructor("!includes", lambda loader, node: Includes(str(loader.construct_scalar(node))))
_Loader.add_constructor("!unknown", lambda loader, node: UnknownFor(str(loader.construct_scalar(node))))


def load(path: Path) -> Case:
    """The case in *path*.

    Raises CaseError for a key that is none, one that is missing, and a case that concludes nothing.
    """
    try:
        return _case(path)
    except (CaseError, yaml.YAMLError) as error:
        raise CaseError(f"tests/data/{path.parent.name}/{path.name}: {error}") from error


def _case(path: Path) -> Case:
    found = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    if not isinstance(found, dict):
        raise CaseError(f"a mapping is wanted, with {', '.join(sorted(KEYS))}")
    if unknown := sorted(set(map(str, found)) - KEYS):
        raise CaseError(f"{', '.join(unknown)}: no such key; a case has {', '.join(sorted(KEYS))}")
    if missing := sorted(NEEDED - set(found)):
        raise CaseError(f"{', '.join(missing)} is missing")
    if not isinstance(found["concludes"], dict) or not found["concludes"]:
        raise CaseError("concludes: at least one conclusion is wanted, as NAME: VALUE")
    if not isinstance(found.get("given", {}), dict):
        raise CaseError("given: a mapping is wanted")
    if path.suffix != ".yaml":
        raise CaseError("the name of a case ends with .yaml")
    return Case(path.parent.name, path.stem, found["says"], found.get("given", {}), found["concludes"])


def cases(subject: str) -> Iterator[Case]:
    """The cases of one directory, by name."""
    return (load(path) for path in sorted((DATA / subject).iterdir()))


def subjects() -> list[str]:
    """The directories of tests/data that hold cases; `watch` holds tables of another form in directories of its own."""
    return sorted(path.name for path in DATA.iterdir() if any(path.glob("*.yaml")))


def differences(expected: object, actual: object, path: str = "") -> Iterator[str]:
    """Where *actual* is not what *expected* says.

    A mapping names what it expects, and other keys may be there; a list names every element; anything else is equal.
    """
    match expected:
        case Contains(words):
            found = actual if isinstance(actual, list) else [actual]
            if not any(isinstance(one, str) and words in one for one in found):
                yield f"{path}: {actual!r} does not contain {words!r}"
        case Includes(element):
            if not isinstance(actual, list) or element not in actual:
                yield f"{path}: {actual!r} does not include {element!r}"
        case UnknownFor(words):
            why = actual.get("$unknown") if isinstance(actual, dict) else None
            if not isinstance(why, str) or words not in why:
                yield f"{path}: {actual!r} is not unknown for {words!r}"
        case dict() if isinstance(actual, Mapping):
            for key, value in expected.items():
                below = f"{path}.{key}" if path else str(key)
                if key in actual:
                    yield from differences(value, actual[key], below)
                else:
                    yield f"{below}: the reader concludes no such thing; it knows {', '.join(map(str, actual))}"
        case list() if isinstance(actual, list) and len(actual) == len(expected):
            for number, (one, other) in enumerate(zip(expected, actual, strict=True)):
                yield from differences(one, other, f"{path}[{number}]")
        case _:
            if type(expected) is not type(actual) or expected != actual:
                yield f"{path}: {actual!r} instead of {expected!r}"
