"""Form the groups of hosts: groups derived from the fields of hosts, and groups that the file names."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches

from runbook.dataclass import dataclass
from runbook.errors import ConfigError, Problem
from runbook.inventory.fields import NO, YES, Notes, Path, parts_of, problem_at, value_in_words
from runbook.inventory.host_names import HOST_NAME, mistake_in
from runbook.inventory.host_secrets import SECRETS, secrets_at, slips_of_secrets, with_secrets_of_groups
from runbook.text.name_ranges import MOST_NAMES, expanded, fold
from runbook.text.suggestions import suggest
from runbook.values.inventory import Host
from runbook.values.playbook import SecretReference, Where
from runbook.values.secret_reference import resembles_reference

PROVIDER = re.compile(r"(vast|runpod|nebius|vultr|hetzner|lambda|aws|gcp|azure|coreweave|crusoe)-.", re.IGNORECASE)
"""Matches a host name whose prefix names the provider of the machine."""

NO_GPU = frozenset({"", "none", "no", "false", "null", "n/a", "na", "-", "0", "cpu"})
"""The values of ``gpu:`` that mean that the host has no GPU; ``none`` is one of them."""

MOST_MISSING = 8
"""The maximum number of unknown members of a group that are reported one by one."""

NVIDIA = re.compile(r"nvidia|geforce|[rg]tx|tesla|quadro", re.IGNORECASE)

OTHER_GPU = re.compile(
    r"\b(mps|apple|gaudi\w*|intel)\b|^m[1-9](\s+(pro|max|ultra)\b.*)?$",
    re.IGNORECASE,
)
"""Matches labels of GPUs that are neither from NVIDIA nor from AMD: Apple's ``M3 Max (MPS)``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedGroup:
    """A group that a file names."""

    name: str
    members: tuple[str, ...] | None
    """The hosts of the group; None if its file gives only secrets for a group that is formed anyway."""
    secrets: tuple[SecretReference, ...] = ()
    where: Where


Traits = dict[str, tuple[str, ...]]
"""The kinds of groups, each with the values of one host."""


def traits(host: Host) -> Traits:
    """Return the properties of *host* that form groups, by kind, such as ``role: (training, selfplay)``, ``device:
    (gpu,)``.
    """
    found = {
        "role": parts_of(host.vars.get("role")),
        "status": (host.status,),
        "provider": (provider(host),),
        "device": (device(host),),
        "region": (_text(host.vars.get("region")),),
        "group": parts_of(host.vars.get("group_names")),
        "partition": parts_of(host.vars.get("slurm_partitions")),
    }
    return {kind: kept for kind, values in found.items() if (kept := tuple(value for value in values if value))}


def provider(host: Host) -> str:
    """Return the provider of the machine: its field ``provider``, else the prefix of its name; empty if neither is
    known.
    """
    if reported := _text(host.vars.get("provider")):
        return reported
    if host.name.lower() == "localhost" or host.name.lower().startswith("mac-"):
        return "local"
    found = PROVIDER.match(host.name)
    return found[1].lower() if found else ""


LABELS = ("gpu", "gpu_type", "has_gpu", "cuda_capable")
"""The fields that say whether a host has a GPU."""

OWNED = ("group", "partition")
"""Kinds of groups whose names come from the user: such a name always means this group, also ``gpu`` and ``cpu``."""


def device(host: Host) -> str:
    """Return ``gpu`` or ``cpu``; empty if the file belongs to another program and says nothing about GPUs."""
    foreign = "group_names" in host.vars or "slurm_partitions" in host.vars
    if foreign and all(host.vars.get(key) is None for key in LABELS):
        return ""
    return "gpu" if has_gpu(host) else "cpu"


def has_gpu(host: Host) -> bool:
    """Whether the inventory says that *host* has a GPU of NVIDIA or AMD; ``cuda_capable`` is used before the label.

    The label is ``gpu``, or in older files ``gpu_type`` together with ``has_gpu``.
    """
    value_in_words = _text(host.vars.get("cuda_capable")).lower()
    if value_in_words:
        return value_in_words in YES
    label = _text(host.vars.get("gpu"))
    if not label:
        there = _text(host.vars.get("has_gpu")).lower()
        if there in NO:
            return False
        label = _text(host.vars.get("gpu_type")) or ("unnamed" if there in YES else "")
    return label.lower() not in NO_GPU and bool(NVIDIA.search(label) or not OTHER_GPU.search(label))


def ambiguous(hosts: Iterable[Host]) -> dict[str, tuple[str, ...]]:
    """Return the result of ``ambiguous_in`` for *hosts*."""
    return ambiguous_in({host.name: traits(host) for host in hosts})


