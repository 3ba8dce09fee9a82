"""Check the names of hosts and groups."""

from __future__ import annotations

import re

HOST_NAME = re.compile(r"\w[\w.:+-]*")
"""The form of a name: it has no space and no character with a meaning in host patterns."""

RULE = "a name may have letters, digits and . _ - : +"

RESERVED = "all"


def mistake_in(name: object) -> str:
    """Return the reason why *name* is not allowed as a name; empty if it is allowed."""
    if isinstance(name, bool) or not isinstance(name, str | int):
        return "is not text; put it in quotes"
    if not HOST_NAME.fullmatch(str(name)):
        return RULE
    return f"{RESERVED!r} means every host" if str(name) == RESERVED else ""
