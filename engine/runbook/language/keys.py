"""The keys of the playbook language: one entry for each, from which schema, reading, words and checks follow.

A new key of a step, a finding or the limits is an entry here, a field in ``runbook.values.playbook``, and the module
that gives it meaning.  The order of a table is the order in which people read of its keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from typing import Any, TypeVar

from runbook.dataclass import dataclass
from runbook.language import lenient_read, shown_steps
from runbook.language.sections import limits
from runbook.language.sections.placed_values import Entry, Reader, duration_of, value_of
from runbook.language.sections.requirements import required_packages
from runbook.language.sections.symptoms import SYMPTOMS, symptoms_of
from runbook.language.shown_steps import Sentence
from runbook.values.plan import Risk
from runbook.values.playbook import HostOrder, Limits, Phase, Retry, Severity, Telling
from runbook.values.types import Json, plural, seconds
from runbook.values.units import time_span

Schema = Mapping[str, Json]

# ---- forms of values -------------------------------------------------------------------------------------------------

ID = r"^[A-Za-z_][A-Za-z0-9_]*$"
NAME: Schema = {"type": "string", "pattern": ID}
TEXT: Schema = {"type": "string", "minLength": 1}
TEXTS: Schema = {"oneOf": [TEXT, {"type": "array", "items": TEXT}]}
PACKAGE = r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,98}[A-Za-z0-9])?$"
IDS: Schema = {"oneOf": [NAME, {"type": "array", "items": NAME}]}
VARIABLE: Schema = {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}
EXPRESSION: Schema = {"type": ["string", "boolean"]}
QUANTITY: Schema = {"type": ["string", "number"]}
FLAG: Schema = {"type": "boolean"}
LATER: Schema = {"type": ["string", "number"]}
"""The schema of a quantity, or of a template that gives a quantity."""
COUNT: Schema = {"type": ["string", "integer"]}
"""The schema of a whole number, or of a template that gives a whole number."""
SHARE_OF_HOSTS: Schema = {"type": ["string", "integer"]}


def mapping_of(values: Schema) -> Schema:
    """Return the schema of a mapping with any keys, whose values have the schema *values*."""
    return {"type": "object", "additionalProperties": values}


def exactly(properties: Mapping[str, Any], required: tuple[str, ...] = ()) -> Schema:
    """Return the schema of a mapping that may have only the keys in *properties*, and must have those in *required*."""
    needed: dict[str, Any] = {"required": [*required]} if required else {}
    return {"type": "object", **needed, "additionalProperties": False, "properties": dict(properties)}


# ---- the table -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key of one of the mappings in a playbook."""

    name: str
    about: str
    """The sentence about the key in the documentation, and in ``runbook schema``."""
    schema: Schema = field(default_factory=dict)
    """The JSON Schema of the value; the loader checks the value against it."""
    exported: Schema = field(default_factory=dict)
    """Further rules that only the schema for editors has."""
    required: bool = False
    read: Reader | None = None
    """Reads the value of the field in ``runbook.values.playbook``; None if the loader reads several keys together."""
    field: str = ""
    """The name of the field in ``runbook.values.playbook``; empty if it is the name of the key."""
    several: bool = False
    """Whether a comma within braces means that the brackets of a list were forgotten; False: a text without its
    quotes.
    """
    expressions: tuple[str, ...] = ()
    """The keys (this key, or keys within its value) whose text is an expression without braces."""
    options: tuple[str, ...] = ()
    """The options of the command line that set the same value; a saved plan records these options."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepKey(Key):
    """A key of a step or of an include."""

    phases: tuple[Phase, ...] = tuple(Phase)
    """The sections in which a step may have the key."""
    misplaced: tuple[str, str] | None = None
    """The message and the hint for a section in which the key is not allowed; None for the general message and hint."""
    shown: Sentence | None = None
    """Makes the sentence of ``runbook show`` about a step with this key."""
    has_default: bool = False
    """Whether ``defaults`` may contain the key."""
    of_include: bool = False
    """Whether an include may have the key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitKey(Key):
    """A key of ``limits``."""

    shown: Callable[[Limits], str] = lambda _: ""
    """Makes the sentence of ``runbook show`` about this limit; an empty result means that there is no sentence."""


Kind = TypeVar("Kind", bound=Key)


def table(*keys: Kind) -> Mapping[str, Kind]:
    return {key.name: key for key in keys}


