"""A saved plan: the content of its file, and the digest that shows whether somebody has edited it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from datetime import datetime
from hashlib import sha256
from typing import Any

from runbook.codec import first_difference, from_json, to_json
from runbook.dataclass import dataclass
from runbook.errors import ConfigError
from runbook.execution.diagnosis.gates import victims_of
from runbook.language.keys import recorded_options
from runbook.values.playbook import HostOrder, Phase
from runbook.values.result import HostResult, RunResult, Status, StepResult, Verdict
from runbook.values.run_origin import RestsOn
from runbook.values.shown import ShownHost, ShownStep, described_rest, shown_lines
from runbook.values.types import Json

KIND = "runbook-plan"
FORMAT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Maker:
    """The user who made a plan, with place and time."""

    user: str
    """The user's name in the operating system."""
    sudo_user: str = ""
    """The user who became root with sudo; empty if nobody did, or if the user is unknown."""
    host: str
    at: str
    """The time when the plan was made: ISO 8601, UTC."""
    agent: str = ""
    """The program through which an agent made the plan for the user; empty: the user made it."""

    @property
    def names(self) -> frozenset[str]:
        """Return every user name of the person who made the plan."""
        return frozenset(name for name in (self.user, self.sudo_user) if name)

    def __str__(self) -> str:
        by_sudo = f" (by sudo as {self.user})" if self.sudo_user else ""
        by_agent = f"an agent through {self.agent}, for " if self.agent else ""
        return f"{by_agent}{self.sudo_user or self.user}{by_sudo} on {self.host}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretDigests:
    """Salted digests of the secret inputs, to check whether the same values are given again."""

    values: Mapping[str, str] = field(default_factory=dict)
    """The scrypt digest of each value."""
    salt: str
    env: tuple[str, ...] = ()
    """The names of the inputs that come from the environment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedPlan:
    """The whole content of a plan file."""

    kind: str = KIND
    format: int = FORMAT
    plan: str
    """A random id."""
    made: Maker
    expires_at: str
    """The end of the plan's validity: ISO 8601, UTC."""
    engine_version: str
    rests_on: RestsOn
    named: str
    """The playbook, or the run that is undone, as typed on the command line."""
    parts: Mapping[str, str]
    """Short digests of the parts of the playbook, to name the parts that have changed."""
    secrets: SecretDigests
    options: Mapping[str, Json]
    """The options of the command line that affect the work and its hosts."""
    undoes: str = ""
    """The recorded run whose changes this plan undoes; empty: it is the plan of a playbook."""
    run: Mapping[str, Json]
    """The values of ``run.`` in the run that made the plan."""
    approvals: int = 0
    """The number of other people who must approve the plan, as its playbook asks."""
    hosts: tuple[ShownHost, ...]
    """The hosts that have a plan."""
    result: RunResult
    """The dry run as it was reported."""
    digest: str = ""
    """The sha256 of everything else."""

    @property
    def signatures(self) -> int:
        """Return the number of people who must sign the plan; an agent's plan needs at least one.

        For an agent's plan whose playbook asks for no approval, that may be the user for whom the agent made it.
        """
        return max(self.approvals, 1) if self.made.agent else self.approvals

    @property
    def changed_hosts(self) -> int:
        """Return the number of hosts that the plan changes."""
        return sum(any(step.status is Status.WOULD_CHANGE for step in host.steps) for host in self.result.hosts)

    def sealed(self) -> SavedPlan:
        """Return the same plan with its digest."""
        return replace(self, digest=_digest(to_json(self)))

    def text(self) -> str:
        """Return the text of the plan's file."""
        return json.dumps(to_json(self), indent=1) + "\n"


