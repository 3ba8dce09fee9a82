"""Keep the records of clean-up that one run owes, and name the clean-up that other runs still owe its hosts."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from runbook.dataclass import dataclass
from runbook.onhost.owed_note import HostNote
from runbook.records.owed_record import Damaged, Record, decoded, file_name, inputs_in, parsed, without_secrets
from runbook.records.private_folder import MAX_FILE_BYTES, PrivateFolder, Unsafe, state_directory
from runbook.records.process_identity import lives, this_process
from runbook.secrets.masking import Masking
from runbook.values.owed import NotedIn, NotRecorded, Owed, OwedCleanup, OwedStep
from runbook.values.run_origin import RestsOn
from runbook.values.types import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A file that is not a trustworthy record, and the reason."""

    file: str
    why: str


def all_records(folder: PrivateFolder) -> tuple[tuple[Record, ...], tuple[Unreadable, ...]]:
    """Return every record in *folder*, the oldest first, and the files that cannot be trusted."""
    records: list[Record] = []
    damaged: list[Unreadable] = []
    try:
        names = folder.names()
    except OSError as error:
        return (), (Unreadable(file=str(folder.path), why=error.strerror or str(error)),)
    for name in names:
        try:
            records.append(parsed(folder.read(name), name))
        except FileNotFoundError:  # it has just been removed
            continue
        except (OSError, ValueError) as error:
            why = str(error) if isinstance(error, Damaged) else getattr(error, "strerror", None) or str(error)
            damaged.append(Unreadable(file=str(folder.path / name), why=why))
    return tuple(sorted(records, key=lambda it: (it.since, it.run))), tuple(damaged)


def _part_for_host(basis: RestsOn, host: str, places: Sequence[str]) -> RestsOn:
    """Return the part of *basis* that concerns *host*, and the hosts in *places* on which its steps run."""
    return replace(
        basis,
        inputs=basis.known_inputs,
        hosts={name: basis.hosts[name] for name in (host, *places) if name in basis.hosts},
        secret_places=tuple(replace(place, hosts=(host,)) for place in basis.secret_places if host in place.hosts),
    )


