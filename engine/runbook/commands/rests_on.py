"""Record the files, hosts and inputs of a run, a saved plan or an owed clean-up, and find what has changed since."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from hashlib import sha256
from pathlib import Path

from runbook.codec import to_json
from runbook.commands.inventory_sources import lasting_name
from runbook.commands.order import Order, secret_inputs_of
from runbook.dataclass import dataclass
from runbook.errors import Problem
from runbook.language.secret_uses import secret_uses
from runbook.records.process_identity import process_user, this_process
from runbook.secret_sources.choice import Choice
from runbook.secrets.masking import Masking, masked
from runbook.secrets.names import MASK
from runbook.values.inventory import Host, Inventory
from runbook.values.playbook import Playbook, SecretReference, SecretSource
from runbook.values.run_origin import RestsOn, RunOrigin, SecretPlace
from runbook.values.types import Json
from runbook.version import __version__


def rests_on(order: Order) -> RestsOn:
    """Return the files, hosts and inputs from which *order* is made."""
    playbook, hidden = order.playbook, secret_inputs_of(order)
    default = {declared.name: declared.default for declared in playbook.inputs}
    inventory = order.inventory
    return RestsOn(
        playbook=str(Path(playbook.path).absolute()) if playbook.path else "",
        playbook_digest=playbook.digest,
        inventory=tuple(map(lasting_name, inventory.sources)),
        inventory_digest=inventory.digest,
        hosts=host_digests(inventory, (*order.selection.hosts, *_elsewhere(order))),
        inputs={name: MASK if name in hidden else value for name, value in order.inputs.items()},
        profile_inputs=order.profile_inputs,
        secret_inputs=tuple(sorted(name for name in hidden if order.inputs.get(name) != default.get(name))),
        secret_places=secret_places(playbook, inventory, order.selection.hosts),
    )


def secret_values(order: Order, basis: RestsOn) -> dict[str, Json]:
    """Return the values of the inputs of *order* that are masked in *basis*."""
    return {name: order.inputs[name] for name, value in basis.inputs.items() if value == MASK}


def origin_of(order: Order, command: str, *, diagnose_only: bool = False) -> RunOrigin:
    """Return the origin of a run of *order* that *command* starts."""
    basis = rests_on(order)
    return RunOrigin(
        **{each.name: getattr(basis, each.name) for each in fields(RestsOn)},
        command=command,
        by=f"{process_user()}@{socket.gethostname()}",
        sudo_user=os.environ.get("SUDO_USER", ""),
        client=os.environ.get("SSH_CONNECTION", "").partition(" ")[0],
        reason=order.reason,
        version=__version__,
        process=this_process(),
        inputs_digest=digest_of(basis.known_inputs),
        lent_secrets=bool(order.secret_values.masked) or bool(order.remote and any(secret_uses(order.playbook))),
        diagnose_only=diagnose_only,
    )


def _elsewhere(order: Order) -> Iterator[Host]:
    """Yield the hosts that steps name with ``on``."""
    names = {step.on for step in order.playbook.steps}
    yield from (host for host in order.inventory.hosts if host.name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The changes since an earlier run: of the playbook, of hosts, and of the places of secrets."""

    playbook: bool = False
    hosts: tuple[str, ...] = ()
    """The hosts whose entries in the inventory have changed: each may be another machine."""
    secrets: Mapping[str, tuple[str, ...]]
    """The secrets whose places in the inventory have changed, each with its hosts."""


def changed_since(
    past: Iterable[RestsOn | None],
    inventory: Inventory,
    names: Collection[str],
    *,
    playbook: Playbook | None = None,
    hosts: Sequence[Host] = (),
) -> Changes:
    """Compare with the latest of *past*: *playbook*, the hosts called *names*, and the places of secrets of *hosts*.

    Without a *playbook* only hosts are compared.
    """
    bases = [basis for basis in past if basis]
    before = {name: digest for basis in bases for name, digest in basis.hosts.items()}
    now = host_digests(inventory, [host for host in inventory.hosts if host.name in names and host.name in before])
    places = [place for basis in bases for place in basis.secret_places]
    known = {(place.secret, host): place.digest for place in places for host in place.hosts}
    secrets: dict[str, tuple[str, ...]] = {}
    for place in secret_places(playbook, inventory, hosts) if playbook else ():
        others = [host for host in place.hosts if known.get((place.secret, host), place.digest) != place.digest]
        secrets |= {place.secret: (*secrets.get(place.secret, ()), *others)} if others else {}
    return Changes(
        playbook=bool(playbook and bases and playbook.digest != bases[-1].playbook_digest),
        hosts=tuple(name for name, digest in now.items() if digest != before[name]),
        secrets=secrets,
    )


def secret_places(playbook: Playbook, inventory: Inventory, hosts: Sequence[Host]) -> tuple[SecretPlace, ...]:
    """Return the places from which *inventory* takes the secrets that *playbook* uses on *hosts*.

    Only places that an inventory file names count.
    """
    choice = Choice(playbook, inventory, hosts)
    found: dict[tuple[str, str], dict[str, None]] = {}
    for use in secret_uses(playbook):
        referred = choice.referred(use)
        for host, reference in {} if isinstance(referred, Problem) else referred.items():
            if reference.where.file in inventory.sources:
                name = f"{use.step.part}/{use.name}" if use.step.part else use.name
                named = [host] if host else [each.name for each in hosts]
                found.setdefault((name, _place_digest(reference)), {}).update(dict.fromkeys(named))
    return tuple(SecretPlace(secret=name, hosts=tuple(its), digest=digest) for (name, digest), its in found.items())


def _place_digest(reference: SecretReference) -> str:
    """Return a digest of the place of a secret; a file is relative to the inventory that names it."""
    beside = str(Path(reference.where.file).absolute().parent) if reference.source is SecretSource.FILE else ""
    return sha256(json.dumps([reference.source, *reference.words, beside]).encode()).hexdigest()[:16]


def host_digests(inventory: Inventory, hosts: Iterable[Host]) -> dict[str, str]:
    """Return a digest for each of *hosts*: of its addresses and of its entry in *inventory*.

    Secrets are masked first, because others may read the files with the digests, and could test guesses against them.
    """
    mask = Masking(inventory.secrets) if inventory.secrets else None
    found = {}
    for host in hosts:
        parts = _way_in(host)
        tree = masked(to_json(parts), mask) if mask else to_json(parts)
        found[host.name] = sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()[:16]
    return found


def _way_in(host: Host) -> dict[str, object]:
    """Return what tells *host*, and each host through which it is reached, from others of their names."""
    parts = {name: getattr(host, name) for name in ("addresses", "user", "transport", "proxy", "vars")}
    return {**parts, "via": _way_in(host.via)} if host.via else parts


def digest_of(inputs: Mapping[str, Json]) -> str:
    """Return the sha256 of *inputs*, in hexadecimal."""
    return sha256(json.dumps(to_json(inputs), sort_keys=True).encode()).hexdigest()
