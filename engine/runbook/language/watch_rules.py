"""The keys of a watcher's rule, and its loader: every mistake at once, each with its place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from pathlib import PurePath
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from runbook.errors import ConfigError, Problem
from runbook.language import lenient_read
from runbook.language.keys import NAME, QUANTITY, TEXT, TEXTS, Key, Schema, exactly, fields_of, schema_of, table
from runbook.language.sections.placed_values import Entry, PlacedValues, duration_of, value_of
from runbook.language.watch_times import cron, freeze, window
from runbook.language.yaml_source import Document, has_key, parse_playbook
from runbook.values.plan import Risk
from runbook.values.types import seconds
from runbook.values.units import time_span
from runbook.values.watch_rule import LONGEST_WITHIN, Approve, During, Rule, RuleBreaker, Sources, Then, Times

T = TypeVar("T")

SHORTEST_EVERY = 10.0
"""The minimum number of seconds between two probes of all hosts of a rule."""
RULE_NAME = r"^[a-z][a-z0-9_-]*$"
NUMBER_OF_TIMES: Schema = {"type": "integer", "minimum": 1, "maximum": 1000}
SOME_PEOPLE: Schema = {"oneOf": [TEXT, {"type": "array", "items": TEXT, "minItems": 1}]}


def _times_schema(most: int) -> Schema:
    return exactly(
        {"count": {"type": "integer", "minimum": 1, "maximum": most}, "within": QUANTITY}, ("count", "within")
    )


LIST_OF_TEXTS: Schema = {"type": "array", "items": TEXT, "minItems": 1}


def _tree(entry: Entry, key: str) -> Entry:
    return Entry(lenient_read.mapping(entry.tree.get(key)), (*entry.path, key), entry.values)


def _each(entry: Entry, key: str, read: Callable[[str], T]) -> tuple[T, ...]:
    """Return what *read* makes of each text in the list *key*; what it refuses is a mistake at its place."""
    made: list[T] = []
    listed = entry.tree.get(key)
    for number, text in enumerate(listed if isinstance(listed, list) else ()):
        try:
            made.append(read(str(text)))
        except ConfigError as error:
            entry.values.wrong((*entry.path, key, number), str(error))
    return tuple(made)


def _times(entry: Entry, key: str) -> Times | None:
    inner = _tree(entry, key)
    within = inner.values.seconds(inner.tree, "within", inner.path, read=time_span)
    count = inner.tree.get("count")
    return Times(count=count, within=within) if type(count) is int else None


def _breaker(entry: Entry, key: str) -> RuleBreaker | None:
    inner = _tree(entry, key)
    hosts = inner.tree.get("hosts")
    if type(hosts) is not int:
        return None
    within = inner.values.seconds(inner.tree, "within", inner.path, read=time_span)
    quiet = inner.values.seconds(inner.tree, "quiet", inner.path, RuleBreaker(hosts=1, within=1).quiet)
    return RuleBreaker(hosts=hosts, within=within, quiet=quiet)


def _zone(entry: Entry, key: str) -> str:
    name = lenient_read.text(entry.tree.get(key)) or "UTC"
    try:
        _ = "UTC" if name == "UTC" else ZoneInfo(name)
    except (OSError, ValueError, KeyError):  # zoneinfo's own error is a KeyError
        words = f"the time zone {name!r} is not known on this machine"
        entry.values.wrong((*entry.path, key), words, "such as Europe/Berlin; the package tzdata has them all")
        return "UTC"
    return name


def _cron(entry: Entry, key: str) -> str:
    text = lenient_read.text(entry.tree.get(key))
    try:
        return cron(text) if text else ""
    except ConfigError as error:
        entry.values.wrong((*entry.path, key), str(error))
        return ""


def _every(entry: Entry, key: str) -> float:
    made = entry.values.seconds(entry.tree, key, entry.path, read=time_span)
    if 0 < made < SHORTEST_EVERY:
        entry.values.wrong(
            (*entry.path, key), f"every: {SHORTEST_EVERY:g} s is the least", f"every: {SHORTEST_EVERY:g}s"
        )
    return made


def _within(entry: Entry, key: str) -> float:
    made = entry.values.seconds(entry.tree, key, entry.path, Approve().within, read=time_span)
    if made > LONGEST_WITHIN:
        words = f"within: a plan may wait {seconds(LONGEST_WITHIN)} at most"
        entry.values.wrong((*entry.path, key), words, f"within: {LONGEST_WITHIN / 86400:g}d")
    return made


def _requester_counts(entry: Entry, key: str) -> bool:
    return key not in entry.tree


ON: Mapping[str, Key] = table(
    Key(
        name="alert",
        about="The name of an alert of Alertmanager; it is a hint to probe, and nothing of it reaches a command.",
        schema=TEXT,
        read=value_of(lenient_read.text),
    ),
    Key(
        name="host_label",
        about="The label of the alert that has the host, by its name in the inventory; a port behind it is left out.",
        schema={"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
        read=lambda entry, key: lenient_read.text(entry.tree.get(key)) or Sources().host_label,
    ),
    Key(name="every", about="How often all hosts of the rule are probed.", schema=QUANTITY, read=_every),
    Key(
        name="cron",
        about='When all hosts are probed, as in crontab; days of the week by name: "0 3 * * sun".',
        schema=TEXT,
        read=_cron,
    ),
    Key(
        name="cured_by",
        about="The name of another rule: its run has cured the host, and the fault did not come back.",
        schema={"type": "string", "pattern": RULE_NAME},
        read=value_of(lenient_read.text),
    ),
    Key(name="after", about="How long after that run, such as hours of load.", schema=QUANTITY, read=duration_of()),
)

APPROVE: Mapping[str, Key] = table(
    Key(
        name="by",
        about="The people whose word counts; without it, everybody who may approve.",
        schema=SOME_PEOPLE,
        read=value_of(lenient_read.ids),
    ),
    Key(
        name="count",
        about="How many people have to agree.",
        schema={"type": "integer", "minimum": 1, "maximum": 10},
        read=lambda entry, key: entry.tree.get(key) if type(entry.tree.get(key)) is int else 1,
    ),
    Key(
        name="not",
        about="`requester`: the person who asked for the plan may not approve it.",
        schema={"enum": ["requester"]},
        read=_requester_counts,
        field="requester_counts",
    ),
    Key(
        name="within",
        about="After this time without an approval the plan expires; 30 days at most.",
        schema=QUANTITY,
        read=_within,
    ),
)

DURING: Mapping[str, Key] = table(
    Key(
        name="windows",
        about="The times at which the rule may change hosts: [mon-fri 08:00-18:00].",
        schema=LIST_OF_TEXTS,
        read=lambda entry, key: _each(entry, key, window),
    ),
    Key(
        name="freeze",
        about="Days on which it may not: [2026-12-20 to 2027-01-03].",
        schema=LIST_OF_TEXTS,
        read=lambda entry, key: _each(entry, key, freeze),
    ),
    Key(name="zone", about="The time zone of both, such as Europe/Berlin; UTC without it.", schema=TEXT, read=_zone),
)

BREAKER: Mapping[str, Key] = table(
    Key(
        name="hosts",
        about="The most hosts that the rule changes within the time.",
        schema=NUMBER_OF_TIMES,
        required=True,
    ),
    Key(name="within", about="That time.", schema=QUANTITY, required=True),
    Key(
        name="quiet",
        about="How long fewer hosts than that must have the fault after a person has reset the breaker.",
        schema=QUANTITY,
    ),
)

RULE: Mapping[str, Key] = table(
    Key(
        name="name",
        about="The file's name without its ending.",
        schema={"type": "string", "pattern": RULE_NAME},
        required=True,
    ),
    Key(name="about", about="What the rule is for, in one sentence.", schema=TEXT, read=value_of(lenient_read.text)),
    Key(
        name="playbook",
        about="The playbook that probes, and that cures.",
        schema=TEXT,
        required=True,
        read=value_of(lenient_read.text),
    ),
    Key(
        name="hosts",
        about="A host pattern: the only hosts that the rule may touch.",
        schema=TEXT,
        required=True,
        read=value_of(lenient_read.text),
    ),
    Key(
        name="inputs",
        about="The inputs of the playbook.",
        schema={"type": "object"},
        read=lambda entry, key: lenient_read.unraw(dict(lenient_read.mapping(entry.tree.get(key)))),
    ),
    Key(
        name="finding",
        about="The finding that counts; without it, every error for which the playbook has a step.",
        schema=NAME,
        read=value_of(lenient_read.text),
    ),
    Key(
        name="on",
        about="What the rule listens to: an alert, the clock (`every`, `cron`), or both.",
        schema={**schema_of(ON), "minProperties": 1},
        required=True,
        read=lambda entry, key: Sources(**fields_of(ON, _tree(entry, key))),
    ),
    Key(
        name="for",
        about=(
            "How long our own probes must have seen the finding; one healthy probe clears it, one without an answer "
            "neither counts nor clears."
        ),
        schema=QUANTITY,
        read=duration_of(),
        field="sustained",
    ),
    Key(
        name="then",
        about="The most that the rule does by itself: `probe`, `propose` a plan that waits for a person, `apply` it.",
        schema={"enum": [str(each) for each in Then]},
        read=lambda entry, key: _choice(Then, entry.tree.get(key), Then.PROPOSE),
    ),
    Key(
        name="risk",
        about="With `then: apply`: the worst effect that needs no approval.",
        schema={"enum": [str(each) for each in Risk if each is not Risk.UNKNOWN]},
        read=lambda entry, key: _choice(Risk, entry.tree.get(key), Risk.READS),
    ),
    Key(
        name="approve",
        about="Who has to agree to a plan that waits.",
        schema=schema_of(APPROVE),
        read=lambda entry, key: Approve(**fields_of(APPROVE, _tree(entry, key))),
    ),
    Key(
        name="cooldown",
        about="How long a host is left alone after a run of the rule.",
        schema=QUANTITY,
        read=duration_of(time_span),
    ),
    Key(
        name="attempts",
        about="The most runs of the rule on a host within a time: {count: 3, within: 24h}.",
        schema=_times_schema(50),
        read=_times,
    ),
    Key(
        name="ineffective",
        about="After so many runs in a row that did not cure a host a person has to look; 0: never.",
        schema={"type": "integer", "minimum": 0, "maximum": 50},
        read=lambda entry, key: entry.tree[key] if type(entry.tree.get(key)) is int else 2,
    ),
    Key(
        name="keep",
        about="How many other hosts of the rule must be well, as last probed by its clock, before one is changed.",
        schema={"type": "integer", "minimum": 0, "maximum": 100_000},
        read=lambda entry, key: entry.tree[key] if type(entry.tree.get(key)) is int else 0,
    ),
    Key(
        name="during",
        about="The times at which the rule may change hosts.",
        schema={**schema_of(DURING), "minProperties": 1},
        read=lambda entry, key: During(**fields_of(DURING, _tree(entry, key))),
    ),
    Key(
        name="threshold",
        about="How often the fault has to begin on a host within a time before it counts: {count: 3, within: 1h}.",
        schema=_times_schema(100),
        read=_times,
    ),
    Key(
        name="breaker",
        about=(
            "Once so many hosts were changed within a time, no other is before a person has looked: "
            "{hosts: 5, within: 1h}."
        ),
        schema=schema_of(BREAKER),
        read=_breaker,
    ),
    Key(
        name="notify",
        about="The receivers of messages about proposals, ends and troubles: names of the server's `notify`.",
        schema=TEXTS,
        read=value_of(lenient_read.ids),
    ),
)
"""The keys of a rule; the order is that of the documentation."""


def rule_schema() -> Mapping[str, Any]:
    """Return the JSON Schema of a rule."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema_of(RULE)}


