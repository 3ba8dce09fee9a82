"""Say where a run comes from: who started it, where, why, and from which files."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from runbook import __version__
from runbook.codec import to_json
from runbook.commands.order import Order, hidden_inputs
from runbook.commands.secret_sources.choice import Choice
from runbook.errors import Problem
from runbook.lang.secret_uses import secret_uses
from runbook.records.process_identity import process_user, this_process
from runbook.values.inventory import Host, Inventory
from runbook.values.playbook import Playbook, SecretReference, SecretSource
from runbook.values.run_origin import RunOrigin, SecretPlace
from runbook.values.types import Json


def origin_of(
    order: Order, command: str, *, reason: str = "", diagnose_only: bool = False, **rest: object
) -> RunOrigin:
    """The origin of a run of *order* that the *command* of the command line starts."""
    playbook, hidden = order.playbook, hidden_inputs(order)
    shown: dict[str, Json] = {name: "***" if name in hidden else value for name, value in order.inputs.items()}
    default = {each.name: each.default for each in playbook.inputs}
    return RunOrigin(
        command=command,
        by=f"{process_user()}@{socket.gethostname()}",
        sudo_user=os.environ.get("SUDO_USER", ""),
        client=os.environ.get("SSH_CONNECTION", "").partition(" ")[0],
        reason=reason,
        version=__version__,
        process=this_process(),
        playbook=str(Path(playbook.path).absolute()) if playbook.path else "",
        playbook_digest=playbook.digest,
        inventory=tuple(str(Path(source).absolute()) for source in order.inventory.sources),
        inventory_digest=order.inventory.digest,
        hosts={host.name: host_digest(host) for host in (*order.selection.hosts, *_elsewhere(order))},
        inputs=shown,
        inputs_digest=digest_of({name: value for name, value in shown.items() if name not in hidden}),
        secret_inputs=tuple(sorted(name for name in hidden if order.inputs.get(name) != default.get(name))),
        lent_secrets=bool(order.secret_values.masked),
        secret_places=secret_places(playbook, order.inventory, order.selection.hosts),
        diagnose_only=diagnose_only,
    )


def _elsewhere(order: Order) -> Iterator[Host]:
    """The hosts that steps name with ``on``."""
    names = {step.on for step in order.playbook.steps}
    yield from (host for host in order.inventory.hosts if host.name in names)


def changed_since(origins: Iterable[RunOrigin | None], inventory: Inventory, names: Collection[str]) -> list[str]:
    """Those of *names* of which *inventory* says something else than when the last of *origins* named them.

    Each may be another machine now.
    """
    before = {name: digest for origin in origins if origin for name, digest in origin.hosts.items()}
    hosts = [host for host in inventory.hosts if host.name in names and host.name in before]
    return [host.name for host in hosts if host_digest(host) != before[host.name]]


def secret_places(playbook: Playbook, inventory: Inventory, hosts: Sequence[Host]) -> tuple[SecretPlace, ...]:
    """Where *inventory* says that the secrets are which *playbook* uses on *hosts*; what it says itself is not here."""
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


def other_secret_places(
    origins: Iterable[RunOrigin | None], places: Iterable[SecretPlace]
) -> dict[str, tuple[str, ...]]:
    """The secrets, each with its hosts, that are elsewhere by *places* than when the last of *origins* used them."""
    known = [place for origin in origins if origin for place in origin.secret_places]
    before = {(place.secret, host): place.digest for place in known for host in place.hosts}
    found: dict[str, tuple[str, ...]] = {}
    for place in places:
        others = [word for word in place.hosts if before.get((place.secret, word), place.digest) != place.digest]
        found |= {place.secret: (*found.get(place.secret, ()), *others)} if others else {}
    return found


def _place_digest(reference: SecretReference) -> str:
    """What tells a place from another; a file lies beside the inventory that names it."""
    beside = str(Path(reference.where.file).absolute().parent) if reference.source is SecretSource.FILE else ""
    return sha256(json.dumps([reference.source, *reference.words, beside]).encode()).hexdigest()[:16]


def host_digest(host: Host) -> str:
    """What tells a host from another of its name: its addresses, and all that its inventory says of it."""
    parts = {name: getattr(host, name) for name in ("addresses", "user", "transport", "proxy", "vars")}
    return sha256(json.dumps(to_json(parts), sort_keys=True).encode()).hexdigest()[:16]


def digest_of(inputs: Mapping[str, Json]) -> str:
    """sha256 of *inputs*, hexadecimal."""
    return sha256(json.dumps(to_json(inputs), sort_keys=True).encode()).hexdigest()
