"""The results of steps, hosts and runs, in the form that ``--output json`` prints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256

from runbook.dataclass import dataclass
from runbook.secrets.config_lines import without_secrets
from runbook.secrets.detection import masked_text
from runbook.values.command import Command, Completed, Effect
from runbook.values.excerpts import excerpt
from runbook.values.inventory import LeftOut
from runbook.values.kept_file import KeptFile
from runbook.values.owed import Owed
from runbook.values.plan import Finding, PlannedStep, Risk
from runbook.values.playbook import HostOrder, Phase, Step
from runbook.values.run_origin import InputsByPlaybook
from runbook.values.types import Json


class Status(StrEnum):
    """The status of a step."""

    OK = "ok"  # probed, and nothing is to be done
    CHANGED = "changed"  # done, and a second probe agrees (or verified is false)
    WOULD_CHANGE = "would_change"  # in a plan only
    FAILED = "failed"
    TIMEOUT = "timeout"  # as failed: a command was ended on the host when its time was up
    SKIPPED = "skipped"
    BLOCKED = "blocked"  # not sent: something before it, or ignorance, forbids it
    DRIFTED = "drifted"  # not sent: the plan no longer describes the host
    UNKNOWN = "unknown"  # sent, and nobody knows what became of it
    UNREACHABLE = "unreachable"
    CANCELLED = "cancelled"
    OWED = "owed"

    @property
    def is_failure(self) -> bool:
        """Whether the step was begun and did not succeed."""
        return self in (Status.FAILED, Status.TIMEOUT)

    @property
    def is_broken(self) -> bool:
        """Whether the step should have been done, and it was not done correctly or its outcome is not known."""
        return self.is_failure or self in (Status.UNKNOWN, Status.DRIFTED, Status.OWED)

    @property
    def is_held_back(self) -> bool:
        """Whether something else prevented the step."""
        return self in (Status.BLOCKED, Status.CANCELLED)

    @property
    def is_idle(self) -> bool:
        """Whether there was nothing to do."""
        return self in (Status.OK, Status.SKIPPED)


class Fault(StrEnum):
    """The reason why a step did not succeed."""

    NONE = "none"
    COMMAND = "command"  # a command failed, timed out, or nobody knows what became of it: the host is stopped
    ARGUMENTS = "arguments"  # the step could not be made, as its arguments do not fit: the host is stopped
    PROBE = "look"  # a probe did not answer: nothing that rests on it is known
    SCRATCH = "scratch"  # a probe that writes files of its own was left out, as in a dry run: nothing is known either
    GOAL = "goal"  # everything was done, and the second probe still sees the fault


class Sent(StrEnum):
    """The part of a step's change that was sent to the host."""

    UNSAID = ""  # there was no change to send; of a cancelled step in the record of an older version: not known
    NOTHING = "nothing"
    PART = "part"  # it may be half done, or done
    ALL = "all"  # every command was answered as it should be


class Verdict(StrEnum):
    """The verdict on a host; if several apply, the first in this order is used."""

    UNREACHABLE = "unreachable"
    CANCELLED = "cancelled"
    NOT_STARTED = "not_started"
    DRIFTED = "drifted"
    FAILED = "failed"
    UNKNOWN = "unknown"
    PLANNED = "planned"
    UNRESOLVED = "unresolved"
    RESOLVED = "resolved"
    HEALTHY = "healthy"

    @property
    def is_fine(self) -> bool:
        """Whether nothing is wrong, or the plan repairs what is wrong."""
        return self in (Verdict.PLANNED, Verdict.RESOLVED, Verdict.HEALTHY)

    @property
    def needs_advice(self) -> bool:
        """Whether a person has to act on errors, because neither the plan nor the run repairs them."""
        return self in (Verdict.UNRESOLVED, Verdict.FAILED, Verdict.UNKNOWN)

    @property
    def rank(self) -> int:
        """Return the rank of the verdict; 0 is the worst verdict."""
        return list(Verdict).index(self) + (len(Verdict) if self.is_fine else 0)


class Mode(StrEnum):
    """Whether a run only made a plan or also carried it out."""

    PLAN = "plan"
    RUN = "run"


