"""Made-up hosts: processes, what they have open, and the load of their GPUs."""

from __future__ import annotations

from runbook.library.gpu.facts.model import ComputeProcess, Gpu, GpuPresence, SmiReading
from runbook.library.jobs.facts.arguments import JobArguments
from runbook.library.jobs.facts.classification import GpuUse
from runbook.library.jobs.facts.leftover import Load
from runbook.library.processes.facts.open_files import OpenFile, OpenFileScan
from runbook.library.processes.facts.owners.evidence import OwnerEvidence
from runbook.library.processes.facts.owners.owners import owners_in
from runbook.library.processes.facts.table import Process, Row, Table
from runbook.values.types import Unknown

NO = Unknown(why="nvidia-smi did not answer")


def row(pid, ppid=1, argv=("python", "x"), group=0, container="", terminal=False, state="S", name="x") -> Row:
    process = Process(
        pid=pid,
        start=pid * 10,
        ppid=ppid,
        user="u",
        state=state,
        command=" ".join(argv),
        seconds=1.0,
        container=container,
    )
    return Row(process=process, name=name, argv=tuple(argv), group=group or pid, terminal=terminal, threads=1)


def node(number: int) -> OpenFile:
    return OpenFile(path=f"/dev/nvidia{number}", key=f"2:c3:{number:x}", asked=True, file=(6, number))


CTL = OpenFile(path="/dev/nvidiactl", key="2:c3:ff", asked=True, file=(6, 255))


def walk(*rows: Row, holds=None, gpus=2, unseen=(), way_in=(900,)) -> OpenFileScan:
    table = Table(rows={1: row(1, 0, ("/sbin/init",), name="systemd")} | {it.process.pid: it for it in rows},
                  way_in=way_in, uid=0)  # fmt: skip
    nodes = tuple(node(it) for it in range(gpus))
    opened = {pid: tuple(CTL if it == "ctl" else node(it) for it in those) for pid, those in (holds or {}).items()}
    return OpenFileScan(table=table, nodes=(*nodes, CTL), open=opened, unseen=frozenset(unseen))


def load(*percents, apps=(), minors=True, later=None, reading=None, absent=False) -> Load:
    gpus = tuple(
        Gpu(
            index=at,
            uuid=f"GPU-{at}",
            bus_id=f"0000:9{at}:00.0",
            utilization=it,
            samples=(it, (later or percents)[at]),
            memory_used=9000.0,
            persistence=True,
        )
        for at, it in enumerate(percents)
    )
    listed = apps if isinstance(apps, Unknown) else tuple(
        ComputeProcess(gpu_uuid=f"GPU-{gpu}", pid=pid, name="python", memory_mib=5.0) for pid, gpu in apps
    )  # fmt: skip
    # the numbers run against the order of nvidia-smi: GPU 0 is the last node
    numbers = {it.bus_id: len(gpus) - 1 - it.index for it in gpus} if minors else {}
    there = 0 if absent else len(gpus) or 1
    return Load(
        reading=SmiReading(gpus=gpus, apps=listed) if reading is None else reading,
        presence=GpuPresence(pci=there, nodes=(), tool=bool(there), minors=numbers),
        above=5,
    )


def use(known: Load, seen: OpenFileScan, evidence: OwnerEvidence | None = None, **job) -> GpuUse:
    """What a closer probe sees, where the host was asked about every process; no age is asked for unless *job* does."""
    rows = seen.table.rows
    said = evidence or OwnerEvidence(keys={it.process.key for it in rows.values()})
    args = JobArguments(**{"starting": 0, **job})
    return GpuUse(load=known, walk=seen, job=args, owners=owners_in(seen.table, rows.keys(), said), ports=said.ports)
