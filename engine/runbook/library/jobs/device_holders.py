"""Find every process that has a GPU's device node open, whether nvidia-smi lists it or not.

Holders are read from /proc, without fuser or lsof, and joined with what nvidia-smi lists. What cannot be read (other
users' processes without root, other pid namespaces) is unknown, or counted, and never taken as "no process".
"""

from __future__ import annotations

from dataclasses import field

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.jobs.facts.arguments import JobArguments
from runbook.library.jobs.facts.by_open_files import OpenFileMatch, probe_by_open_files
from runbook.library.processes.facts.open_files import GPUS
from runbook.library.processes.facts.victims import processes_in_words
from runbook.protocols import Fails, Holds, Probe
from runbook.values.types import Unknown, plural

State = OpenFileMatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Args(JobArguments):
    paths: tuple[str, ...] = field(default=(GPUS,), metadata={"min_items": 1})
    """Device nodes or files, as globs of absolute paths."""


def probe(args: Args) -> Probe[State]:
    """Read /proc; if a process holds a GPU, sample the GPUs twice, and read /proc again."""
    return (yield from probe_by_open_files(args.paths, (), args, classified=True))


def holds(args: Args, state: State) -> Holds | Fails:
    """Check that no process holds them, except protected processes."""
    if isinstance(state.processes, Unknown):
        raise ProbeError(state.processes.why)
    if state.misplaced:
        held = "; ".join(map(str, state.misplaced))
        return Fails(why=f"held without use: {held}")
    if not state.processes:
        return Holds(why=f"no process holds {' or '.join(args.paths)}")
    return Fails(why=f"held by {plural(len(state.processes), 'process')}: {processes_in_words(state.processes)}")


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the commands that root would run; fuser prints pids and names on two streams."""
    return (
        f"fuser -v {' '.join(args.paths)} 2>&1",
        "nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name,used_gpu_memory --format=csv",
    )
