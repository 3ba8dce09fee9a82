"""The difference between two texts, in the format of ``diff -u``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from difflib import unified_diff

NO_END = "\n\\ No newline at end of file"

AROUND = 3
"""The number of equal lines around a difference."""

MAX_DIFF_CHARACTERS = 256 * 1024
"""The maximum number of characters of a difference; the omitted lines are counted."""

MOST_PAIRS = 10_000**2
"""The maximum product of the numbers of lines of both texts, because difflib may compare each pair of lines."""


def unified(old: str, new: str, name: str, new_name: str, show: Callable[[Sequence[str]], list[str]] = list) -> str:
    """Return the difference between the texts *old* and *new*; empty if there is none.

    *show* makes of the lines of a text those to be shown, as many: without its secrets.  A line that it changes in one
    place is shown so everywhere.  Of a long text, difflib may show lines that are frequent there as unlike.
    """
    before, after = _lines(old), _lines(new)
    above = _same(before, after)
    before, after = before[above:], after[above:]
    below = _same(before[::-1], after[::-1])
    before, after = before[: len(before) - below], after[: len(after) - below]
    if len(before) * len(after) > MOST_PAIRS and old != new:
        many = f"... {len(before)} lines from line {above + 1} on are now {len(after)}: too many to compare"
        return f"--- {name}\n+++ {new_name}\n{many}\n"
    hidden = _hidden(old, show) | _hidden(new, show)
    made = list(unified_diff(before, after, name, new_name, n=AROUND, lineterm=""))
    return _bounded([*made[:2], *(_with_masks(_moved(line, above), hidden) for line in made[2:])])


def _same(before: Sequence[str], after: Sequence[str]) -> int:
    """Return the number of equal lines at the beginning of both texts, less the context of a difference."""
    pairs = enumerate(zip(before, after, strict=False))
    differs = next((number for number, (old, new) in pairs if old != new), min(len(before), len(after)))
    return max(0, differs - AROUND)


def _moved(line: str, lines: int) -> str:
    """Return *line*; if it is a header of a difference, its line numbers are increased by *lines*."""
    if not line.startswith("@@"):
        return line
    return re.sub(r"(?<=[-+])\d+", lambda number: str(int(number[0]) + lines), line)


def _hidden(text: str, show: Callable[[Sequence[str]], list[str]]) -> dict[str, str]:
    """Return the lines of *text* that are masked, each with its masked form."""
    lines = text.split("\n")
    return {line: shown for line, shown in zip(lines, show(lines), strict=True) if line != shown}


def _with_masks(line: str, hidden: Mapping[str, str]) -> str:
    """Return a line of a difference with its content masked; a note about a missing line end is kept."""
    said, *end = line[1:].split("\n")
    return "\n".join([line[0] + hidden.get(said, said), *end])


def _lines(text: str) -> list[str]:
    """Return the lines of *text*; if the last line has no line end, a note about this is added."""
    lines = text.split("\n") if text else [""]
    return lines[:-1] if not lines[-1] else [*lines[:-1], lines[-1] + NO_END]


def _bounded(lines: Sequence[str]) -> str:
    """Return *lines* as a text; lines beyond ``MAX_DIFF_CHARACTERS`` are left out and counted."""
    kept = length = 0
    for line in lines:
        length += len(line) + 1
        if length > MAX_DIFF_CHARACTERS:
            break
        kept += 1
    left = f"... {len(lines) - kept} more lines are left out\n" if kept < len(lines) else ""
    return "".join(f"{line}\n" for line in lines[:kept]) + left
