"""Find every process that has a GPU's device open, whether nvidia-smi lists it or not.

Read from /proc, which needs no fuser and no lsof, and joined with what nvidia-smi lists.  Processes of other pid
namespaces, and without root those of other users, cannot be seen: what rests on them is unknown, not empty.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from engine.errors import ProbeError
from engine.facts.leftover import Load, listed_marked, look_at_load, look_at_processes, told_apart
from engine.facts.processes import Process, Table
from engine.facts.protected import protection
from engine.facts.victims import Spared, spared
from engine.ports import Absent, Fails, Holds, Probe
from engine.values.text import Unknown, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    """Whose holders are looked for."""

    paths: tuple[str, ...] = field(
        default=("/dev/nvidia*",), metadata={"about": "Device nodes, as globs of absolute paths.", "min_items": 1}
    )
    busy_above: float = field(
        default=5,
        metadata={"about": "At work is above this (percent, two looks 2 s apart).", "minimum": 0, "maximum": 100},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Who holds what."""

    processes: tuple[Process, ...] | Unknown = field(
        default=(), metadata={"about": "Every holder that may be ended; unknown if none is seen and some cannot be."}
    )
    leftover: tuple[Process, ...] | Unknown = field(
        default=(), metadata={"about": "Those whose job keeps no GPU busy; unknown if the GPUs cannot be asked."}
    )
    at_work: tuple[Process, ...] | Unknown = field(default=(), metadata={"about": "Those whose job keeps a GPU busy."})
    protected: tuple[Spared, ...] = field(default=(), metadata={"about": "Holders that are never ended, with why."})
    devices: tuple[str, ...] | Unknown = field(default=(), metadata={"about": "The nodes that left-over ones hold."})
    gpus: tuple[str, ...] | Unknown = field(default=(), metadata={"about": "The GPUs that left-over ones hold."})
    unlisted: tuple[Process, ...] | Unknown = field(default=(), metadata={"about": "Holders nvidia-smi does not list."})
    foreign: tuple[int, ...] | Unknown = field(
        default=(), metadata={"about": "Pids that nvidia-smi lists and that are not here: of another pid namespace."}
    )
    unseen: int = field(default=0, metadata={"about": "Processes that could not be looked into."})
    present: tuple[str, ...] = field(default=(), metadata={"about": "The device nodes that are there."})


def probe(args: Args) -> Probe[State]:
    """Walk /proc, then ask about the GPUs."""
    table = yield from look_at_processes(args.paths)
    load = yield from look_at_load()
    if not table.nodes and load.presence.absent:
        return Absent(why="no NVIDIA GPU", state=State())
    if not table.nodes:
        raise ProbeError(f"there is no {' or '.join(args.paths)}, although the host has an NVIDIA GPU or its tools")
    found = listed_marked((it for it in table.processes if it.devices), load)
    why = {it.key: protection(it, table) for it in found}
    holders = tuple(it for it in found if not why[it.key])
    plain = State(
        processes=holders, protected=spared(found, why), unseen=table.unseen, present=table.nodes,
        unlisted=_unlisted(holders, load), foreign=_foreign(found, table, load),
    )  # fmt: skip
    if table.unseen and not holders:
        blind = Unknown(why=f"{plural(table.unseen, 'process')} cannot be looked into without root")
        return replace(plain, processes=blind, leftover=blind, at_work=blind, devices=blind, gpus=blind, unlisted=blind)
    apart = told_apart(holders, table, load, args.busy_above)
    held: tuple[str, ...] | Unknown
    if isinstance(apart.leftover, Unknown):
        held = apart.leftover
    else:
        held = tuple(sorted({path for it in apart.leftover for path in it.devices}))
    return replace(plain, leftover=apart.leftover, at_work=apart.at_work, devices=held, gpus=apart.gpus)


def _unlisted(holders: tuple[Process, ...], load: Load) -> tuple[Process, ...] | Unknown:
    if isinstance(load.apps, Unknown) and holders:
        return load.apps
    return tuple(it for it in holders if it.listed is False)


def _foreign(found: tuple[Process, ...], table: Table, load: Load) -> tuple[int, ...] | Unknown:
    apps = load.apps
    if isinstance(apps, Unknown):
        return apps
    holding = {it.pid for it in found}
    return tuple(
        it.pid for it in apps if isinstance(it.pid, int) and it.pid not in holding and it.pid not in table.by_pid
    )


def holds(args: Args, state: State) -> Holds | Fails:
    """Nobody holds them, but for what is protected."""
    if isinstance(state.processes, Unknown):
        raise ProbeError(state.processes.why)
    if not state.processes:
        return Holds(why="no process holds them")
    return Fails(why=f"{plural(len(state.processes), 'holder')}: {', '.join(map(str, state.processes[:5]))}")


def by_hand(args: Args) -> tuple[str, ...]:
    """As root; PIDs and names come on two streams, hence 2>&1."""
    return (
        f"fuser -v {' '.join(args.paths)} 2>&1",
        "nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name,used_gpu_memory --format=csv",
    )