def properties_of(keys: Mapping[str, Key]) -> dict[str, Schema]:
    """Return the schema of the value of each of *keys*."""
    return {name: key.schema for name, key in keys.items()}


def schema_of(keys: Mapping[str, Key]) -> Schema:
    """Return the schema of a mapping that may have only these *keys*."""
    return exactly(properties_of(keys), tuple(name for name, key in keys.items() if key.required))


def fields_of(keys: Mapping[str, Key], entry: Entry) -> dict[str, Any]:
    """Read the values of *keys* from *entry*; the keys of the result are the names of dataclass fields."""
    return {key.field or name: key.read(entry, name) for name, key in keys.items() if key.read}


CHANGES = (Phase.REMEDIATE,)
PROBES = (Phase.DIAGNOSE,)
READS = (Phase.DIAGNOSE, Phase.VERIFY)


def _retry(entry: Entry, key: str) -> Retry:
    times = lenient_read.mapping(entry.tree.get(key)).get("times")
    if not isinstance(times, int):
        return Retry()
    return Retry(times=times, every=entry.values.seconds(entry.tree[key], "every", (*entry.path, key), 2.0))


STEP: Mapping[str, StepKey] = table(
    StepKey(
        name="id",
        about="A name, unique in the playbook; probes need one, so that findings can name them.",
        schema=NAME,
        of_include=True,
    ),
    StepKey(
        name="name",
        about="What the step does, in words for people.",
        schema=TEXT,
        read=value_of(lenient_read.text),
        of_include=True,
    ),
    StepKey(
        name="each",
        about="A list, or an expression that returns one; the step runs once for every `item` of it.",
        schema={"type": ["string", "array"]},
        read=value_of(lenient_read.list_expression),
        expressions=("each",),
        shown=shown_steps.each,
    ),
    StepKey(
        name="when",
        about="An expression, without {{ }}; if it is false, the step is skipped.",
        schema=EXPRESSION,
        read=value_of(lenient_read.expression),
        expressions=("when",),
        shown=lambda step, _: f"only when {step.when}" if step.when else "",
    ),
    StepKey(
        name="for",
        about=(
            "The findings that the step is for; it runs only while one of them is present. Default: any error or "
            "critical finding. While it is unknown, the step is blocked (--force: run it)."
        ),
        schema=IDS,
        read=value_of(lenient_read.ids),
        field="for_",
        several=True,
        phases=CHANGES,
        shown=shown_steps.what_for,
    ),
    StepKey(
        name="after",
        about="Steps that this one depends on; its probe runs again when they are done.",
        schema=IDS,
        read=value_of(lenient_read.ids),
        several=True,
        phases=(Phase.REMEDIATE, Phase.VERIFY),
        shown=lambda step, _: f"after {' and '.join(step.after)}, and not if that broke" if step.after else "",
    ),
    StepKey(
        name="if_changed",
        about="The step runs only if one of these steps changed something.",
        schema=IDS,
        read=value_of(lenient_read.ids),
        several=True,
        phases=CHANGES,
        shown=lambda step, _: f"only if {' or '.join(step.if_changed)} changed something" if step.if_changed else "",
    ),
    StepKey(
        name="if_failed",
        about="The step runs only if one of these steps failed, even if the failure stopped the other steps.",
        schema=IDS,
        read=value_of(lenient_read.ids),
        several=True,
        phases=CHANGES,
        shown=shown_steps.if_failed,
    ),
    StepKey(
        name="always",
        about="The step runs whatever happened before; reported as owed (pending) if the host cannot be reached.",
        schema=FLAG,
        read=value_of(lenient_read.flag),
        phases=CHANGES,
        shown=shown_steps.always,
    ),
    StepKey(
        name="confirm",
        about="The step always needs a yes (without a terminal: --yes).",
        schema=FLAG,
        read=value_of(lenient_read.flag),
        phases=CHANGES,
        shown=lambda step, _: "asks for a yes first (without a terminal: give --yes)" if step.confirm else "",
    ),
    StepKey(
        name="tags",
        about="For --tags and --skip-tags.",
        schema=TEXTS,
        read=value_of(lenient_read.ids),
        several=True,
        shown=lambda step, _: f"tagged {', '.join(step.tags)} (see --tags and --skip-tags)" if step.tags else "",
        options=("tags", "skip_tags"),
    ),
    StepKey(
        name="once",
        about="One probe, shared by all hosts of the run.",
        schema=FLAG,
        read=value_of(lenient_read.flag),
        phases=PROBES,
        shown=lambda step, _: "probed once; all hosts share the answer" if step.once else "",
    ),
    StepKey(
        name="on",
        about="Send the commands to this host instead, or to the controller (this machine).",
        schema=TEXT,
        read=value_of(lenient_read.text),
        shown=shown_steps.on,
    ),
    StepKey(
        name="become",
        about="Run the commands with sudo: true for root, or the name of a user.",
        schema={"type": ["boolean", "string"]},
        read=value_of(lenient_read.become),
        shown=lambda step, _: f"as {step.become}" if step.become else "",
        has_default=True,
    ),
    StepKey(
        name="cwd",
        about="Working directory of the command.",
        schema=TEXT,
        read=value_of(lenient_read.text),
        shown=lambda step, _: f"in the folder {step.cwd}" if step.cwd else "",
    ),
    StepKey(
        name="env",
        about="Environment of the commands.",
        schema=mapping_of({"type": ["string", "number", "boolean"]}),
        read=value_of(lenient_read.variables),
        shown=shown_steps.env,
    ),
    StepKey(
        name="timeout",
        about="For each command, enforced on the host. Default: 30s for probes, 10m for changes.",
        schema=QUANTITY,
        read=duration_of(time_span),
        shown=lambda step, _: f"each command may take {seconds(step.timeout)}" if step.timeout else "",
        has_default=True,
        options=("timeout",),
    ),
    StepKey(
        name="within",
        about=("How long to probe again until it answers (diagnose), shows the change (remediate) or holds (verify)."),
        schema=QUANTITY,
        read=duration_of(),
        shown=shown_steps.within,
    ),
    StepKey(
        name="every",
        about="The time between two probes of `within`.",
        schema=QUANTITY,
        read=duration_of(time_span, 2.0),
    ),
    StepKey(
        name="retry",
        about="Repeat a failed probe: how many `times`, and `every` how long. A change is sent only once.",
        schema=exactly({"times": {"type": "integer", "minimum": 1, "maximum": 100}, "every": QUANTITY}, ("times",)),
        read=_retry,
        phases=READS,
        misplaced=("a write is sent once: `retry` is for probes", "write another step with `if_failed` instead"),
        shown=shown_steps.retry,
        has_default=True,
    ),
    StepKey(
        name="samples",
        about=(
            "Repeat the probe: how many `times` or `for` how long, `every` how long, and only `while` this is true."
        ),
        schema=exactly({"times": COUNT, "for": LATER, "every": LATER, "while": EXPRESSION}),
        exported={"oneOf": [{"required": ["times"]}, {"required": ["for"]}]},
        read=value_of(lenient_read.samples),
        expressions=("while",),
        phases=READS,
        shown=shown_steps.samples,
    ),
    StepKey(
        name="scratch",
        about="Allow a probe to create temporary files of its own, which it removes again.",
        schema=FLAG,
        read=value_of(lenient_read.flag),
        phases=PROBES,
        shown=lambda step, _: (
            "creates temporary files of its own on the host, and removes them" if step.scratch else ""
        ),
    ),
    StepKey(
        name="ignore_failure",
        about="A failure is shown, but does not change the verdict.",
        schema=FLAG,
        read=value_of(lenient_read.flag),
        shown=lambda step, _: "a failure is shown, but does not change the verdict" if step.ignore_failure else "",
    ),
    StepKey(
        name="include",
        about="Another playbook; its ids get this step's id as a prefix.",
        schema=TEXT,
        phases=(),
        of_include=True,
    ),
    StepKey(
        name="inputs",
        about="Inputs of the included playbook.",
        schema={"type": "object"},
        phases=(),
        misplaced=("`inputs` belongs to an include", "write arguments under the action"),
        of_include=True,
    ),
)

