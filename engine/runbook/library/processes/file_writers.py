"""Find the processes that have a file open for writing: who writes a log is alive, whatever its last line says."""

from __future__ import annotations

from dataclasses import field

from runbook.dataclass import dataclass
from runbook.library.processes.facts.file_writers import FileWriters, ask_writers, read_writers
from runbook.protocols import Probe

State = FileWriters


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    files: tuple[str, ...] = field(metadata={"min_items": 1})
    """Absolute paths of files, without globs."""


def probe(args: Args) -> Probe[State]:
    """Read the open files of every process in /proc."""
    return read_writers((yield ask_writers(args.files)))


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the command that root would run; the letter w marks who writes."""
    return (f"lsof -- {' '.join(args.files)}",)