def looks_like_rule(text: str) -> bool:
    """Whether *text* seems to be a rule, and no playbook; the YAML may have mistakes."""
    return has_key(text, ("on",)) and has_key(text, ("playbook", "then"))


def load_rule(text: str, file: str) -> Rule:
    """Return the rule in *text*.  Raises ConfigError with every mistake in it, sorted by place.

    Whether its playbook, hosts and inputs are there is not checked here.
    """
    from runbook.language.playbook_schema import problems_in

    document = parse_playbook(text, file, ours=looks_like_rule(text))
    if not isinstance(document.value, Mapping):
        words = "a rule is a mapping, with `name:`, `playbook:`, `hosts:` and `on:` at its top level"
        raise ConfigError(Problem(file=file, line=1, column=1, message=words))
    problems = [*problems_in(document, rule_schema())]
    tree = document.value
    values = PlacedValues(document, problems)
    fields = fields_of(RULE, Entry(tree, (), values))
    name, stem = tree.get("name"), PurePath(file).stem
    if isinstance(name, str) and re.fullmatch(RULE_NAME, name) and name != stem:
        values.wrong(("name",), f"the rule is called {name!r} and its file {PurePath(file).name!r}", f"name: {stem}")
    wrong_lines = {problem.line for problem in problems}  # whatever does not go together there follows from it
    made = Rule(name=stem, **fields, where=document.where(()), digest=sha256(text.encode()).hexdigest())
    problems += [each for each in _contradictions(made, document) if each.line not in wrong_lines]
    if problems:
        raise ConfigError(*sorted(set(problems)))
    return made