FINDING: Mapping[str, Key] = table(
    Key(
        name="id", about="A name, unique in the playbook.", schema=NAME, required=True, read=value_of(lenient_read.text)
    ),
    Key(
        name="when",
        about="An expression over the probes, without {{ }}; the finding is present when it is true.",
        schema=EXPRESSION,
        required=True,
        read=value_of(lenient_read.expression),
        expressions=("when",),
    ),
    Key(
        name="severity",
        about="info, warning, error or critical; only error and critical affect the verdict and call for changes.",
        schema={"enum": [severity.value for severity in Severity]},
        required=True,
        read=value_of(lenient_read.severity),
    ),
    Key(
        name="across",
        about=(
            "What is compared between the hosts of the run, once all are probed: an expression that each host "
            "evaluates, or `{value: EXPRESSION, by: EXPRESSION}`, which compares hosts with the same `by`."
        ),
        schema={"oneOf": [TEXT, exactly({"value": TEXT, "by": TEXT})]},
        read=lambda entry, key: lenient_read.comparison(entry.tree[key]) if key in entry.tree else None,
        expressions=("across", "value", "by"),
    ),
    Key(
        name="say",
        about="The finding as a sentence; may contain {{ }}.",
        schema=TEXT,
        read=lambda entry, key: lenient_read.text(entry.tree.get(key)) or entry.tree["id"],
    ),
    Key(
        name="tells",
        about=(
            "`fault`, or `unknown`: it says that something is not known, which is no fault to `runbook prolog` and "
            "`runbook diagnose`. Without it: `unknown` if `when` demands that something `is not answered`."
        ),
        schema={"enum": [telling.value for telling in Telling]},
        read=lambda entry, key: lenient_read.telling(entry.tree.get(key)),
    ),
    Key(
        name="unless",
        about="Earlier findings that explain this one; while one of them is present, this one is absent.",
        schema=IDS,
        read=value_of(lenient_read.ids),
        several=True,
    ),
    Key(
        name="settle",
        about="After a change, how long to probe again for the finding to go before the next step runs.",
        schema=QUANTITY,
        read=duration_of(),
    ),
    Key(
        name="gone_for",
        about="How long the finding must stay absent before it counts as gone.",
        schema=QUANTITY,
        read=duration_of(),
    ),
    Key(
        name="evidence",
        about="Names with expressions; their values are shown with the finding.",
        schema=mapping_of({"type": "string"}),
        read=value_of(lenient_read.texts_by_name),
    ),
    Key(
        name="advise",
        about=("What a person can do if the finding stays, in order; one whose template comes to nothing is left out."),
        schema=TEXTS,
        read=value_of(lenient_read.texts),
    ),
)