def ambiguous_in(traits_of: Mapping[str, Traits]) -> dict[str, tuple[str, ...]]:
    """Return the values that appear in several kinds for different hosts, each with these kinds; such a value forms no
    group.
    """
    kinds: dict[str, dict[str, set[str]]] = {}
    for name, found in traits_of.items():
        for kind, values in found.items():
            for value in values:
                kinds.setdefault(value, {}).setdefault(kind, set()).add(name)
    return {
        value: tuple(members)
        for value, members in ((value, _without_device(members)) for value, members in kinds.items())
        if len({frozenset(member) for member in members.values()}) > 1
    }


def _without_device(members: Mapping[str, set[str]]) -> Mapping[str, set[str]]:
    """Return *members* by kind; the kind ``device`` is left out if the user has a group of the same name."""
    owned = any(kind in members for kind in OWNED)
    return {kind: names for kind, names in members.items() if not (owned and kind == "device")}


def formed(hosts: Sequence[Host], named: Sequence[NamedGroup]) -> tuple[tuple[Host, ...], dict[str, tuple[str, ...]]]:
    """Return *hosts*, each with its groups, and every group with its hosts.  Raises ConfigError with every clash of
    names.
    """
    traits_of = {host.name: traits(host) for host in hosts}
    derived = _derived(traits_of, {group.name for group in named if group.members is not None})
    if clashes := tuple(_clashes(hosts, traits_of, derived, named)):
        raise ConfigError(*clashes)
    together = {name: set(members) for name, members in derived.items()}
    for group in named:
        together.setdefault(group.name, set()).update(group.members or ())
    order = {host.name: number for number, host in enumerate(hosts)}
    groups = {name: tuple(sorted(members, key=order.__getitem__)) for name, members in together.items()}
    of_host: dict[str, list[str]] = {host.name: [] for host in hosts}
    for name, members_in_order in groups.items():
        for member in members_in_order:
            of_host[member].append(name)
    grouped = [replace(host, groups=tuple(of_host[host.name])) for host in hosts]
    of_group: dict[str, tuple[SecretReference, ...]] = {}
    for group in named:
        of_group[group.name] = (*of_group.get(group.name, ()), *group.secrets)
    found, problems = with_secrets_of_groups(grouped, {name: it for name, it in of_group.items() if it})
    if problems:
        raise ConfigError(*problems)
    return found, groups


def named_in(document: object, notes: Notes) -> tuple[NamedGroup, ...]:
    """Return the groups under ``groups:``; mistakes are added to *notes*."""
    section = document.get("groups") if isinstance(document, Mapping) else None
    for key in _slips(document):
        notes.add((key,), f"unknown key {key!r}, with hosts or secrets as `groups` has them", "did you mean groups?")
    if section is None:
        return ()
    if not isinstance(section, Mapping):
        notes.add(
            ("groups",),
            f"groups: expected a mapping of group names to lists of hosts, not {value_in_words('', section)}",
        )
        return ()
    return tuple(it for name, members in section.items() if (it := _group_of(name, members, notes)))


def _slips(document: object) -> Iterable[str]:
    """Yield the keys of *document* that are probably misspelt ``groups``: similar, and with the content of groups."""
    if not isinstance(document, Mapping):
        return
    for key, value in document.items():
        entries = list(value.values()) if isinstance(value, Mapping) and key != "groups" else []
        alike = get_close_matches(str(key).strip().casefold(), ["groups"], cutoff=0.82)
        lists = entries and document.get("groups") is None and all(map(_is_list_of_texts, entries))
        if alike and (lists or any(map(_resembles_group, entries))):
            yield str(key)


def _is_list_of_texts(entry: object) -> bool:
    return isinstance(entry, list | tuple) and all(isinstance(each, str) for each in entry)


def _resembles_group(entry: object) -> bool:
    """Whether *entry* is a group in the form of a mapping: with a list of hosts, or with references to secrets."""
    if not isinstance(entry, Mapping):
        return False
    secrets = entry.get(SECRETS)
    named = isinstance(secrets, Mapping) and any(map(resembles_reference, secrets.values()))
    return named or any(slips_of_secrets(entry)) or ("hosts" in entry and _is_list_of_texts(entry["hosts"]))


def _group_of(name: object, members: object, notes: Notes) -> NamedGroup | None:
    path = ("groups", name) if isinstance(name, str | int) else ("groups",)
    if mistake := mistake_in(name):
        notes.add(path, f"the group name {value_in_words('', name)} cannot be used", mistake)
        return None
    secrets: tuple[SecretReference, ...] = ()
    if isinstance(members, Mapping):
        secrets, members = _with_secrets(str(name), members, path, notes)
        if members is None:
            return NamedGroup(name=str(name), members=None, secrets=secrets, where=notes.at(path))
        path = (*path, "hosts")
    if not isinstance(members, list | tuple):
        notes.add(path, f"groups.{name}: expected a list of host names, not {value_in_words('', members)}")
        return None
    names = [
        each for number, member in enumerate(members) for each in _members(str(name), member, (*path, number), notes)
    ]
    return NamedGroup(name=str(name), members=tuple(names), secrets=secrets, where=notes.at(path))


