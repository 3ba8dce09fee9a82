"""What we would do to one host, and why; the only thing that the executor may follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from engine.values.command import Command
from engine.values.playbook import Severity
from engine.values.types import Json


class Risk(StrEnum):
    """What a change can do at worst, mildest first; the order of definition is the order of risk."""

    EDITS_FILES = "edits-files"
    KILLS_PROCESSES = "kills-processes"
    RESTARTS_SERVICES = "restarts-services"
    RESETS_HARDWARE = "resets-hardware"
    DELETES_DATA = "deletes-data"
    REBOOTS = "reboots"
    UNKNOWN = "unknown"

    def at_least(self, other: Risk) -> bool:
        """Whether this is as bad as *other*, or worse."""
        order = list(Risk)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One thing that a change would touch, by an identity that cannot be mistaken for another's."""

    kind: Literal["process", "file", "gpu", "container", "image", "volume", "build-cache", "package", "service", "host"]
    key: str
    """process: ``pid:start`` (start in clock ticks since boot); gpu: UUID; file: path, and sha256 or inode."""
    say: str
    """For people."""
    pid: int = 0
    user: str = ""
    command: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoChange:
    """The host already looks right."""

    why: str
    kind: Literal["no_change"] = "no_change"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """These commands, in this order, would make it right."""

    summary: str
    commands: tuple[Command, ...]
    risk: Risk
    finally_: tuple[Command, ...] = ()
    """Run on every way out once the first command was sent."""
    targets: tuple[Target, ...] = ()
    diff: str = ""
    verifiable: bool = True
    """False for an unchecked command: nothing can be inspected again."""
    kind: Literal["change"] = "change"


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """Does not apply to this host."""

    why: str
    kind: Literal["skip"] = "skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """We may not, or cannot know enough to."""

    why: str
    kind: Literal["blocked"] = "blocked"


Decision = NoChange | Change | Skip | Blocked


class Presence(StrEnum):
    """Whether a finding is there."""

    PRESENT = "present"
    GONE = "gone"  # was present before the changes of this run
    ABSENT = "absent"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A rule of the playbook, held against one host."""

    id: str
    severity: Severity
    status: Presence
    say: str = ""
    why: str | None = None
    evidence: Mapping[str, Json] = field(default_factory=dict)
    advise: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStep:
    """A remediate step as it stands when the plan is made."""

    id: str
    args: Mapping[str, Json] = field(default_factory=dict)
    """Rendered; what the action's ``Args`` are built from, now and when the step runs."""
    item: Json = None
    """What it is taken for, where it has an ``each``."""
    decision: Decision
    ready: bool = True
    """Its arguments are rendered, so that it may be inspected when its turn comes; else the decision stands."""
    condition: str | None = None
    """What it hinges on, in words; None when it is firm."""
    reach: tuple[Target, ...] = ()
    """The most that it may touch, whatever the looks at its turn will say."""
    would: Change | None = None
    """What it would do at its turn as things stood, where the plan itself does not do it yet."""
