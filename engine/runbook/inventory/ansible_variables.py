"""Translate the Ansible variables about a host's connection into the fields of a host of this tool."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace

from runbook.inventory.ansible_groups import Variables
from runbook.inventory.ansible_jumps import Jumps, jumps_in
from runbook.inventory.fields import Fields, Notes, Path, value_in_words
from runbook.inventory.host_names import mistake_in
from runbook.inventory.hosts import host_of
from runbook.secrets.names import MASK
from runbook.values.inventory import Host
from runbook.values.playbook import Where

GROUPS = "group_names"
"""The field with the groups of a host; Ansible uses the same name."""

SPELLED: Mapping[str, tuple[str, ...]] = {
    "ssh_host": ("ansible_host", "ansible_ssh_host"),
    "ssh_user": ("ansible_user", "ansible_ssh_user"),
    "ssh_port": ("ansible_port", "ansible_ssh_port"),
    "ssh_key": ("ansible_ssh_private_key_file", "ansible_private_key_file"),
    "transport": ("ansible_connection",),
}
"""For each field of a host, the variables of Ansible with the same meaning: present names and older names."""

CONNECTIONS = {"ssh": "ssh", "smart": "ssh", "paramiko": "ssh", "paramiko_ssh": "ssh", "local": "local"}
CONNECTIONS |= {f"ansible.builtin.{name}": transport for name, transport in CONNECTIONS.items()}

ARGUMENTS = ("ansible_ssh_args", "ansible_ssh_common_args", "ansible_ssh_extra_args")
"""The variables with ssh arguments, in the order in which Ansible gives them to ssh; ssh uses the first of
two values.
"""
_OTHER_WAY = re.compile(r"(?i)proxy|hostname\b|(?-i:(?:^|\s)['\"]?-[JWFpliob]*[JWFpl])")
"""Matches ssh arguments that lead to another machine, or by another route."""

VAULT = "$ANSIBLE_VAULT"
ENCRYPTED = "(a whole file)"
"""The name that marks a file of variables as encrypted; its value lists such files.  No Ansible variable has this
name.
"""
_TEMPLATE = re.compile(r"\{\{|\{%")


def host_from(
    name: str, path: Path, variables: Variables, groups: tuple[str, ...], notes: Notes, known: Collection[str] = ()
) -> Host | None:
    """Return the host *name* with *variables*; None if the name is not allowed.  *known*: the hosts of the file."""
    if mistake := mistake_in(name):
        notes.add(path, f"the host name {value_in_words('', name)} cannot be used", mistake)
        return None
    values = {key: _masked(variable.value) for key, variable in variables.items()}
    spelled = {ours: there for ours, names in SPELLED.items() if (there := _given(names, values))}
    _note_contradictions(name, variables, notes)
    places: dict[Path, Path] = {(name, key): variable.path for key, variable in variables.items()}
    own = Notes(source=notes.source, where=_Places(path, places, notes), problems=notes.problems)
    why = _unreachable(spelled, values, variables, notes)
    taken = dict.fromkeys(SPELLED) if why else {ours: values[theirs] for ours, theirs in spelled.items()}
    if not why and "transport" in taken:
        taken["transport"] = CONNECTIONS[str(taken["transport"]).strip()]
    direct = why or values.get("ssh_proxy") or taken.get("transport") == "local"
    way = () if direct else _without(name, str(taken.get("ssh_host") or name), _way(values))
    by_name = way[-1].text if way and way[-1].text in known and not way[-1].key and len(way) == 1 else ""
    if by_name:
        taken["ssh_proxy"] = by_name
    fields = Fields(values={**values, **taken, GROUPS: list(groups)}, path=(name,), notes=own, spelled=spelled)
    host = host_of(name, fields)
    if why:
        return replace(host, addresses=(), proxy="", proxy_env=(), transport="ssh", placeholder=why)
    return host if by_name else replace(host, via=_led_by(way, own))


def _way(values: Mapping[str, object]) -> Jumps:
    """Return the jump hosts from the first variable of ssh arguments that has a jump option."""
    found = (jumps_in(str(values[key]))[0] for key in ARGUMENTS if values.get(key))
    return next((jumps for jumps in found if jumps is not None), ())


def _without(name: str, address: str, way: Jumps) -> Jumps:
    """Return *way* unless it ends at the host itself: the jump host of a group often has the variables of the group,
    too.
    """
    return () if way and way[-1].host in (name, address) else way


def _led_by(way: Jumps, notes: Notes) -> Host | None:
    """Return the last jump host of *way*; it is reached through the jump hosts before it."""
    via: Host | None = None
    for jump in way:
        given = {"ssh_host": jump.host, "ssh_user": jump.user, "ssh_port": jump.port, "ssh_key": jump.key}
        values = {key: value for key, value in given.items() if value}
        via = replace(host_of(jump.text, Fields(values=values, path=(jump.text,), notes=notes)), via=via)
    return via


class _Places:
    """Returns the place of a host's field: the place of its variable, in whichever group that is."""

    def __init__(self, path: Path, places: Mapping[Path, Path], notes: Notes) -> None:
        self._path, self._places, self._notes = path, places, notes

    def __call__(self, path: Path) -> Where:
        return self._notes.at((*self._places.get(path[:2], self._path), *path[2:]))