GROUP: Mapping[str, Key] = table(
    Key(
        name="when",
        about="A condition for the whole group; the own `when` of a finding must be true, too.",
        schema=EXPRESSION,
        expressions=("when",),
    ),
    Key(
        name="unless",
        about="Earlier findings that explain every finding of the group, in addition to the own `unless` of each.",
        schema=IDS,
        several=True,
    ),
    Key(
        name="causes",
        about="first: the causes come first; the first error that is present explains the findings after it.",
        schema={"enum": ["first"]},
    ),
    Key(
        name="findings",
        about="The findings of the group; the group is an entry of `findings`, in place of a single finding.",
        schema={"type": "array", "items": schema_of(FINDING), "minItems": 1},
        required=True,
    ),
)
"""The keys of findings that have the same condition, or that are listed in the order of cause."""

LIMITS: Mapping[str, LimitKey] = table(
    LimitKey(
        name="deadline",
        about="Time limit of the whole run; nothing is started after it.",
        schema=QUANTITY,
        read=duration_of(time_span),
        options=("deadline",),
        shown=lambda given: f"The whole run ends after {seconds(given.deadline)}." if given.deadline else "",
    ),
    LimitKey(
        name="batches",
        about='How many hosts are changed together, batch after batch (rounded up): [1, "10%", "100%"].',
        schema={"type": "array", "items": SHARE_OF_HOSTS, "minItems": 1},
        read=limits.batches,
        options=("batches",),
        shown=limits.shown_batches,
    ),
    LimitKey(
        name="stop_after",
        about=(
            "Once so many hosts failed, or are unresolved, unknown, unreachable or cancelled, no further host is "
            'started: 3, or "10%" of all hosts (rounded up).'
        ),
        schema=SHARE_OF_HOSTS,
        read=limits.share,
        options=("stop_after",),
        shown=limits.shown_stop,
    ),
    LimitKey(
        name="max_unavailable",
        about=(
            "At most so many hosts are being changed, or failed, unresolved, unknown, unreachable or cancelled, at any "
            'moment: 3, or "10%" of all hosts (rounded down, at least 1).'
        ),
        schema=SHARE_OF_HOSTS,
        read=limits.share,
        options=("max_unavailable",),
        shown=limits.shown_unavailable,
    ),
    LimitKey(
        name="max_concurrent_per",
        about="At most so many hosts with the same value of a variable are changed at once: {rack: 1}.",
        schema=mapping_of({"type": "integer", "minimum": 1}),
        read=limits.max_concurrent_per,
        shown=lambda given: " ".join(
            f"At most {plural(limit.most, 'host')} with the same {limit.variable} at once."
            for limit in given.max_concurrent_per
        ),
    ),
    LimitKey(
        name="order",
        about="The order in which hosts are taken: inventory, reverse_inventory, sorted, reverse_sorted or shuffle.",
        schema={"enum": [order.value for order in HostOrder]},
        read=value_of(lambda value: HostOrder(value) if value in list(HostOrder) else HostOrder.INVENTORY),
        options=("order",),
        shown=lambda given: (
            f"Hosts are taken in this order: {given.order}." if given.order is not HostOrder.INVENTORY else ""
        ),
    ),
    LimitKey(
        name="pause_between",
        about="How long to wait between the end of a batch and the beginning of the next one.",
        schema=QUANTITY,
        read=limits.pause_between,
        options=("pause_between",),
    ),
    LimitKey(
        name="host_deadline",
        about="Time limit of the work on one host; a change that runs then finishes, and nothing else begins.",
        schema=QUANTITY,
        read=duration_of(time_span),
        options=("host_deadline",),
        shown=lambda given: (
            f"The work on one host ends after {seconds(given.host_deadline)}." if given.host_deadline else ""
        ),
    ),
    LimitKey(
        name="confirm_from",
        about=(
            "The risk from which on a step needs the yes of a person on a terminal, or a saved plan; --yes is not "
            "enough."
        ),
        schema={"enum": [risk.value for risk in Risk]},
        read=value_of(lambda value: value if value in list(Risk) else ""),
        shown=lambda given: (
            f"From the risk {given.confirm_from} on, a person on a terminal or a saved plan must say yes."
            if given.confirm_from
            else ""
        ),
    ),
    LimitKey(
        name="approvals",
        about="How many other people must approve a saved plan before it is applied; the playbook needs one then.",
        schema={"type": "integer", "minimum": 1, "maximum": 10},
        read=value_of(lambda value: value if type(value) is int else 0),
        shown=lambda given: (
            f"It changes hosts only by a saved plan with {plural(given.approvals, 'approval')} of others."
            if given.approvals
            else ""
        ),
    ),
    LimitKey(
        name="attempts",
        about=(
            "A host that so many recorded runs of this playbook have changed within a time is not changed again: "
            "{per_host: 2, within: 7d}."
        ),
        schema=exactly(
            {"per_host": {"type": "integer", "minimum": 1, "maximum": 1000}, "within": QUANTITY},
            ("per_host", "within"),
        ),
        read=limits.attempts,
        shown=limits.shown_attempts,
    ),
    LimitKey(
        name="cooldown",
        about="How long a host that this playbook has changed is not changed again.",
        schema=QUANTITY,
        read=duration_of(time_span),
        shown=lambda given: (
            f"A host is not changed again within {seconds(given.cooldown)} of its last change."
            if given.cooldown
            else ""
        ),
    ),
    LimitKey(
        name="breaker",
        about=(
            "Once so many hosts were changed by this playbook within a time, by recorded runs and this one, no further "
            'host is changed: {hosts: "20%", within: 1h} (rounded down, at least 1).'
        ),
        schema=exactly({"hosts": SHARE_OF_HOSTS, "within": QUANTITY}, ("hosts", "within")),
        read=limits.breaker,
        shown=limits.shown_breaker,
    ),
)

