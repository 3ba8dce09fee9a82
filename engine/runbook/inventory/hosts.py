"""Build a Host from its fields, for every inventory format."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from runbook.errors import ConfigError, Problem
from runbook.inventory.containers import container_of
from runbook.inventory.entries.default_fields import DEFAULTS, defaults_in
from runbook.inventory.entries.host_ranges import entries_of, is_range
from runbook.inventory.entries.placeholders import is_placeholder
from runbook.inventory.field_names import HOST_FIELDS, slips
from runbook.inventory.fields import Fields, Notes, Path, problem_at, value_in_words
from runbook.inventory.host_names import mistake_in
from runbook.inventory.host_secrets import SECRETS, secrets_of_host
from runbook.secrets.documents import secrets_in, shown
from runbook.text.name_ranges import MOST_NAMES, fold
from runbook.values.inventory import Address, Host, HostKeys, Inventory
from runbook.values.login_names import fault_in_host, fault_in_user
from runbook.values.playbook import Where
from runbook.values.types import Json

DEFAULT_KEY = "~/.ssh/id_cluster"
DEFAULT_STATUS = "ready"
SSH_PORT = 22

TUNNEL_ENV = (
    ("cloudflare_service_token_id", "TUNNEL_SERVICE_TOKEN_ID"),
    ("cloudflare_service_token_secret", "TUNNEL_SERVICE_TOKEN_SECRET"),
)
"""The environment variables in which ``cloudflared access ssh`` looks for a service token if no flag gives a token."""


Values = Mapping[str, object]
"""Fields by the names that the file uses."""


def hosts_in(
    section: object,
    path: Path,
    notes: Notes,
    spelled: Mapping[str, str] | None = None,
    defaults: Values | None = None,
) -> tuple[Host, ...]:
    """Return the hosts in *section*, a mapping of names to fields at *path*; mistakes are added to *notes*.

    *spelled* maps runbook's names of fields to those of the format, where they differ; *defaults* are the values of
    fields that a host does not set.
    """
    if not isinstance(section, Mapping):
        notes.add(
            path, f"{path[-1]}: expected a mapping of host names to their fields, not {value_in_words('', section)}"
        )
        return ()
    if not section:
        notes.add(path, f"{path[-1]}: names no hosts")
    found: list[Host] = []
    for name, fields in section.items():
        found += hosts_at(name, fields, (*path, name), notes, spelled, defaults)
        if len(found) > MOST_NAMES:
            notes.add((*path, name), f"the file names more than {MOST_NAMES} hosts up to here")
            break
    return tuple(found)


def hosts_at(
    name: object,
    fields: object,
    path: Sequence[object],
    notes: Notes,
    spelled: Mapping[str, str] | None = None,
    defaults: Values | None = None,
) -> Iterator[Host]:
    """Yield the host *name* with *fields*, or each host of the range *name*; yield none, and add a mistake, if it is
    wrong.
    """
    place = tuple(each for each in path if isinstance(each, str | int))
    dotted = ".".join(map(str, path))
    if not is_range(name) and (mistake := mistake_in(name)):
        notes.add(place, f"{dotted}: the host name {value_in_words('', name)} cannot be used", mistake)
        return
    if fields is not None and not isinstance(fields, Mapping):
        notes.add(place, f"{dotted}: expected a mapping of fields, not {value_in_words('', fields)}")
        return
    read = _fields(fields or {}, place, notes, spelled or {})
    entries = entries_of(str(name), read) if is_range(name) else iter([(str(name), read.values)])
    for each, values in entries:
        if mistake := mistake_in(each):
            notes.add(place, f"{dotted}: the host name {value_in_words('', each)} cannot be used", mistake)
            return
        yield host_of(each, _with_defaults(each, replace(read, values=values), defaults or {}))


def _fields(tree: Mapping[object, object], place: Path, notes: Notes, spelled: Mapping[str, str]) -> Fields:
    """Return the fields in *tree*, which is at *place*, by runbook's names; misspelt names are recorded."""
    values = {str(key): value for key, value in tree.items()}
    ours = {key: values[written] for key, written in spelled.items() if written in values and key not in values}
    read = Fields(values={**values, **ours}, path=place, notes=notes, spelled={word: spelled[word] for word in ours})
    for name_of_field, meant in slips(values.keys() - set(spelled.values()), read.values.keys() & HOST_FIELDS).items():
        read.wrong(name_of_field, "unknown field", f"did you mean {meant}?")
    return read


