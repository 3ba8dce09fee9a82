"""Read what earlier runs of a playbook changed and probed on hosts; a record that cannot be trusted makes this
unknown.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime

from runbook.dataclass import dataclass
from runbook.records.journal import ENDING
from runbook.records.ledger import PRUNED, Ledger
from runbook.records.ledger import Entry as Noted
from runbook.records.private_folder import PrivateFolder
from runbook.records.reading import Content, Head, content_of, head_of
from runbook.records.recorded_run import RUN
from runbook.records.verification import by_run, missing
from runbook.values.recorded_change import RecordedAnswer, RecordedChange
from runbook.values.types import Unknown

MAX_JOURNALS = 300
"""The maximum number of journals that are read for one question."""

MAX_JOURNAL_BYTES = 512 * 1024 * 1024
"""The maximum number of bytes of all journals that are read in one run."""


INTERRUPTED = ("cancelled", "unreachable", "unknown", "drifted")
"""The verdicts of hosts on which a run was interrupted, as on a host without a verdict; a failed run did finish."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Journal:
    """A journal that was not read yet."""

    run: str
    begun: float
    """The time in the id of the run, in seconds since the epoch."""
    written: float
    """The time when the journal was last written to."""
    size: int


class PastRuns:
    """The earlier runs of one playbook with one inventory, from the journals in *folder*.

    Reading begins with the first question; each journal is read once.  *own* is the id of the present run, which does
    not count, and *resumes* the run that the present run continues.  *probes* are the probes whose answers are needed.
    """

    def __init__(
        self,
        folder: PrivateFolder,
        *,
        playbook: str,
        inventory: Collection[str],
        own: str = "",
        resumes: str = "",
        probes: Collection[str] = (),
        now: Callable[[], float] = time.time,
    ) -> None:
        self._folder, self._playbook, self._own, self._now = folder, playbook, own, now
        self._inventory = frozenset(map(os.path.realpath, inventory))
        self._probes, self._resumes = frozenset(probes), resumes
        self._lock = threading.Lock()
        self._journals: list[_Journal] | None = None
        self._by_run: dict[str, _Journal] = {}
        self._noted: dict[str, list[Noted]] = {}
        self._fault = ""
        """The reason why no journal can be trusted; empty if there is none."""
        self._heads: dict[str, Head] = {}
        self._contents: dict[str, Content] = {}
        self._bytes = 0

    def changes(self, host: str, within: float) -> tuple[RecordedChange, ...] | Unknown:
        """Return the changes that were sent to *host* in the last *within* seconds, the newest first."""
        with self._lock:
            found = self._in_time(within, host)
            if isinstance(found, Unknown):
                return found
            made = [
                change for run, content in found for change in self._changes(run, content, host) if change.ago <= within
            ]
        return tuple(sorted(made, key=lambda it: it.ago))

    def last_change(self, host: str) -> RecordedChange | None | Unknown:
        """Return the newest change that was sent to *host*; None if there was none."""
        with self._lock:
            for found in self._newest(host):
                if isinstance(found, Unknown):
                    return found
                if changes := self._changes(*found, host):
                    return min(changes, key=lambda it: it.ago)
        return None

    def changed_hosts(self, within: float) -> frozenset[str] | Unknown:
        """Return the hosts to which a change was sent in the last *within* seconds."""
        with self._lock:
            found = self._in_time(within, "")
            if isinstance(found, Unknown):
                return found
            hosts = ((run, content, host) for run, content in found for host in content.changes)
            return frozenset(
                host for run, it, host in hosts if any(c.ago <= within for c in self._changes(run, it, host))
            )

    def attempt(self, host: str) -> str:
        """Return the interrupted run that was changing *host* and that the present run continues; empty if there is
        none.

        If that run itself continued another interrupted run, the first run of the chain is returned.
        """
        with self._lock:
            self._listed()
            parts = [*self._attempt(self._resumes, host)]
        return parts[-1][0] if any(content.changes.get(host) for _, content in parts) else ""

    def answer(self, host: str, probe: str) -> RecordedAnswer | None | Unknown:
        """Return the newest recorded answer of *probe* on *host*; None if no run has one."""
        with self._lock:
            for found in self._newest(host):
                if isinstance(found, Unknown):
                    return found
                run, content = found
                if (state := content.answers.get((host, probe))) is not None:
                    return RecordedAnswer(run=run, state=state, ago=max(0.0, self._now() - _begun(run)))
        return None

    def _changes(self, run: str, content: Content, host: str) -> list[RecordedChange]:
        now, made = self._now(), content.changes.get(host, ())
        if not made:
            return []
        first = [run, *(name for name, _ in self._attempt(self._heads[run].resumes, host))][-1]
        return [RecordedChange(run=run, step=step, ago=max(0.0, now - at), attempt=first) for at, step in made]

    def _attempt(self, resumes: str, host: str) -> Iterator[tuple[str, Content]]:
        """Yield the runs interrupted on *host* that a run with this *resumes* continues, directly or not, the
        newest first.
        """
        passed = set[str]()
        while (journal := self._by_run.get(resumes)) and resumes not in passed:
            passed.add(resumes)
            content = self._read(journal, host)
            if isinstance(content, Unknown):
                return
            if content is not None and content.ends.get(host, INTERRUPTED[0]) not in INTERRUPTED:
                return
            if content is not None:
                yield resumes, content
            head = self._heads[resumes]
            if head.fault or head.playbook != self._playbook:
                return
            resumes = head.resumes

    def _in_time(self, within: float, host: str) -> list[tuple[str, Content]] | Unknown:
        """Return the runs that may have sent something in the last *within* seconds; if *host* is given, only its
        runs.
        """
        since = self._now() - within
        journals = self._listed()
        if self._fault:
            return Unknown(why=self._fault)
        for run, entries in self._noted.items():
            if any(entry.what == PRUNED for entry in entries) and _begun(run) >= since:
                return Unknown(why=f"the record of run {run}, which may say more, was pruned")
        made: list[tuple[str, Content]] = []
        for journal in journals:
            if max(journal.written, journal.begun) < since or not (found := self._read(journal, host)):
                continue
            if isinstance(found, Unknown):
                return found
            made.append((journal.run, found))
            if len(made) > MAX_JOURNALS:
                return Unknown(why=f"there are more than {MAX_JOURNALS} records of that time")
        return made

    def _newest(self, host: str) -> Iterator[tuple[str, Content] | Unknown]:
        """Yield the runs that include *host*, the newest first; ends after an Unknown."""
        journals, count = self._listed(), 0
        if self._fault:
            yield Unknown(why=self._fault)
            return
        for journal in journals:
            found = self._read(journal, host)
            if isinstance(found, Unknown):
                yield found
                return
            if found is None:
                continue
            if (count := count + 1) > MAX_JOURNALS:
                yield Unknown(
                    why=f"the newest {MAX_JOURNALS} records of {host} do not say, and older ones are not read"
                )
                return
            yield journal.run, found

    def _listed(self) -> list[_Journal]:
        """Return all journals except that of the present run, the newest first.

        If they cannot be trusted, the reason is stored.
        """
        if self._journals is not None:
            return self._journals
        self._journals = []
        try:
            entries = self._folder.entries(ENDING)
            noted, faults = Ledger(self._folder).entries()
        except OSError as error:
            self._fault = f"the records in {self._folder.path} cannot be read: {error.strerror or error}"
            return self._journals
        self._noted = by_run(noted)
        there = {entry.name.removesuffix(ENDING) for entry in entries}
        gone = next(missing(self._noted, {*there, self._own}), "")
        if faults:
            self._fault = f"{faults[0]} (`runbook history verify` says more)"
        elif gone:
            self._fault = f"the record of run {gone} is gone, and was not removed by `runbook history prune`"
        for entry in entries:
            run = entry.name.removesuffix(ENDING)
            if RUN.fullmatch(run) and run != self._own:
                made = _Journal(run=run, begun=_begun(run), written=entry.changed / 1e9, size=entry.size)
                self._journals.append(made)
        self._journals.sort(key=lambda it: (it.begun, it.written), reverse=True)  # an id has the second alone
        self._by_run = {journal.run: journal for journal in self._journals}
        return self._journals

    def _read(self, journal: _Journal, host: str) -> Content | None | Unknown:
        """Read *journal*; None if it does not concern *host*, or is of another playbook or inventory."""
        run, noted = journal.run, self._noted.get(journal.run, [])
        if run not in self._heads:
            self._heads[run] = head_of(self._folder, run, noted)
        head = self._heads[run]
        if head.fault:
            return _not_believed(run, head.fault)
        mine = (head.playbook, head.inventory) == (self._playbook, self._inventory) and head.begun
        if not mine or (host and host not in head.hosts):
            return None
        if run not in self._contents:
            self._bytes += journal.size
            if self._bytes > MAX_JOURNAL_BYTES:
                return Unknown(why=f"more than {MAX_JOURNAL_BYTES // 1024**2} MiB of records would have to be read")
            self._contents[run] = content_of(self._folder, run, noted, self._probes)
        content = self._contents[run]
        return _not_believed(run, content.fault) if content.fault else content


def _not_believed(run: str, fault: str) -> Unknown:
    return Unknown(why=f"the record of run {run} is not as it was written ({fault})")


def _begun(run: str) -> float:
    """Return the time in the id *run*, in seconds since the epoch; 0 if *run* is not the id of a run."""
    try:
        return datetime.strptime(run.partition("-")[0], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return 0.0
