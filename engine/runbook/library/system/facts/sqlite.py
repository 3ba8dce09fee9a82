"""The number of rows of an SQLite table, read without leaving a trace."""

from __future__ import annotations

from urllib.parse import quote

from runbook.errors import ProbeError
from runbook.shell import SAFE, script
from runbook.values.command import Command, Completed, read_script


def ask_rows(database: str, table: str, interval: float) -> Command:
    """One script that counts the rows of *table*, twice with *interval* between the counts."""
    name = table.replace('"', '""')
    return read_script(
        _IS_THERE + SAFE + _ASK, database, f'"{name}"', f"{interval:g}" if interval else "", quote(database)
    )


_IS_THERE = """
LC_ALL=C; export LC_ALL
command -v sqlite3 >/dev/null || { echo 'problem no sqlite3'; exit 0; }
"""

_ASK = script(__package__, "sqlite_count")


def read_rows(done: Completed) -> tuple[tuple[int, ...], tuple[int, ...], str]:
    """The numbers of rows, the sizes in bytes, and what was wrong (empty: nothing).

    Raises ProbeError when nobody could count.
    """
    if done.timed_out:
        raise ProbeError("the rows could not be counted in time")
    if done.exit_code != 0:
        raise ProbeError(done.why_not("the rows could not be counted"))
    reported = [line.partition(" ")[::2] for line in done.stdout.splitlines()]
    problem = next((rest.strip() for word, rest in reported if word == "problem"), "")
    if problem == "no sqlite3":
        raise ProbeError("sqlite3 is not on this host")
    rows = tuple(int(rest) for word, rest in reported if word == "rows" and rest.strip().isdigit())
    sizes = tuple(int(rest) for word, rest in reported if word == "size" and rest.strip().isdigit())
    if not rows and not problem:
        raise ProbeError(f"sqlite3 printed no number: {done.stdout.strip()[:200]}")
    return rows, sizes, problem
