"""The sh files that several scripts for hosts are made of; each is text, read once, and sent before what uses it."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def shell_part(name: str) -> str:
    """The text of the file *name* (without ``.sh``) of this package, without the comments that begin a line."""
    text = (files(__package__) / f"{name}.sh").read_text(encoding="utf-8")
    return "".join(line for line in text.splitlines(keepends=True) if not line.lstrip().startswith("#"))


SAFE = shell_part("safe")
"""Functions to enter directories, and to make and replace what is in them, that hold against other users (law 9)."""

GIT = SAFE + shell_part("git")
"""Git in work trees, and from repositories, that are nobody's but ours, so that it runs no code of theirs (law 9)."""

VIEW = SAFE + shell_part("view")
"""Functions to read a file that other users may exchange, and nothing else in its place (law 9)."""

LOCK = shell_part("lock")
"""The script, behind SAFE, that takes and gives back the locks of a user on a host."""

OUTLIVE = shell_part("outlive")
"""For what a change starts on purpose to go on when that has ended: ending the change then leaves it alone."""