def parsed(raw: bytes, path: str) -> SavedPlan:
    """Parse *raw*, the content of the file *path*, as a saved plan.

    Raises ConfigError if it is no plan, of another version, or edited.
    """
    tree = _tree(raw)
    if tree is None:
        raise ConfigError(f"{path} is not a plan: `runbook plan PLAYBOOK --hosts PATTERN -o {path}` makes one")
    if tree.get("format") != FORMAT:
        raise ConfigError(
            f"{path} is a plan of format {tree.get('format')!r}, and this version applies {FORMAT}: make a new one"
        )
    try:
        edited = tree.get("digest") != _digest(tree)
    except RecursionError:  # nested more deeply than any plan
        edited = True
    if edited:
        raise ConfigError(f"{path}: the plan file was changed after it was made; make a new plan")
    try:
        saved = from_json(SavedPlan, tree)
    except ValueError as error:
        raise ConfigError(f"{path} is not a plan that this version understands: {error}") from error
    if wrong := list(faults(saved, tree)):
        raise ConfigError(f"{path} is not a plan: {'; '.join(wrong)}")
    if why := _contradiction(saved):
        raise ConfigError(f"{path}: what the plan shows is not what it permits: {why}; make a new plan")
    return saved


def _contradiction(saved: SavedPlan) -> str:
    """Return the first difference between the part for people and the part for ``apply``; empty if they agree.

    Without this check, a forged plan could show people one thing and permit another.
    """
    result = saved.result
    counted = Counter(host.verdict.value for host in result.hosts)
    if dict(result.totals) != dict(counted):
        return "the summary of the dry run"
    for names in ([host.host for host in saved.hosts], [host.host for host in result.hosts]):
        if len(set(names)) != len(names):
            return "a host that is there twice"
    if wrong := next(filter(_contradicts_itself, result.hosts), None):
        return f"the dry run on {wrong.host}"
    shown = {(host.host, step.id): step for host in result.hosts for step in host.steps}
    permitted = [(host.host, step) for host in saved.hosts for step in host.steps]
    for name, own in permitted:
        seen = shown.get((name, own.id))
        if seen is None or not _agree(seen, own):
            return f"{own.id} on {name}"
    return ""


def _contradicts_itself(host: HostResult) -> bool:
    """Whether *host* has a step twice, or a change although its verdict says that nothing is done."""
    ids = [(step.phase, step.id) for step in host.steps]
    changes = any(step.status is Status.WOULD_CHANGE for step in host.steps)
    return len(set(ids)) != len(ids) or (changes and bool(host.error or host.verdict in CLOSED))


CLOSED = (Verdict.HEALTHY, Verdict.RESOLVED, Verdict.NOT_STARTED)
"""The verdicts of a host on which nothing would be done."""

SHOWN_AS = {
    "change": (Status.WOULD_CHANGE,),
    "no_change": (Status.OK,),
    "skip": (Status.SKIPPED,),
    "blocked": (Status.BLOCKED, Status.DRIFTED),
}
"""The status of a step in a plan, keyed by its decision."""


def _agree(seen: StepResult, step: ShownStep) -> bool:
    """Whether *seen* shows all that *step* permits, and each part of it is printed."""
    if any(target.kind == "process" and target.key.partition(":")[0] != str(target.pid) for target in step.targets):
        return False  # apply goes by the key, and people are shown the pid
    if seen.status not in SHOWN_AS.get(step.decision, ()) or seen.condition != step.condition:
        return False
    changes, condition = step.decision == "change", step.condition or ""
    if not (changes or step.then or step.targets):
        return True  # nothing is permitted
    if (changes or step.then) and step.lines != shown_lines(seen):
        return False
    if not changes and not all(target.say and target.say in condition for target in step.targets):
        return False
    return seen == _as_planned(seen, step)


