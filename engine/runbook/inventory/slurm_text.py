"""Slurm's lists of nodes and partitions, of ``scontrol show nodes`` or slurm.conf, as records of keys and values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_FIRST = re.compile(r"(?i)\s*(?:NodeName|PartitionName|NodeSet|ClusterName|SlurmctldHost)\s*=\s*\S")
_HAS_NODES = re.compile(r"(?im)^\s*NodeName=\S")
_SCONTROL = re.compile(r"(?m)(?:^|\s)(?:CPUAlloc|AvailableFeatures|CfgTRES|BootTime)=")
_PAIR = re.compile(r"(?:^|(?<=\s))([A-Za-z][A-Za-z0-9_]*)=(\"[^\"]*\"|\S*)")
_FREE = re.compile(r"(?:^|\s)(OS=.*?(?=\sRealMemory=|$)|(?:Comment|Extra|Reason|AdminComment)=.*)")
"""Values with spaces in them, written by people and hosts: nothing in them is a key."""
_BEGINS = ("nodename", "partitionname", "nodeset", "downnodes", "include")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A value, and its column."""

    value: str
    line: int
    column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One node or partition, or several of a range: what stands behind each key, by its name in small letters."""

    kind: str
    line: int
    entries: Mapping[str, Entry]

    def text(self, *keys: str) -> str:
        """The value of the first of *keys* that has one; empty where none has."""
        values = (self.entries[key].value for key in keys if key in self.entries)
        return next((value for value in values if value and value != "(null)"), "")

    def place(self, *keys: str) -> tuple[int, int]:
        """Line and column of the first of *keys* that is there, else of the record."""
        found = next((self.entries[key] for key in keys if key in self.entries), None)
        return (found.line, found.column) if found else (self.line, 1)


def is_slurm(text: str) -> bool:
    """Whether *text* begins as a list of Slurm's does, and names nodes."""
    first = next((line for line in text.split("\n") if line.strip() and not line.lstrip().startswith("#")), "")
    return bool(_FIRST.match(first) and _HAS_NODES.search(text))


def is_state(text: str) -> bool:
    """Whether *text* tells what the nodes are doing, as scontrol does, and not only how they are configured."""
    return bool(_SCONTROL.search(text))


def records(text: str) -> Iterator[Record]:
    """The records of *text* in their order."""
    entries: dict[str, Entry] = {}
    kind, start = "", 0
    scontrol = is_state(text)
    for number, line in _lines(text, scontrol):
        first, pairs = _pairs(line, number)
        if first in _BEGINS or (not scontrol and first):
            if kind:
                yield Record(kind=kind, line=start, entries=entries)
            kind, start, entries = (first, number, {}) if first in _BEGINS else ("", 0, {})
        for key, entry in pairs:
            entries.setdefault(key, entry)
    if kind:
        yield Record(kind=kind, line=start, entries=entries)


def _lines(text: str, scontrol: bool) -> Iterator[tuple[int, str]]:
    """The lines of *text*; in slurm.conf without comments, and with those that a backslash goes on in."""
    begun, begun_at = "", 0
    for number, written in enumerate(text.split("\n"), 1):
        line = _FREE.sub(lambda found: " " * len(found[0]), written) if scontrol else re.sub(r"(?<!\\)#.*", "", written)
        if not scontrol and line.rstrip().endswith("\\"):
            begun, begun_at = begun + line.rstrip()[:-1] + " ", begun_at or number
            continue
        if (begun + line).strip():
            yield begun_at or number, begun + line
        begun, begun_at = "", 0
    if begun.strip():
        yield begun_at, begun


def _pairs(line: str, number: int) -> tuple[str, list[tuple[str, Entry]]]:
    """The first key of *line*, and its keys with their values."""
    if re.match(r"(?i)\s*include\s", line):
        return "include", []
    found = [
        (pair[1].lower(), Entry(value=pair[2].strip('"'), line=number, column=pair.start() + 1))
        for pair in _PAIR.finditer(line)
    ]
    return (found[0][0] if found else ""), found
