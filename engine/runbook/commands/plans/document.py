"""A saved plan: what its file holds, and the digest that shows whether somebody has edited it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from runbook.codec import from_json, to_json
from runbook.commands.plans.well_formed import faults
from runbook.diagnosis.gates import victims_of
from runbook.errors import ConfigError
from runbook.values.playbook import Phase
from runbook.values.result import HostResult, RunResult, Status, StepResult, Verdict
from runbook.values.shown import ShownHost, ShownStep, described_rest, shown_lines
from runbook.values.types import Json

KIND = "runbook-plan"
FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Maker:
    """Who made a plan, where and when."""

    user: str
    """The operating system's name of that user."""
    sudo_user: str = ""
    """The user who became root with sudo; empty: nobody did, or it is not known."""
    host: str
    at: str
    """ISO 8601, UTC."""

    @property
    def names(self) -> frozenset[str]:
        """Every user name that is theirs."""
        return frozenset(name for name in (self.user, self.sudo_user) if name)

    def __str__(self) -> str:
        by_sudo = f" (by sudo as {self.user})" if self.sudo_user else ""
        return f"{self.sudo_user or self.user}{by_sudo} on {self.host}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundPlaybook:
    """The playbook that a plan was made from, and short digests of its parts, which name what has changed since."""

    name: str
    given: str
    """As it was named on the command line."""
    path: str
    digest: str
    """sha256 of the file and of all that it includes or sends."""
    parts: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundInventory:
    """The inventory that a plan was made from, and short digests of the hosts that it was made for."""

    paths: tuple[str, ...]
    digest: str
    hosts: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundInputs:
    """The inputs: values, and salted digests of those that are secret."""

    values: Mapping[str, Json]
    secrets: Mapping[str, str]
    """scrypt of each value."""
    salt: str
    given: tuple[str, ...]
    """The secret ones that have another value than their default: they must be given again."""
    env: tuple[str, ...] = ()
    """Those of them that the environment gives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedPlan:
    """The whole document."""

    kind: str = KIND
    format: int = FORMAT
    plan: str
    """A random id."""
    made: Maker
    expires_at: str
    """ISO 8601, UTC."""
    engine_version: str
    playbook: BoundPlaybook
    inventory: BoundInventory
    inputs: BoundInputs
    options: Mapping[str, Json]
    """The options of the command line that decide what is done where."""
    undoes: str = ""
    """The recorded run whose changes it takes back; empty: it is the plan of a playbook."""
    run: Mapping[str, Json]
    """What expressions saw of the run that made the plan."""
    approvals: int = 0
    """How many others must approve it."""
    hosts: tuple[ShownHost, ...]
    """Those that have a plan."""
    result: RunResult
    """The dry run as it was reported."""
    digest: str = ""
    """sha256 of everything else."""

    def sealed(self) -> SavedPlan:
        """The same with its digest."""
        return replace(self, digest=_digest(to_json(self)))

    def text(self) -> str:
        """The file."""
        return json.dumps(to_json(self), indent=1) + "\n"


def parsed(raw: bytes, path: str) -> SavedPlan:
    """The plan that a file holds.  Raises ConfigError where it is none, of another version, or edited."""
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
    """Where the part that people read and the part that apply goes by do not agree; empty: nowhere.

    Anybody who makes a plan by hand could show one thing, have it approved, and permit another.
    """
    result = saved.result
    counted = Counter(host.verdict.value for host in result.hosts)
    if result.playbook != saved.playbook.name or dict(result.totals) != dict(counted):
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
    """Whether it shows a step twice, or a change on a host to which nothing would be done."""
    ids = [(step.phase, step.id) for step in host.steps]
    changes = any(step.status is Status.WOULD_CHANGE for step in host.steps)
    return len(set(ids)) != len(ids) or (changes and bool(host.error or host.verdict in CLOSED))


CLOSED = (Verdict.HEALTHY, Verdict.RESOLVED, Verdict.NOT_STARTED)
"""The verdicts of a host to which nothing would be done."""

SHOWN_AS = {
    "change": (Status.WOULD_CHANGE,),
    "no_change": (Status.OK,),
    "skip": (Status.SKIPPED,),
    "blocked": (Status.BLOCKED, Status.DRIFTED),
}
"""How a step with that decision is shown."""


def _agree(seen: StepResult, step: ShownStep) -> bool:
    """Whether *seen* shows what *step* permits, and nothing in it keeps a part of that from being printed."""
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
    """*seen* with all that people read of what *step* permits; see ``runbook.planner.planned_result``."""
    plain = replace(seen, phase=Phase.REMEDIATE, why=step.summary, inapplicable=False, victims=())
    if step.decision == "change":
        victims = victims_of(step.targets)  # they are printed instead of the commands
        return replace(plain, planned=step.summary, risk=step.risk, diff=step.diff or None, victims=victims)
    if step.decision == "no_change":
        plain = replace(plain, why=described_rest(step.summary, step.condition, step.then))
    return replace(plain, planned=step.then.summary, risk=step.then.risk) if step.then else plain


def is_plan(raw: bytes) -> bool:
    """Whether a file is a plan, whatever else is wrong with it."""
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
