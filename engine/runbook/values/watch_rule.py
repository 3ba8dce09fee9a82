"""A rule of the watcher: what it listens to, what it may do then, and within which limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from runbook.dataclass import dataclass
from runbook.values.plan import Risk
from runbook.values.playbook import Where
from runbook.values.types import Json

LONGEST_WITHIN = 30 * 86400.0
"""The most seconds that a plan may wait for an approval."""


class Then(StrEnum):
    """The most that a rule does by itself."""

    PROBE = "probe"
    PROPOSE = "propose"
    """Make a plan, which waits for a person."""
    APPLY = "apply"
    """Carry the plan out, if its risk is not above that of the rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The events that a rule listens to; an empty field is none."""

    alert: str = ""
    """The name of an alert (its label ``alertname``)."""
    host_label: str = "instance"
    """The label of the alert that has the host; a port behind the name is not part of it."""
    every: float = 0.0
    """Seconds between two probes of all hosts of the rule; 0: they are not probed by the clock."""
    cron: str = ""
    """Five fields, as in crontab."""
    cured_by: str = ""
    """The name of a rule: its run has cured the host."""
    after: float = 0.0
    """Seconds after that run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approve:
    """The people who have to agree before a plan is carried out."""

    by: tuple[str, ...] = ()
    """The names of the people whose word counts; empty: everybody who may approve."""
    count: int = 1
    """The number of people who have to agree."""
    requester_counts: bool = True
    """Whether the person who asked for the plan may approve it."""
    within: float = 4 * 3600.0
    """Seconds after which a plan that nobody has approved expires."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """A number of times within a time in seconds."""

    count: int
    within: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleBreaker:
    """The number of hosts within a time after which a rule changes nothing until a person has looked."""

    hosts: int
    within: float
    """Seconds."""
    quiet: float = 600.0
    """Seconds for which, after a person's reset, fewer hosts than ``hosts`` must have the fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A part of some days of the week."""

    days: tuple[int, ...]
    """0 is Monday."""
    begins: int
    """Minutes since midnight."""
    ends: int
    """Minutes since midnight; not after ``begins``: on the next day."""
    text: str
    """The window as it was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze:
    """A span of time in which nothing is changed; times are local to the zone of the rule."""

    begins: str
    """ISO 8601, to the minute, without a zone."""
    ends: str
    text: str
    """The span as it was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class During:
    """The times at which a rule may change hosts."""

    windows: tuple[Window, ...] = ()
    """Empty: at any time."""
    freeze: tuple[Freeze, ...] = ()
    zone: str = "UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule."""

    name: str
    about: str = ""
    playbook: str
    hosts: str
    """A host pattern: the only hosts that the rule may touch."""
    inputs: Mapping[str, Json] = field(default_factory=dict)
    finding: str = ""
    """The finding that counts; empty: every finding of the playbook that is an error and has a step."""
    on: Sources
    sustained: float = 0.0
    """Seconds for which the finding must have been seen (the key ``for``)."""
    then: Then = Then.PROPOSE
    risk: Risk = Risk.READS
    """The worst effect that a change may have without an approval."""
    approve: Approve = Approve()
    cooldown: float = 0.0
    """Seconds for which a host is left alone after a run of this rule."""
    attempts: Times | None = None
    ineffective: int = 2
    """Runs in a row that did not cure a host, after which a person has to look; 0: no limit."""
    keep: int = 0
    """The number of other hosts of the rule that must be well."""
    during: During = During()
    threshold: Times | None = None
    """The times that the fault has to begin on a host before it counts."""
    breaker: RuleBreaker | None = None
    notify: tuple[str, ...] = ()
    where: Where = Where()
    digest: str = ""
    """The SHA-256 (hexadecimal) of the rule's text."""
