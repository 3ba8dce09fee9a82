"""A symptom, as an author writes it, as the regular expression that finds it in an error text.

A plain text is searched as whole words: without regard to case, with any run of white space where it has one (a text
that was pasted may be broken over lines), and with any number where it has a number, as pids, sizes, ranks, addresses
and times differ each time.  A number stays what it is where it is a name: after a letter (``mlx5``), and after
a word such as code, error, exit, signal, status or Xid (``exit code 137``).
"""

from __future__ import annotations

import re

from runbook.text.regexes import SearchBudget, SearchPattern, SearchTimeout, compile_regex, fault_in_regex

MIN_SYMPTOM_CHARACTERS = 3
"""The minimum number of letters and digits of a plain text; a shorter text is found in texts of any kind."""

MAX_SYMPTOM_CHARACTERS = 300
"""The maximum number of characters of a plain text."""

_PIECE = re.compile(r"(?P<space>\s+)|(?P<number>[0-9]+)|[^\s0-9]+")
_NAMES = re.compile(r"(?:[^\W_]|\b(?:code|errno|error|exit|exitcode|http|signal|status|s?xid)\W*)\Z", re.IGNORECASE)
"""Words after which a number is a name."""

_ANY_TEXT = ("", *map(chr, range(32, 127)), "\n", "The quick brown fox jumps over the lazy dog at 10:45.")
"""Ordinary texts; a pattern that is found in one of them is found nearly everywhere."""


def regex_of_text(written: str) -> SearchPattern:
    """Return the regular expression that finds the plain text *written*."""
    text = written.strip()
    parts = [_piece(text, found) for found in _PIECE.finditer(text)]
    before = r"(?<!\w)" if re.match(r"\w", text) else ""
    after = r"(?!\w)" if re.search(r"\w\Z", text) else ""
    return compile_regex(f"{before}{''.join(parts)}{after}", re.IGNORECASE)


def _piece(text: str, found: re.Match[str]) -> str:
    if found["space"]:
        return r"\s+"
    if found["number"] and not _NAMES.search(text, 0, found.start()):
        return "[0-9]+"
    return re.escape(found[0])


def regex_of_pattern(written: str) -> SearchPattern:
    """Return the compiled regular expression *written*, which must be valid; ``^`` and ``$`` match at the ends of a
    line.
    """
    return compile_regex(written, re.MULTILINE)


def fixed_part(written: str) -> str:
    """Return the longest part of *written* (plain text) that every match contains, in small letters."""
    parts = re.split(r"\s+|[0-9]+", written.strip().lower())
    return max(parts, key=len)


def fault_in_text(written: str) -> str:
    """Return the reason why the plain text *written* cannot be used as a symptom; empty if it can."""
    if not written.strip():
        return "an empty text is in every text"
    if len(re.findall(r"[^\W_]", written)) < MIN_SYMPTOM_CHARACTERS:
        return f"{written.strip()!r} is in texts of any kind: it needs {MIN_SYMPTOM_CHARACTERS} letters or digits"
    if len(written) > MAX_SYMPTOM_CHARACTERS:
        most, has = MAX_SYMPTOM_CHARACTERS, len(written)
        return f"a text may have {most} characters, this one has {has}: the part that never changes will do"
    return ""


def fault_in_pattern(written: str) -> str:
    """Return the reason why the regular expression *written* cannot be used as a symptom; empty if it can."""
    if not written.strip():
        return "an empty pattern matches every text"
    if fault := fault_in_regex(written, re.MULTILINE):
        return fault
    compiled, budget = regex_of_pattern(written), SearchBudget()
    try:
        if any(budget.found(compiled, text) for text in _ANY_TEXT):
            return "it matches texts of any kind: write more of the error"
    except SearchTimeout as error:
        return f"a short text {error}"
    return ""
