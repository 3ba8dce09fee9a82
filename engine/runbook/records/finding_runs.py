"""Find recorded runs from user input: an id, its beginning, or `last`; and the hosts of ``@RUN:VERDICT``."""

from __future__ import annotations

from collections.abc import Callable

from runbook.errors import ConfigError, Problem
from runbook.records.index import RunRow, recorded_runs
from runbook.records.ledger import Ledger
from runbook.records.private_folder import PrivateFolder
from runbook.records.recorded_run import RUN, RecordedRun, read_run
from runbook.records.run_summary import time_in_id
from runbook.records.verification import by_run, missing
from runbook.values.result import Verdict

LAST = "last"
FAILED = (Verdict.FAILED, Verdict.UNRESOLVED, Verdict.UNREACHABLE, Verdict.UNKNOWN, Verdict.CANCELLED, Verdict.DRIFTED)
"""The verdicts behind the word ``failed``: all bad and unknown ones."""


def named_run(folder: PrivateFolder, text: str) -> str:
    """Return the id of the run that *text* names.  Raises ConfigError if there is no such run, or more than one."""
    if not text:
        raise ConfigError("the name of a recorded run is empty: write an id, the beginning of one, or `last`")
    if text == LAST:
        newest = latest_run(folder)
        found = [newest] if newest else []
    else:
        runs = [row.run for row in recorded_runs(folder)]
        found = [run for run in runs if run == text] or [run for run in runs if run.startswith(text)]
    if len(found) == 1:
        return found[0]
    if not found:
        hint = f"write an id, its beginning, or `last`; `runbook history` lists them; the records are in {folder.path}"
        raise ConfigError(Problem(message=f"no recorded run is called {text!r}", hint=hint))
    raise ConfigError(f"{len(found)} recorded runs begin with {text!r}: {', '.join(found[:5])}")


def latest_run(folder: PrivateFolder, asked: Callable[[RunRow], bool] = lambda row: True) -> str:
    """Return the id of the newest run for which *asked* is true; empty if there is none.

    Raises ConfigError if the record of an equally new or newer run is damaged, or is missing without having been
    pruned:
    that run could have been the newest.
    """
    try:
        noted = by_run(Ledger(folder).entries()[0])  # before the journals: a run may begin in between
    except OSError as error:
        raise ConfigError(_unsure("the ledger", f"cannot be read ({error.strerror or error})")) from error
    rows = recorded_runs(folder)
    newest = next((row for row in rows if asked(row)), None)
    begun = newest.started[:_SECONDS] if newest else ""
    for run in missing(noted, {row.run for row in rows}):
        if RUN.fullmatch(run) and time_in_id(run)[:_SECONDS] >= begun:
            raise ConfigError(_unsure(f"the record of run {run}", "is gone, and was not pruned"))
    for row in rows:
        if row.fault and row is not newest and row.started[:_SECONDS] >= begun:
            raise ConfigError(_unsure(f"the record of run {row.run}", f"is damaged ({row.fault})"))
    return newest.run if newest else ""


_SECONDS = len("2026-01-31T00:00:00")
"""The characters of a time to compare: the time in an id, which is all that is known of some runs, has no more."""


def _unsure(what: str, why: str) -> Problem:
    message = f"`{LAST}` is not certain: {what} {why}, and may be of a later run"
    return Problem(message=message, hint="name a run by its id; `runbook history list` and `verify` say more")


def load_run(folder: PrivateFolder, text: str) -> RecordedRun:
    """Read the run that *text* names.  Raises ConfigError."""
    run = named_run(folder, text)
    try:
        return read_run(folder, run)
    except OSError as error:
        raise ConfigError(f"the record of run {run} cannot be read: {error.strerror or error}") from error


def recorded_hosts(folder: PrivateFolder, text: str) -> frozenset[str]:
    """Return the hosts that ``RUN:VERDICT`` names; without a verdict, all hosts of the run.  Raises ConfigError."""
    run, _, word = text.partition(":")
    wanted = _verdicts(word, text)
    recorded = load_run(folder, run)
    names = frozenset(host.host for host in recorded.hosts if not wanted or host.verdict in wanted)
    if not names:
        raise ConfigError(f"@{text}: no host of run {recorded.run} is {word}")
    return names


def _verdicts(word: str, text: str) -> frozenset[Verdict]:
    if not word:
        if text.endswith(":"):
            raise ConfigError(f"@{text}: a verdict is missing behind the colon")
        return frozenset()
    found: set[Verdict] = set()
    for part in word.split("+"):
        if part == "failed":
            found |= {*FAILED}
        elif part in [verdict.value for verdict in Verdict]:
            found.add(Verdict(part))
        else:
            known = ", ".join(verdict.value for verdict in Verdict)
            raise ConfigError(f"@{text}: {part!r} is no verdict (there are: {known}; failed is whatever is not well)")
    return frozenset(found)