def _given(names: tuple[str, ...], values: Mapping[str, object]) -> str:
    return next((name for name in names if values.get(name) not in (None, "")), "")


def _masked(value: object) -> object:
    """Return *value* with each part that Ansible Vault has encrypted masked."""
    match value:
        case str():
            return MASK if VAULT in value else value
        case Mapping():
            return {key: _masked(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_masked(each) for each in value]
    return value


def _note_contradictions(name: str, variables: Variables, notes: Notes) -> None:
    """Add a mistake if two variables with the same meaning have different values."""
    for names in SPELLED.values():
        there = [(each, variables[each]) for each in names if each in variables]
        if len({str(variable.value) for _, variable in there}) > 1:
            words = f"{name}: {' and '.join(each for each, _ in there)} say different things"
            notes.add(there[1][1].path, words, f"keep {there[0][0]}")


def _unreachable(spelled: Mapping[str, str], values: Mapping[str, object], variables: Variables, notes: Notes) -> str:
    """Return the reason why the variables do not allow a connection to the host; empty if they do."""
    for theirs in spelled.values():
        place = notes.at(variables[theirs].path)
        if VAULT in str(variables[theirs].value):
            return f"{theirs} is encrypted by Ansible Vault, which is not read here ({place})"
        if _TEMPLATE.search(str(values[theirs])):
            return f"{theirs} is a template, which is not evaluated here ({place})"
    connection = spelled.get("transport", "")
    if connection and str(values[connection]).strip() not in CONNECTIONS:
        place = notes.at(variables[connection].path)
        return f"the connection {_word(values[connection])} is not supported, only ssh and local ({place})"
    if connection and CONNECTIONS[str(values[connection]).strip()] == "local":
        return ""
    for theirs in ARGUMENTS:
        if theirs in values and _leads_elsewhere(str(values[theirs])):
            place = notes.at(variables[theirs].path)
            return f"{theirs} leads another way, which is not read: write ssh_proxy, or ssh_config ({place})"
    return ""


def _leads_elsewhere(text: str) -> bool:
    """Whether the arguments *text* lead to a machine by a route that this tool does not support."""
    try:
        _, rest = jumps_in(text)
    except ValueError:
        return True
    return bool(_OTHER_WAY.search(rest) or _TEMPLATE.search(text))


def _word(value: object) -> str:
    """Return *value* if it is a plain word; otherwise words that repeat nothing of it."""
    return str(value) if re.fullmatch(r"[\w.-]{1,60}", str(value)) else "that is given"
