"""The sh scripts that run on hosts: ``.sh`` files beside the modules that send them; those here are shared.

`tests/shell/test_script_files.py` holds that no script stands in Python; `make lint` runs shellcheck over every one.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def program(package: str | None, name: str) -> str:
    """The text of ``NAME.sh`` in *package*, with its comments.  Raises FileNotFoundError."""
    return (files(package or __package__) / f"{name}.sh").read_text(encoding="utf-8")


@cache
def script(package: str | None, name: str) -> str:
    """The text of ``NAME.sh`` in *package* without comment lines, which no host needs.  Raises FileNotFoundError."""
    lines = program(package, name).splitlines(keepends=True)
    return "".join(line for line in lines if not line.lstrip().startswith("#"))


COMMON = script(__package__, "common")
"""Functions by which scripts fail, and by which they check that a process is still the intended one."""

UPTIME = script(__package__, "uptime")
"""A function that reads how long the host has been running."""

SAFE = COMMON + script(__package__, "safe")
"""Functions to enter directories, and to make and replace what is in them, that hold against other users (law 9)."""

GIT = SAFE + script(__package__, "git")
"""Git in work trees, and from repositories, that are nobody's but ours, so that it runs no code of theirs (law 9)."""

VIEW = SAFE + script(__package__, "view")
"""Functions to read a file that other users may exchange, and nothing else in its place (law 9)."""

PLACES = script(__package__, "places")
"""Functions, behind SAFE, that find the directories on a host that are this user's alone."""

LOCK = PLACES + script(__package__, "lock")
"""The script, behind SAFE, that takes and gives back the locks of a user on a host."""

OUTLIVE = script(__package__, "outlive")
"""For what a change starts on purpose to go on when that has ended: ending the change then leaves it alone."""

OWED = script(__package__, "owed") + LOCK
"""The script, behind SAFE, that makes and removes a note about an owed clean-up, beside the locks of a user."""

OWED_LIST = script(__package__, "owed_list")
"""The script that prints these notes; it stands alone, because it is sent with the first probes of every run."""
