"""Find what has changed since a saved plan was made: playbook, inventory, inputs and hosts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from hashlib import scrypt
from hmac import compare_digest

from runbook.codec import to_json
from runbook.commands.inventory_sources import is_source
from runbook.commands.plans.document import SavedPlan, SecretDigests
from runbook.commands.rests_on import host_digests
from runbook.commands.sources import Sources
from runbook.errors import Problem
from runbook.text.shortened import first_few
from runbook.values.playbook import Playbook
from runbook.values.shown import short_digest
from runbook.values.types import Json, plural

Mask = Callable[[Json], Json]
"""Returns a value with its secrets masked."""

MOST_NAMED = 8


def secret_digests(secrets: Mapping[str, Json], env: tuple[str, ...], salt: bytes) -> SecretDigests:
    """Return the digests of *secrets*; *env*: the names of secrets that come from the environment."""
    values = {name: _secret_digest(value, salt) for name, value in secrets.items()}
    return SecretDigests(values=values, salt=salt.hex(), env=env)


def missing_inputs(saved: SavedPlan, there: frozenset[str]) -> list[Problem]:
    """Return a problem for each secret input that must be given again; *there*: the names of the inputs that were
    given.
    """
    return [
        Problem(
            message=f"the input {name!r} is secret, so that the plan does not hold it",
            hint=f"give it again: -e {name}=VALUE, or --inputs FILE{_or_env(saved, name)}",
        )
        for name in saved.rests_on.secret_inputs
        if name not in there and name not in saved.secrets.env
    ]


def _or_env(saved: SavedPlan, name: str) -> str:
    return ", or the variable of the environment" if name in saved.secrets.env else ""


def changes(saved: SavedPlan, sources: Sources, mask: Mask) -> list[Problem]:
    """Return a problem for each difference between *sources* and the files and values from which *saved* was made."""
    every = [*_of_playbook(saved, sources, mask), *_of_inventory(saved, sources), *_of_inputs(saved, sources)]
    every += _of_approvals(saved, sources)
    then, now = {host.host for host in saved.result.hosts}, {host.name for host in sources.selection.hosts}
    if then != now and not every:
        names = first_few(sorted(then ^ now), MOST_NAMED)
        every.append(Problem(message=f"the hosts are not those of the plan: {names}", hint="make a new plan"))
    return every


def _of_playbook(saved: SavedPlan, sources: Sources, mask: Mask) -> list[Problem]:
    then, now = saved.rests_on.playbook_digest, sources.playbook
    if saved.result.playbook != now.name:
        words = f"the plan shows the playbook {saved.result.playbook}, and {now.path} is {now.name}"
        return [Problem(message=words, hint="make a new plan")]
    if then == now.digest:
        return []
    what = (
        _differing(saved.parts, parts_of_playbook(now, mask))
        or "only in what no step, finding, input, secret or limit says"
    )
    return [
        Problem(
            file=now.path,
            message=f"the playbook has changed since the plan was made ({saved.made.at}): {what}",
            hint=f"sha256 was {then[:12]}, is {now.digest[:12]}; make a new plan",
        )
    ]


def _of_inventory(saved: SavedPlan, sources: Sources) -> list[Problem]:
    then, now = saved.rests_on, sources.inventory
    if then.inventory_digest == now.digest:
        return []
    taken = {*then.hosts, *(host.name for host in sources.selection.hosts)}
    hosts = host_digests(now, [host for host in now.hosts if host.name in taken])
    differing = _differing(then.hosts, hosts)
    if not differing and then.inventory and all(map(is_source, then.inventory)):
        return []  # what a program lists changes all the time: what counts is what it says of the plan's hosts
    what = differing or "in nothing that tells a host of the plan from another of its name"
    return [
        Problem(
            file=", ".join(now.sources),
            message=f"the inventory has changed since the plan was made ({saved.made.at}): {what}",
            hint=f"sha256 was {then.inventory_digest[:12]}, is {now.digest[:12]}; make a new plan",
        )
    ]


def _of_approvals(saved: SavedPlan, sources: Sources) -> list[Problem]:
    """Return a problem if the playbook asks for another number of approvals than the plan, which its maker could
    edit.
    """
    then, now = saved.approvals, sources.playbook.limits.approvals
    if then == now:
        return []
    words = f"the plan asks for {plural(then, 'approval')}, and {sources.playbook.name} for {now} (limits.approvals)"
    return [Problem(message=words, hint="make a new plan")]


def _of_inputs(saved: SavedPlan, sources: Sources) -> list[Problem]:
    known, secrets = saved.rests_on.known_inputs, saved.secrets.values
    salt, problems = bytes.fromhex(saved.secrets.salt), []
    for name, value in sources.inputs.items():
        if name in secrets:
            if not compare_digest(secrets[name], _secret_digest(value, salt)):
                problems.append(Problem(message=f"the input {name!r} is not what the plan was made with"))
        elif name not in known:
            problems.append(Problem(message=f"the plan was made without the input {name!r}"))
        elif to_json(value) != known[name]:
            words = f"the plan was made with {json.dumps(known[name])}"
            problems.append(Problem(message=f"the input {name!r} is not what {words}", hint="leave it out"))
    return problems


def parts_of_playbook(playbook: Playbook, mask: Mask) -> dict[str, str]:
    """Return a short digest of every named part of *playbook*; the positions in the file do not count."""
    parts: dict[str, object] = {}
    for step in playbook.steps:
        parts[f"{step.phase.value} {step.id}"] = step
    parts |= {f"finding {finding.id}": finding for finding in playbook.findings}
    parts |= {f"input {each.name}": each for each in playbook.inputs}
    parts |= {f"secret {secret.name}": secret for secret in playbook.secrets}
    parts |= {"limits": playbook.limits, "hosts": playbook.hosts}
    return {name: short_digest(mask(_placeless(to_json(value)))) for name, value in parts.items()}


def _placeless(tree: Json) -> Json:
    """Return *tree* without the positions in files."""
    if isinstance(tree, Mapping):
        return {name: _placeless(value) for name, value in tree.items() if name != "where"}
    return [_placeless(each) for each in tree] if isinstance(tree, list) else tree


def _differing(then: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Return text about the names that were added, removed or changed."""
    added = [f"{name} is new" for name in now if name not in then]
    gone = [f"{name} is gone" for name in then if name not in now]
    changed = [f"{name} is another" for name in then if name in now and then[name] != now[name]]
    return first_few([*changed, *gone, *added], MOST_NAMED)


def _secret_digest(value: Json, salt: bytes) -> str:
    """Return a digest of *value* that makes guessing costly (scrypt, RFC 7914; 16 MiB)."""
    raw = json.dumps(to_json(value), sort_keys=True).encode()
    return scrypt(raw, salt=salt, n=2**14, r=8, p=1, dklen=32).hex()