def _contradictions(rule: Rule, document: Document) -> Iterable[Problem]:
    """Yield the keys of *rule* that do not go together."""
    has_clock = rule.on.every or rule.on.cron
    if not rule.on.alert and not has_clock and not rule.on.cured_by:
        words = "on: nothing is given that the rule could listen to"
        yield document.problem(("on",), words, "add alert: NAME, every: 60s, cron or cured_by: RULE")
    if "after" in lenient_read.mapping(document.value.get("on")) and not rule.on.cured_by:
        yield document.problem(("on", "after"), "after: it is the time since a run of the rule `cured_by`")
    if rule.on.cured_by == rule.name:
        yield document.problem(("on", "cured_by"), "cured_by: a rule cannot listen to itself")
    if rule.keep and not rule.on.every:
        words = "keep: how many hosts are well is known only where the clock probes them all"
        yield document.problem(("keep",), words, "on: {every: 60s}")
    if rule.sustained and rule.on.cron and not rule.on.every and not rule.on.alert:
        words = "for: a rule that only listens to cron does not see whether a fault lasts"
        yield document.problem(("for",), words, "on: {every: 60s}")
    if rule.then is not Then.APPLY and "risk" in document.value:
        words = f"risk: with `then: {rule.then}` every change needs an approval, whatever its risk"
        yield document.problem(("risk",), words, "then: apply, or leave `risk` out")
    if rule.then is Then.APPLY and "risk" not in document.value:
        words = "then: apply, but no `risk` says which changes need no approval"
        yield document.problem(("then",), words, "risk: kills-processes, for example")
    if rule.approve.by and rule.approve.count > len(rule.approve.by):
        words = f"approve: {rule.approve.count} people have to agree, and {len(rule.approve.by)} may"
        yield document.problem(("approve", "count"), words)
    if rule.then is Then.PROBE:
        for key in ("approve", "keep", "during", "breaker", "cooldown", "attempts", "ineffective"):
            if key in document.value:
                yield document.problem((key,), f"{key}: a rule with `then: probe` changes nothing; leave it out")


def _choice(kind: type[T], value: Any, otherwise: T) -> T:
    return next((each for each in kind if str(each) == value), otherwise)  # type: ignore[attr-defined]
