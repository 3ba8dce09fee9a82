"""The commands ``runbook history verify`` and ``prune``: check whether records are unchanged, and remove old
records.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence

from runbook.errors import ConfigError
from runbook.records.fetched_files import remove_files, size_of_files
from runbook.records.finding_runs import named_run
from runbook.records.index import INDEX_FILE, Index, RunQuery, make_anew
from runbook.records.journal import ENDING, UNNAMED
from runbook.records.ledger import PRUNED, Entry, Ledger
from runbook.records.private_folder import PrivateFolder
from runbook.records.recorded_run import RUN, RunState
from runbook.records.verification import by_run, faults_of, missing
from runbook.values.types import plural
from runbook.values.units import time_span

TORN = "ledger: its last line is not whole: a power cut, or somebody cut it; the next run removes it"
DAY = 86400.0
SIZES = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}


def verified(folder: PrivateFolder, name: str = "") -> tuple[list[str], str]:
    """Return every fault of the records (or of the run *name*), and a summary.  Raises ConfigError.

    The index is rebuilt, so that an edited index does not stay.
    """
    faults = _index_faults(folder)
    only = named_run(folder, name) if name else ""
    ledger = Ledger(folder)
    try:
        entries, broken = ledger.entries()
        torn = ledger.torn()
        names = [entry.name.removesuffix(ENDING) for entry in folder.entries(ENDING)]
        runs = [word for word in names if RUN.fullmatch(word) and only in ("", word)]
        found = _faults(folder, runs, by_run(entries))
        if found:  # a run may have ended since the ledger was read
            found = _faults(folder, list(found), by_run(ledger.entries()[0]))
    except OSError as error:
        raise ConfigError(f"{folder.path}: {error.strerror or error}") from error
    if not only:
        faults += broken + ([TORN] if torn else [])
    faults += [f"{run}: {word}" for run, several in found.items() for word in several]
    if not only:
        gone = missing(by_run(entries), set(runs))
        faults += [f"{word}: its journal is gone, and was not removed by `runbook history prune`" for word in gone]
    good = f"{plural(len(runs), 'record')} in {folder.path}: "
    return faults, good + (plural(len(faults), "fault") if faults else "as written")


def _index_faults(folder: PrivateFolder) -> list[str]:
    """Rebuild the index, and return the reason if that fails."""
    try:
        make_anew(folder)
    except OSError as error:
        return [f"{INDEX_FILE} cannot be rebuilt: {error.strerror or error}"]
    return []


def _faults(folder: PrivateFolder, runs: Sequence[str], noted: Mapping[str, Sequence[Entry]]) -> dict[str, list[str]]:
    """Return the faults of the journals of *runs*; a run without faults is left out."""
    found = {run: list(faults_of(folder, run, noted.get(run, []))) for run in runs}
    return {run: faults for run, faults in found.items() if faults}


def size_of(text: str) -> int:
    """Parse a size such as ``500M`` or ``2G`` into bytes.  Raises ConfigError."""
    found = re.fullmatch(r"([0-9]{1,15})([kmg]?)(i?b)?", text.strip().lower())
    if not found:
        raise ConfigError(f"--keep-size: {text!r} is no size: write 500M or 2G")
    return int(found[1]) * SIZES[found[2]]


def expired(folder: PrivateFolder, older_than: str, keep_size: str) -> list[str]:
    """Return the runs to remove, the oldest first: older than *older_than*, or beyond *keep_size*.  Raises
    ConfigError.
    """
    if not older_than and not keep_size:
        raise ConfigError("say what to remove: --older-than 90d, or --keep-size 2G")
    try:
        before = time.time() - time_span(older_than) if older_than else 0.0
    except ConfigError as error:
        raise ConfigError(f"--older-than: {error}") from error
    index = Index(folder)
    try:
        living = {run.run for run in index.runs(RunQuery()) if run.state is RunState.RUNNING}
    finally:
        index.close()
    return _going(folder, living, before, size_of(keep_size) if keep_size else None)


def prune(folder: PrivateFolder, runs: Sequence[str]) -> None:
    """Remove the journals of *runs*, and enter their removal in the ledger.  Raises ConfigError."""
    for entry in folder.entries(UNNAMED):
        if entry.changed / 1e9 < time.time() - DAY:  # of a run that was killed before it began
            folder.remove(entry.name)
    for run in runs:
        try:
            Ledger(folder).enter(Entry(run=run, what=PRUNED))
            remove_files(folder, run)
            folder.remove(run + ENDING)
        except OSError as error:
            raise ConfigError(f"{run}: {error.strerror or error}") from error


def _going(folder: PrivateFolder, living: set[str], before: float, kept: int | None) -> list[str]:
    """Return the runs to remove, the oldest first; a run that is still in progress is kept."""
    files = [each for each in folder.entries(ENDING) if RUN.fullmatch(each.name.removesuffix(ENDING))]
    files.sort(key=lambda it: it.changed)
    sizes = {file.name: file.size + _fetched(folder, file.name.removesuffix(ENDING)) for file in files}
    total, going = sum(sizes.values()), []
    for entry in files:
        run = entry.name.removesuffix(ENDING)
        too_old, too_large = entry.changed / 1e9 < before, kept is not None and total > kept
        if run not in living and (too_old or too_large):
            going.append(run)
            total -= sizes[entry.name]
    return going


def _fetched(folder: PrivateFolder, run: str) -> int:
    """Return the size of the files that *run* has fetched, in bytes; 0 if it cannot be read."""
    try:
        return size_of_files(folder, run)
    except OSError:
        return 0
