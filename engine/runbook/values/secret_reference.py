"""Read a ``secrets:`` section of a playbook or an inventory: the places of values, never the values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches

from runbook.dataclass import dataclass
from runbook.errors import Problem
from runbook.secrets.documents import SOURCES
from runbook.text.suggestions import suggest
from runbook.values.playbook import SecretReference, SecretSource, Where

Path = tuple[str | int, ...]

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

SECRET_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")

FORMS = "{env: NAME}, {file: PATH}, {command: [PROGRAM, ...]} or {keyring: {service: S, user: U}}"


@dataclass(frozen=True, slots=True)
class ReadSecrets:
    """The entries of a ``secrets:`` section, and the mistakes in it."""

    references: tuple[SecretReference, ...]
    problems: tuple[Problem, ...]


def read_secrets(tree: object, where: Callable[[Path], Where], *, in_inventory: bool = False) -> ReadSecrets:
    """Return the references under ``secrets:`` in *tree*; no message repeats a possible value."""
    reading = _Reading(where, in_inventory)
    return ReadSecrets(tuple(reading.all(tree)), tuple(reading.problems))


def resembles_reference(tree: object) -> bool:
    """Whether *tree* is probably a reference: it has a key of a reference, maybe mistyped."""
    return isinstance(tree, Mapping) and any(
        get_close_matches(str(key).casefold(), SOURCES, n=1, cutoff=0.66) for key in tree
    )


_KEYS = {*SOURCES, "description"}


class _Reading:
    def __init__(self, where: Callable[[Path], Where], in_inventory: bool) -> None:
        self._where, self._in_inventory = where, in_inventory
        self.problems: list[Problem] = []

    def all(self, tree: object) -> Iterator[SecretReference]:
        if tree is None:
            return
        if not isinstance(tree, Mapping):
            self._wrong(("secrets",), "secrets: expected a mapping of names to references", f"NAME: {FORMS}")
            return
        for name, entry in tree.items():
            if found := self._reference(name, entry, ("secrets", str(name))):
                yield found

    def _wrong(self, path: Path, message: str, hint: str = "") -> None:
        at = self._where(path)
        self.problems.append(Problem(file=at.file, line=at.line, column=at.column, message=message, hint=hint))

    def _reference(self, name: object, entry: object, path: Path) -> SecretReference | None:
        if not isinstance(name, str) or not SECRET_NAME.fullmatch(name):
            words = "the name of a secret has letters, digits and _ only, and begins with a letter"
            self._wrong(path, words)
            return None
        if not isinstance(entry, Mapping):
            words = f"secret {name}: expected where its value is, never the value itself"
            self._wrong(path, words, f"{name}: {FORMS}")
            return None
        if unknown := [key for key in entry if key not in _KEYS]:
            self._unknown(name, unknown, path)
            return None
        description = entry.get("description", "")
        if not isinstance(description, str):
            self._wrong((*path, "description"), f"secret {name}: the description must be text")
            return None
        given = [key for key in SOURCES if key in entry]
        if len(given) > 1 or (self._in_inventory and not given):
            words = f"secret {name}: give one of {', '.join(SOURCES)}" + (", not several" if given else "")
            self._wrong(path, words, f"{name}: {FORMS}")
            return None
        source = SecretSource(given[0]) if given else SecretSource.INVENTORY
        words_of = self._words(name, source, entry[given[0]], (*path, given[0])) if given else ()
        if words_of is None:
            return None
        return SecretReference(
            name=name, source=source, words=words_of, description=description, where=self._where(path)
        )

    def _unknown(self, name: str, keys: list[object], path: Path) -> None:
        for key in keys:
            hint = suggest(str(key), (*SOURCES, "description"))
            shown = repr(key) if isinstance(key, str) and re.fullmatch(r"[a-z_]{1,20}", key) else "this key"
            self._wrong((*path, str(key)), f"secret {name}: {shown} is not allowed in a reference", hint)

    def _words(self, name: str, source: SecretSource, value: object, path: Path) -> tuple[str, ...] | None:
        """Return the words of *value* for *source*; return None, and record a mistake, if *value* is wrong."""
        words, why, hint = _words_of(source, value)
        if not why and any("{{" in word or "{%" in word for word in words):
            why, hint = "nothing is filled in here", "write it out, without {{ }}"
        if not why and any("\0" in word for word in words):
            why = f"`{source}` contains a NUL character"
        if why:
            self._wrong(path, f"secret {name}: {why}", hint)
            return None
        return words


def _words_of(source: SecretSource, value: object) -> tuple[tuple[str, ...], str, str]:
    """Return the words of *value* for *source*, the mistake in *value* (or an empty text), and the expected form."""
    match source, value:
        case SecretSource.ENVIRONMENT, str():
            return (value,), "" if VARIABLE.fullmatch(value) else "`env` is not the name of an environment variable", ""
        case SecretSource.FILE, str():
            return (value,), "" if value.strip() else "`file` is empty", ""
        case SecretSource.COMMAND, list() if value and all(isinstance(word, str) for word in value):
            return tuple(value), "" if value[0].strip() else "the name of the program is empty", ""
        case SecretSource.COMMAND, _:
            return (), "`command` needs a list of texts", "[pass, show, NAME]: no shell reads it"
        case SecretSource.KEYRING, {"service": str(service), "user": str(user), **rest} if not rest:
            return (service, user), "" if service and user else "the service or the user is empty", ""
        case SecretSource.KEYRING, _:
            return (), "`keyring` needs a service and a user", "keyring: {service: S, user: U}"
    return (), f"`{source}` needs a text", ""