def _with_defaults(name: str, fields: Fields, defaults: Values) -> Fields:
    """Return *fields* of the host *name*, completed with *defaults*; a host does not become its own jump host."""
    taken = {
        key: value
        for key, value in defaults.items()
        if key not in fields.values and (key != "ssh_proxy" or str(value).strip() != name)
    }
    return replace(fields, values={**taken, **fields.values}, inherited=frozenset(taken)) if taken else fields


def checked_defaults(
    document: object, hosts: Iterable[object], notes: Notes, spelled: Mapping[str, str] | None = None
) -> Values:
    """Return the ``defaults:`` of *document* for its *hosts*; none if they have mistakes, which are added to
    *notes*.
    """
    before = len(notes.problems)
    values = defaults_in(document, hosts, notes, spelled or {})
    if values:
        host_of(DEFAULTS, Fields(values=values, path=(DEFAULTS,), notes=notes, spelled=spelled or {}))
    return {} if len(notes.problems) > before else values


def host_of(name: str, fields: Fields) -> Host:
    """Return the host that *fields* describe.  A ``user@`` in ``ssh_host`` is used before ``ssh_user``."""
    transport = fields.word("transport") or "ssh"
    user, addresses, placeholder = _ways(name, fields)
    proxy, proxy_env = _tunnel(fields)
    inside = container_of(name, transport, fields)
    local = transport == "local" or inside is not None
    fields.word("ssh_proxy")
    ephemeral, container = fields.flag("is_ephemeral"), fields.flag("is_container")
    _check_traits(fields)
    return Host(
        name=name,
        addresses=() if local else addresses,
        user=user,
        key=_key(fields),
        transport=transport,
        proxy="" if local else proxy,
        proxy_env=() if local else proxy_env,
        placeholder="" if local or addresses or proxy else placeholder,
        container=inside,
        status=fields.text("status").lower() or DEFAULT_STATUS,
        host_keys=HostKeys.IGNORE if ephemeral or container else HostKeys.ACCEPT_NEW,
        secrets=secrets_of_host(fields),
        vars=_vars(fields),
        where=fields.notes.at(fields.path),
        places={key: fields.place(key) for key in ("transport", "ssh_proxy", "container_host") if key in fields.values},
    )


def _check_traits(fields: Fields) -> None:
    """Check the fields that form groups; ``gpu: no``, a boolean in YAML 1.1, is allowed."""
    for key in ("region", "provider"):
        fields.text(key)
    fields.texts("role")
    for key in ("cuda_capable", "has_gpu"):
        fields.flag(key)
    for key in ("gpu", "gpu_type"):
        if isinstance(fields.values.get(key), Mapping | list | tuple):
            fields.text(key)


def inventory_of(hosts: Sequence[Host], document: object, notes: Notes) -> Inventory:
    """Return the inventory of one file.  Raises ConfigError with every mistake in *notes*."""
    notes.problems.extend(named_twice(hosts))
    if notes.problems:
        raise ConfigError(*notes.problems)
    return Inventory(hosts=tuple(hosts), secrets=secrets_in(document), sources=(notes.source,))


def named_twice(hosts: Sequence[Host]) -> list[Problem]:
    """Return a mistake for every entry with names that an earlier entry has, with both places."""
    first: dict[str, Host] = {}
    twice: dict[tuple[Where, Where], list[str]] = {}
    for host in hosts:
        known = first.setdefault(host.name, host)
        if known is not host:
            twice.setdefault((host.where, known.where), []).append(host.name)
    entries: dict[Where, list[str]] = {}
    for host in hosts if twice else ():
        entries.setdefault(host.where, []).append(host.name)
    return [_twice(names, *places, entries) for places, names in twice.items()]


def _twice(names: Sequence[str], where: Where, known: Where, entries: Mapping[Where, Sequence[str]]) -> Problem:
    """Return the mistake that two entries, at *where* and at *known*, both have *names*; for a range, add a remedy.

    *entries* has the hosts of each entry.
    """
    words = f"the host {names[0]} is" if len(names) == 1 else f"the hosts {fold(names)} are"
    hint = "keep one of them"
    if where.line and where != known:
        longest = max(entries[known], entries[where], key=len)
        rest = [name for name in longest if name not in names] if len(longest) > len(names) else []
        hint += f", or leave the range without it: {fold(rest)}" if rest and len(fold(rest)) <= 100 else ""
    return problem_at(where, f"{words} also in {known}", hint)


