"""What the author wrote, after we understood it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import ceil

from engine.text.secret_names import is_secret
from engine.values.types import Json


class Phase(StrEnum):
    """The section of a playbook that a step stands in."""

    DIAGNOSE = "diagnose"
    REMEDIATE = "remediate"
    VERIFY = "verify"


def written_id(step_id: str) -> str:
    """The id of a step as it stands in the playbook: that of ``stop[2]``, the third of an ``each``, is ``stop``."""
    return step_id.partition("[")[0]


class Severity(StrEnum):
    """How bad a finding is; only error and critical drive remediation and make a verdict."""

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
    """How often a faulty look is taken again, and how many seconds lie between."""

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
    """Seconds per command; 0: 30 for looks, 600 for writes."""
    look_timeout: float = 0.0
    """Seconds per look where *timeout* is 0; 0: 30."""
    within: float = 0.0
    every: float = 2.0
    retry: Retry = Retry()
    """Looks only: taken again after a fault."""
    samples: Mapping[str, Json] = field(default_factory=dict)
    """Looks only: ``times`` or ``for``, ``every`` and ``while`` as they are written; empty: one look."""
    each: str = ""
    """An expression that gives a list; the step is taken once for every ``item`` of it."""
    on: str = ""
    """The host that the commands go to instead, or ``controller``; a template of inputs until the run begins."""
    once: bool = False
    """One look, shared by all hosts of a run."""
    if_changed: tuple[str, ...] = ()
    if_failed: tuple[str, ...] = ()
    always: bool = False
    """Taken whatever happened before; *owed* when the host cannot be reached."""
    tags: tuple[str, ...] = ()
    left_out: str = ""
    """Why the command line leaves this step out; empty: it does not."""
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
class FindingRule:
    """What some looks mean."""

    id: str
    when: str
    severity: Severity
    say: str
    unless: tuple[str, ...] = ()
    settle: float = 0.0
    """Seconds to go on looking after a change before the next rung is taken."""
    gone_for: float = 0.0
    """Seconds that it must stay absent before it counts as gone."""
    evidence: Mapping[str, str] = field(default_factory=dict)
    """Name to expression."""
    advise: tuple[str, ...] = ()
    looks: tuple[str, ...] = ()
    """The looks that *when* rests on, directly or through the arguments of other looks."""
    part: str = ""
    """As a step's."""
    where: Where = Where()


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """So many of the hosts of a run, or so many of a hundred."""

    number: float
    percent: bool = False

    def of(self, total: int) -> int:
        """How many of *total* hosts that are, rounded up; at least one."""
        return max(1, ceil(self.number * total / 100 if self.percent else self.number))

    def __str__(self) -> str:
        return f"{self.number:g}{'%' if self.percent else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a run may cost."""

    deadline: float = 0.0
    """Seconds; 0: no limit."""
    batches: tuple[Share, ...] = ()
    """How many hosts are taken together, batch after batch, the last one again and again; none: all at once."""
    stop_after: Share | None = None
    """With so many hosts that did not come out well, no further host is begun."""


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
    where: Where = Where()


@dataclass(frozen=True, slots=True, kw_only=True)
class Playbook:
    """A whole playbook."""

    name: str
    about: str = ""
    hosts: str = ""
    inputs: tuple[Input, ...] = ()
    diagnose: tuple[Step, ...] = ()
    findings: tuple[FindingRule, ...] = ()
    remediate: tuple[Step, ...] = ()
    verify: tuple[Step, ...] = ()
    limits: Limits = Limits()
    parts: tuple[IncludedPlaybook, ...] = ()
    """What is included, each after the part that includes it."""
    path: str = ""
    digest: str = ""
    """sha256 of the file, and of every file that it includes or sends, hexadecimal."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """Every step, in the order of the phases."""
        return (*self.diagnose, *self.remediate, *self.verify)

    def finding(self, finding_id: str) -> FindingRule:
        """The rule with that id; the loader has proved that there is one."""
        return next(it for it in self.findings if it.id == finding_id)
