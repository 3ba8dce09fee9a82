"""Compare journals with the ledger: lines that were edited, cut off or added, and journals that are missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from runbook.records.chain import Link, links
from runbook.records.fetched_files import faults_of_files
from runbook.records.journal import ENDING
from runbook.records.ledger import PRUNED, Entry, unlike_ledger
from runbook.records.private_folder import PrivateFolder
from runbook.records.recorded_run import lives_on
from runbook.records.run_summary import process_of


def by_run(entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    """Return the entries of the ledger, keyed by run."""
    found: dict[str, list[Entry]] = {}
    for entry in entries:
        found.setdefault(entry.run, []).append(entry)
    return found


def missing(noted: Mapping[str, Sequence[Entry]], there: set[str]) -> Iterator[str]:
    """Yield the runs whose journals are missing although nobody pruned them."""
    for run, entries in noted.items():
        if run not in there and not any(entry.what == PRUNED for entry in entries):
            yield run


def faults_of(folder: PrivateFolder, run: str, noted: Sequence[Entry]) -> Iterator[str]:
    """Yield every fault of the journal of *run*; *noted*: its entries in the ledger."""
    try:
        with folder.opened(run + ENDING) as file:
            raw = file.readlines()
    except OSError as error:
        yield error.strerror or str(error)
        return
    found = list(links(raw))
    for link in found:
        if link.fault:
            yield f"line {link.number}: {link.fault}"
    if raw and not raw[-1].endswith(b"\n") and any(entry.what == "run_finished" for entry in noted):
        yield f"line {len(raw)}: it is not whole, although the run had ended"
    if not noted and len(raw) > 1:  # it is in the ledger before anything is sent, and a run may be killed before that
        yield "the ledger does not know it"
    elif (
        noted
        and _has_ended(found)
        and not any(entry.what == "run_finished" for entry in noted)
        and _over(folder, run, found)
    ):
        yield "its end is not in the ledger, although the run had ended"
    yield from unlike_ledger(found, noted)
    yield from faults_of_files(folder, (_event(each) for each in found))


def _has_ended(found: Sequence[Link]) -> bool:
    """Whether the last line of a journal is the end of a run."""
    return bool(found) and _event(found[-1]).get("kind") == "run_finished"


def _over(folder: PrivateFolder, run: str, found: Sequence[Link]) -> bool:
    """Whether the process of *run* has ended, so that it will not enter anything in the ledger."""
    return not lives_on(folder, run, process_of(_event(found[0]).get("origin")))


def _event(link: Link) -> Mapping[str, Any]:
    event = link.value.get("event") if isinstance(link.value, dict) else None
    return event if isinstance(event, dict) else {}
