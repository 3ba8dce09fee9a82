"""Read the typed fields of one host from a file, and record every mistake with its place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace

from runbook.dataclass import dataclass
from runbook.errors import Problem
from runbook.protocols import Place
from runbook.secrets.documents import text_of
from runbook.secrets.names import is_secret
from runbook.values.playbook import Where

Path = tuple[str | int, ...]


YES = frozenset({"true", "yes", "on", "1"})
NO = frozenset({"false", "no", "off", "0"})


def problem_at(where: Where, message: str, hint: str = "") -> Problem:
    """Return the mistake *message* at the place *where*."""
    return Problem(file=where.file, line=where.line, column=where.column, message=message, hint=hint)


def once_a_place(problems: Iterable[Problem]) -> Iterator[Problem]:
    """Yield one problem per place, because a mistake in ``defaults`` or in a range occurs once for each host."""
    first: dict[tuple[str, int, int], Problem] = {}
    for problem in problems:
        place = (problem.file, problem.line, problem.column)
        known = first.setdefault(place, problem)
        if known is problem or not problem.line:
            yield problem


def folded(problems: Iterable[Problem]) -> list[Problem]:
    """Return *problems*; the problems that one line causes for many hosts become one, with their number."""
    alike: dict[object, list[Problem]] = {}
    for problem in dict.fromkeys(problems):
        path, _, rest = problem.message.partition(": ")
        words = (path.rpartition(".")[2], rest) if problem.line and rest else problem.message
        alike.setdefault((problem.file, problem.line, problem.column, words, problem.hint), []).append(problem)
    return [
        replace(same[0], message=f"{same[0].message} (and so for {len(same) - 1} more)") if len(same) > 1 else same[0]
        for same in alike.values()
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Notes:
    """Collects the mistakes of one file."""

    source: str
    where: Place
    problems: list[Problem] = field(default_factory=list)

    def add(self, path: Path, message: str, hint: str = "") -> None:
        """Add the mistake *message* about the value at *path*."""
        self.problems.append(problem_at(self.at(path), message, hint))

    def at(self, path: Path) -> Where:
        """Return the place of *path*; it always has at least the name of the file."""
        place = self.where(path)
        return place if place.file else replace(place, file=self.source)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """The fields of one host, by the names that ``distributed_hosts.yaml`` uses."""

    values: Mapping[str, object]
    path: Path
    notes: Notes
    spelled: Mapping[str, str] = field(default_factory=dict)
    """Maps runbook's name of a field to the file's name, where they differ."""
    inherited: frozenset[str] = frozenset()
    """The fields that come from ``defaults``, not from the host."""

    def place(self, key: str) -> Where:
        """Return the place of the field *key* in the file."""
        return self.notes.at(("defaults", key) if key in self.inherited else (*self.path, self.spelled.get(key, key)))

    def wrong(self, key: str, message: str, hint: str = "") -> None:
        """Add the mistake *message* about the field *key*."""
        written = self.spelled.get(key, key)
        place = (*self.path, written)
        self.notes.add(place, f"{'.'.join(map(str, place))}: {message}", hint)

    def text(self, key: str) -> str:
        """Return the text of *key*, stripped; empty if it is absent, null, or wrong.  An unquoted number becomes its
        digits.
        """
        value = self.values.get(key)
        match value:
            case None:
                return ""
            case str():
                return value.strip()
            case int() if not isinstance(value, bool):
                return text_of(value)
        self.wrong(
            key, f"expected text, not {value_in_words(key, value)}", "" if _is_tree(value) else "put it in quotes"
        )
        return ""

    def texts(self, key: str) -> tuple[str, ...]:
        """Return the texts of *key*, a list or one text with commas; empty if it is absent or wrong."""
        value = self.values.get(key)
        if not isinstance(value, list | tuple):
            return parts_of(self.text(key))
        wrong = [part for part in value if isinstance(part, bool) or not isinstance(part, str | int)]
        if wrong:
            self.wrong(key, f"expected text, or a list of texts, not a list with {value_in_words(key, wrong[0])}")
            return ()
        return tuple(text for part in value for text in parts_of(part))

    def word(self, key: str) -> str:
        """Return the text of *key* if it is one word that no program can read as an option; otherwise an empty text."""
        text = self.text(key)
        if text and (text.startswith("-") or any(each.isspace() or not each.isprintable() for each in text)):
            self.wrong(key, f"expected one word that does not begin with '-', not {value_in_words(key, text)}")
            return ""
        return text

    def port(self, key: str) -> int:
        """Return the TCP port in *key*; 0 if it is absent, null, or wrong."""
        value = self.values.get(key)
        if value is None or value == "":
            return 0
        number = value
        if isinstance(value, str) and re.fullmatch(r"\s*[1-9][0-9]{0,18}\s*", value):
            number = int(value)
        if isinstance(number, int) and not isinstance(number, bool) and 1 <= number <= 65535:
            return number
        self.wrong(key, f"expected a port from 1 to 65535, not {value_in_words(key, value)}")
        return 0

    def flag(self, key: str) -> bool:
        """Return whether *key* has a value that means yes; absent and null mean no."""
        value = self.values.get(key)
        if value is None or isinstance(value, bool):
            return bool(value)
        word = str(value).strip().lower() if isinstance(value, str) else text_of(value)
        if word not in YES | NO:
            self.wrong(key, f"expected true or false, not {value_in_words(key, value)}")
        return word in YES


def parts_of(value: object) -> tuple[str, ...]:
    """Return the texts in *value*, which is a list, or one text with commas between the parts."""
    if isinstance(value, list | tuple):
        return tuple(text for part in value for text in parts_of(part))
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ()
    return tuple(text for part in str(value).split(",") if (text := part.strip()))


def value_in_words(key: str, value: object) -> str:
    """Return words for *value* in a message: short, and without showing a secret."""
    match value:
        case Mapping():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case None:
            return "nothing"
    if is_secret(key, value):
        return f"a {type(value).__name__}"
    shown = repr(value) if isinstance(value, str) else text_of(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


def _is_tree(value: object) -> bool:
    return isinstance(value, Mapping | list | tuple)
