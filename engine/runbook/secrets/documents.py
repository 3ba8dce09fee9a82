"""Find the secret values of a document (an inventory, inputs, a file of secrets), and mask its fields."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from runbook.secrets.masking import SHORTEST, is_ordinary
from runbook.secrets.names import MASK, NOT_A_VALUE, is_secret

SOURCES = ("env", "file", "command", "keyring")
"""The keys of a reference to a secret; each names the kind of place that has the value."""

DEEPEST = 40
MAX_HOST_VALUES = 20_000
"""The maximum number of values of one host; more values do not describe a host."""

ARMOUR = re.compile(r"-----(?:BEGIN|END) (?:[A-Z0-9]{1,9} ){0,3}(?:KEY|BLOCK|CERTIFICATE|PARAMETERS|MESSAGE)-----")
"""The first and the last line of a key or certificate (RFC 7468, OpenSSH, OpenPGP): the same for everybody."""

_FRAME = re.compile(r"[][{}(),;]+|([-=#*_.~+])\1*")
"""A line of brackets or of one repeated character, which contains no part of a secret."""

LOGIN_IN_URL = re.compile(r"://[^/\s:@]*:([^/\s@]+)@")


def looks_like_reference(tree: object) -> bool:
    """Whether *tree* has only the keys of a reference to a secret, so that nothing in *tree* is itself a secret."""
    return isinstance(tree, Mapping) and bool(tree) and set(tree) <= {*SOURCES, "description"}


def shown(fields: Mapping[str, object]) -> dict[str, Any]:
    """Return *fields* as JSON with secrets masked.  Raises ValueError if they are too large or cannot describe a
    host.
    """
    left = iter(range(MAX_HOST_VALUES))

    def walk(value: object, secret: bool, depth: int) -> Any:
        if depth > DEEPEST or next(left, None) is None:
            raise ValueError("nested too deep, or too many values")
        match value:
            case None | bool() | "":
                return value
            case str():
                return MASK if secret or is_secret("", value) else value
            case Mapping():
                return {
                    text_of(key): walk(inner, secret or is_secret(text_of(key), inner), depth + 1)
                    for key, inner in value.items()
                }
            case list() | tuple() | set() | frozenset():
                return [walk(each, secret, depth + 1) for each in value]
        return MASK if secret or is_secret("", value) else _scalar(value)

    return {key: walk(field, is_secret(key, field), 1) for key, field in fields.items()}


def secrets_in(document: object) -> tuple[str, ...]:
    """Return every secret value in *document*, each once; also outside of its hosts, because output may have any of
    them.
    """
    values = _secret_values(_without_references(document))
    return tuple(dict.fromkeys(form for secret_value in values for form in _forms(secret_value)))


def _without_references(document: object) -> object:
    """Return *document* without the references under ``secrets:``; they are names and paths, which may be shown.

    Such a section can be at the top level, in a host and in a group.
    """
    if not isinstance(document, Mapping):
        return document
    found = dict(_literal_ones(document))
    for key in _OF_HOSTS & found.keys():
        match found[key]:
            case Mapping() as named:
                found[key] = {name: _without_place(it) for name, it in named.items()}
            case list() | tuple() as listed:
                found[key] = [_without_place(each) for each in listed]
    return found


_OF_HOSTS = {"hosts", "groups", "standard_hosts", "vast_hosts"}
"""The keys of an inventory file that contain hosts and groups."""


def _without_place(tree: object) -> object:
    return _literal_ones(tree) if isinstance(tree, Mapping) else tree


def _literal_ones(tree: Mapping[object, object]) -> Mapping[object, object]:
    """Return *tree*; its ``secrets:`` has only the entries that are no references."""
    section = tree.get("secrets")
    if not isinstance(section, Mapping):
        return tree
    return {**tree, "secrets": {name: entry for name, entry in section.items() if not looks_like_reference(entry)}}


def _secret_values(document: object) -> Iterator[str]:
    waiting: list[tuple[object, bool]] = [(document, False)]
    seen: set[tuple[int, bool]] = set()
    while waiting:
        value, secret = waiting.pop()
        match value:
            case str():
                if secret:
                    yield value
                elif "://" in value:
                    yield from LOGIN_IN_URL.findall(value)
            case Mapping() | list() | tuple():
                if (id(value), secret) in seen:
                    continue
                seen.add((id(value), secret))
                waiting.extend(_nested_values(value, secret))
            case None | bool():
                continue
            case _ if secret:
                yield text_of(value)


def _nested_values(value: Mapping[object, object] | Iterable[object], secret: bool) -> list[tuple[object, bool]]:
    if isinstance(value, Mapping):
        pairs = [(it, secret or is_secret(text_of(key), it)) for key, it in value.items()]
    else:
        pairs = [(each, secret or is_secret("", each)) for each in value]
    return pairs[::-1]


def _forms(secret: str) -> Iterator[str]:
    """Yield *secret*, and its lines if it has several: a private key is seldom printed in one piece."""
    whole = secret.strip()
    if whole.lower() in NOT_A_VALUE:
        return
    yield whole
    lines = [line.strip() for line in whole.splitlines()]
    if len(lines) > 1:
        yield from filter(can_be_hidden, lines)


def can_be_hidden(line: str) -> bool:
    """Whether *line*, one of several lines of a secret, can be masked alone; a line that many other texts contain
    cannot.
    """
    if len(line) < SHORTEST or line.lower() in NOT_A_VALUE or is_ordinary(line):
        return False
    return not (ARMOUR.fullmatch(line) or _FRAME.fullmatch(line))


def _scalar(value: object) -> Any:
    match value:
        case str():
            return value
        case int() if value.bit_length() < 1000:
            return value
        case float() if abs(value) < float("inf"):
            return value
    return text_of(value)


def text_of(value: object) -> str:
    """Return *value*, which a YAML parser has made, as text."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    try:
        return str(value)
    except ValueError:  # an integer of thousands of digits has no decimal form
        return hex(value) if isinstance(value, int) else MASK
