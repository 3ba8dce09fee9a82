"""The difference between two texts, in the format of ``diff -u``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher

Opcode = tuple[str, int, int, int, int]

NO_END = "\n\\ No newline at end of file"

AROUND = 3
"""Lines of the same that stand around a difference."""


MOST = 256 * 1024
"""Characters of a difference that are kept; what is left out is counted."""


def unified(old: str, new: str, name: str, new_name: str, show: Callable[[Sequence[str]], list[str]] = list) -> str:
    """The difference between the texts *old* and *new*; empty where there is none.

    *show* makes of the lines of a text those to be shown, as many: without its secrets.

    difflib's own takes lines that are frequent in long texts for noise, and shows them as changed; this one does not.
    """
    before, after = _lines(old), _lines(new)
    groups = list(SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(AROUND))
    return _bounded([*_differing(groups, _shown(before, show), _shown(after, show), name, new_name)])


def _bounded(lines: Sequence[str]) -> str:
    """*lines* as a text, and how many there are beyond MOST characters."""
    kept = length = 0
    for line in lines:
        length += len(line) + 1
        if length > MOST:
            break
        kept += 1
    left = f"... {len(lines) - kept} more lines are left out\n" if kept < len(lines) else ""
    return "".join(f"{line}\n" for line in lines[:kept]) + left


def _shown(lines: list[str], show: Callable[[Sequence[str]], list[str]]) -> list[str]:
    """*lines* by *show*, which does not see what we have written into the last of them."""
    last = lines[-1] if lines else ""
    plain = last.removesuffix(NO_END)
    made = show([*lines[:-1], plain]) if lines else []
    return [*made[:-1], made[-1] + NO_END] if plain != last else made


def _lines(text: str) -> list[str]:
    """The lines of *text*, the last of which says so where it has no end."""
    if not text:
        return []
    lines = text.removesuffix("\n").split("\n")
    return lines if text.endswith("\n") else [*lines[:-1], lines[-1] + NO_END]


def _differing(
    groups: Sequence[Sequence[Opcode]], old: Sequence[str], new: Sequence[str], name: str, new_name: str
) -> Iterator[str]:
    if groups:
        yield f"--- {name}"
        yield f"+++ {new_name}"
    for group in groups:
        first, last = group[0], group[-1]
        yield f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@"
        for tag, old_from, old_to, new_from, new_to in group:
            if tag == "equal":
                yield from (f" {it}" for it in old[old_from:old_to])
                continue
            yield from (f"-{it}" for it in old[old_from:old_to])
            yield from (f"+{it}" for it in new[new_from:new_to])


def _range(start: int, stop: int) -> str:
    """A range as ``diff -u`` writes it (POSIX, diff, "Diff -u Output Format")."""
    length = stop - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"
