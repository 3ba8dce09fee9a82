"""What a plan is bound to: playbook, inventory and inputs; and how to say which of them has changed since."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from hashlib import scrypt
from hmac import compare_digest

from runbook.codec import to_json
from runbook.commands.plans.document import BoundInputs, BoundInventory, BoundPlaybook, SavedPlan
from runbook.commands.run import Sources
from runbook.errors import Problem
from runbook.text.shortened import first_few
from runbook.values.inventory import Host
from runbook.values.playbook import Playbook
from runbook.values.shown import short_digest
from runbook.values.types import Json, plural

Mask = Callable[[Json], Json]
"""Takes the secrets out of a value."""

MOST_NAMED = 8


def bound_playbook(playbook: Playbook, given: str, path: str, mask: Mask) -> BoundPlaybook:
    """*playbook*, which was named *given* and lies at the absolute *path*."""
    return BoundPlaybook(
        name=playbook.name, given=given, path=path, digest=playbook.digest, parts=_parts(playbook, mask)
    )


def bound_inventory(paths: tuple[str, ...], digest: str, hosts: tuple[Host, ...], mask: Mask) -> BoundInventory:
    """The inventory in *paths*, and the *hosts* that were taken from it."""
    return BoundInventory(
        paths=paths, digest=digest, hosts={host.name: short_digest(mask(_of_host(host))) for host in hosts}
    )


def bound_inputs(
    plain: Mapping[str, Json], secret: Mapping[str, Json], given: tuple[str, ...], env: tuple[str, ...], salt: bytes
) -> BoundInputs:
    """The inputs *plain* as they are, and the *secret* ones as digests; *env*: those that the environment gives."""
    return BoundInputs(
        values=plain,
        secrets={name: _secret_digest(value, salt) for name, value in secret.items()},
        salt=salt.hex(),
        given=given,
        env=env,
    )


def missing_inputs(saved: SavedPlan, there: frozenset[str]) -> list[Problem]:
    """The secret inputs that have to be given again; *there* are the names of those that were."""
    return [
        Problem(
            message=f"the input {name!r} is secret, so that the plan does not hold it",
            hint=f"give it again: -e {name}=VALUE, or --inputs FILE{_or_env(saved, name)}",
        )
        for name in saved.inputs.given
        if name not in there and name not in saved.inputs.env
    ]


def _or_env(saved: SavedPlan, name: str) -> str:
    return ", or the variable of the environment" if name in saved.inputs.env else ""


def changes(saved: SavedPlan, sources: Sources, mask: Mask) -> list[Problem]:
    """Everything in which *sources* are not what *saved* was made from."""
    every = [*_of_playbook(saved, sources, mask), *_of_inventory(saved, sources, mask), *_of_inputs(saved, sources)]
    every += _of_approvals(saved, sources)
    then, now = {host.host for host in saved.result.hosts}, {host.name for host in sources.selection.hosts}
    if then != now and not every:
        names = first_few(sorted(then ^ now), MOST_NAMED)
        every.append(Problem(message=f"the hosts are not those of the plan: {names}", hint="make a new plan"))
    return every


def _of_playbook(saved: SavedPlan, sources: Sources, mask: Mask) -> list[Problem]:
    then, now = saved.playbook, sources.playbook
    if then.digest == now.digest:
        return []
    what = _differing(then.parts, _parts(now, mask)) or "only in what no step, finding, input, secret or limit says"
    return [
        Problem(
            file=now.path,
            message=f"the playbook has changed since the plan was made ({saved.made.at}): {what}",
            hint=f"sha256 was {then.digest[:12]}, is {now.digest[:12]}; make a new plan",
        )
    ]


def _of_inventory(saved: SavedPlan, sources: Sources, mask: Mask) -> list[Problem]:
    then, now = saved.inventory, sources.inventory
    if then.digest == now.digest:
        return []
    hosts = {host.name: short_digest(mask(_of_host(host))) for host in sources.selection.hosts}
    what = _differing(then.hosts, hosts) or "in nothing that the hosts of the plan are described by"
    return [
        Problem(
            file=", ".join(now.sources),
            message=f"the inventory has changed since the plan was made ({saved.made.at}): {what}",
            hint=f"sha256 was {then.digest[:12]}, is {now.digest[:12]}; make a new plan",
        )
    ]


def _of_approvals(saved: SavedPlan, sources: Sources) -> list[Problem]:
    """The number is the playbook's: anybody who makes a plan could write another one into it."""
    then, now = saved.approvals, sources.playbook.limits.approvals
    if then == now:
        return []
    words = f"the plan asks for {plural(then, 'approval')}, and {sources.playbook.name} for {now} (limits.approvals)"
    return [Problem(message=words, hint="make a new plan")]


def _of_inputs(saved: SavedPlan, sources: Sources) -> list[Problem]:
    salt, problems = bytes.fromhex(saved.inputs.salt), []
    for name, value in sources.inputs.items():
        if name in saved.inputs.secrets:
            if not compare_digest(saved.inputs.secrets[name], _secret_digest(value, salt)):
                problems.append(Problem(message=f"the input {name!r} is not what the plan was made with"))
        elif name not in saved.inputs.values:
            problems.append(Problem(message=f"the plan was made without the input {name!r}"))
        elif to_json(value) != saved.inputs.values[name]:
            words = f"the plan was made with {json.dumps(saved.inputs.values[name])}"
            problems.append(Problem(message=f"the input {name!r} is not what {words}", hint="leave it out"))
    return problems


def _parts(playbook: Playbook, mask: Mask) -> dict[str, str]:
    """A short digest of every part that has a name; the places in the file do not count."""
    parts: dict[str, object] = {}
    for step in playbook.steps:
        parts[f"{step.phase.value} {step.id}"] = step
    parts |= {f"finding {finding.id}": finding for finding in playbook.findings}
    parts |= {f"input {each.name}": each for each in playbook.inputs}
    parts |= {f"secret {secret.name}": secret for secret in playbook.secrets}
    parts |= {"limits": playbook.limits, "hosts": playbook.hosts}
    return {name: short_digest(mask(_placeless(to_json(value)))) for name, value in parts.items()}


def _of_host(host: Host) -> Json:
    return _placeless(to_json(host))


def _placeless(tree: Json) -> Json:
    """*tree* without the places in files."""
    if isinstance(tree, Mapping):
        return {name: _placeless(value) for name, value in tree.items() if name != "where"}
    return [_placeless(each) for each in tree] if isinstance(tree, list) else tree


def _differing(then: Mapping[str, str], now: Mapping[str, str]) -> str:
    """What was added, removed and changed, by name."""
    added = [f"{name} is new" for name in now if name not in then]
    gone = [f"{name} is gone" for name in then if name not in now]
    changed = [f"{name} is another" for name in then if name in now and then[name] != now[name]]
    return first_few([*changed, *gone, *added], MOST_NAMED)


def _secret_digest(value: Json, salt: bytes) -> str:
    """A digest that is costly to try guesses against (RFC 7914; 16 MiB)."""
    raw = json.dumps(to_json(value), sort_keys=True).encode()
    return scrypt(raw, salt=salt, n=2**14, r=8, p=1, dklen=32).hex()
