"""The events that a watcher keeps: all that it knows follows from them, in their order."""

from __future__ import annotations

from typing import Literal

from runbook.dataclass import dataclass
from runbook.values.plan import Presence, Risk


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The answer of one host to a probe for a rule."""

    host: str
    presence: Presence
    say: str = ""
    """The finding in words, or why it is not known."""
    changes: int = 0
    """The number of steps that would change something."""
    risk: Risk = Risk.READS
    """The worst of these steps."""
    signature: str = ""
    """A digest of these steps and their targets: equal for equal work."""
    at: float = 0.0
    """The time when the probe of the host ended; 0: that of the event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The watcher was started; what was seen before does not count any more."""

    at: float
    """Seconds since the epoch, here and in all other events."""
    kind: Literal["started"] = "started"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alerted:
    """An alert for a host began, or was resolved."""

    at: float
    rule: str
    host: str
    episode: str
    """The identity of the alert: its fingerprint, and the time when it began."""
    since: float
    """The time when it began, by the one who sent it."""
    firing: bool
    kind: Literal["alerted"] = "alerted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A person asked for the rule to look at a host."""

    at: float
    rule: str
    host: str
    by: str
    kind: Literal["asked"] = "asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """Hosts of a rule were probed."""

    at: float
    rule: str
    readings: tuple[Reading, ...] = ()
    """Every host on which the fault is present or unknown, or was before, or for which there is a trigger."""
    well: int = 0
    """The number of all hosts of this probe on which the fault is absent."""
    whole: bool = True
    """Whether all hosts of the rule were probed."""
    kind: Literal["probed"] = "probed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposed:
    """A plan was made for a host."""

    at: float
    rule: str
    host: str
    episode: str
    digest: str
    """The digest of the saved plan."""
    file: str
    until: float
    """The time at which the plan expires."""
    risk: Risk
    signature: str
    say: str
    requester: str = ""
    """The person who asked for it; empty: nobody did."""
    rule_digest: str = ""
    """The digest of the rule as it was then."""
    kind: Literal["proposed"] = "proposed"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotProposed:
    """No plan could be made for a host, or it has no change."""

    at: float
    rule: str
    host: str
    episode: str
    why: str
    kind: Literal["not_proposed"] = "not_proposed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Approved:
    """A person agreed to a plan."""

    at: float
    rule: str
    host: str
    digest: str
    by: str
    kind: Literal["approved"] = "approved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """A person refused a plan: nothing is done for this episode."""

    at: float
    rule: str
    host: str
    episode: str
    digest: str
    by: str
    why: str = ""
    kind: Literal["rejected"] = "rejected"


@dataclass(frozen=True, slots=True, kw_only=True)
class Began:
    """A plan is about to be carried out."""

    at: float
    rule: str
    host: str
    episode: str
    digest: str
    approved_by: tuple[str, ...] = ()
    kind: Literal["began"] = "began"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A plan was carried out, as far as is known."""

    at: float
    rule: str
    host: str
    digest: str
    run: str
    """The id of the run; empty: none was begun."""
    verdict: str
    cured: bool
    changed: bool
    """Whether something was, or may have been, sent to the host that changes it."""
    locked: bool = False
    """Whether nothing was done because another run was at work on the host."""
    kind: Literal["ended"] = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """A person interrupted the run of a plan."""

    at: float
    rule: str
    host: str
    digest: str
    by: str
    kind: Literal["stopped"] = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A person said that a host must be left alone until a time, by all rules."""

    at: float
    host: str
    until: float
    by: str
    why: str = ""
    kind: Literal["held"] = "held"


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """A person ended such a hold."""

    at: float
    host: str
    by: str
    kind: Literal["released"] = "released"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tripped:
    """The breaker of a rule has tripped."""

    at: float
    rule: str
    why: str
    kind: Literal["tripped"] = "tripped"


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerReset:
    """A person let a rule go on after its breaker had tripped."""

    at: float
    rule: str
    by: str
    kind: Literal["breaker_reset"] = "breaker_reset"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The answer to a trigger has changed."""

    at: float
    rule: str
    host: str
    episode: str
    question: str
    decision: str
    """The name of the decision, in lower case."""
    why: str
    until: float = 0.0
    kind: Literal["answered"] = "answered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Faulted:
    """Something of the watcher's own work failed."""

    at: float
    rule: str
    why: str
    kind: Literal["faulted"] = "faulted"


WatchEvent = (
    Started
    | Alerted
    | Asked
    | Probed
    | Proposed
    | NotProposed
    | Approved
    | Rejected
    | Began
    | Ended
    | Stopped
    | Held
    | Released
    | Tripped
    | BreakerReset
    | Answered
    | Faulted
)
