"""Find recorded runs by what was typed: an id, its beginning, or `last`; and the hosts of ``@RUN:VERDICT``."""

from __future__ import annotations

from engine.errors import ConfigError, Problem
from engine.records.index import Index, RunQuery
from engine.records.private_folder import PrivateFolder
from engine.records.recorded_run import RecordedRun, read_run
from engine.values.result import Verdict

LAST = "last"
FAILED = (Verdict.FAILED, Verdict.UNRESOLVED, Verdict.UNREACHABLE, Verdict.UNKNOWN, Verdict.CANCELLED, Verdict.DRIFTED)
"""The verdicts that ``failed`` stands for: whatever did not end well, or of which that is not known."""


def named_run(folder: PrivateFolder, text: str) -> str:
    """The id of the run that *text* names.  Raises ConfigError where there is none, or more than one."""
    if not text:
        raise ConfigError("the name of a recorded run is empty: write an id, the beginning of one, or `last`")
    index = Index(folder)
    try:
        runs = [run.run for run in index.runs(RunQuery(limit=1 if text == LAST else 0))]
    finally:
        index.close()
    found = (
        runs if text == LAST else [run for run in runs if run == text] or [run for run in runs if run.startswith(text)]
    )
    if len(found) == 1:
        return found[0]
    if not found:
        hint = f"write an id, its beginning, or `last`; `runbook history` lists them; the records are in {folder.path}"
        raise ConfigError(Problem(message=f"no recorded run is called {text!r}", hint=hint))
    raise ConfigError(f"{len(found)} recorded runs begin with {text!r}: {', '.join(found[:5])}")


def load_run(folder: PrivateFolder, text: str) -> RecordedRun:
    """The run that *text* names.  Raises ConfigError."""
    run = named_run(folder, text)
    try:
        return read_run(folder, run)
    except OSError as error:
        raise ConfigError(f"the record of run {run} cannot be read: {error.strerror or error}") from error


def recorded_hosts(folder: PrivateFolder, text: str) -> frozenset[str]:
    """The hosts that ``RUN:VERDICT`` names: all of the run without a verdict.  Raises ConfigError."""
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