INPUT: Mapping[str, Key] = table(
    Key(
        name="about",
        about="What the input does, in one sentence.",
        schema=TEXT,
        required=True,
        read=value_of(lenient_read.text),
    ),
    Key(name="default", about="Its value if none is given.", read=value_of(lenient_read.unraw)),
    Key(name="required", about="It must be given; it has no default.", schema=FLAG, read=value_of(lenient_read.flag)),
    Key(name="secret", about="Its value is never shown.", schema=FLAG, read=value_of(lenient_read.flag)),
    Key(
        name="env",
        about=("The variable of runbook's own environment from which the value is taken if not given; it is a secret."),
        schema=VARIABLE,
        read=value_of(lenient_read.text),
    ),
)
"""The keys of an input, apart from the keywords of JSON Schema."""

SECRET: Mapping[str, Key] = table(
    Key(name="env", about="The variable of runbook's own environment that holds the value.", schema=VARIABLE),
    Key(
        name="file",
        about="A file on this machine that only its owner can read; beside the playbook (or inventory), or absolute.",
        schema=TEXT,
    ),
    Key(
        name="command",
        about="A program on this machine, with its arguments, that prints the value; no shell reads them.",
        schema={"type": "array", "items": {"type": "string"}, "minItems": 1},
    ),
    Key(
        name="keyring",
        about="An entry of this machine's keyring: its `service` and its `user` (needs the package keyring).",
        schema=exactly({"service": TEXT, "user": TEXT}, ("service", "user")),
    ),
    Key(
        name="description",
        about="What the secret is for. With nothing else, the inventory has to say where the value is.",
        schema={"type": "string"},
    ),
)

