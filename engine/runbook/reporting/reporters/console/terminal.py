"""Check the kind of a terminal; the styles of printed words, by names that rich knows."""

from __future__ import annotations

import os
from typing import TextIO

from runbook.values.playbook import Severity

WORD_STYLES = {
    **dict.fromkeys(("healthy", "resolved"), "green"),
    "changed": "cyan",
    **dict.fromkeys(("planned", "would change", "blocked", "cancelled", "not_started"), "yellow"),
    **dict.fromkeys(("unresolved", "failed", "timeout", "unreachable", "unknown", "drifted"), "bold red"),
}
"""The styles, by the word for the result of a host or a step."""
SEVERITY_STYLES = dict(zip(Severity, ("cyan", "yellow", "red", "bold red"), strict=True))


def can_redraw(stream: TextIO) -> bool:
    """Whether *stream* is a terminal on which written text can be removed again."""
    return stream.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")


def terminal_size(stream: TextIO) -> tuple[int, int]:
    """Return the present columns and rows of the terminal; the environment has only the values from the start of the
    program.
    """
    try:
        width, height = os.get_terminal_size(stream.fileno())
    except OSError:
        width, height = 0, 0
    return (width, height) if width > 1 and height > 1 else (80, 24)
