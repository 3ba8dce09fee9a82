"""Find the changes of earlier runs that were undone, and the limits that an undo must keep."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from runbook.commands.input_files import read_playbook
from runbook.errors import ConfigError, Problem
from runbook.plugins import discover
from runbook.records.index import recorded_runs
from runbook.records.ledger import Ledger
from runbook.records.private_folder import PrivateFolder
from runbook.records.reading import sent_changes
from runbook.records.recorded_run import RecordedRun, RunState
from runbook.records.run_chain import believed
from runbook.values.plan import Risk
from runbook.values.playbook import Limits
from runbook.values.result import Mode
from runbook.values.types import plural


def undone_hosts(folder: PrivateFolder, runs: Collection[str]) -> dict[str, str]:
    """Return the hosts on which one of *runs* was undone, each with the run that undid it.  Raises ConfigError.

    An undo does not count if it was itself undone, or if it sent nothing to the host.
    """
    return _undone(folder, runs, _undoes(folder), frozenset(runs))


def _undone(
    folder: PrivateFolder, runs: Collection[str], undoes: Mapping[str, str], passed: frozenset[str]
) -> dict[str, str]:
    found: dict[str, str] = {}
    for run in (it for it, undone in undoes.items() if undone in runs and it not in passed):
        recorded = believed(folder, run)
        if recorded.state is RunState.RUNNING:
            raise ConfigError(f"run {run} is under way, and undoes run {undoes[run]}")
        again = _undone(folder, {run}, undoes, passed | {run})
        found |= {started.host: run for started in sent_changes(recorded.events) if started.host not in again}
    return found


def _undoes(folder: PrivateFolder) -> dict[str, str]:
    """Map each run that undoes another run to that other run.  Raises ConfigError.

    The ledger also names runs whose journals are damaged or missing.
    """
    rows = reversed(recorded_runs(folder))
    found = {row.run: row.undoes for row in rows if row.undoes and row.mode == Mode.RUN}
    try:
        return found | {entry.run: entry.undoes for entry in Ledger(folder).entries()[0] if entry.undoes}
    except OSError as error:
        raise ConfigError(f"{folder.path}: the ledger cannot be read: {error.strerror or error}") from error


def limits_of_undo(
    recorded: RecordedRun, load: Callable[[str], RecordedRun], say: Callable[[str], None], *, changes: bool
) -> Limits:
    """Return the limits of an undo of *recorded*: the present limits of its playbook.  Raises ConfigError.

    *load* reads the run that an undo has undone: an undo of an undo has the limits of that run, too.  *changes*: the
    undo changes hosts without a saved plan.
    """
    passed = set[str]()
    while (origin := recorded.started.origin) and origin.undoes and recorded.run not in passed:
        passed.add(recorded.run)
        recorded = load(origin.undoes)
    if origin is None or not origin.playbook:
        return Limits()
    try:
        limits = read_playbook(Path(origin.playbook), discover()).limits
    except ConfigError:
        say(
            f"{origin.playbook} cannot be read any more, so that its limits are not known: --yes does not do, "
            "and a person has to say yes on a terminal"
        )
        return Limits(confirm_from=next(iter(Risk)))
    if limits.approvals and changes:
        raise ConfigError(_unapproved(recorded, limits.approvals))
    return Limits(confirm_from=limits.confirm_from, approvals=limits.approvals)


def _unapproved(recorded: RecordedRun, count: int) -> Problem:
    name = recorded.started.playbook
    message = f"{name} changes nothing without {plural(count, 'approval')} (limits.approvals), and so does an undo"
    run = recorded.run
    hint = (
        f"save what it would do: `runbook undo {run} --plan undo.json`, have it approved: `runbook approve undo.json`, "
        "and apply it: `runbook apply undo.json`; --dry-run only shows it"
    )
    return Problem(message=message, hint=hint)