def _members(group: str, member: object, path: Path, notes: Notes) -> Sequence[str]:
    """Return the hosts that *member*, an item in the list of *group*, names; it may be a range.  Mistakes are added to
    *notes*.
    """
    try:
        names = expanded(member, MOST_NAMES, "hosts") if isinstance(member, str) and "[" in member else [member]
    except ValueError as error:
        notes.add(path, f"groups.{group}: {value_in_words('', member)} {error}")
        return ()
    if mistake_in(names[0]):
        notes.add(path, f"groups.{group}: expected the name of a host, not {value_in_words('', member)}")
        return ()
    return [str(each) for each in names]


def _with_secrets(
    name: str, tree: Mapping[str, object], path: Path, notes: Notes
) -> tuple[tuple[SecretReference, ...], object]:
    """Return the secrets and the hosts of a group that is written as a mapping; mistakes are added to *notes*."""
    secrets = secrets_at(tree, path, notes)
    slips = {*slips_of_secrets(tree)}
    for key in tree.keys() - {"hosts", SECRETS} - slips:
        hint = suggest(str(key), ["hosts", SECRETS], f"a group has hosts and {SECRETS}")
        notes.add((*path, str(key)), f"groups.{name}: unknown key {str(key)[:40]!r}", hint)
    if not tree:
        notes.add(path, f"groups.{name}: names neither hosts nor {SECRETS}")
    return secrets, tree.get("hosts")


def _derived(traits_of: Mapping[str, Traits], named: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Return every group that follows from fields of hosts; ``gpu`` and ``cpu`` only if the user has no group of that
    name.
    """
    unclear = ambiguous_in(traits_of)
    owned = {*named, *(value for kinds in traits_of.values() for kind in OWNED for value in kinds.get(kind, ()))}
    found: dict[str, list[str]] = {}
    for host, kinds in traits_of.items():
        counted = {kind: values for kind, values in kinds.items() if kind != "device" or not owned.intersection(values)}
        for value in dict.fromkeys(value for values in counted.values() for value in values):
            if value not in unclear and HOST_NAME.fullmatch(value):
                found.setdefault(value, []).append(host)
    return {name: tuple(members) for name, members in found.items()}


def _clashes(
    hosts: Sequence[Host],
    traits_of: Mapping[str, Traits],
    derived: Mapping[str, tuple[str, ...]],
    named: Sequence[NamedGroup],
) -> Iterable[Problem]:
    by_name = {host.name: host for host in hosts}
    taken = {value: kind for kinds in traits_of.values() for kind, values in kinds.items() for value in values}
    for name, members in derived.items():
        if name in by_name and members != (name,):
            kind = taken[name]
            words = (
                f"{name} is the name of a host and also the {kind} of {len(members)}: --hosts {name} would mean either"
            )
            yield problem_at(by_name[name].where, words, "rename the host")
    for group in named:
        if group.name in by_name:
            yield problem_at(group.where, f"the group {group.name} has the name of a host", "rename the group")
        elif group.members is None:
            yield from _without_hosts(
                group, {*derived, *(named_group.name for named_group in named if named_group.members is not None)}
            )
        elif group.name in taken and taken[group.name] != "device":
            words = f"the group {group.name} is also what hosts are grouped by ({taken[group.name]}: {group.name})"
            yield problem_at(group.where, words, "rename the group")
        missing = [member for member in group.members or () if member not in by_name]
        for member in missing if len(missing) <= MOST_MISSING else ():
            yield problem_at(
                group.where, f"groups.{group.name}: no host is called {member}", suggest(member, by_name, "")
            )
        if len(missing) > MOST_MISSING:
            yield problem_at(group.where, f"groups.{group.name}: there are no hosts {fold(missing)[:200]}")


def _without_hosts(group: NamedGroup, known: Collection[str]) -> Iterable[Problem]:
    """Yield a mistake if *group* has only secrets, and no group of that name exists."""
    if group.name not in known:
        hint = suggest(group.name, known, f"name its hosts: groups: {{{group.name}: {{hosts: [...], ...}}}}")
        yield problem_at(group.where, f"groups.{group.name}: there is no such group, and it names no hosts", hint)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).strip() if isinstance(value, str | int | float) else ""
