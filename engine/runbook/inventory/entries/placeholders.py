"""Recognise addresses that still have to be filled in."""

from __future__ import annotations

import re

_PLACEHOLDER = re.compile(
    r"""(?ix) .*[<>{}$*].*  # <public-ip>, ${GATEWAY}
    | ([\w.-]+@)?your[-_][\w.-]+ | (change|replace|fill)[-_]?(me|this|in)([-_.][\w.-]*)?
    | todo | tbd | fixme | placeholder | x{2,}([.-]x{2,})* | (?=.*x)(\d+|x+)(\.(\d+|x+)){3}"""
)


def is_placeholder(text: str) -> bool:
    """Whether *text* is a placeholder for an address: ``<public-ip>``, ``100.x.x.x``."""
    return bool(_PLACEHOLDER.fullmatch(text))
