"""What differs between two texts, as ``diff -u`` shows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

AROUND = 3
"""Lines of the same that stand around a difference."""


def unified(old: str, new: str, name: str, new_name: str) -> str:
    """The difference between the texts *old* and *new*; empty where there is none.

    difflib's own takes lines that are frequent in long texts for noise, and shows them as changed; this one does not.
    """
    return "".join(f"{line}\n" for line in _differing(_lines(old), _lines(new), name, new_name))


def _lines(text: str) -> list[str]:
    """The lines of *text*, the last of which says so where it has no end."""
    if not text:
        return []
    lines = text.removesuffix("\n").split("\n")
    return lines if text.endswith("\n") else [*lines[:-1], f"{lines[-1]}\n\\ No newline at end of file"]


def _differing(old: Sequence[str], new: Sequence[str], name: str, new_name: str) -> Iterator[str]:
    groups = list(SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(AROUND))
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
