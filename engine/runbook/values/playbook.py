"""A parsed playbook: inputs, steps, findings and limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from runbook.secrets.names import is_secret
from runbook.values.types import Json


class Phase(StrEnum):
    """The section of a playbook that a step stands in."""

    DIAGNOSE = "diagnose"
    REMEDIATE = "remediate"
    VERIFY = "verify"


def written_id(step_id: str) -> str:
    """Return the id of a step as the playbook has it: of ``stop[2]``, the third of an ``each``, ``stop``."""
    return step_id.partition("[")[0]


def place_in_each(step_id: str) -> int:
    """Return the number of a step's item in its ``each``, from 0: of ``stop[2]``, 2; -1 where it has no ``each``."""
    number = step_id.partition("[")[2].removesuffix("]")
    return int(number) if number.isdecimal() else -1


def written_step(steps: Iterable[Step], step_id: str) -> Step:
    """Return the step of *steps* with the id *step_id*; else the step that has it as the id of one of its items."""
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
        """Whether remediation acts on it."""
        return self in (Severity.ERROR, Severity.CRITICAL)


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
    """One entry of ``secrets:``."""

    name: str
    source: SecretSource
    words: tuple[str, ...] = ()
    """The variable, the path, the program with its arguments, or the service and the user."""
    description: str = ""
    where: Where = Where()

    def __str__(self) -> str:
        """Where the value is, in words for people."""
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
    """JSON Schema keywords that a value must satisfy."""
    required: bool = False
    default: Json = None
    secret: bool = False
    env: str = ""
    """The variable of this machine's environment that it is taken from where it is not given; then it is a secret."""
    where: Where = Where()

    def hides(self, value: Json) -> bool:
        """Whether *value* of it must not be shown: the playbook says so, or its name does."""
        if self.secret or self.env:
            return True
        return not (value is None or isinstance(value, bool)) and is_secret(self.name, value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """The number of repetitions of a faulty probe, and the seconds between."""

    times: int = 0
    every: float = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step as written; *args* may hold templates, to be rendered once per host when the plan is made."""

    id: str
    phase: Phase
    action: str
    args: Mapping[str, Json] = field(default_factory=dict)
    """Literal values, template text, or ``Raw`` values anywhere in the tree."""
    name: str = ""
    when: str = ""
    """An expression; empty is true."""
    for_: tuple[str, ...] = ()
    """Finding ids; empty in remediate means any present error or critical finding."""
    after: tuple[str, ...] = ()
    timeout: float = 0.0
    """Seconds per command; 0: 30 for probes, 600 for writes."""
    look_timeout: float = 0.0
    """Seconds per probe where *timeout* is 0; 0: 30."""
    within: float = 0.0
    every: float = 2.0
    retry: Retry = Retry()
    """Probes only: taken again after a fault."""
    samples: Mapping[str, Json] = field(default_factory=dict)
    """Probes only: ``times`` or ``for``, ``every`` and ``while`` as they are written; empty: one probe."""
    each: str = ""
    """An expression that returns a list; the step runs once for every ``item`` of it."""
    on: str = ""
    """The host that the commands go to instead, or ``controller``; a template of inputs until the run begins."""
    once: bool = False
    """One probe, shared by all hosts of a run."""
    if_changed: tuple[str, ...] = ()
    if_failed: tuple[str, ...] = ()
    always: bool = False
    """Taken whatever happened before; *owed* when the host cannot be reached."""
    tags: tuple[str, ...] = ()
    left_out: str = ""
    """The reason why the command line leaves this step out; empty: it does not."""
    become: str = ""
    """The user to become; empty for none."""
    env: tuple[tuple[str, str], ...] = ()
    cwd: str = ""
    scratch: bool = False
    ignore_failure: bool = False
    confirm: bool = False
    part: str = ""
    """The ``include`` that brought it, which is the prefix of its id; its names are those of that playbook."""
    where: Where = Where()


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The comparison of a finding between the hosts of a run: expressions, evaluated on each host."""

    value: str
    """The value of each host; ``none`` where the host takes no part."""
    by: str = ""
    """Only hosts for which this is the same are compared with each other; empty: all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingRule:
    """The conclusion from some probes."""

    id: str
    when: str
    severity: Severity
    say: str
    across: Comparison | None = None
    """The comparison between the hosts once all are probed; None: the finding rests on its own host alone."""
    unless: tuple[str, ...] = ()
    settle: float = 0.0
    """Seconds to go on looking after a change before the next rung is taken."""
    gone_for: float = 0.0
    """Seconds that it must stay absent before it counts as gone."""
    evidence: Mapping[str, str] = field(default_factory=dict)
    """Name to expression."""
    advise: tuple[str, ...] = ()
    probes: tuple[str, ...] = ()
    """The probes that *when* and *across* rest on, directly or through the arguments of other probes."""
    part: str = ""
    """As a step's."""
    where: Where = Where()


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """So many of the hosts of a run, or so many of a hundred."""

    number: float
    percent: bool = False

    def of(self, total: int) -> int:
        """Return the number of hosts out of *total*, rounded up; at least one."""
        return max(1, -(-self._thousandths(total) // SCALE))

    def at_most(self, total: int) -> int:
        """Return the number of hosts out of *total*, rounded down; at least one."""
        return max(1, self._thousandths(total) // SCALE)

    def _thousandths(self, total: int) -> int:
        """The hosts times ``SCALE``, in whole numbers: 1.1 times 3000 is 3300.0000000000005 otherwise."""
        written = round(self.number * 1000)
        return written * total if self.percent else written * 100

    def __str__(self) -> str:
        return f"{self.number:g}{'%' if self.percent else ''}"


SCALE = 100_000
"""A percentage has three decimals at most (``units.SHARE``)."""


class HostOrder(StrEnum):
    """In which order the hosts of a run are taken; the words are ansible's."""

    INVENTORY = "inventory"
    REVERSE = "reverse_inventory"
    SORTED = "sorted"
    REVERSE_SORTED = "reverse_sorted"
    SHUFFLE = "shuffle"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcurrencyLimit:
    """At most so many hosts with the same value of a variable are changed at once."""

    variable: str
    """The name of a host's field, as templates see it behind ``host.``; a dot leads into a mapping."""
    most: int
    where: Where = Where()


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempts:
    """The limit on how often a host is changed."""

    per_host: int
    within: float
    """Seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """The limit on the hosts that are changed before a person has to look."""

    hosts: Share
    within: float
    """Seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a run.  Shares are of all hosts that were selected for the run."""

    deadline: float = 0.0
    """Seconds; 0: no limit."""
    host_deadline: float = 0.0
    """Seconds of work on one host; 0: no limit."""
    batches: tuple[Share, ...] = ()
    """The numbers of hosts that are changed together, batch after batch, the last one again and again; none: all at
    once."""
    pause_between: float = 0.0
    """Seconds between the end of a batch and the beginning of the next one."""
    stop_after: Share | None = None
    """Once so many hosts are unwell (``runbook.execution.fleet.UNWELL``), no further host is started."""
    max_unavailable: Share | None = None
    """So many hosts are being changed or unwell at most."""
    max_concurrent_per: tuple[ConcurrencyLimit, ...] = ()
    order: HostOrder = HostOrder.INVENTORY
    confirm_from: str = ""
    """A step of this risk or more needs a person's yes, or a saved plan; ``--yes`` is not enough; empty: none does."""
    approvals: int = 0
    """The number of other people who must approve a saved plan; 0: a run needs no saved plan."""
    attempts: Attempts | None = None
    cooldown: float = 0.0
    """Seconds after the last change of a host in which it is not changed again; 0: no such limit."""
    breaker: Breaker | None = None

    @property
    def remember(self) -> bool:
        """Whether what earlier runs did counts."""
        return bool(self.attempts or self.cooldown or self.breaker)


@dataclass(frozen=True, slots=True, kw_only=True)
class IncludedPlaybook:
    """A playbook that another one includes, with the inputs that it is given."""

    id: str
    """The prefix of everything in it, without the ``_`` that joins them."""
    parent: str = ""
    """The part that includes it; empty for the playbook itself."""
    inputs: tuple[Input, ...] = ()
    given: Mapping[str, Json] = field(default_factory=dict)
    """Values, or templates over the inputs of *parent*."""
    secrets: tuple[SecretReference, ...] = ()
    """Its own references: its steps see only these, besides those of the inventory."""
    where: Where = Where()


class SymptomKind(StrEnum):
    """The way to search for a symptom."""

    TEXT = "text"
    PATTERN = "pattern"
    SIGN = "sign"
    """A pattern by which a step of the playbook recognises a fault: it counts less than what the author wrote."""
    TRACE = "trace"
    """A pattern of a failure without its cause: it counts where nothing else is found."""
    END = "end"
    """A pattern of a normal end: errors before it did no harm."""
    STEP = "step"
    """The id of the step that has the patterns; a loaded playbook has no such symptoms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Symptom:
    """A part of the error message that the user of the playbook has."""

    written: str
    kind: SymptomKind = SymptomKind.TEXT
    names: tuple[str, ...] = ()
    """Of a step: the names of the signs that are meant; empty: all."""


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
    """The packages that have to be installed beside runbook."""
    inputs: tuple[Input, ...] = ()
    moved: Mapping[str, str] = field(default_factory=dict)
    """Inputs of earlier versions, each with the playbook that has it now."""
    secrets: tuple[SecretReference, ...] = ()
    diagnose: tuple[Step, ...] = ()
    findings: tuple[FindingRule, ...] = ()
    remediate: tuple[Step, ...] = ()
    verify: tuple[Step, ...] = ()
    limits: Limits = Limits()
    parts: tuple[IncludedPlaybook, ...] = ()
    """The included playbooks, each after the part that includes it."""
    let: Mapping[str, Let] = field(default_factory=dict)
    """By part (``""``: the playbook itself): the names that its expressions may use for others."""
    path: str = ""
    digest: str = ""
    """sha256 of the file, and of every file that it includes or sends, hexadecimal."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """Every step, in the order of the phases."""
        return (*self.diagnose, *self.remediate, *self.verify)

    @property
    def comparisons(self) -> tuple[FindingRule, ...]:
        """The findings that compare hosts; a playbook with one only diagnoses."""
        return tuple(rule for rule in self.findings if rule.across)

    def finding(self, finding_id: str) -> FindingRule:
        """The rule with that id; the loader has proved that there is one."""
        return next(finding for finding in self.findings if finding.id == finding_id)