@dataclass(frozen=True, slots=True, kw_only=True)
class SentCommand:
    """A command and its result; in a plan, a command that would be sent (its exit code is None)."""

    line: str
    effect: str
    exit_code: int | None = None
    stdout: str = ""
    stderr: str = ""
    seconds: float = 0.0
    timed_out: bool = False
    unconfined: str = ""
    """The reason why a probe of an author ran with write access; empty if it had none, or is known to only read."""
    shown: str = ""
    """A line that a person could paste (after ``$``), or the name and the arguments of a script of runbook."""
    script: str = ""
    """For a script of runbook: the digest of its text; *line* then has only its name and its arguments. The record of
    the run has the text once, under this digest (``RunResult.scripts``).
    """
    text: str = field(default="", compare=False, repr=False, metadata={"private": True})
    """The text of this script."""

    @classmethod
    def of(cls, command: Command, completed: Completed) -> SentCommand:
        """Return the record of a command that was sent."""
        hidden = command.private and command.effect is Effect.READ
        reported = without_secrets if command.private else str  # a validation may quote the file that it refuses
        line, digest, text = _recorded(command)
        return cls(
            line=line,
            script=digest,
            text=text,
            effect=command.effect.value,
            exit_code=completed.exit_code,
            stdout=f"({len(completed.stdout)} characters, not shown)"
            if hidden or command.keep
            else excerpt(reported(completed.stdout), completed.missing[0]),
            stderr=excerpt(reported(completed.stderr), completed.missing[1]),
            seconds=round(completed.seconds, 3),
            timed_out=completed.timed_out,
            unconfined=completed.unconfined,
            shown=command.shown(),
        )

    @classmethod
    def planned(cls, command: Command) -> SentCommand:
        """Return the record of a command that would be sent."""
        line, digest, text = _recorded(command)
        return cls(line=line, script=digest, text=text, effect=command.effect.value, shown=command.shown())


def failure(commands: Sequence[SentCommand]) -> Status:
    """Return the status of a step that failed at the last of *commands*."""
    return Status.TIMEOUT if commands and commands[-1].timed_out else Status.FAILED


LONG_SCRIPT_CHARACTERS = 400
"""The number of characters from which on a record contains a script's digest instead of its text."""


def _recorded(command: Command) -> tuple[str, str, str]:
    """Return the line of *command* for a record, and the digest and the text of the script that the line leaves out.

    Text of an author is always in the line, as it was sent.
    """
    if command.foreign or len(command.script) < LONG_SCRIPT_CHARACTERS:
        return str(command), "", ""
    text, digest = _text_of(command.script)
    fed = f" <STDIN  # {len(command.stdin)} characters" if command.stdin else ""
    return command.shown().removeprefix("$ ") + fed, digest, text


