"""Read where the secrets of hosts and groups are, and combine them for each host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches

from runbook.errors import Problem
from runbook.inventory.fields import Fields, Notes, Path, problem_at
from runbook.values.inventory import Host
from runbook.values.playbook import SecretReference
from runbook.values.secret_reference import read_secrets, resembles_reference

SECRETS = "secrets"
"""The key under which a file, a host or a group says where its secrets are."""

GroupSecrets = Mapping[str, Sequence[SecretReference]]
"""The references to secrets of each group, by group name."""


def secrets_of_host(fields: Fields) -> tuple[SecretReference, ...]:
    """Return the entries of a host's ``secrets:``; mistakes are recorded."""
    return secrets_at(fields.values, fields.path, fields.notes)


def secrets_at(tree: Mapping[str, object], path: Path, notes: Notes) -> tuple[SecretReference, ...]:
    """Return the entries of ``secrets:`` in *tree*, which is at *path*; mistakes are added to *notes*."""
    for key in slips_of_secrets(tree):
        notes.add((*path, key), f"unknown key {key!r}, with references to secrets", f"did you mean {SECRETS}?")
    found = read_secrets(tree.get(SECRETS), lambda inner: notes.at((*path, *inner)), in_inventory=True)
    notes.problems.extend(found.problems)
    return found.references


def slips_of_secrets(tree: Mapping[str, object]) -> Iterator[str]:
    """Yield the keys of *tree* that are probably misspelt ``secrets``: similar, and with references as values."""
    for key, value in tree.items():
        entries = value.values() if isinstance(value, Mapping) and key != SECRETS else ()
        alike = get_close_matches(str(key).strip().casefold(), [SECRETS, "secret"], cutoff=0.82)
        if alike and any(map(resembles_reference, entries)):
            yield str(key)


def with_secrets_of_groups(hosts: Sequence[Host], groups: GroupSecrets) -> tuple[tuple[Host, ...], tuple[Problem, ...]]:
    """Return *hosts*, each with the secrets of its groups added; and problems for names that two groups of a host both
    have.
    """
    if not groups:
        return tuple(hosts), ()
    problems: dict[Problem, None] = {}
    made = [_with_groups(host, groups, problems) for host in hosts]
    return tuple(made), tuple(problems)


def _with_groups(host: Host, groups: GroupSecrets, problems: dict[Problem, None]) -> Host:
    own = {secret.name: secret for secret in host.secrets}
    of_group: dict[str, tuple[str, SecretReference]] = {}
    for group in host.groups:
        for reference in groups.get(group, ()):
            other = of_group.get(reference.name)
            if reference.name not in own and other and not _same(other[1], reference):
                another = f"its group {other[0]} says another place ({other[1].where})"
                words = f"the secret {reference.name} of {host.name}: {another}"
                hint = f"say it under `{SECRETS}` of {host.name}, or in one of its groups"
                problems[problem_at(reference.where, words, hint)] = None
            of_group.setdefault(reference.name, (group, reference))
    return replace(host, secrets=tuple({**{name: it for name, (_, it) in of_group.items()}, **own}.values()))


def _same(one: SecretReference, other: SecretReference) -> bool:
    return (one.source, one.words, one.where.file) == (other.source, other.words, other.where.file)
