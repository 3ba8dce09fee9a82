"""Read hosts that are given by addresses, without an inventory: ``root@10.0.0.7:2222,gpu-01.example.net``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256
from ipaddress import ip_address

from runbook.errors import ConfigError, Problem
from runbook.inventory.fields import Fields, Notes
from runbook.inventory.host_patterns import split_at_operators
from runbook.inventory.hosts import host_of
from runbook.text.name_ranges import expanded
from runbook.values.inventory import Host, Inventory
from runbook.values.playbook import Where

_IPV6 = r"\[[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%\w+)?\]"
_ADDRESS = re.compile(rf"(?:(?P<user>[^@:,\s\[\]]+)@)?(?P<host>{_IPV6}|[\w.-]+)(?::(?P<port>[0-9]+))?")
MOST_HOSTS = 10_000


def addresses_in(pattern: str) -> tuple[str, ...]:
    """Return the addresses in *pattern*, with ranges expanded; none if *pattern* contains no address.

    Raises ConfigError if only some of its parts are addresses.
    """
    words = [word for operator, word in split_at_operators(pattern) if word]
    only_commas = all(operator == "," for operator, _ in split_at_operators(pattern))
    given = {word: _written_out(word) for word in words if only_commas}
    if not any(given.values()):
        return ()
    if bare := [word for word, found in given.items() if not found]:
        raise ConfigError(*(_no_address(word) for word in bare))
    return tuple(dict.fromkeys(each for found in given.values() for each in found))


def is_address(text: str) -> bool:
    """Whether *text* is an address: it has a user, a port, a dot in the name, or it is an IP address."""
    if _is_ip(text.rpartition("@")[2]):
        return True
    found = _ADDRESS.fullmatch(text)
    return bool(found and (found["user"] or found["port"] or "." in found["host"] or found["host"].startswith("[")))


def inventory_of_addresses(addresses: Iterable[str]) -> Inventory:
    """Return an inventory of *addresses*; each address is also the name of its host, and there are no groups.

    Raises ConfigError with every mistake.
    """
    names = tuple(addresses)
    notes = Notes(source="", where=lambda _: Where())
    hosts = [_host(name, notes) for name in names]
    problems = [*notes.problems, *_twice(hosts)]
    if problems:
        raise ConfigError(*dict.fromkeys(problems))
    return Inventory(hosts=tuple(hosts), digest=sha256("\0".join(sorted(names)).encode()).hexdigest())


def _written_out(word: str) -> list[str]:
    """Return the addresses in *word*, which may have a range; none if it is not an address."""
    if is_address(word):
        return [word]
    if "[" not in word or set(word) & set("*?="):
        return []
    try:
        found = expanded(word, MOST_HOSTS, "hosts")
    except ValueError as error:
        raise ConfigError(f"{word} {error}") from error
    return found if is_address(found[0]) else []


def _host(name: str, notes: Notes) -> Host:
    if _is_ip(name.rpartition("@")[2]):
        user, _, host = name.rpartition("@")
        port = ""
    else:
        found = _ADDRESS.fullmatch(name)
        user, host, port = (found["user"] or "", found["host"], found["port"] or "") if found else ("", name, "")
    values = {"ssh_host": host, **({"ssh_user": user} if user else {}), **({"ssh_port": port} if port else {})}
    return host_of(name, Fields(values=values, path=(name,), notes=notes))


def _is_ip(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _twice(hosts: Iterable[Host]) -> Iterable[Problem]:
    """Yield a problem for each machine with two names: it would be changed twice at the same time."""
    first: dict[tuple[str, int], str] = {}
    for host in hosts:
        for address in host.addresses:
            known = first.setdefault((address.host, address.port), host.name)
            if known != host.name:
                yield Problem(message=f"{known} and {host.name} are the same address", hint="keep one of them")


def _no_address(word: str) -> Problem:
    hint = f"write USER@{word}, or give an inventory that has it (-i FILE)" if re.fullmatch(r"[\w-]+", word) else ""
    return Problem(message=f"no inventory was found, and {word!r} is no address", hint=hint)