@lru_cache(maxsize=256)
def _text_of(script: str) -> tuple[str, str]:
    """Return *script* as it may be shown, and the digest of this text."""
    text = masked_text(script)
    return text, sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A process that a step ended or would end."""

    pid: int
    user: str
    command: str
    owner: str = ""
    """The owner, in words: a scheduler's job, a service, its launcher, or none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """The result of one step on one host."""

    id: str
    name: str | None = None
    phase: Phase
    action: str
    status: Status
    why: str = ""
    condition: str | None = None
    ignored: bool = False
    """Whether the step failed and ``ignore_failure`` keeps the failure out of the verdict."""
    fault: Fault = Fault.NONE
    rests_on: tuple[str, ...] = ()
    """If the step was not done: the ids of the probes that gave no answer, and of the earlier steps that were not
    done, on which it depends.
    """
    inapplicable: bool = False
    """Whether the step was needed, but was skipped because the host lacks its subject (no systemd, no GPU)."""
    changed_earlier: bool = False
    """Whether an earlier run, which this run continues, has changed the step's subject."""
    verified: bool = False
    """Whether a probe has confirmed the status: a second probe (changed), or the probe itself (ok)."""
    sent: Sent = Sent.UNSAID
    seconds: float = 0.0
    risk: Risk | None = None
    diff: str | None = None
    planned: str | None = None
    """The summary of the planned change."""
    victims: tuple[Victim, ...] = ()
    state: Mapping[str, Json] = field(default_factory=dict)
    commands: tuple[SentCommand, ...] = ()
    kept: tuple[KeptFile, ...] = ()
    """The files that the step has fetched from the host into the record."""

    @classmethod
    def of(cls, step: Step, status: Status = Status.OK, why: str = "") -> StepResult:
        """Return a result of *step* with its status only; other fields are set by ``replace``."""
        return cls(id=step.id, name=step.name or None, phase=step.phase, action=step.action, status=status, why=why)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPlan:
    """The plan of one host: the answers of its probes, its findings, and the planned steps."""

    host: str
    looks: tuple[StepResult, ...] = ()
    look_args: Mapping[str, tuple[Mapping[str, Json], ...]] = field(default_factory=dict)
    """The rendered arguments of each probe, by id, once for each item of its ``each``.  They are rendered once, when
    the plan is made.
    """
    findings: tuple[Finding, ...] = ()
    steps: tuple[PlannedStep, ...] = ()
    verify_args: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)
    results: tuple[StepResult, ...] = ()
    """The remediate and verify steps in the form in which a plan reports them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostResult:
    """The result of one host of a run; there is one for every host."""

    host: str
    verdict: Verdict
    seconds: float = 0.0
    error: str | None = None
    findings: tuple[Finding, ...] = ()
    steps: tuple[StepResult, ...] = ()
    owed: tuple[Owed, ...] = ()
    """The clean-ups that runs owe to the host: `always` steps that were not done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedLimits:
    """The part of the limits over several runs that earlier runs have used up, when this run begins."""

    attempts: Mapping[str, int] = field(default_factory=dict)
    """The number of changes of each host within the time of the limit; hosts without changes are left out."""
    cooldown: Mapping[str, float] = field(default_factory=dict)
    """The remaining seconds for each host that must not be changed yet."""
    breaker: int = 0
    """The number of hosts that were changed within the time of the limit."""
    unknown: tuple[str, ...] = ()
    """The reasons why the records do not give these numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedLimits:
    """The limits of a run in numbers of its hosts; 0 means no limit, times are in seconds."""

    hosts: int
    """The number of selected hosts."""
    batches: tuple[int, ...] = ()
    """The sizes of the batches of the hosts that the plan would change; empty means that all are changed at once."""
    order: HostOrder = HostOrder.INVENTORY
    stop_after: int = 0
    max_unavailable: int = 0
    max_concurrent_per: Mapping[str, int] = field(default_factory=dict)
    pause_between: float = 0.0
    host_deadline: float = 0.0
    deadline: float = 0.0
    confirm_from: str = ""
    """The risk from which on ``--yes`` is not enough for a step; empty means no such limit."""
    approvals: int = 0
    """The number of other people who must approve a saved plan."""
    attempts: int = 0
    """The maximum number of runs that may change the same host within ``attempts_within``."""
    attempts_within: float = 0.0
    cooldown: float = 0.0
    breaker: int = 0
    """The maximum number of hosts that all runs may change within ``breaker_within``."""
    breaker_within: float = 0.0
    used: UsedLimits | None = None
    """The part of the last three limits that earlier runs have used up; None if there are no such limits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """The result of a whole run: the document of ``--output json``."""

    format: int = 1
    run: str
    playbook: str
    mode: Mode
    inputs: Mapping[str, Json] = field(default_factory=dict)
    profile_inputs: Mapping[str, InputsByPlaybook] = field(default_factory=dict)
    """The inputs that profiles of the inventory gave hosts in place of *inputs*, by the name of the host."""
    started_at: str
    """The time when the run began: ISO 8601, UTC."""
    seconds: float
    exit_code: int
    left_out: tuple[LeftOut, ...] = ()
    limits: AppliedLimits | None = None
    hosts: tuple[HostResult, ...] = ()
    totals: Mapping[str, int] = field(default_factory=dict)
    """The number of hosts with each verdict."""
    scripts: Mapping[str, str] = field(default_factory=dict)
    """The texts of scripts of runbook, by their digests, to which the commands of the steps refer."""


def scripts_of(hosts: Iterable[HostResult]) -> Mapping[str, str]:
    """Return every script to which a command of *hosts* refers; the keys are digests."""
    sent = (command for host in hosts for step in host.steps for command in step.commands)
    return {sent_command.script: sent_command.text for sent_command in sent if sent_command.text}
