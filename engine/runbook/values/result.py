"""The results of steps, hosts and runs, as ``--output json`` prints them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256

from runbook.secrets.config_lines import without_secrets
from runbook.secrets.detection import masked_text
from runbook.values.command import Command, Completed, Effect
from runbook.values.excerpts import excerpt
from runbook.values.inventory import LeftOut
from runbook.values.kept_file import KeptFile
from runbook.values.owed import Owed
from runbook.values.plan import Finding, PlannedStep, Risk
from runbook.values.playbook import HostOrder, Phase, Step
from runbook.values.types import Json


class Status(StrEnum):
    """Of a step."""

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
        """Whether the step was begun, and did not succeed."""
        return self in (Status.FAILED, Status.TIMEOUT)

    @property
    def is_broken(self) -> bool:
        """Whether the step was to be done, and was not done as it should be, or nobody knows."""
        return self.is_failure or self in (Status.UNKNOWN, Status.DRIFTED, Status.OWED)

    @property
    def is_held_back(self) -> bool:
        """Whether something else kept the step from being done."""
        return self in (Status.BLOCKED, Status.CANCELLED)

    @property
    def is_idle(self) -> bool:
        """Whether nothing was to be done."""
        return self in (Status.OK, Status.SKIPPED)


class Fault(StrEnum):
    """The obstacle between a step and its end."""

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
    """Of a host; the first that applies, in this order."""

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
        """Whether nothing is wrong, or a plan cures it."""
        return self in (Verdict.PLANNED, Verdict.RESOLVED, Verdict.HEALTHY)

    @property
    def needs_advice(self) -> bool:
        """Whether a person has to do something about errors; else the plan, or the run, does it."""
        return self in (Verdict.UNRESOLVED, Verdict.FAILED, Verdict.UNKNOWN)

    @property
    def rank(self) -> int:
        """Return the badness of the verdict, 0 being the worst."""
        return list(Verdict).index(self) + (len(Verdict) if self.is_fine else 0)


class Mode(StrEnum):
    """Whether a run stopped before the executor."""

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
    """The reason why nothing kept a probe of an author's from writing; empty: it was kept from that, or is known to
    only read."""
    shown: str = ""
    """``$`` and a line that a person could paste, or the name and the arguments of a script of ours."""
    script: str = ""
    """Of a script of ours, of which *line* has only the name and the arguments: the digest of its text, under which
    the record of the run has it once (``RunResult.scripts``)."""
    text: str = field(default="", compare=False, repr=False, metadata={"private": True})
    """The text of that script."""

    @classmethod
    def of(cls, command: Command, completed: Completed) -> SentCommand:
        """The record of a command that was sent."""
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
        """The record of a command that would be sent."""
        line, digest, text = _recorded(command)
        return cls(line=line, script=digest, text=text, effect=command.effect.value, shown=command.shown())


def failure(commands: Sequence[SentCommand]) -> Status:
    """The status of a step that failed at the last of *commands*."""
    return Status.TIMEOUT if commands and commands[-1].timed_out else Status.FAILED


LONG_SCRIPT_CHARACTERS = 400
"""Characters of a script of ours from which on a record has its digest instead of its text, host by host."""


def _recorded(command: Command) -> tuple[str, str, str]:
    """The line of *command* in a record, and the digest and the text of the script that it leaves out.

    What an author wrote is always there as it was sent.
    """
    if command.foreign or len(command.script) < LONG_SCRIPT_CHARACTERS:
        return str(command), "", ""
    text, digest = _text_of(command.script)
    fed = f" <STDIN  # {len(command.stdin)} characters" if command.stdin else ""
    return command.shown().removeprefix("$ ") + fed, digest, text


@lru_cache(maxsize=256)
def _text_of(script: str) -> tuple[str, str]:
    """A script as it may be shown, and the digest of that."""
    text = masked_text(script)
    return text, sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A process that a step ended, or would end."""

    pid: int
    user: str
    command: str
    owner: str = ""
    """The owner, in words: a scheduler's job, a service, its launcher, none any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """One step on one host."""

    id: str
    name: str | None = None
    phase: Phase
    action: str
    status: Status
    why: str = ""
    condition: str | None = None
    ignored: bool = False
    """The step failed, and ``ignore_failure`` keeps that out of the verdict."""
    fault: Fault = Fault.NONE
    rests_on: tuple[str, ...] = ()
    """Where it was not done: the ids of the probes that gave no answer, and of the steps before it that were not done,
    without which it is not."""
    inapplicable: bool = False
    """Whether the step was called for, but skipped because the host lacks its subject (no systemd, no GPU)."""
    changed_earlier: bool = False
    """Whether an earlier run, which this one continues, has changed the step's subject."""
    verified: bool = False
    """A second probe agreed (changed), or the probe itself answered (ok)."""
    sent: Sent = Sent.UNSAID
    seconds: float = 0.0
    risk: Risk | None = None
    diff: str | None = None
    planned: str | None = None
    """The summary of the change that was planned."""
    victims: tuple[Victim, ...] = ()
    state: Mapping[str, Json] = field(default_factory=dict)
    commands: tuple[SentCommand, ...] = ()
    kept: tuple[KeptFile, ...] = ()
    """Files of the record that the step has fetched from the host."""

    @classmethod
    def of(cls, step: Step, status: Status = Status.OK, why: str = "") -> StepResult:
        """Return the result of *step* with its status only; other fields are set by ``replace``."""
        return cls(id=step.id, name=step.name or None, phase=step.phase, action=step.action, status=status, why=why)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPlan:
    """Everything that planning found out about one host, and what would be done there."""

    host: str
    looks: tuple[StepResult, ...] = ()
    look_args: Mapping[str, tuple[Mapping[str, Json], ...]] = field(default_factory=dict)
    """Rendered arguments of each probe, by id, one for each time that it is taken (``each``): they are rendered once,
    when the plan is made."""
    findings: tuple[Finding, ...] = ()
    steps: tuple[PlannedStep, ...] = ()
    verify_args: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)
    results: tuple[StepResult, ...] = ()
    """The remediate and verify steps as a plan reports them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostResult:
    """The result of one host of a run; every host has one in every case."""

    host: str
    verdict: Verdict
    seconds: float = 0.0
    error: str | None = None
    findings: tuple[Finding, ...] = ()
    steps: tuple[StepResult, ...] = ()
    owed: tuple[Owed, ...] = ()
    """The clean-ups that runs owe it: what `always` steps have not done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedLimits:
    """The part of the limits over several runs that earlier runs have used up, as a run finds it."""

    attempts: Mapping[str, int] = field(default_factory=dict)
    """The number of changes of each host within the time; hosts without any are left out."""
    cooldown: Mapping[str, float] = field(default_factory=dict)
    """The seconds that are left to each host that must rest."""
    breaker: int = 0
    """The hosts that were changed within the time."""
    unknown: tuple[str, ...] = ()
    """The reasons why the records do not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedLimits:
    """The limits of a run in numbers of its hosts; 0 is no limit, times are in seconds."""

    hosts: int
    """All that were selected."""
    batches: tuple[int, ...] = ()
    """The sizes of the batches of the hosts that the plan would change; empty: all are changed at once."""
    order: HostOrder = HostOrder.INVENTORY
    stop_after: int = 0
    max_unavailable: int = 0
    max_concurrent_per: Mapping[str, int] = field(default_factory=dict)
    pause_between: float = 0.0
    host_deadline: float = 0.0
    deadline: float = 0.0
    confirm_from: str = ""
    """For a step of this risk or more, ``--yes`` is not enough; empty: no such limit."""
    approvals: int = 0
    """The number of others who must approve a saved plan."""
    attempts: int = 0
    """So many runs may change the same host within ``attempts_within``."""
    attempts_within: float = 0.0
    cooldown: float = 0.0
    breaker: int = 0
    """So many hosts may be changed by all runs within ``breaker_within``."""
    breaker_within: float = 0.0
    used: UsedLimits | None = None
    """The part of the last three that earlier runs have used up; None: there are none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """A whole run: the document of ``--output json``."""

    format: int = 1
    run: str
    playbook: str
    mode: Mode
    inputs: Mapping[str, Json] = field(default_factory=dict)
    started_at: str
    """ISO 8601, UTC."""
    seconds: float
    exit_code: int
    left_out: tuple[LeftOut, ...] = ()
    limits: AppliedLimits | None = None
    hosts: tuple[HostResult, ...] = ()
    totals: Mapping[str, int] = field(default_factory=dict)
    """The number of hosts with each verdict."""
    scripts: Mapping[str, str] = field(default_factory=dict)
    """The scripts of ours that the commands of the steps name by their digests."""


def scripts_of(hosts: Iterable[HostResult]) -> Mapping[str, str]:
    """Every script that a command of *hosts* names, by its digest."""
    sent = (command for host in hosts for step in host.steps for command in step.commands)
    return {sent_command.script: sent_command.text for sent_command in sent if sent_command.text}