def _ways(name: str, fields: Fields) -> tuple[str, tuple[Address, ...], str]:
    """Return the user, the addresses in order of preference, and the placeholder in place of an address."""
    named, sign, written = _address(fields, "ssh_host").rpartition("@")
    if sign and not (named and written):
        fields.wrong("ssh_host", f"expected user@host, not {value_in_words('', named + sign + written)}")
    user = fields.word("ssh_user")
    user, port = named or user, fields.port("ssh_port")
    if fault := fault_in_user(user):
        fields.wrong("ssh_host" if named else "ssh_user", f"the user name {value_in_words('', user)} {fault}")
    tailscale, fallback = _address(fields, "tailscale_ip"), _address(fields, "fallback_host")
    if not sign and fields.values.get("ssh_host") in (None, ""):
        written = name
    ways = [("tailscale_ip", tailscale, SSH_PORT), ("ssh_host", written, port), ("fallback_host", fallback, port)]
    placeholders = [text for _, text, _ in ways if text and is_placeholder(text)]
    found: dict[tuple[str, int], Address] = {}
    for key, text, number in ways:
        if text and not is_placeholder(text) and (host := _host_part(key, text, fields)):
            found.setdefault((host, number or SSH_PORT), Address(host=host, port=number))
    return user, tuple(found.values()), placeholders[0] if placeholders else ""


def _address(fields: Fields, key: str) -> str:
    text = fields.text(key)
    return text if is_placeholder(text) else fields.word(key)


def _host_part(key: str, text: str, fields: Fields) -> str:
    """Return the name or number of a machine in *text*; return an empty text, and record a mistake, if there
    is none.
    """
    if re.fullmatch(r"\[[0-9A-Fa-f:.]+(%\w+)?\]", text) and _is_ipv6(text[1:-1]):
        return text[1:-1]
    if re.fullmatch(r"[^:]+:\d+|\[.*\]:\d+", text):
        fields.wrong(
            key, f"expected an address without a port, not {value_in_words(key, text)}", "the port goes into ssh_port"
        )
        return ""
    if ":" in text and not _is_ipv6(text):
        fields.wrong(key, f"expected a host name or an IP address, not {value_in_words(key, text)}")
        return ""
    if re.search(r":[1-9]\d{2,4}$", text) and not fields.values.get("ssh_port"):
        address, _, port = text.rpartition(":")
        hint = f"write [{text}] if all of it is the address" + (
            f", or {address} and ssh_port: {port}" if _is_ipv6(address) else ""
        )
        fields.wrong(key, f"{text} may end with a port", hint)
        return ""
    if fault_in_host(text) or re.search(r"[/@\[\]!*?,#=]", text):
        fields.wrong(key, f"expected a host name or an IP address, not {value_in_words(key, text)}")
        return ""
    return text


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _key(fields: Fields) -> str:
    """Return the path of the private key; the default key is used only if its file exists."""
    written = fields.text("ssh_key")
    path = os.path.expanduser(written or DEFAULT_KEY)
    return path if written or os.path.isfile(path) else ""


def _tunnel(fields: Fields) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return the ProxyCommand through a Cloudflare tunnel, and the environment variables that it needs."""
    hostname = fields.word("cloudflare_tunnel")
    tokens = tuple((name, text) for key, name in TUNNEL_ENV if (text := fields.text(key)))
    if not hostname or is_placeholder(hostname):
        return "", ()
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?", hostname):
        fields.wrong("cloudflare_tunnel", f"expected the host name of a tunnel, not {value_in_words('', hostname)}")
        return "", ()
    return f"cloudflared access ssh --hostname {hostname}", tokens


def _vars(fields: Fields) -> Mapping[str, Json]:
    try:
        return shown({key: value for key, value in fields.values.items() if key != SECRETS})
    except ValueError as error:
        fields.notes.add(fields.path, f"{'.'.join(map(str, fields.path))}: {error}")
        return {}
