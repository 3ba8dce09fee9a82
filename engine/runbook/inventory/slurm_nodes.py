"""Read the nodes of a Slurm cluster from the output of ``scontrol show nodes``, or from slurm.conf."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from typing import Any

from runbook.dataclass import dataclass
from runbook.errors import ConfigError, Problem
from runbook.inventory.fields import Notes, Path
from runbook.inventory.hosts import hosts_in, inventory_of
from runbook.inventory.text_formats import TextDocument, TextNotes
from runbook.protocols import Place
from runbook.text.name_ranges import expanded_list
from runbook.values.inventory import Inventory

_GRES_ALONE = re.compile(r"(?im)^[ \t]*(?:(?:Name=\w+(?=\s)|AutoDetect=)[^\n]*|#[^\n]*)$")
"""Matches the lines of a gres.conf that describes only the node on which the file is."""
_HAS_NODES = re.compile(r"(?im)^\s*NodeName=\S")
_SCONTROL = re.compile(r"(?m)(?:^|\s)(?:CPUAlloc|AvailableFeatures|CfgTRES|BootTime)=")
_PAIR = re.compile(r"(?:^|(?<=\s))([A-Za-z][A-Za-z0-9_]*)=(\"[^\"]*\"|\S*)")
_FREE = re.compile(r"(?:^|\s)(OS=.*?(?=\sRealMemory=|$)|(?:Comment|Extra|Reason|AdminComment)=.*)")
"""Matches values with spaces that people or hosts wrote; nothing in them is a key."""
_BEGINS = ("nodename", "partitionname", "nodeset", "downnodes", "include")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A value, and its column."""

    value: str
    line: int
    column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One node or partition, or several of a range; *entries* has the values by key, in small letters."""

    kind: str
    line: int
    entries: Mapping[str, Entry]

    def text(self, *keys: str) -> str:
        """Return the value of the first of *keys* that has a value; empty if none has."""
        values = (self.entries[key].value for key in keys if key in self.entries)
        return next((value for value in values if value and value != "(null)"), "")

    def place(self, *keys: str) -> tuple[int, int]:
        """Return line and column of the first of *keys* that is there, otherwise of the record."""
        found = next((self.entries[key] for key in keys if key in self.entries), None)
        return (found.line, found.column) if found else (self.line, 1)


def is_slurm(text: str) -> bool:
    """Whether *text*, which is not a mapping in YAML, names nodes as Slurm does."""
    return bool(_HAS_NODES.search(text))


def is_state(text: str) -> bool:
    """Whether *text* has the state of nodes (as scontrol prints it), not only their configuration."""
    return bool(_SCONTROL.search(text))


def records(text: str) -> Iterator[Record]:
    """Yield the records of *text* in their order."""
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
    """Yield the lines of *text*; for slurm.conf without comments, and with continuation lines joined."""
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
    """Return the first key of *line*, and all keys of *line* with their values."""
    if re.match(r"(?i)\s*include\s", line):
        return "include", []
    found = [
        (pair[1].lower(), Entry(value=pair[2].strip('"'), line=number, column=pair.start() + 1))
        for pair in _PAIR.finditer(line)
    ]
    return (found[0][0] if found else ""), found


NODES = "slurm_nodes"
MOST_HOSTS = 20_000
"""The maximum number of nodes in one file."""
PARTITIONS = "slurm_partitions"
"""The field with the partitions of a node; each partition is a group."""

_USABLE = frozenset(
    {"IDLE", "MIXED", "MIX", "ALLOCATED", "ALLOC", "COMPLETING", "PLANNED", "RESERVED", "CLOUD", "DYNAMIC_NORM"}
)
_AT_WORK = frozenset({"MIXED", "MIX", "ALLOCATED", "ALLOC", "COMPLETING"})
_GPU = re.compile(r"gpu(?::(?!\d+(?:$|\())([\w.-]+))?(?::(\d+))?(?:\([^()]*\))?")


def recognises(document: object) -> bool:
    """Whether *document* has the form of a tree that ``parse_text`` returns."""
    return isinstance(document, Mapping) and NODES in document


def load(document: object, source: str, where: Place) -> Inventory:
    """Return the nodes in *document*.  Raises ConfigError with every mistake."""
    notes = Notes(source=source, where=where)
    section = document.get(NODES) if isinstance(document, Mapping) else None
    return inventory_of(hosts_in(section, (NODES,), notes), document, notes)


def parse_text(text: str, file: str) -> TextDocument | None:
    """Return *text* as a tree; None if it is not a list of nodes.  Raises ConfigError with every mistake in it."""
    if not is_slurm(text):
        if _GRES_ALONE.search(text) and not _GRES_ALONE.sub("", text).strip():
            hint = "give slurm.conf, or the nodes: scontrol show nodes > nodes.txt"
            raise ConfigError(Problem(file=file, message="the gres.conf of one node, which names no hosts", hint=hint))
        return None
    reading = _Reading(notes=TextNotes(file=file), tells_state=is_state(text))
    for record in records(text):
        reading.record(record)
    reading.finish()
    if reading.notes.problems:
        raise ConfigError(*reading.notes.problems)
    return TextDocument(file=file, value={NODES: reading.nodes}, places=reading.places)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """The content that has been read so far."""

    notes: TextNotes
    tells_state: bool
    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    places: dict[Path, tuple[int, int]] = field(default_factory=dict)
    defaults: dict[str, Record] = field(default_factory=dict)
    """The values of ``NodeName=DEFAULT`` and ``PartitionName=DEFAULT``, which apply to the lines below."""
    sets: dict[str, Record] = field(default_factory=dict)
    devices: dict[str, dict[str, int]] = field(default_factory=dict)
    """The GPUs of each node according to gres.conf: their number, by type."""
    waiting: list[Record] = field(default_factory=list)
    """Records of partitions and of nodes that are down; they may name nodes of later lines."""

    def record(self, record: Record) -> None:
        """Read one record."""
        match record.kind:
            case "include":
                hint = "give the nodes of all files together: scontrol show nodes > nodes.txt"
                self.notes.add(record.line, 1, "Include: another file of Slurm's is not read from here", hint)
            case "downnodes":
                self.waiting.append(record)
            case _ if record.text(record.kind) == "DEFAULT":
                self.defaults[record.kind] = self._with_defaults(record)
            case "nodename" if record.text("name", "autodetect"):
                self._add_devices(record)
            case "nodename":
                self._node(self._with_defaults(record))
            case "nodeset":
                self.sets[record.text("nodeset")] = record
            case "partitionname":
                self.waiting.append(self._with_defaults(record))

    def _with_defaults(self, record: Record) -> Record:
        known = self.defaults.get(record.kind)
        return replace(record, entries={**known.entries, **record.entries}) if known else record

    def finish(self) -> None:
        """Add the nodes to their partitions when all nodes are known, and set their GPUs."""
        counts_gpus = any(fields.get("gpu", "none") != "none" for fields in self.nodes.values())
        for name, types in self.devices.items():
            labels = ", ".join(f"{count or ''}{'x ' if count else ''}{kind}" for kind, count in types.items())
            if self.nodes[name].get("gpu", "none") == "none" and labels:
                self.nodes[name]["gpu"] = labels
        for fields in self.nodes.values():
            if (counts_gpus or self.devices) and "gpu" not in fields:
                fields["gpu"] = "none"
        for record in self.waiting:
            if record.kind == "downnodes":
                for name in self._members(record, "downnodes"):
                    self.nodes[name]["status"] = _status(record.text("state") or "DOWN", self.tells_state)
                continue
            for name in self._members(record, "nodes"):
                self._join(name, record.text("partitionname"))

    def _join(self, node: str, partition: str) -> None:
        partitions = self.nodes[node].setdefault(PARTITIONS, [])
        if partition not in partitions:
            partitions.append(partition)

    def _expanded(self, record: Record, *keys: str) -> list[str]:
        try:
            return expanded_list(record.text(*keys), MOST_HOSTS, "nodes")
        except ValueError as error:
            self.notes.add(*record.place(*keys), f"the list of nodes {error}")
            return []

    def _members(self, record: Record, key: str) -> list[str]:
        """Return the nodes that *key* of *record* names: single nodes, all nodes, or the nodes of a set."""
        found: list[str] = []
        for name in self._expanded(record, key):
            if name.upper() == "ALL":
                found += self.nodes
            elif name in self.sets and name not in self.nodes:
                found += self._nodes_of_set(self.sets[name])
            elif name in self.nodes:
                found.append(name)
            else:
                self.notes.add(*record.place(key), f"there is no node {name[:60]}", "name it in a line with NodeName=")
        return found

    def _nodes_of_set(self, record: Record) -> list[str]:
        features = {*filter(None, record.text("feature").split(","))}
        by_feature = [name for name, fields in self.nodes.items() if features & {*fields.get("features", ())}]
        plain = [name for name in self._expanded(record, "nodes") if name in self.nodes]
        return [*by_feature, *plain]

    def _node(self, record: Record) -> None:
        names = self._expanded(record, "nodename")
        if len(self.nodes) + len(names) > MOST_HOSTS:
            self.notes.add(record.line, 1, f"the file names more than {MOST_HOSTS} nodes up to here")
            return
        keys = ("nodeaddr", "nodehostname")
        addresses = self._expanded(record, *keys) if record.text(*keys) else names
        used = next((key for key in keys if record.text(key)), "nodename")
        if len(addresses) != len(names) and addresses:
            words = f"{len(addresses)} addresses for {len(names)} nodes"
            self.notes.add(*record.place(used), words, "each node needs one address")
            return
        common = self._fields(record)
        for name, address in zip(names, addresses, strict=False):
            if name in self.nodes and name not in self.devices:
                line = self.places[NODES, name][0]
                self.notes.add(*record.place("nodename"), f"the node {name[:60]} is also on line {line}")
                continue
            self.nodes[name] = {"ssh_host": address, **common, PARTITIONS: list(common[PARTITIONS])}
            self.places[NODES, name] = record.place("nodename")
            self.places[NODES, name, "ssh_host"] = record.place(used)

    def _add_devices(self, record: Record) -> None:
        """Count the GPUs that a line of gres.conf gives its nodes; a node that only gres.conf names is added."""
        kind, name = record.text("type") or "GPU", record.text("name").lower()
        files = self._expanded(record, "file", "multiplefiles") if record.text("file", "multiplefiles") else []
        count = record.text("count")
        for node in self._expanded(record, "nodename"):
            if node not in self.nodes:
                self.nodes[node] = {"ssh_host": node, "status": "ready", PARTITIONS: []}
                self.places[NODES, node] = record.place("nodename")
            types = self.devices.setdefault(node, {})
            if name == "gpu" or (not name and record.text("autodetect").lower() not in ("", "off")):
                types[kind] = types.get(kind, 0) + (int(count) if count.isdecimal() else len(files))

    def _fields(self, record: Record) -> dict[str, Any]:
        state = record.text("state") or ("" if self.tells_state else "UNKNOWN")
        features = record.text("activefeatures", "availablefeatures", "features", "feature")
        return {
            "status": _status(state, self.tells_state),
            **({"gpu": self._gpus(record)} if "gres" in record.entries else {}),
            "features": [word for word in features.split(",") if word],
            "slurm_state": state,
            PARTITIONS: [word for word in record.text("partitions").split(",") if word],
        }

    def _gpus(self, record: Record) -> str:
        """Return the label of the GPUs in ``Gres``, such as ``8x h100``; ``none`` if there are none."""
        labels = []
        for part in re.findall(r"(?:[^,(]|\([^()]*\)?)+", record.text("gres")):
            if not re.match(r"gpu(?:[:(]|$)", part):
                continue
            found = _GPU.fullmatch(part.replace(":no_consume", ""))
            if not found:
                self.notes.add(*record.place("gres"), "expected Gres=gpu:COUNT or Gres=gpu:TYPE:COUNT")
            elif int(found[2] or 1):
                labels.append(f"{int(found[2] or 1)}x {found[1] or 'GPU'}")
        return ", ".join(labels) or "none"


def _status(state: str, tells_state: bool) -> str:
    """Return ``status`` for Slurm's *state*: ready if jobs can run, or if only the configuration is known."""
    flags = {re.sub(r"[^A-Z_]", "", word) for word in state.upper().split("+")}
    usable = _USABLE if tells_state else (_USABLE | {"UNKNOWN"}) - {"CLOUD"}
    for word in ("DOWN", "FAIL", "FAILING", "FUTURE"):
        if word in flags and not flags & {"DRAIN", "DRAINED", "DRAINING"}:
            return word.lower()
    if flags & {"DRAIN", "DRAINED", "DRAINING"}:
        return "draining" if flags & _AT_WORK or "DRAINING" in flags else "drained"
    if "*" in state:
        return "not_responding"
    left = sorted(flags - usable - {""})
    return "+".join(left).lower() if left else ("ready" if state else "unknown")
