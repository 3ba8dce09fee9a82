"""Chain lines of JSON by their digests, so that a line that was edited, removed, doubled or moved is found later."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any

from runbook.dataclass import dataclass

START = "0" * 64
"""Used in place of a digest before the first line."""

MAX_LINES = 10**12
"""A number of lines that no chain reaches."""

_SEAL = ',"sha":"'
_SEALED = re.compile(rb',"sha":"([0-9a-f]{64})"\}')
_END = len(_SEAL) + 64 + len('"}')


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A line of a chain, with its digest and its fault."""

    number: int
    """The number of the line, from 1."""
    value: Any
    """The content of the line as JSON; None if it cannot be parsed."""
    sha: str
    """The digest in the line; empty if the line has none."""
    fault: str = ""
    """The reason why the line is not as it was written; empty if it is."""


def sealed(body: str, before: str) -> tuple[str, str]:
    """Return the JSON object *body* with its digest added, and the digest; it covers *before*, the digest of the
    line before.
    """
    sha = sha256((before + body).encode()).hexdigest()
    return f'{body[:-1]}{_SEAL}{sha}"}}', sha


def links(lines: Iterable[bytes]) -> Iterator[Link]:
    """Yield the lines of a chain, each with its fault; a line without a newline is incomplete, and is left out."""
    before, broken = START, ""
    for number, raw in enumerate(lines, 1):
        if not raw.endswith(b"\n"):
            return
        link = _link(number, raw[:-1], before)
        if link.fault:
            broken = broken or link.fault
        yield link
        before = link.sha or before


def position(raw: bytes) -> tuple[int, str] | None:
    """Return the number and the digest that a line (without its newline) claims; None if they cannot be read."""
    link = _link(0, raw, START)
    number = link.value.get("n") if isinstance(link.value, dict) else None
    if not link.sha or not isinstance(number, int) or not 0 < number < MAX_LINES:
        return None
    return number, link.sha


def _link(number: int, raw: bytes, before: str) -> Link:
    seal = _SEALED.fullmatch(raw[-_END:])
    body = raw[:-_END] + b"}" if seal else raw
    try:
        value = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        return Link(number=number, value=None, sha="", fault="it is not JSON")
    if not seal or not isinstance(value, dict):
        return Link(number=number, value=None, sha="", fault="it has no digest")
    sha, said = seal[1].decode(), value.get("n")
    if said != number:
        claim = f"it says that it is line {said}" if isinstance(said, int) and said < MAX_LINES else "it has no number"
        fault = f"{claim}: lines were removed, added or moved before it"
        return Link(number=number, value=value, sha=sha, fault=fault)
    if sha256(before.encode() + body).hexdigest() != sha:
        return Link(
            number=number, value=value, sha=sha, fault="its digest does not match: it, or a line before it, was edited"
        )
    return Link(number=number, value=value, sha=sha)
