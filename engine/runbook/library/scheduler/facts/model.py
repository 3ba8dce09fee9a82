"""The state of one host by its scheduler, whichever scheduler it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from runbook.values.types import Unknown

Kind = Literal["slurm", "kubernetes", "none"]

OUR_REASON = "runbook: "
"""The beginning of the reason of each of our drains, so that nothing but our own drains is ever taken back."""

_MORE = ";|&\n"
"""The characters that separate several reasons in one text; our own have none of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """The state of a host by its scheduler."""

    kind: Kind
    """The scheduler that has the host: slurm, kubernetes, none."""
    name: str
    """By which the scheduler knows the host; for kind ``none`` its own name."""
    asked_at: str = ""
    """The short name of the machine that was asked."""
    state: str = ""
    """As the scheduler writes it: ``IDLE+DRAIN``, ``Ready,SchedulingDisabled``; empty for kind ``none``."""
    drained: bool = False
    """Whether it takes no new jobs because somebody said so."""
    reason: str = ""
    """The reason why it takes no jobs, as written by the user who drained it."""
    by: str = ""
    """The user who drained it, as far as the scheduler says."""
    since: str = ""
    """When it was drained, in the scheduler's own words."""
    responds: bool = True
    """Whether the scheduler hears from the host."""
    obstacle: str = ""
    """Another obstacle to jobs, which the end of a drain would override or hide; empty: there is none."""
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
        if not self.drained or not self.reason.startswith(OUR_REASON) or any(word in self.reason for word in _MORE):
            return False
        return not self.by or self.by.partition("@")[0] in users

    def whose(self) -> str:
        """Return the user who drained it, the time and the reason, as a part of a sentence."""
        by = f" by {self.by}" if self.by else ""
        since = f" since {self.since}" if self.since else ""
        return f"drained{by}{since} ({self.reason or 'no reason given'})"


def objection_to_reason(text: str) -> str:
    """Return the reason why *text* cannot be a reason of ours; empty: it can."""
    if any(each in text for each in (*_MORE, "[", "]", '"', "'", "\\")) or not text.isprintable():
        return "no quotes, brackets, backslashes, line ends, or any of ; | & may be in it"
    return "it is longer than 120 characters" if len(text) > 120 else ""


def _short(name: str) -> str:
    return name.partition(".")[0].lower()
