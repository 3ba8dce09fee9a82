"""Read Ansible's YAML inventories (``all:`` or groups with hosts, children and vars), and the tree made of its INI
files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from runbook.inventory.ansible_dynamic import as_tree, is_listing
from runbook.inventory.ansible_groups import (
    ALL,
    PRIORITY,
    SECTIONS,
    UNGROUPED,
    Ranks,
    Tree,
    Variable,
    Variables,
    in_order,
    note_priorities,
    ranked,
)
from runbook.inventory.ansible_variables import ENCRYPTED, SPELLED, VAULT, host_from
from runbook.inventory.fields import Notes
from runbook.inventory.hosts import inventory_of
from runbook.protocols import Place
from runbook.values.inventory import Host, Inventory

GROUP_FILES, HOST_FILES = "group_vars/", "host_vars/"
"""Keys of the tree for the files of these directories, by group or host; no group has such a name."""

ONLY_IF_NO_OTHER = True
"""Use this format only if no other fits, because groups may have any name and other files may look like groups."""
MOST_VALUES = 3_000_000
"""The maximum number of variables of all hosts together."""


def recognises(document: object) -> bool:
    """Whether *document* has ``all`` with the content of a group, or a group with hosts or children."""
    if not isinstance(document, Mapping) or "groups" in document:
        return False
    if is_listing(document):
        return True
    every = document.get(ALL)
    if isinstance(every, Mapping) and every and set(every) <= {*SECTIONS}:
        return True
    return any(map(_has_members, document.values()))


def _has_members(body: object) -> bool:
    return isinstance(body, Mapping) and any(isinstance(body.get(key), Mapping) for key in ("hosts", "children"))


def load(document: object, source: str, where: Place) -> Inventory:
    """Return the hosts in *document*.  Raises ConfigError with every mistake."""
    notes = Notes(source=source, where=where)
    whole = document if isinstance(document, Mapping) else {}
    if is_listing(whole):
        whole = as_tree(whole)
    tree = Tree(notes=notes)
    tree.read({key: body for key, body in whole.items() if key not in (GROUP_FILES, HOST_FILES)})
    note_priorities(tree)
    ranks = ranked(tree.groups, notes)
    if not tree.hosts and not notes.problems:
        notes.add((), "names no hosts")
    hosts = [] if notes.problems else list(_hosts(tree, ranks, _Files(whole)))
    return inventory_of(hosts, document, notes)


class _Files:
    """The variables in the files of ``group_vars`` and ``host_vars``."""

    def __init__(self, document: Mapping[object, object]) -> None:
        self._document = document

    def of(self, key: str, name: str) -> Variables:
        """Return the variables in the file of *name*; *key* is the directory."""
        named = self._document.get(key)
        tree = named.get(name) if isinstance(named, Mapping) else None
        if not isinstance(tree, Mapping):
            return {}
        return {str(each): Variable(value=value, path=(key, name, str(each))) for each, value in tree.items()}


def _hosts(tree: Tree, ranks: Ranks, files: _Files) -> Iterable[Host]:
    """Return the hosts of *tree*, each with the variables that apply to it."""
    of_groups: dict[tuple[str, ...], tuple[tuple[str, ...], Variables]] = {}
    values = 0
    for name, listed in tree.hosts.items():
        direct = tuple(listed.groups)
        if direct not in of_groups:
            of_groups[direct] = _groups_and_variables(direct, tree, ranks, files)
        groups, inherited = of_groups[direct]
        of_host = files.of(HOST_FILES, name)
        unread = (*_encrypted(inherited), *_encrypted(of_host))
        variables = _with_address({**_plain(inherited), **listed.variables, **of_host})
        values += len(variables) + len(groups)
        if values > MOST_VALUES:
            tree.notes.add(listed.path, f"the hosts have more than {MOST_VALUES} variables together up to here")
            return
        if host := host_from(name, listed.path, variables, groups, tree.notes, tree.hosts):
            yield replace(host, unread=unread) if unread else host


def _encrypted(variables: Variables) -> tuple[str, ...]:
    """Return the files with *variables* that are encrypted as a whole."""
    found = variables.get(ENCRYPTED)
    return tuple(map(str, found.value)) if found and isinstance(found.value, list) else ()


def _plain(variables: Variables) -> Variables:
    return {name: variable for name, variable in variables.items() if name != ENCRYPTED}


def _with_address(variables: Variables) -> Variables:
    """Return *variables* of a host.  If an encrypted file may hold its address and no other file has it, the address
    is unknown.
    """
    hidden = variables.pop(ENCRYPTED, None)
    names = SPELLED["ssh_host"]
    known = any(name in variables for name in names)
    return variables if hidden is None or known else {**variables, names[0]: replace(hidden, value=VAULT)}


def _groups_and_variables(
    direct: tuple[str, ...], tree: Tree, ranks: Ranks, files: _Files
) -> tuple[tuple[str, ...], Variables]:
    """Return all groups of hosts that are in the groups *direct*, and the variables of these groups: first from the
    file, then from the directories.
    """
    inside = frozenset[str]().union(*(ranks.ancestors[name] for name in direct))
    ordered = in_order(inside, tree, ranks)
    found: Variables = {}
    for name in (ALL, *ordered):
        if name in tree.groups:
            found |= tree.groups[name].variables
    encrypted: list[str] = []
    for name in (ALL, *ordered):
        of_group = files.of(GROUP_FILES, name)
        encrypted += _encrypted(of_group)
        found |= of_group
    if encrypted:
        found[ENCRYPTED] = replace(found[ENCRYPTED], value=encrypted)
    found.pop(PRIORITY, None)
    return tuple(sorted(inside - {UNGROUPED})), found
