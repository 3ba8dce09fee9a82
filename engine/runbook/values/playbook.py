"""A parsed playbook: inputs, steps, findings and limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import StrEnum

from runbook.dataclass import dataclass
from runbook.secrets.names import is_secret
from runbook.values.types import Json


class Phase(StrEnum):
    """The section of a playbook that contains a step."""

    DIAGNOSE = "diagnose"
    REMEDIATE = "remediate"
    VERIFY = "verify"


def written_id(step_id: str) -> str:
    """Return the id of a step in the playbook: for ``stop[2]``, the third item of an ``each``, it is ``stop``."""
    return step_id.partition("[")[0]


def place_in_each(step_id: str) -> int:
    """Return the number of the item in a step id, from 0: 2 for ``stop[2]``; -1 if the id has no number."""
    number = step_id.partition("[")[2].removesuffix("]")
    return int(number) if number.isdecimal() else -1


def written_step(steps: Iterable[Step], step_id: str) -> Step:
    """Return the step of *steps* with the id *step_id*, or the step of which *step_id* names an item."""
    found = {step.id: step for step in steps}
    return found.get(step_id) or found[written_id(step_id)]


class Severity(StrEnum):
    """The severity of a finding; only error and critical drive remediation and make a verdict."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"

    @property
    def drives(self) -> bool:
        """Whether a finding of this severity drives remediation."""
        return self in (Severity.ERROR, Severity.CRITICAL)


