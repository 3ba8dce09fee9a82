"""The plan of one host: what would be done, and why; the executor follows nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from runbook.values.command import Command
from runbook.values.playbook import Severity
from runbook.values.types import Json


class Risk(StrEnum):
    """The worst effect of a change, mildest first; the order of definition is the order of risk."""

    READS = "reads"
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

    kind: Literal[
        "process", "file", "gpu", "container", "image", "volume", "build-cache", "package", "service", "host", "module"
    ]
    key: str
    """process: ``pid:start`` (start in clock ticks since boot); gpu: UUID; file: path, and sha256 or inode."""
    say: str
    """For people."""
    pid: int = 0
    user: str = ""
    command: str = ""
    owner: str = ""
    """Of a process, whose it is, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoChange:
    """The host already looks right."""

    why: str
    kind: Literal["no_change"] = "no_change"


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """The reboot that a change causes: the host goes away and is expected back; times in seconds."""

    boot_id: str
    """Of the boot that it ends: the content of ``/proc/sys/kernel/random/boot_id`` before it is sent."""
    within: float
    """The host must answer with another boot id so soon."""


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
    patience: float = 0.0
    """Seconds within which the second probe may come to agree, or the step's ``within``, if that is more."""
    restart: Restart | None = None
    """Set where it reboots the host: the connection's loss is expected then, and no fault."""
    kind: Literal["change"] = "change"

    @property
    def only_reads(self) -> bool:
        """Whether it leaves the host as it is: all that it does is to fetch files into the record."""
        return bool(self.commands) and all(command.keep is not None for command in self.commands)


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """Does not apply to this host."""

    why: str
    kind: Literal["skip"] = "skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """We may not, or cannot know enough to."""

    why: str
    in_doubt: bool = False
    """An earlier run has sent it, and nobody knows whether it was done: no later step runs."""
    drifted: bool = False
    """The thing that it would act on was changed by somebody else since."""
    diff: str = ""
    """The changes by somebody else, as ``diff -u`` shows them."""
    malformed: bool = False
    """The step could not be made, as its arguments do not fit: no later step runs."""
    then: Change | None = None
    """The change that the step would make if nothing blocked it; None: not known."""
    clears: bool = False
    """Whether an earlier step of the playbook may remove what stands in the way."""
    rests_on: tuple[str, ...] = ()
    """The ids of the probes that did not answer, and of the steps before it that were not done, for which it waits."""
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
    rests_on: tuple[str, ...] = ()
    """Where it is unknown: the ids of the probes that gave no answer, without which it cannot be known."""
    evidence: Mapping[str, Json] = field(default_factory=dict)
    advise: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStep:
    """A remediate step as it stands when the plan is made."""

    id: str
    args: Mapping[str, Json] = field(default_factory=dict)
    """Rendered; what the action's ``Args`` are built from, now and when the step runs."""
    item: Json = None
    """The item of its ``each``, where it has one."""
    decision: Decision
    ready: bool = True
    """Whether its arguments are rendered, so that its probe can run when its turn comes; else the decision is final."""
    condition: str | None = None
    """The condition, as text; None: the step certainly runs."""
    reach: tuple[Target, ...] = ()
    """The most that it may touch, whatever the probes at its turn show."""
    would: Change | None = None
    """The change at its turn as things stood, where the plan itself does not make it yet."""
