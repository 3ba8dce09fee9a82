"""Limit how much output of hosts is kept: excerpts with a line about the omitted part."""

from __future__ import annotations

import re

from runbook.secrets.masking import UNREADABLE

MAX_KEPT_CHARACTERS = 64 * 1024
"""The maximum number of characters that are kept of each stream of one command."""


_GAP = re.compile(r"\n\[\.\.\. (at least )?(\d{1,15}) bytes left out \.\.\.\]\n")


def excerpt(text: str, missing: int = 0, most: int = MAX_KEPT_CHARACTERS) -> str:
    """Return *text*, or its beginning and its end, with a line between them about the number of bytes left out.

    *missing*: the bytes that *text* already lacks at a ``gap`` in its middle.  The new gap counts them, too.
    """
    if len(text) <= most:
        return text
    half = most // 2
    middle = text[half:-half]
    vague = UNREADABLE in middle
    if missing and gap(missing) in middle:
        middle = middle.replace(gap(missing), "", 1)
    elif found := next((match for match in _GAP.finditer(text) if match.start() == len(text) - match.end()), None):
        middle = text[half : found.start()] + text[found.end() : -half]
        missing, vague = int(found[2]), vague or bool(found[1])
    else:
        missing = 0
    return text[:half] + gap(missing + _bytes(middle), at_least=vague) + text[-half:]


def gap(missing: int, *, at_least: bool = False) -> str:
    """Return the line that replaces *missing* bytes."""
    return f"\n[... {'at least ' if at_least else ''}{missing} bytes left out ...]\n"


def _bytes(text: str) -> int:
    """Return the number of bytes that a host sent for *text*; a lower bound if some of them were not valid text."""
    return len(text.encode("utf-8", "replace")) - 2 * text.count(UNREADABLE)