def _as_planned(seen: StepResult, step: ShownStep) -> StepResult:
    """Return *seen* with all fields that people read about *step*; see ``runbook.execution.planner.planned_result``."""
    plain = replace(seen, phase=Phase.REMEDIATE, why=step.summary, inapplicable=False, victims=())
    if step.decision == "change":
        victims = victims_of(step.targets)  # they are printed instead of the commands
        return replace(plain, planned=step.summary, risk=step.risk, diff=step.diff or None, victims=victims)
    if step.decision == "no_change":
        plain = replace(plain, why=described_rest(step.summary, step.condition, step.then))
    return replace(plain, planned=step.then.summary, risk=step.then.risk) if step.then else plain


LISTS = recorded_options(lists=True)
FLAGS = ("force", "include_not_ready")
TEXTS = recorded_options(lists=False)
MOST_INVENTORIES = 1000
"""The maximum number of inventory files that a plan may name: all are read again."""
RECORDED = (*LISTS, *FLAGS, *TEXTS)
"""The options, besides the hosts, that decide what is done on which hosts."""

_ID = re.compile(r"[0-9a-f]{32}")
_HEX = re.compile(r"([0-9a-f]{2})+")
_UNPRINTABLE = re.compile(r"[\0\ud800-\udfff]")


def faults(saved: SavedPlan, tree: Mapping[str, Json]) -> Iterator[str]:
    """Yield the mistakes in the fields of *saved*, which was parsed from *tree*."""
    if where := first_difference(tree, to_json(saved)):
        yield f"{where} has another type than in a plan"
        return
    if not _ID.fullmatch(saved.plan):
        yield "its id is not one"
    for name, moment in (("made.at", saved.made.at), ("expires_at", saved.expires_at)):
        if not _is_moment(moment):
            yield f"{name} is no time with a zone: {moment!r}"
    if saved.approvals < 0:
        yield f"approvals is {saved.approvals}"
    if not _HEX.fullmatch(saved.secrets.salt):
        yield "secrets.salt is not written in hexadecimal digits"
    yield from (f"secrets.values.{name} is no digest" for name, it in saved.secrets.values.items() if not it.isascii())
    yield from _of_options(saved.options)
    places = {"rests_on.playbook": saved.rests_on.playbook, "named": saved.named}
    if len(saved.rests_on.inventory) > MOST_INVENTORIES:
        yield f"rests_on.inventory has {len(saved.rests_on.inventory)} files, and may have {MOST_INVENTORIES}"
    yield from (f"rests_on.inventory names {path!r} twice" for path in _doubles(saved.rests_on.inventory))
    places |= {f"rests_on.inventory[{number}]": it for number, it in enumerate(saved.rests_on.inventory)}
    yield from (f"{name} names no file" for name, it in places.items() if _UNPRINTABLE.search(it))


def _doubles(paths: Sequence[str]) -> list[str]:
    return [path for path, count in Counter(paths).items() if count > 1]


def _of_options(options: Mapping[str, Json]) -> Iterator[str]:
    for name in (*RECORDED, "hosts"):
        if name not in options:
            yield f"options.{name} is not there"
    for name, value in options.items():
        if name in LISTS:
            good = isinstance(value, list) and all(isinstance(each, str) for each in value)
        elif name in FLAGS:
            good = isinstance(value, bool)
        elif name == "order":
            good = value in (None, "", *(order.value for order in HostOrder))
        elif name == "via":
            good = value == "cluster"
        else:
            good = name in (*TEXTS, "hosts") and (value is None or isinstance(value, str))
        if not good:
            yield f"options.{name} is not what that option can be"


def _is_moment(text: str) -> bool:
    with suppress(ValueError):
        return datetime.fromisoformat(text).tzinfo is not None
    return False


def is_plan(raw: bytes) -> bool:
    """Whether the file content *raw* is a plan; the plan may have mistakes."""
    return _tree(raw) is not None


def _tree(raw: bytes) -> dict[str, Any] | None:
    try:
        tree = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return tree if isinstance(tree, dict) and tree.get("kind") == KIND else None


def _digest(tree: Json) -> str:
    assert isinstance(tree, Mapping)
    rest = {name: value for name, value in tree.items() if name != "digest"}
    return sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
