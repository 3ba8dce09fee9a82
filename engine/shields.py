"""Connections that narrow a connection."""

from __future__ import annotations

from collections.abc import Callable
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
    """A function that hides every secret in a text, also where it is quoted, escaped or encoded."""
    forms = sorted({form for secret in secrets if len(secret) >= 4 for form in _forms(secret)}, key=len, reverse=True)

    def mask(text: str) -> str:
        for form in forms:
            text = text.replace(form, MASK)
        return text

    return mask


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


def _forms(secret: str) -> set[str]:
    import json
    import shlex
    from base64 import b64encode, urlsafe_b64encode
    from urllib.parse import quote, quote_plus

    raw = secret.encode()
    return {
        secret,
        shlex.quote(secret),
        json.dumps(secret)[1:-1],
        repr(secret)[1:-1],
        quote(secret, safe=""),
        quote_plus(secret),
        raw.hex(),
        *(b64encode(raw[cut:]).decode().rstrip("=")[: max(6, len(raw) * 4 // 3 - 4)] for cut in range(1)),
        urlsafe_b64encode(raw).decode().rstrip("="),
    }
