"""Find a run and all runs that continue it, in order; a damaged record does not hide a run."""

from __future__ import annotations

from runbook.errors import ConfigError, Problem
from runbook.records.finding_runs import named_run
from runbook.records.index import recorded_runs
from runbook.records.ledger import Ledger
from runbook.records.private_folder import PrivateFolder
from runbook.records.recorded_run import RecordedRun, RunState, read_run
from runbook.values.result import Mode

Chain = tuple[RecordedRun, ...]
"""A run and all runs that continue it, directly or not, in order."""

RUN_AGAIN = "so that nobody knows what was done; run the playbook again"


def root_of(folder: PrivateFolder, text: str) -> str:
    """Return the first run of the chain that the run *text* belongs to.  Raises ConfigError."""
    run, passed = named_run(folder, text), set[str]()
    while (origin := believed(folder, run).started.origin) and origin.resumes:
        passed.add(run)
        if origin.resumes in passed:
            raise ConfigError(f"run {run} goes on with itself: its record is not believed")
        run = origin.resumes
    return run


def chain_from(folder: PrivateFolder, root: str) -> Chain:
    """Return the chain of runs that begins with the run *root*.  Raises ConfigError if it cannot be continued."""
    chain = tuple(believed(folder, name) for name in _names(folder, root))
    for recorded in chain:
        origin = recorded.started.origin
        if recorded.state is RunState.RUNNING:
            raise ConfigError(f"run {recorded.run} is still under way")
        if recorded.started.mode is Mode.PLAN:
            raise ConfigError(f"run {recorded.run} was a dry run, or was declined: there is nothing to resume")
        if origin is None or origin.command not in ("run", "resume", "api"):
            what = origin.command if origin else "unknown"
            raise ConfigError(f"run {recorded.run} was started by `{what}`: only runs of a playbook can be resumed")
    return chain


def believed(folder: PrivateFolder, run: str) -> RecordedRun:
    """Read the run with the id *run*.  Raises ConfigError if its record is missing or was changed."""
    try:
        recorded = read_run(folder, run)
    except (OSError, ConfigError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"the record of run {run} cannot be read ({why}), {RUN_AGAIN}") from error
    if recorded.faults:
        why = recorded.faults[0]
        raise ConfigError(f"run {run} cannot be resumed: its record is not as it was written ({why}), {RUN_AGAIN}")
    return recorded


def _names(folder: PrivateFolder, root: str) -> list[str]:
    """Return the runs of the chain that begins with *root*.  Raises ConfigError.

    The order comes from the ledger, because times are wrong if a clock was set back.  The ledger also has runs whose
    journals are damaged or missing.
    """
    resumed = _resumed(folder)
    names = [root]
    for name in names:  # which grows
        names += [run for run, before in resumed.items() if before == name and run not in names]
    return names


def _resumed(folder: PrivateFolder) -> dict[str, str]:
    """Map each run that continues another run to that other run, in the order of their beginnings.  Raises
    ConfigError.
    """
    rows = recorded_runs(folder)
    try:
        noted = Ledger(folder).entries()[0]
    except OSError as error:
        raise ConfigError(f"{folder.path}: the ledger cannot be read: {error.strerror or error}") from error
    found = {entry.run: entry.resumes for entry in noted if entry.resumes}
    known = {entry.run for entry in noted}
    for row in reversed(rows):  # the oldest first
        if row.fault and row.run not in known:
            message = f"the record of run {row.run} is damaged, and may be of one that has gone on with another"
            raise ConfigError(Problem(message=message, hint=f"`runbook history verify {row.run}` says more"))
        if row.resumes and row.mode == Mode.RUN.value:
            found.setdefault(row.run, row.resumes)
    return found
