"""Record a run in its journal, and decide what a failed record means for the run."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from runbook.commands.options import Recording as RecordingOptions
from runbook.errors import ConfigError, RecordLost
from runbook.records.fetched_files import FetchedFiles
from runbook.records.journal import Journal
from runbook.records.private_folder import PrivateFolder, Unsafe, state_directory
from runbook.values.event import ChangeStarted, Event, RunStarted

Complain = Callable[[str], None]

NO_RECORD = "`--no-record` changes hosts without a record"


class RunRecorder:
    """The journal of a run.  After the journal fails, the run changes nothing more, but its probes continue."""

    def __init__(
        self, journal: Journal, folder: PrivateFolder, run: str, complain: Complain, *, changing: bool
    ) -> None:
        self._journal, self._complain, self._changing = journal, complain, changing
        self._folder, self._run = folder, run
        self._reported = False

    def on(self, event: Event) -> None:
        """Record *event*.  Raises RecordLost if a change would begin without a record."""
        try:
            self._journal.on(event)
        except RecordLost as error:
            if isinstance(event, ChangeStarted):
                raise
            if isinstance(event, RunStarted) and self._changing:
                raise RecordLost(f"the run cannot be recorded, so it is not begun: {error} ({NO_RECORD})") from error
            if not self._reported:
                self._reported = True
                self._complain(f"the record of this run is incomplete: {error}")

    def files(self, mask: Callable[[str], str]) -> FetchedFiles:
        """Return the store for the files that the run fetches; *mask* removes secrets from them."""
        return FetchedFiles(self._folder, self._run, mask)

    def close(self) -> None:
        """Close the journal.  Never raises."""
        self._journal.close()


def records_folder(given: str) -> PrivateFolder:
    """Return the directory of the records: *given*, or ``$RUNBOOK_RECORDS``, or the user's own.  Raises ConfigError."""
    place = given or os.environ.get("RUNBOOK_RECORDS", "")
    if place:
        return PrivateFolder(Path(place).expanduser().absolute())
    try:
        return PrivateFolder(state_directory("runs"))
    except Unsafe as error:
        raise ConfigError(f"{error.strerror}; --records DIR names a directory for the records of runs") from error


def hosts_in_records(given: str = "") -> Callable[[str], frozenset[str]]:
    """Return a function that finds the hosts of ``@RUN:VERDICT`` in the records in *given*, or in the user's own."""

    def recorded(text: str) -> frozenset[str]:
        from runbook.records.finding_runs import recorded_hosts  # SQLite, only where it is needed

        return recorded_hosts(records_folder(given), text)

    return recorded


def recording_of(run: str, wanted: RecordingOptions, complain: Complain, *, changing: bool) -> RunRecorder | None:
    """Return the recorder of *run*; None if the run is not recorded.

    Raises RecordLost if the run changes hosts and cannot be recorded.
    """
    if wanted.no_record:
        return None
    try:
        folder = records_folder(wanted.records or "")
        return RunRecorder(Journal(folder, run), folder, run, complain, changing=changing)
    except (RecordLost, ConfigError) as error:
        if changing:
            raise RecordLost(f"the run cannot be recorded, so it is not begun: {error} ({NO_RECORD})") from error
        complain(f"this run is not recorded: {error}")
        return None
