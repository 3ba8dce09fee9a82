"""Read which GPUs Slurm has given to which job: the details of ``scontrol -d show job``.

``GRES=gpu:h100:2(IDX:0-1)`` names the GPUs of a job on a node by their places in the node's gres.conf (scontrol(1),
``--details``).  These are the numbers of the device nodes where gres.conf has ``File=/dev/nvidia[0-7]`` or
``AutoDetect=nvml`` (gres.conf(5)).  Whether that is so here is compared with what the processes of jobs use.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from runbook.dataclass import dataclass
from runbook.library.scheduler.facts.query import PROGRAMS
from runbook.shell import script
from runbook.text.name_ranges import expanded_list
from runbook.values.command import Command, Completed, read_script
from runbook.values.types import Unknown

_ASK = PROGRAMS + script(__package__, "allocations")

_ON_NODES = re.compile(r" Nodes=(\S+) CPU_IDs=\S* Mem=\S* GRES(?:_IDX)?=(\S*)")
"""Matches what a job has on some nodes.  A user may write the same words into the job's name: all matches count."""
_GRES = re.compile(r"(?:[^,(]|\([^()]*\))+")
_INDEXED = re.compile(r"gpu(?::[^():,]+)*\(IDX:([0-9,-]+)\)")
_SHARES = ("shard", "mps")
"""The kinds of generic resources that are shares of a GPU."""
MOST_GPUS = 64
"""The maximum number of GPUs of a node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """A job of Slurm on a node."""

    job: str
    user: str
    gpus: tuple[int, ...] | Unknown
    """The numbers of its GPUs on the node."""

    def __str__(self) -> str:
        return f"job {self.job} of {self.user}"


def ask_allocations(node: str) -> Command:
    """Return the command that asks Slurm for the jobs on *node* and their GPUs."""
    return replace(read_script(_ASK, node), timeout=75.0)


def read_allocations(done: Completed, node: str) -> tuple[Allocation, ...] | Unknown:
    """Return the jobs on *node* in *done*; unknown if they could not all be listed."""
    if done.timed_out:
        return Unknown(why="Slurm gave no answer in time")
    said: dict[str, list[str]] = {}
    for line in done.stdout.split("\n"):
        kind, gap, rest = line.partition(" ")
        if gap:
            said.setdefault(kind, []).append(rest)
    if wrong := said.get("failed"):
        return Unknown(why=f"the jobs cannot be listed: {wrong[0]}")
    if done.exit_code != 0 or "listed" not in said:
        return Unknown(why="the list of jobs is incomplete")
    users = dict(row.split(" ", 1) for row in said.get("user", []))
    texts: dict[str, list[str]] = {}
    for row in said.get("job", []):
        number, _, text = row.partition(" ")
        texts.setdefault(number, []).append(text)
    return tuple(
        Allocation(job=number, user=users.get(number, "?"), gpus=_gpus(number, lines, node))
        for number, lines in texts.items()
    )


def _gpus(number: str, lines: list[str], node: str) -> tuple[int, ...] | Unknown:
    """Return the numbers of the GPUs on *node* in *lines*, which are scontrol's one line about the job *number*."""
    if len(lines) != 1 or not f"{lines[0]} ".startswith(f"JobId={number} "):
        return Unknown(why=f"scontrol's answer about job {number} is not one line")
    given = {text for nodes, text in _ON_NODES.findall(f" {lines[0]} ") if node in _names(nodes)}
    if len(given) != 1:
        how = "in several ways" if given else "nothing"
        return Unknown(why=f"scontrol says {how} of what job {number} has on {node}")
    return _numbers(given.pop(), number)


def _names(nodes: str) -> list[str]:
    try:
        return expanded_list(nodes)
    except ValueError:
        return []


def _numbers(text: str, number: str) -> tuple[int, ...] | Unknown:
    """Return the numbers of the GPUs in *text*, the generic resources of a job; none if there is no GPU among them."""
    found: set[int] = set()
    for part in _GRES.findall(text):
        kind = re.split(r"[:(]", part, maxsplit=1)[0]
        if kind in _SHARES:
            return Unknown(why=f"job {number} has shares of GPUs ({kind}), and Slurm does not say which")
        if kind != "gpu":
            continue
        indexed = _INDEXED.fullmatch(part)
        numbers = _expanded(indexed[1]) if indexed else None
        if numbers is None:
            return Unknown(why=f"Slurm does not say which GPUs job {number} has ({part[:60]})")
        found |= numbers
    return tuple(sorted(found))


def _expanded(text: str) -> set[int] | None:
    """Return the numbers in a text such as ``0-1,3``; None if it is none."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not first.isdigit() or not (last or first).isdigit() or len(part) > 9:
            return None
        numbers = range(int(first), int(last or first) + 1)
        if not numbers or numbers[-1] >= MOST_GPUS:
            return None
        found |= {*numbers}
    return found


def contradictions(allocations: Iterable[Allocation], used: Mapping[str, Iterable[int]]) -> str:
    """Return what contradicts that Slurm's numbers are those of the device nodes; empty: nothing does.

    *used*: the numbers of the GPUs on which nvidia-smi lists processes of a job, by the job's number.
    """
    for allocation in allocations:
        if isinstance(allocation.gpus, Unknown):
            continue
        if others := sorted({*used.get(allocation.job, ())} - {*allocation.gpus}):
            names = ", ".join(map(str, others))
            return f"job {allocation.job} runs on GPU {names}, which Slurm has not given to it by that number"
    return ""