class RunRecords:
    """The clean-up that one run owes, for each host; used by many threads."""

    def __init__(
        self, basis: RestsOn, mask: Masking, *, secrets: Mapping[str, Json] | None = None, chain: Collection[str] = ()
    ) -> None:
        """Open the records; *basis*: the files and hosts of the run; *secrets*: its secret inputs.

        *chain*: the runs that this run continues.
        """
        self._basis, self._chain, self._mask, self._maker = basis, frozenset(chain), mask, this_process()
        self._secrets = secrets or {}
        self._lock = threading.Lock()
        self._kept: dict[str, Record] = {}
        self._folder: PrivateFolder | None
        try:
            self._folder, self._why = PrivateFolder(state_directory("owed")), ""
        except Unsafe as error:
            self._folder, self._why = None, error.strerror or "there is no directory"
        self._others = self._left_by_others()
        self._heard: dict[str, dict[str, Owed]] = {}

    def keep(self, cleanup: OwedCleanup) -> OwedCleanup | NotRecorded:
        """See ``runbook.protocols.OwedRecords``."""
        if earlier := self._earlier(cleanup):
            return self._left(earlier, cleanup)
        steps = tuple(without_secrets(owed_step, self._secrets, self._mask) for owed_step in cleanup.steps)
        record = Record(
            run=cleanup.run,
            playbook=cleanup.playbook,
            rests_on=_part_for_host(self._basis, cleanup.host, [step.on for step in steps]),
            host=cleanup.host,
            by=cleanup.by,
            since=cleanup.since,
            steps=steps,
            notes=cleanup.notes,
            maker=self._maker,
        )
        if why := self._unwritten(record):
            return NotRecorded(why=why)
        with self._lock:
            self._kept[cleanup.host] = record
        return replace(record.cleanup, steps=steps)

    def _left(self, earlier: Record, cleanup: OwedCleanup) -> OwedCleanup | NotRecorded:
        """Update the record of an *earlier* run to the steps that *cleanup* still has."""
        ids = {owed_step.id for owed_step in cleanup.steps}
        left = replace(earlier, steps=tuple(owed_step for owed_step in earlier.steps if owed_step.id in ids))
        if why := self._unwritten(left):
            return NotRecorded(why=why)
        with self._lock:
            others = self._others[cleanup.host]
            self._others[cleanup.host] = tuple(left if record is earlier else record for record in others)
        return cleanup

    def _unwritten(self, record: Record) -> str:
        """Write *record*; return the reason why that failed, or an empty text."""
        if self._folder is None:
            return self._why
        text = record.text()
        if len(text) > MAX_FILE_BYTES // 2:
            return f"its record would be larger than {MAX_FILE_BYTES // 2048} KiB"
        try:
            self._folder.write(record.name, text)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            return f"{self._folder.path}: {why.lower() if not isinstance(error, Unsafe) else why}"
        return ""

    def release(self) -> None:
        """Let others settle what is left, although this process goes on: its run has ended."""
        with self._lock:
            left = tuple(self._kept.values())
        there = self._names()
        for record in left:
            if record.name in there:
                self._unwritten(replace(record, maker=replace(record.maker, start=0)))

    def drop(self, cleanup: OwedCleanup) -> None:
        """See ``runbook.protocols.OwedRecords``."""
        with self._lock:
            if self._earlier(cleanup):
                self._heard.get(cleanup.host, {}).pop(cleanup.run, None)
            else:
                self._kept.pop(cleanup.host, None)
        if self._folder:
            with suppress(OSError):  # what cannot be removed is found needless when it is settled
                self._folder.remove(file_name(cleanup.run, cleanup.host))

    def settled_here(self, host: str) -> tuple[OwedCleanup, ...]:
        """See ``runbook.protocols.OwedRecords``."""
        return ()

    def gone_on_with(self, host: str) -> tuple[OwedCleanup, ...]:
        """See ``runbook.protocols.OwedRecords``."""
        records = (record for record in self._others.get(host, ()) if record.run in self._chain)
        return tuple(replace(record.cleanup, steps=tuple(map(self._with_secrets, record.steps))) for record in records)

    def _with_secrets(self, step: OwedStep) -> OwedStep:
        """Return *step* with the secret inputs of this run in its arguments, as in a plan."""
        if inputs_in(step.args) - self._secrets.keys():
            return replace(step, withheld="its secret inputs are not those of this run")
        args = {name: decoded(value, self._secrets) for name, value in step.args.items()}
        return replace(step, args=args)

    def is_open(self, cleanup: OwedCleanup) -> bool:
        """See ``runbook.protocols.OwedRecords``."""
        return cleanup.host in self._kept

    def hear(self, host: str, notes: Sequence[HostNote]) -> None:
        """Record the *notes* that *host* has about clean-up owed to it."""
        left = {note.owed.run: note.owed for note in notes if not note.running}
        with self._lock:
            self._heard.setdefault(host, {}).update(left)

    def owed_to(self, host: str) -> tuple[Owed, ...]:
        """Return the clean-up that is owed to *host*, as far as this machine and the host know, the oldest first."""
        with self._lock:
            own, heard = self._kept.get(host), self._heard.get(host, {})
        there = self._names() if self._others.get(host) else ()
        records = [
            record
            for record in (*self._others.get(host, ()), *([own] if own else []))
            if record is own or record.name in there
        ]
        found = {record.run: record.owed for record in records}
        for run, owed in heard.items():
            if run in found:
                found[run] = replace(found[run], noted=(NotedIn.CONTROLLER, NotedIn.HOST))
            elif own is None or run != own.run:
                found[run] = owed
        return tuple(sorted(found.values(), key=lambda it: (it.since, it.run)))

    def _earlier(self, cleanup: OwedCleanup) -> Record | None:
        """Return the record of *cleanup*, if a run that this run continues made it; otherwise None."""
        others = self._others.get(cleanup.host, ())
        return next((made for made in others if made.run == cleanup.run and made.run in self._chain), None)

    def _names(self) -> Sequence[str]:
        try:
            return self._folder.names() if self._folder else ()
        except OSError:
            return ()

    def _left_by_others(self) -> dict[str, tuple[Record, ...]]:
        found: dict[str, tuple[Record, ...]] = {}
        for record in all_records(self._folder)[0] if self._folder else ():
            if not lives(record.maker):
                found[record.host] = (*found.get(record.host, ()), record)
        return found
