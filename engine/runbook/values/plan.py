"""The plan of one host: the changes and their reasons.  The executor does nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Literal

from runbook.dataclass import dataclass
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
        """Whether this risk is as high as *other*, or higher."""
        order = list(Risk)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A thing that a change would touch, with a unique identity."""

    kind: Literal[
        "process", "file", "gpu", "container", "image", "volume", "build-cache", "package", "service", "host", "module"
    ]
    key: str
    """The identity.  process: ``pid:start`` (start in clock ticks since boot); gpu: UUID; file: path, and sha256 or
    inode.
    """
    say: str
    """The thing in words for people."""
    pid: int = 0
    user: str = ""
    command: str = ""
    owner: str = ""
    """For a process: its owner, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoChange:
    """The host is already in the desired state."""

    why: str
    kind: Literal["no_change"] = "no_change"


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """The reboot that a change causes; times in seconds."""

    boot_id: str
    """The id of the boot that the reboot ends: the content of ``/proc/sys/kernel/random/boot_id`` before the change."""
    within: float
    """The seconds within which the host must answer with another boot id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The change that is needed: *commands*, in this order."""

    summary: str
    commands: tuple[Command, ...]
    risk: Risk
    finally_: tuple[Command, ...] = ()
    """Commands that always run at the end, if the first command was sent."""
    targets: tuple[Target, ...] = ()
    diff: str = ""
    verifiable: bool = True
    """Whether a second probe can check the result; False for a command without a check."""
    patience: float = 0.0
    """The seconds within which the second probe must see the result; the step's ``within`` is used if it is longer."""
    restart: Restart | None = None
    """The reboot that the change causes; a lost connection is then expected, and no fault."""
    kind: Literal["change"] = "change"

    @property
    def only_reads(self) -> bool:
        """Whether the change leaves the host unchanged, because it only fetches files into the record."""
        return bool(self.commands) and all(command.keep is not None for command in self.commands)


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """The step does not apply to this host."""

    why: str
    kind: Literal["skip"] = "skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """The step must not be done, or not enough is known to do it."""

    why: str
    in_doubt: bool = False
    """Whether an earlier run has sent the change and its outcome is not known; no later step runs then."""
    drifted: bool = False
    """Whether somebody else has changed the thing that the step would change."""
    diff: str = ""
    """The changes by somebody else, in the form of ``diff -u``."""
    malformed: bool = False
    """Whether the arguments of the step do not fit the action; no later step runs then."""
    then: Change | None = None
    """The change that the step would make if nothing blocked it; None if it is not known."""
    clears: bool = False
    """Whether an earlier step of the playbook may remove the obstacle."""
    rests_on: tuple[str, ...] = ()
    """The ids of the probes that did not answer, and of the earlier steps that were not done, on which this step
    depends.
    """
    kind: Literal["blocked"] = "blocked"


Decision = NoChange | Change | Skip | Blocked


class Presence(StrEnum):
    """Whether the problem of a finding is present on the host."""

    PRESENT = "present"
    GONE = "gone"  # was present before the changes of this run
    ABSENT = "absent"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of a playbook's finding on one host."""

    id: str
    severity: Severity
    status: Presence
    say: str = ""
    why: str | None = None
    rests_on: tuple[str, ...] = ()
    """If the finding is unknown: the ids of the probes that gave no answer and are needed."""
    evidence: Mapping[str, Json] = field(default_factory=dict)
    advise: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStep:
    """A remediate step as it was when the plan was made."""

    id: str
    args: Mapping[str, Json] = field(default_factory=dict)
    """The rendered arguments, from which the action's ``Args`` are built for the plan and again when the step runs."""
    item: Json = None
    """The item of the step's ``each``, if the step has ``each``."""
    decision: Decision
    ready: bool = True
    """Whether the arguments are rendered, so that the step can probe when it runs; if not, the decision is final."""
    condition: str | None = None
    """The condition under which the step runs, as text; None if it certainly runs."""
    reach: tuple[Target, ...] = ()
    """Everything that the step may touch when it runs, whatever its probe then finds."""
    would: Change | None = None
    """The change that the step may make when it runs, if the plan itself does not make it yet."""
