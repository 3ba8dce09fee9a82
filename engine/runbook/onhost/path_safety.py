"""Inspect paths that other users of a host could replace, and explain what to do if a write is refused (law 9)."""

from __future__ import annotations

from runbook.shell import script

REFUSED = 4
"""The exit code of a probe that refuses to read a file which another user can replace.  stderr: the reason, then the
user.
"""


def refusal(why: str, owner: str) -> str:
    """Return *why* together with the remedy: run the step as *owner*; without a remedy if *owner* is empty."""
    if owner.isdigit():
        return f"{why}; the host has no name for that user: give the directory to root, or to a user with a name"
    if owner:
        return f"{why}: give the step `become: {owner}`"
    return why


def refused(path: str, stderr: str) -> str:
    """Return the reason from the last two lines of *stderr* of a script that exited with REFUSED."""
    why, _, owner = stderr.rstrip("\n").rpartition("\n")
    return f"{path} is not read: {refusal(why, owner.removeprefix('become '))}"


def unread(path: str, why: str = "", owner: str = "") -> str:
    """Return *path* with the reason why it is not read; *why* and *owner* come from ``view_reason``."""
    reason = refusal(why, owner)
    return reason if reason.startswith(path) else f"{path}: {reason}" if reason else path


STAT_PATH = script(__package__, "stat_path")
"""``peek`` sets ``path`` (~/ filled in), ``target`` (what a link leads to), ``name`` (in the current directory),
``kind`` (absent, file, directory, link, other), ``there`` (the directory), ``writable``, ``user``; and ``exposed``: yes
where another user can exchange what is inspected, which ``unsafe`` and ``become`` then explain.
"""
