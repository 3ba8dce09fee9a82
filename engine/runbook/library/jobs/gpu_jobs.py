"""Find the processes of GPU jobs by command line or by open GPU, each once.

A process counts because a pattern (a Python regular expression, searched in the arguments joined by spaces) matches
it, because it has a device open, or for both; the reason stands in its `why`. What is left over of a job is
distinguished from jobs at work by samples of the GPUs. The result is what `end` takes:
`end: {processes: "{{ jobs.leftover }}"}`.
"""

from __future__ import annotations

import shlex
from dataclasses import field, replace

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.jobs.facts import by_command_line, by_open_files
from runbook.library.jobs.facts.arguments import JobArguments
from runbook.library.jobs.facts.by_open_files import HolderMatch
from runbook.library.jobs.facts.classification import GpuUse, described, observe_gpu_use
from runbook.library.jobs.facts.path_rules import objection_to_paths
from runbook.library.processes.facts.open_files import GPUS, OpenFileScan, ask_holders, read_holders
from runbook.library.processes.facts.protected import Protected
from runbook.library.processes.facts.table import Process, Table
from runbook.library.processes.facts.victims import Processes, processes_in_words
from runbook.protocols import Fails, Holds, Probe
from runbook.text.regexes import SearchPattern, compile_regex
from runbook.values.types import ProcessPattern, Unknown, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Args(JobArguments):
    patterns: tuple[ProcessPattern, ...] = ()
    """Patterns to search in command lines; a pattern that matches everything is refused."""
    devices: tuple[str, ...] = field(default=(GPUS,), metadata={"min_items": 1})
    """Devices, as globs of absolute paths, whose holders count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State(HolderMatch):
    """The processes of GPU jobs."""

    all: Processes = ()
    """Every holder that is not protected: pid, user, command, why, devices, gpus ..."""
    summary: str | Unknown = "no process is left over"
    """The leftover processes, in one sentence."""
    starters: tuple[str, ...] = ()
    """The starters of the leftover processes: containers, services, parents that are not among them."""
    unsearched: tuple[Protected, ...] = ()
    """Processes left alone because the search of their command lines takes too long."""
    zombies: tuple[Process, ...] = ()
    """Defunct processes that match, or whose parent does: they hold only a pid."""


def objection(args: Args) -> str:
    """Return the reason why the holders of these devices cannot be asked for; empty: they can."""
    return objection_to_paths(args.devices)


def probe(args: Args) -> Probe[State]:
    """Walk /proc; then sample the GPUs, and walk /proc again, if there is somebody."""
    tests = [compile_regex(pattern) for pattern in args.patterns]
    walk = by_open_files.believable(read_holders((yield ask_holders(*args.devices))))
    if not walk.present():
        there = yield from by_open_files.where_nothing_is_there(args.devices)  # raises where there should be something
        walk = walk if isinstance(there, str) else there
    plain = _state(tests, walk, args)
    if isinstance(plain.all, Unknown):
        return _not_known(plain, plain.all)
    if not plain.all:
        return replace(plain, foreign=(yield from by_open_files.listed_elsewhere(walk))) if walk.present() else plain
    closer = yield from observe_gpu_use(args, walk.table, [each.pid for each in plain.all], *args.devices)
    if isinstance(closer.walk, Unknown):
        return replace(_not_known(plain, closer.walk), foreign=closer.walk)
    before = {process.key for process in plain.all}
    return _classified(_state(tests, closer.walk, args), before, closer, closer.walk)


def _state(tests: list[SearchPattern], walk: OpenFileScan, args: Args) -> State:
    """The processes in *walk* that match, or hold a device; nothing is known of the GPUs yet."""
    lines = by_command_line.chosen(tests, walk.table, (), (), args) if tests else by_command_line.CommandLineMatch()
    held = by_open_files.chosen(walk, (), args)
    unknown = next((each for each in (held.processes, lines.matches) if isinstance(each, Unknown)), None)
    together: dict[int, Process] = {}
    for process in held.processes if not isinstance(held.processes, Unknown) else ():
        together[process.pid] = replace(process, why=f"holds {', '.join(process.devices)}")
    for process in lines.matches if not isinstance(lines.matches, Unknown) else ():
        holder = together.get(process.pid)
        words = f"matches the patterns, {holder.why}" if holder else "matches the patterns"
        together[process.pid] = replace(holder or process, why=words)
    spared = {one.pid: one for one in (*lines.protected, *held.protected)}
    return State(
        all=tuple(together[pid] for pid in sorted(together)) or unknown or (),
        protected=tuple(spared.values()),
        misplaced=held.misplaced,
        unsearched=lines.unsearched,
        zombies=lines.zombies,
    )


def _not_known(state: State, why: Unknown) -> State:
    return replace(by_open_files.not_known(state, why), summary=why)


def _classified(now: State, before: set[str], closer: GpuUse, walk: OpenFileScan) -> State:
    """Return *now* with the verdict of the GPU samples on each process; processes not in *before* have just started."""
    if isinstance(now.all, Unknown):
        return replace(_not_known(now, now.all), foreign=by_open_files.foreign(walk, closer.load.pids()))
    every = tuple(replace(described(one.pid, walk, closer), devices=one.devices, why=one.why) for one in now.all)
    blind = next((Unknown(why=str(one)) for one in now.unsearched), None)
    found = by_open_files.classify_holders_into(replace(now, all=every), every, before, closer, walk, blind)
    if isinstance(found.leftover, Unknown):
        return replace(found, summary=found.leftover)
    return replace(found, summary=_summary(found.leftover), starters=_starters(found.leftover, walk.table))


def _summary(leftover: tuple[Process, ...]) -> str:
    """Say how many processes hold which devices, and how many more are left over."""
    holders = [process for process in leftover if process.devices]
    others = len(leftover) - len(holders)
    if not leftover:
        return "no process is left over"
    if not holders:
        return f"{plural(others, 'process')} of the job {'is' if others == 1 else 'are'} left over, without a GPU"
    paths = dict.fromkeys(path for process in holders for path in process.devices)
    held = ", ".join([path for path in paths if path[-1:].isdigit()] or paths)
    words = f"{plural(len(holders), 'leftover process')} {'holds' if len(holders) == 1 else 'hold'} {held}"
    return f"{words}, and {others} more of the job {'holds' if others == 1 else 'hold'} none" if others else words


def _starters(leftover: tuple[Process, ...], table: Table) -> tuple[str, ...]:
    """The containers and services of *leftover*; of those without, the parents that are not among them."""
    pids = {process.pid for process in leftover}
    found: dict[str, None] = {}
    for process in leftover:
        parent = table.rows.get(process.ppid)
        if process.container:
            found[f"container {process.container}"] = None
        elif process.unit:
            found[f"service {process.unit}"] = None
        elif process.ppid > 1 and process.ppid not in pids and parent:
            found[f"pid {process.ppid} ({parent.process.command[:60]})"] = None
    return tuple(found)


def holds(args: Args, state: State) -> Holds | Fails:
    """Nothing is left over."""
    if isinstance(state.leftover, Unknown):
        raise ProbeError(state.leftover.why)
    if not state.leftover:
        return Holds(why="no process of a job is left over")
    return Fails(why=f"{state.summary}: {processes_in_words(state.leftover)}")


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the commands that a person would run by hand."""
    lines = [f"pgrep -af -- {shlex.quote(pattern)}" for pattern in args.patterns]
    return (
        *lines,
        f"fuser -v {' '.join(args.devices)} 2>&1",
        "nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name,used_gpu_memory --format=csv",
        "nvidia-smi  # twice: is its GPU at work?",
    )
