"""What a scheduler says of one host, whichever scheduler it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from runbook.values.types import Unknown

Kind = Literal["slurm", "kubernetes", "none"]

OURS = "runbook: "
"""How the reason of each of our drains begins, so that nothing but our own drains is ever taken back."""

_MORE = ";|&\n"
"""What separates several reasons in one text; our own have none of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """How a host stands with its scheduler."""

    kind: Kind
    """Which scheduler has the host: slurm, kubernetes, none."""
    name: str
    """By which the scheduler knows the host; for kind ``none`` its own name."""
    asked_at: str = ""
    """The short name of the machine that was asked."""
    state: str = ""
    """As the scheduler writes it: ``IDLE+DRAIN``, ``Ready,SchedulingDisabled``; empty for kind ``none``."""
    drained: bool = False
    """Whether it takes no new jobs because somebody said so."""
    reason: str = ""
    """Why it takes none, as anybody who drained it has written."""
    by: str = ""
    """Who drained it, as far as the scheduler says."""
    since: str = ""
    """When it was drained, in the scheduler's own words."""
    responds: bool = True
    """Whether the scheduler hears from the host."""
    obstacle: str = ""
    """What else keeps it from taking jobs, which taking back a drain would override or hide; empty: nothing."""
    host_name: str = ""
    """The name of the machine that the node is; empty: not said."""
    jobs: tuple[str, ...] | Unknown = ()
    """The jobs (or pods) that are on it, in words."""
    jobs_known: bool = True
    """False for kind ``none``, which has no jobs that could be listed."""

    @property
    def here(self) -> bool:
        """Whether the machine that was asked is the node itself."""
        names = {_short(word) for word in (self.host_name, self.name) if word}
        return not self.asked_at or _short(self.asked_at) in names

    def ours(self, users: tuple[str, ...] = ("root",)) -> bool:
        """Whether it was drained by us, and for nothing else: our words, all of them ours, by one of *users*."""
        if not self.drained or not self.reason.startswith(OURS) or any(word in self.reason for word in _MORE):
            return False
        return not self.by or self.by.partition("@")[0] in users

    def whose(self) -> str:
        """Who drained it, when and why, as a part of a sentence."""
        by = f" by {self.by}" if self.by else ""
        since = f" since {self.since}" if self.since else ""
        return f"drained{by}{since} ({self.reason or 'no reason given'})"


def objection_to_reason(text: str) -> str:
    """Why *text* cannot be a reason of ours; empty: it can."""
    if any(each in text for each in (*_MORE, "[", "]", '"', "'", "\\")) or not text.isprintable():
        return "no quotes, brackets, backslashes, line ends, or any of ; | & may be in it"
    return "it is longer than 120 characters" if len(text) > 120 else ""


def _short(name: str) -> str:
    return name.partition(".")[0].lower()
