"""Which fields of an inventory are secrets, and what is shown of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from engine.text.secret_names import MASK, is_secret
from engine.values.types import Json

DEEPEST = 40
LARGEST = 20_000
"""Values that one host may have; more is not a description of a host."""

NOT_A_VALUE = frozenset({"", "none", "null", "true", "false", "yes", "no", "enabled", "disabled", MASK})
LOGIN_IN_URL = re.compile(r"://[^/\s:@]*:([^/\s@]+)@")


def shown(fields: Mapping[str, object]) -> dict[str, Json]:
    """*fields* as JSON, secrets masked.  Raises ValueError when they are no description of a host."""
    left = iter(range(LARGEST))

    def walk(value: object, secret: bool, depth: int) -> Json:
        if depth > DEEPEST or next(left, None) is None:
            raise ValueError("nested too deep, or more than a host has to say")
        match value:
            case None | bool() | "":
                return value
            case str():
                return MASK if secret or is_secret("", value) else value
            case Mapping():
                return {
                    text_of(key): walk(it, secret or is_secret(text_of(key), it), depth + 1)
                    for key, it in value.items()
                }
            case list() | tuple() | set() | frozenset():
                return [walk(it, secret, depth + 1) for it in value]
        return MASK if secret or is_secret("", value) else _scalar(value)

    return {key: walk(it, is_secret(key, it), 1) for key, it in fields.items()}


def secrets_in(document: object) -> tuple[str, ...]:
    """Every secret value in *document*, each once: also outside of its hosts, for output knows no such bounds."""
    return tuple(dict.fromkeys(form for it in _secret_values(document) for form in _forms(it)))


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
                waiting.extend(_inside(value, secret))
            case None | bool():
                continue
            case _ if secret:
                yield text_of(value)


def _inside(value: Mapping[object, object] | Iterable[object], secret: bool) -> list[tuple[object, bool]]:
    if isinstance(value, Mapping):
        pairs = [(it, secret or is_secret(text_of(key), it)) for key, it in value.items()]
    else:
        pairs = [(it, secret or is_secret("", it)) for it in value]
    return pairs[::-1]


def _forms(secret: str) -> Iterator[str]:
    """*secret*, and its lines where it has several: a private key is seldom printed in one piece."""
    whole = secret.strip()
    if whole.lower() in NOT_A_VALUE:
        return
    yield whole
    lines = [it.strip() for it in whole.splitlines()]
    if len(lines) > 1:
        yield from (it for it in lines if len(it) >= 8 and not it.startswith("-----"))


def _scalar(value: object) -> Json:
    match value:
        case str():
            return value
        case int() if value.bit_length() < 1000:
            return value
        case float() if abs(value) < float("inf"):
            return value
    return text_of(value)


def text_of(value: object) -> str:
    """*value* as text, whatever a YAML parser made of it."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    try:
        return str(value)
    except ValueError:  # an integer of thousands of digits has no decimal form
        return hex(value) if isinstance(value, int) else MASK
