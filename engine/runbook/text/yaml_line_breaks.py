"""Replace characters that end a line in YAML 1.1, but not in YAML 1.2 and in editors.

PyYAML reads YAML 1.1: after U+0085, U+2028 or U+2029 in a file its line numbers are too high, and if such a character
is in a comment, the text after it is no comment any more.  A private-use character replaces it while a text is parsed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_STAND_INS: Mapping[str, str] = {"\x85": "\ue985", "\u2028": "\ue928", "\u2029": "\ue929"}
_THERE = str.maketrans(dict(_STAND_INS))
_BACK = str.maketrans({stand_in: character for character, stand_in in _STAND_INS.items()})


def has_breaks(text: str) -> bool:
    """Whether *text* contains such a character."""
    return any(character in text for character in _STAND_INS)


def first_break(text: str) -> tuple[int, str]:
    """Return the position (from 0) of the first such character in *text*, and its name (U+2028); there must be one."""
    at = min(found for character in _STAND_INS if (found := text.find(character)) >= 0)
    return at, f"U+{ord(text[at]):04X}"


def without_breaks(text: str) -> str:
    """Replace each such break by a placeholder of the same length; a text that contains placeholders is left
    unchanged."""
    if not has_breaks(text) or any(stand_in in text for stand_in in _STAND_INS.values()):
        return text
    return text.translate(_THERE)


def with_breaks(text: str) -> str:
    """Return *text*, a part of a document from ``without_breaks``, with the original characters."""
    return text.translate(_BACK)


def restore(root: Any) -> None:
    """Restore the original characters in every scalar at and below *root*, a node of PyYAML."""
    todo, seen = [root], set[int]()
    while todo:
        node = todo.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node.value, str):
            node.value = with_breaks(node.value)
        else:
            todo += [part for entry in node.value for part in (entry if isinstance(entry, tuple) else (entry,))]
