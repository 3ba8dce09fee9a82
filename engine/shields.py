"""Connections that narrow a connection."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import TypeVar

from engine.errors import ReadOnlyViolation
from engine.ports import Connection
from engine.values.command import Command, Completed, Effect

T = TypeVar("T")

MASK = "***"


@dataclass(frozen=True, slots=True)
class ReadOnly:
    """A connection that raises, rather than pretends, when it is asked to write."""

    inner: Connection
    scratch: bool = False
    """Whether commands that clean up after themselves may pass."""

    def run(self, *commands: Command) -> tuple[Completed, ...]:
        """Send *commands* if every one of them only looks.  Raises ReadOnlyViolation."""
        allowed = (Effect.READ, Effect.SCRATCH) if self.scratch else (Effect.READ,)
        for it in commands:
            if it.effect not in allowed:
                raise ReadOnlyViolation(f"a look may not send this ({it.effect}): {it.brief()}")
        return self.inner.run(*commands)

    def close(self) -> None:
        """Hang up the inner connection."""
        self.inner.close()


@dataclass(frozen=True, slots=True)
class Recording:
    """A connection that remembers what was sent, and what came back."""

    inner: Connection
    sent: list[tuple[Command, Completed]] = field(default_factory=list)

    def run(self, *commands: Command) -> tuple[Completed, ...]:
        """Send *commands*, and remember them with their answers."""
        answers = self.inner.run(*commands)
        self.sent.extend(zip(commands, answers, strict=True))
        return answers

    def close(self) -> None:
        """Hang up the inner connection."""
        self.inner.close()


def masking(secrets: tuple[str, ...]) -> Callable[[str], str]:
    """A function that hides every secret in a text, also where it is quoted, escaped, encoded, or cut off."""
    forms = sorted({form for secret in secrets if len(secret) >= 4 for form in _forms(secret)}, key=len, reverse=True)

    def mask(text: str) -> str:
        for form in forms:
            text = text.replace(form, MASK)
        parts = _CUT.split(text) if forms else [text]
        return "".join(it if number % 2 else _uncut(it, forms) for number, it in enumerate(parts))

    return mask


_CUT = re.compile(r"(…|\.\.\.)")
"""Where a text that was too long has been cut; its beginning and its end may be cuts, too."""

_TELLING = 6
"""Characters of a secret, at a cut, that tell too much of it."""


def _uncut(text: str, forms: Iterable[str]) -> str:
    """*text* without the beginning of a secret at its end, and without the end of one at its beginning."""
    for form in forms:
        if found := _overlap(text, form):
            text = text[:-found] + MASK
        if found := _overlap(form, text):
            text = MASK + text[found:]
    return text


def _overlap(one: str, other: str) -> int:
    """How many characters end *one* and begin *other*, if there are enough to matter; at most all of either."""
    end = one[-_TELLING:]
    at = other.rfind(end) if len(end) == _TELLING else -1
    while at >= 0:
        if one.endswith(other[: at + _TELLING]):
            return at + _TELLING
        at = other.rfind(end, 0, at + _TELLING - 1)
    return 0


def masked(value: T, mask: Callable[[str], str]) -> T:
    """*value* with every text in it, however deep, passed through *mask*."""
    return _masked(value, mask)  # type: ignore[return-value]


def _masked(value: object, mask: Callable[[str], str]) -> object:
    if type(value) is str:
        return mask(value)
    if isinstance(value, dict):
        return {_masked(key, mask): _masked(it, mask) for key, it in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_masked(it, mask) for it in value)  # type: ignore[call-arg, attr-defined]
    if is_dataclass(value) and not isinstance(value, type):
        changed = {it.name: _masked(getattr(value, it.name), mask) for it in fields(value) if it.init}
        return replace(value, **changed)
    return value


def _within_base64(raw: bytes, encode: Callable[[bytes], bytes]) -> set[str]:
    """What base64 makes of *raw*, alone or within something longer (``user:password``): it takes three bytes a time."""
    whole = encode(raw).decode().rstrip("=")
    inner = (encode(raw[cut : cut + (len(raw) - cut) // 3 * 3]).decode() for cut in range(3))
    return {whole, *(it for it in inner if len(it) >= 8)}


def _forms(secret: str) -> set[str]:
    import json
    import shlex
    from base64 import b64encode, urlsafe_b64encode
    from urllib.parse import quote, quote_plus

    raw = secret.encode()
    written = {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], repr(secret)[1:-1]}
    return {
        *written,
        *(it.replace("'", "'\"'\"'") for it in written),  # within a longer word of a command line
        shlex.quote(secret),
        quote(secret, safe=""),
        quote_plus(secret),
        raw.hex(),
        *(form for encode in (b64encode, urlsafe_b64encode) for form in _within_base64(raw, encode)),
    }