class Telling(StrEnum):
    """The kinds of things that findings tell."""

    FAULT = "fault"
    UNKNOWN = "unknown"
    """A gap in what is known: no fault was seen, and none can be ruled out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """A place in a file; lines and columns count from 1."""

    file: str = ""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class SecretSource(StrEnum):
    """The source of a secret's value; the words are the keys of a reference."""

    ENVIRONMENT = "env"  # a variable of runbook's own environment
    FILE = "file"
    COMMAND = "command"  # a program on this machine prints it, such as a password manager's
    KEYRING = "keyring"
    INVENTORY = "inventory"  # of a playbook: the inventory has a secret of the same name, which says where


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretReference:
    """An entry of ``secrets:``."""

    name: str
    source: SecretSource
    words: tuple[str, ...] = ()
    """The details of the source: the variable, the path, the program with its arguments, or the service and
    the user.
    """
    description: str = ""
    where: Where = Where()

    def __str__(self) -> str:
        """Return the place of the value, in words for people."""
        match self.source:
            case SecretSource.ENVIRONMENT:
                return f"the environment variable {self.words[0]} of runbook"
            case SecretSource.FILE:
                return f"the file {self.words[0]}"
            case SecretSource.COMMAND:
                return f"what `{' '.join(self.words)}` prints on this machine"
            case SecretSource.KEYRING:
                return f"the keyring of this machine: service {self.words[0]}, user {self.words[1]}"
            case SecretSource.INVENTORY:
                return "where the inventory says"


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """An input of a playbook."""

    name: str
    about: str
    schema: Mapping[str, Json] = field(default_factory=dict)
    """The JSON Schema keywords that a value must satisfy."""
    required: bool = False
    default: Json = None
    secret: bool = False
    env: str = ""
    """The environment variable on this machine that gives the value if no value is given; the input is then a
    secret.
    """
    where: Where = Where()

    def hides(self, value: Json) -> bool:
        """Whether *value* of this input must not be shown, because the playbook or the name of the input says so."""
        if self.secret or self.env:
            return True
        return not (value is None or isinstance(value, bool)) and is_secret(self.name, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """The number of repetitions of a faulty probe, and the seconds between repetitions."""

    times: int = 0
    every: float = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step from the playbook; *args* may contain templates, which are rendered once per host when the plan
    is made.
    """

    id: str
    phase: Phase
    action: str
    args: Mapping[str, Json] = field(default_factory=dict)
    """Literal values, template texts, or ``Raw`` values, anywhere in the tree."""
    name: str = ""
    when: str = ""
    """The condition, as an expression; empty means true."""
    for_: tuple[str, ...] = ()
    """The ids of the findings; for a remediate step, empty means any present error or critical finding."""
    after: tuple[str, ...] = ()
    timeout: float = 0.0
    """The time limit per command in seconds; 0 means 30 for probes and 600 for writes."""
    look_timeout: float = 0.0
    """The time limit per probe in seconds if *timeout* is 0; 0 means 30."""
    within: float = 0.0
    every: float = 2.0
    retry: Retry = Retry()
    """The repetitions after a fault; for probes only."""
    samples: Mapping[str, Json] = field(default_factory=dict)
    """The keys ``times`` or ``for``, ``every`` and ``while`` from the playbook, for probes only; empty means one
    probe.
    """
    each: str = ""
    """An expression that returns a list; the step runs once for every ``item`` of this list."""
    on: str = ""
    """The other host that gets the commands, or ``controller``; it may be a template of inputs until the run begins."""
    once: bool = False
    """Whether one probe is shared by all hosts of a run."""
    if_changed: tuple[str, ...] = ()
    if_failed: tuple[str, ...] = ()
    always: bool = False
    """Whether the step runs whatever happened before; if the host cannot be reached, the step is *owed*."""
    tags: tuple[str, ...] = ()
    left_out: str = ""
    """The reason why the command line leaves this step out; empty if it does not."""
    become: str = ""
    """The user to become; empty for none."""
    env: tuple[tuple[str, str], ...] = ()
    cwd: str = ""
    scratch: bool = False
    ignore_failure: bool = False
    confirm: bool = False
    part: str = ""
    """The id of the ``include`` that brought the step; it is the prefix of the step's id.  Names in the step are those
    of the included playbook.
    """
    where: Where = Where()


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The comparison of a finding between the hosts of a run, as expressions that are evaluated on each host."""

    value: str
    """The value of each host; ``none`` if the host takes no part."""
    by: str = ""
    """Only hosts with the same value of this expression are compared with each other; empty means all hosts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingRule:
    """A finding in a playbook: a conclusion from probes."""

    id: str
    when: str
    severity: Severity
    say: str
    across: Comparison | None = None
    """The comparison between the hosts after all are probed; None if the finding depends on its own host alone."""
    tells: Telling = Telling.FAULT
    unless: tuple[str, ...] = ()
    settle: float = 0.0
    """The seconds to probe again after a change before the next step for the finding is tried."""
    gone_for: float = 0.0
    """The seconds that the finding must stay absent before it counts as gone."""
    evidence: Mapping[str, str] = field(default_factory=dict)
    """The expressions of the evidence, by name."""
    advise: tuple[str, ...] = ()
    probes: tuple[str, ...] = ()
    """The probes on which *when* and *across* depend, directly or through the arguments of other probes."""
    part: str = ""
    """The id of the ``include`` that brought the finding (see ``Step.part``)."""
    where: Where = Where()


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A number of the hosts of a run, or a percentage of the hosts."""

    number: float
    percent: bool = False

    def of(self, total: int) -> int:
        """Return the number of hosts out of *total*, rounded up; at least one."""
        return max(1, -(-self._thousandths(total) // SCALE))

    def at_most(self, total: int) -> int:
        """Return the number of hosts out of *total*, rounded down; at least one."""
        return max(1, self._thousandths(total) // SCALE)

    def _thousandths(self, total: int) -> int:
        """Return the number of hosts times ``SCALE``, in whole numbers, because 1.1 times 3000 is 3300.0000000000005
        in floats.
        """
        written = round(self.number * 1000)
        return written * total if self.percent else written * 100

    def __str__(self) -> str:
        return f"{self.number:g}{'%' if self.percent else ''}"


SCALE = 100_000
"""The factor for percentages with at most three decimals (``units.SHARE``)."""


class HostOrder(StrEnum):
    """The order in which the hosts of a run are started; the words are those of ansible."""

    INVENTORY = "inventory"
    REVERSE = "reverse_inventory"
    SORTED = "sorted"
    REVERSE_SORTED = "reverse_sorted"
    SHUFFLE = "shuffle"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcurrencyLimit:
    """The maximum number of hosts with the same value of a variable that are changed at the same time."""

    variable: str
    """The name of a host's field, as in templates after ``host.``; a dot leads into a mapping."""
    most: int
    where: Where = Where()


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempts:
    """The limit on the number of changes of one host."""

    per_host: int
    within: float
    """The time of the limit in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """The limit on the number of hosts that are changed before a person has to look."""

    hosts: Share
    within: float
    """The time of the limit in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a run.  Shares refer to all hosts that were selected for the run."""

    deadline: float = 0.0
    """The time limit of the run in seconds; 0 means no limit."""
    host_deadline: float = 0.0
    """The time limit of the work on one host in seconds; 0 means no limit."""
    batches: tuple[Share, ...] = ()
    """The numbers of hosts that are changed together, batch after batch; the last number is repeated.  Empty means all
    hosts at once.
    """
    pause_between: float = 0.0
    """The seconds between the end of a batch and the beginning of the next batch."""
    stop_after: Share | None = None
    """When this share of the hosts is unwell (``runbook.execution.fleet.UNWELL``), no further host is started."""
    max_unavailable: Share | None = None
    """The maximum share of the hosts that are changed at the same time or unwell."""
    max_concurrent_per: tuple[ConcurrencyLimit, ...] = ()
    order: HostOrder = HostOrder.INVENTORY
    confirm_from: str = ""
    """A step of this risk or more needs the yes of a person, or a saved plan; ``--yes`` is not enough.  Empty: no step
    does.
    """
    approvals: int = 0
    """The number of other people who must approve a saved plan; 0 means that a run needs no saved plan."""
    attempts: Attempts | None = None
    cooldown: float = 0.0
    """The seconds after the last change of a host in which it is not changed again; 0 means no such limit."""
    breaker: Breaker | None = None

    @property
    def remember(self) -> bool:
        """Whether a limit depends on what earlier runs did."""
        return bool(self.attempts or self.cooldown or self.breaker)


@dataclass(frozen=True, slots=True, kw_only=True)
class IncludedPlaybook:
    """An included playbook, with the inputs that the include gives."""

    id: str
    """The prefix of all its ids, without the ``_`` after the prefix."""
    playbook: str = ""
    """The name of the playbook."""
    parent: str = ""
    """The part that includes this playbook; empty for the main playbook."""
    inputs: tuple[Input, ...] = ()
    given: Mapping[str, Json] = field(default_factory=dict)
    """The inputs: values, or templates over the inputs of *parent*."""
    secrets: tuple[SecretReference, ...] = ()
    """The playbook's own references; its steps see only these, besides those of the inventory."""
    where: Where = Where()


class SymptomKind(StrEnum):
    """The way in which a symptom is searched for."""

    TEXT = "text"
    PATTERN = "pattern"
    SIGN = "sign"
    """A pattern by which a step of the playbook recognises a fault; it counts less than a text or a pattern of the
    author.
    """
    TOPIC = "topic"
    """A pattern of the subject of the playbook, by its author; in a short text, it counts if no error is known."""
    TRACE = "trace"
    """A pattern of a failure without its cause; it counts only if nothing else is found."""
    END = "end"
    """A pattern of a normal end: errors before it did no harm."""
    STEP = "step"
    """The id of the step that has the patterns; see ``with_signs``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Symptom:
    """A part of the error message that a user of the playbook sees."""

    written: str
    kind: SymptomKind = SymptomKind.TEXT
    names: tuple[str, ...] = ()
    """For a step: the names of its signs that are symptoms; empty means all."""


Let = tuple[tuple[str, str], ...]
"""The names under ``let`` of one file, each with its expression, which may use the names before it."""

NO_LET: Let = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Playbook:
    """A whole playbook."""

    name: str
    about: str = ""
    symptom: tuple[Symptom, ...] = ()
    hosts: str = ""
    requires: tuple[str, ...] = ()
    """The packages that must be installed beside runbook."""
    inputs: tuple[Input, ...] = ()
    moved: Mapping[str, str] = field(default_factory=dict)
    """The inputs of earlier versions, each with the playbook that has the input now."""
    secrets: tuple[SecretReference, ...] = ()
    diagnose: tuple[Step, ...] = ()
    findings: tuple[FindingRule, ...] = ()
    remediate: tuple[Step, ...] = ()
    verify: tuple[Step, ...] = ()
    limits: Limits = Limits()
    parts: tuple[IncludedPlaybook, ...] = ()
    """The included playbooks, each after the part that includes it."""
    let: Mapping[str, Let] = field(default_factory=dict)
    """The named expressions of each part; ``""`` is the main playbook."""
    path: str = ""
    digest: str = ""
    """The SHA-256 (hexadecimal) of the file, and of every file that it includes or sends."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """Return every step, in the order of the sections."""
        return (*self.diagnose, *self.remediate, *self.verify)

    @property
    def comparisons(self) -> tuple[FindingRule, ...]:
        """Return the findings that compare hosts; a playbook with such a finding only diagnoses."""
        return tuple(rule for rule in self.findings if rule.across)

    def let_of(self, part: str) -> Let:
        """Return the named expressions of the included playbook *part*; ``""`` is the main playbook."""
        return self.let.get(part, NO_LET)

    def finding(self, finding_id: str) -> FindingRule:
        """Return the finding with the id *finding_id*; the loader has checked that it exists."""
        return next(finding for finding in self.findings if finding.id == finding_id)
