"""The state of a host in its scheduler, in the same form for every scheduler."""

from __future__ import annotations

from typing import Literal

from runbook.dataclass import dataclass
from runbook.values.types import Unknown

Kind = Literal["slurm", "kubernetes", "none"]

OUR_REASON = "runbook: "
"""The beginning of the reason of every drain by runbook; runbook takes back only drains with this beginning."""

_MORE = ";|&\n"
"""The characters that separate several reasons in one text; a reason of runbook contains none of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """The state of a host in its scheduler."""

    kind: Kind
    """The scheduler of the host: slurm, kubernetes, none."""
    name: str
    """The name of the host in the scheduler; for kind ``none``, the host's own name."""
    asked_at: str = ""
    """The short name of the machine on which the scheduler was queried."""
    state: str = ""
    """The state as the scheduler prints it: ``IDLE+DRAIN``, ``Ready,SchedulingDisabled``; empty for kind ``none``."""
    drained: bool = False
    """Whether the host accepts no new jobs because a user drained it."""
    down: bool = False
    """Whether the scheduler has taken the host out of service, or somebody has declared it down."""
    reason: str = ""
    """The reason why the host accepts no jobs, as written by the user who drained it."""
    by: str = ""
    """The user who drained the host, if the scheduler reports it."""
    since: str = ""
    """When the host was drained, in the scheduler's own words."""
    responds: bool = True
    """Whether the host responds to the scheduler."""
    obstacle: str = ""
    """Another obstacle to jobs, which the end of a drain would override or hide; empty if there is none."""
    host_name: str = ""
    """The name of the machine of the node; empty if it is not reported."""
    jobs: tuple[str, ...] | Unknown = ()
    """The jobs (or pods) on the host, in words."""
    jobs_known: bool = True
    """Whether the scheduler can list jobs; False for kind ``none``."""

    @property
    def here(self) -> bool:
        """Whether the queried machine is the node itself."""
        names = {_short(word) for word in (self.host_name, self.name) if word}
        return not self.asked_at or _short(self.asked_at) in names

    def ours(self, users: tuple[str, ...] = ("root",)) -> bool:
        """Whether runbook drained the host, and nobody else: the only reason is runbook's, set by one of *users*."""
        if not self.drained or not self.reason.startswith(OUR_REASON) or any(word in self.reason for word in _MORE):
            return False
        return not self.by or self.by.partition("@")[0] in users

    def whose(self) -> str:
        """Return the user who drained it, the time and the reason, as a part of a sentence."""
        by = f" by {self.by}" if self.by else ""
        since = f" since {self.since}" if self.since else ""
        return (
            f"{'down' if self.down and not self.drained else 'drained'}{by}{since} ({self.reason or 'no reason given'})"
        )


def objection_to_reason(text: str) -> str:
    """Return why *text* cannot be a reason for a drain by runbook; empty if it can."""
    if any(each in text for each in (*_MORE, "[", "]", '"', "'", "\\")) or not text.isprintable():
        return "no quotes, brackets, backslashes, line ends, or any of ; | & may be in it"
    return "it is longer than 120 characters" if len(text) > 120 else ""


def _short(name: str) -> str:
    return name.partition(".")[0].lower()
