"""Find every process that has a GPU's device node open, whether nvidia-smi lists it or not.

Read from /proc, which takes neither fuser nor lsof, and joined with what nvidia-smi lists. What cannot be seen (other
users' processes without root, other pid namespaces) is unknown, or counted, and never taken for nobody.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.errors import ProbeError
from engine.facts.process_selection.by_open_files import GPUS, OpenFileMatch, probe_by_open_files
from engine.facts.process_selection.path_rules import objection_to_paths
from engine.facts.processes.victims import named
from engine.protocols import Fails, Holds, Probe
from engine.values.types import Unknown, plural

State = OpenFileMatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    """Whose holders are searched for."""

    paths: tuple[str, ...] = field(
        default=(GPUS,), metadata={"about": "Device nodes, or files, as globs of absolute paths.", "min_items": 1}
    )
    busy_above: float = field(
        default=5,
        metadata={
            "about": "A job on a GPU that was busier (percent) on one of two probes with 2 s between them is at work.",
            "minimum": 0,
            "maximum": 100,
        },
    )
    lost: tuple[str, ...] = field(
        default=(),
        metadata={
            "about": "Bus ids of GPUs that only a reboot brings back (`kernel_log`: lost_gpus): what has no other GPU "
            "open is not left over."
        },
    )


def objection(args: Args) -> str:
    """Why these paths cannot be asked about; empty: they can."""
    return objection_to_paths(args.paths)


def probe(args: Args) -> Probe[State]:
    """Walk /proc; then look at the GPUs twice, and walk /proc again, if somebody holds one."""
    return (yield from probe_by_open_files(args.paths, (), args.busy_above, classified=True, lost=args.lost))


def holds(args: Args, state: State) -> Holds | Fails:
    """Nobody holds them, but for what is protected."""
    if isinstance(state.processes, Unknown):
        raise ProbeError(state.processes.why)
    if state.misplaced:
        return Fails(
            why=f"held by what has no use for it: {'; '.join(f'pid {it.pid}: {it.why}' for it in state.misplaced)}"
        )
    if not state.processes:
        return Holds(why=f"no process holds {' or '.join(args.paths)}")
    return Fails(why=f"held by {plural(len(state.processes), 'process')}: {named(state.processes)}")


def by_hand(args: Args) -> tuple[str, ...]:
    """As root; fuser writes pids and names on two streams."""
    return (
        f"fuser -v {' '.join(args.paths)} 2>&1",
        "nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name,used_gpu_memory --format=csv",
    )