PLAYBOOK: Mapping[str, Key] = table(
    Key(name="name", about="The file's name without its ending.", schema=TEXT, required=True),
    Key(
        name="about", about="What the playbook is for, in one sentence.", schema=TEXT, read=value_of(lenient_read.text)
    ),
    Key(
        name="symptom",
        about=(
            "Texts, {pattern: REGULAR EXPRESSION}, {topic: REGULAR EXPRESSION} and {signs: STEP}, of the errors "
            "that it is for: `runbook find` searches them."
        ),
        schema=SYMPTOMS,
        read=lambda entry, key: symptoms_of(entry.tree.get(key)),
    ),
    Key(
        name="hosts",
        about="The default target: a name, a group, a pattern; --hosts overrides it.",
        schema=TEXT,
        read=value_of(lenient_read.text),
    ),
    Key(
        name="requires",
        about="Packages that have to be installed beside runbook, because an action is in one: [runbook-racks].",
        schema={"type": "array", "minItems": 1, "items": {"type": "string", "pattern": PACKAGE}},
        read=lambda entry, key: required_packages(entry.tree.get(key), entry.values),
    ),
    Key(
        name="inputs",
        about="What -e can set: each with its `about`, JSON Schema keywords, and a default (or required: true).",
        schema=mapping_of({"type": "object", "required": ["about"], "properties": properties_of(INPUT)}),
    ),
    Key(
        name="secrets",
        about="Where the values of secrets are (never the values); a step uses one in its `env`: {{ secrets.NAME }}.",
    ),
    Key(
        name="moved",
        about="Inputs of earlier versions, each with the playbook that has it now; -e with one of them says so.",
        schema=mapping_of(TEXT),
        read=value_of(lenient_read.texts_by_name),
    ),
    Key(
        name="defaults",
        about="Keys for steps that do not have them: `become` (not with `on`), `timeout`, `retry` (not of changes).",
        schema=exactly(properties_of({name: key for name, key in STEP.items() if key.has_default})),
    ),
    Key(
        name="let",
        about="Names for expressions, each usable in every expression and text below, and in the values after it.",
        schema=mapping_of(EXPRESSION),
    ),
    Key(
        name="diagnose",
        about="Probes. They change nothing, and run in a dry run too.",
        schema={"type": "array"},
    ),
    Key(
        name="findings",
        about="What the probes mean, in order.",
        schema={
            "type": "array",
            "items": {
                "if": {"type": "object", "required": ["findings"]},
                "then": schema_of(GROUP),
                "else": schema_of(FINDING),
            },
        },
    ),
    Key(
        name="remediate",
        about=("The changes that help, gentlest first. A step runs only while a finding that it is for is present."),
        schema={"type": "array"},
    ),
    Key(
        name="verify",
        about="Assertions at the end of the run; after a change the diagnosis is repeated anyway.",
        schema={"type": "array"},
    ),
    Key(
        name="limits",
        about="Limits of a run: deadlines, batches, how many hosts at once, when to stop.",
        schema=schema_of(LIMITS),
    ),
)
"""The keys of a playbook; the entries of its sections of steps are in ``playbook_schema``, with the actions."""

EXPRESSIONS = frozenset(name for keys in (STEP, FINDING, GROUP) for key in keys.values() for name in key.expressions)
"""Keys of steps, findings and groups whose texts are expressions without braces.  All values of ``evidence`` are
expressions, too.
"""


def recorded_options(*, lists: bool) -> tuple[str, ...]:
    """Return the options of the command line that a saved plan records: those that take lists if *lists*, else the
    others.
    """
    keys: Iterable[Key] = (*STEP.values(), *LIMITS.values())
    return tuple(option for key in keys if key.several is lists for option in key.options)
