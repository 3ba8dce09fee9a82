"""Translate Jinja's syntax errors into words for authors of playbooks."""

from __future__ import annotations

import re
from collections.abc import Collection
from difflib import get_close_matches

INSTEAD = {"&": "and", "!": "not", "^": "and, or, not", "?": "A if CONDITION else B", "$": "a name as it is"}
"""Characters that mean nothing in an expression, and what is meant by them elsewhere."""

ENDS = {"end of print statement": "`}}`", "end of statement block": "`%}`", "begin of statement block": "`{%`"}

_TAG_OPEN = re.compile(r"The innermost block that needs to be closed is '(\w+)'")


def plainly(said: str, filters: Collection[str], tests: Collection[str]) -> str:
    """*said*, Jinja's message, in plain words; as it is where it is not known."""
    said = said.strip().rstrip(".")
    if found := re.fullmatch(r"No (filter|test) named '(\w+)'", said):
        kind, name = found[1], found[2]
        near = get_close_matches(name, filters if kind == "filter" else tests, n=1)
        return f"there is no {kind} `{name}`" + (f": did you mean `{near[0]}`?" if near else "")
    if found := re.fullmatch(r"unexpected char '(.)' at \d+", said):
        meant = INSTEAD.get(found[1])
        return f"`{found[1]}` means nothing in an expression" + (f": write {meant}" if meant else "")
    if found := re.search(r"expected token '(.+?)', got '(.+?)'$", said):
        if found[2] == "=":
            return "`=` compares nothing: write `==`"
        return f"expected {_named(found[1])}, got {_named(found[2])}"
    if said.startswith("unexpected end of template"):
        return "`{{` or `{%` is opened and not closed"
    if found := _TAG_OPEN.search(said):
        return f"`{{% {found[1]} %}}` is opened and not closed by `{{% end{found[1]} %}}`"
    if found := re.search(r"[Ee]ncountered unknown tag '(\w+)'", said):
        return f"`{{% {found[1]} %}}` is not allowed here"
    if found := re.fullmatch(r"Expected an expression, got '(.+)'", said):
        return f"a value is missing before {_named(found[1])}"
    return said


def _named(token: str) -> str:
    return ENDS.get(token, f"`{token}`")
