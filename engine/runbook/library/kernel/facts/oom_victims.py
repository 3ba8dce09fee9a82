"""Classify processes killed for lack of memory: those of the job in question, and all others on the host."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

from runbook.dataclass import dataclass
from runbook.library.kernel.facts.events import OomKill
from runbook.text.regexes import SearchBudget, SearchPattern, SearchTimeout, compile_regex
from runbook.values.types import Unknown

_SERVICE = re.compile(r"/system\.slice/(?:.*/)?([^/]+)\.service(?:/|$)")
"""The unit of systemd that a control group belongs to; sessions and containers have scopes of their own."""

_CARRIERS = re.compile(
    r"^(?:docker|containerd|crio|podman|kubelet|k3s|slurm\w*|nomad|ray|ssh|sshd|tmux|screen|getty|console-getty|cron)\b"
)
"""Services whose own group holds jobs of others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sorted:
    """Kills, classified by whose process died; all in order."""

    job: tuple[OomKill, ...] | Unknown
    """By name a process of the job, and in no other service's control group."""
    others: tuple[OomKill, ...] | Unknown
    """Kills of other users' processes, and kills without a victim in the log."""


def sort_kills(kills: Iterable[OomKill], names: Sequence[str]) -> Sorted:
    """Classify *kills*; *names* are regular expressions, searched in the names of processes."""
    patterns, budget = tuple(map(compile_regex, names)), SearchBudget()
    try:
        reported = [(kill, _whose(kill, patterns, budget)) for kill in kills]
    except SearchTimeout as error:
        blind = Unknown(why=f"the name of a killed process {error}")
        return Sorted(job=blind, others=blind)
    return Sorted(
        job=tuple(kill for kill, whose in reported if whose == "job"),
        others=tuple(kill for kill, whose in reported if whose == "other"),
    )


def _whose(kill: OomKill, patterns: Sequence[SearchPattern], budget: SearchBudget) -> Literal["job", "other"]:
    name, cgroup = kill.name, kill.cgroup
    if isinstance(name, Unknown) or not any(budget.found(pattern, name) for pattern in patterns):
        return "other"
    service = None if isinstance(cgroup, Unknown) else _SERVICE.search(cgroup)
    if service is None or _CARRIERS.search(service[1]):
        return "job"
    return "job" if any(budget.found(pattern, service[1]) for pattern in patterns) else "other"
