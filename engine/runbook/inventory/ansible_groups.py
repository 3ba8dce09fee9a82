"""The groups of an Ansible inventory: their hosts, the groups inside them, and the order of their variables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field

from runbook.dataclass import dataclass
from runbook.inventory.ansible_ranges import MOST_HOSTS, expanded, port_of
from runbook.inventory.fields import Notes, Path, value_in_words
from runbook.text.suggestions import suggest

ALL, UNGROUPED = "all", "ungrouped"
PRIORITY = "ansible_group_priority"
SECTIONS = ("hosts", "children", "vars")
DEEPEST = 50
"""The maximum depth of groups inside groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A value, and its path in the file."""

    value: object
    path: Path


Variables = dict[str, Variable]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group, combined from all places that name it."""

    name: str
    path: Path
    variables: Variables = field(default_factory=dict)
    parents: dict[str, Path] = field(default_factory=dict)
    """Each group that contains this group, with the path in the file that says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A host, combined from all places that name it."""

    path: Path
    variables: Variables = field(default_factory=dict)
    groups: dict[str, None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """All groups and all hosts of a file."""

    notes: Notes
    groups: dict[str, Group] = field(default_factory=dict)
    hosts: dict[str, Listed] = field(default_factory=dict)

    def read(self, document: Mapping[object, object]) -> None:
        """Add every group of *document*."""
        for name, body in document.items():
            self._group(str(name), body, (str(name),), "")

    def _group(self, name: str, body: object, path: Path, parent: str) -> None:
        group = self.groups.setdefault(name, Group(name=name, path=path))
        if parent and name == ALL:
            self.notes.add(path, f"the group {ALL} is inside {parent}: it has every host, and is in no group")
            return
        if parent:
            group.parents.setdefault(parent, path)
        if body is None:
            return
        if not isinstance(body, Mapping):
            self.notes.add(
                path, f"{name}: expected a mapping with hosts, children or vars, not {value_in_words('', body)}"
            )
            return
        for key in body:
            if key not in SECTIONS:
                hint = suggest(str(key), SECTIONS, "variables of a group stand below vars")
                self.notes.add((*path, str(key)), f"{name}: a group has no key {value_in_words('', key)}", hint)
        group.variables.update(self._variables(body.get("vars"), (*path, "vars"), name))
        for child, inner in self._section(body.get("children"), (*path, "children"), name):
            self._group(child, inner, (*path, "children", child), name)
        for pattern, variables in self._section(body.get("hosts"), (*path, "hosts"), name):
            self._host(pattern, variables, (*path, "hosts", pattern), name)

    def _section(self, section: object, path: Path, name: str) -> Iterator[tuple[str, object]]:
        """Return the entries of *section* (``hosts`` or ``children``); the section may also be a single name
        as text.
        """
        if isinstance(section, str):
            section = {section: None}
        if section is not None and not isinstance(section, Mapping):
            words = f"{name}.{path[-1]}: expected a mapping of names, each with a colon behind it"
            self.notes.add(path, f"{words}, not {value_in_words('', section)}")
        elif section:
            yield from ((str(key), value) for key, value in section.items())

    def _variables(self, tree: object, path: Path, name: str) -> Variables:
        if tree is not None and not isinstance(tree, Mapping):
            self.notes.add(path, f"{name}: expected a mapping of variables, not {value_in_words('', tree)}")
            return {}
        return {str(key): Variable(value=value, path=(*path, str(key))) for key, value in (tree or {}).items()}

    def _host(self, pattern: str, variables: object, path: Path, group: str) -> None:
        plain, port = port_of(pattern)
        try:
            names = expanded(plain)
        except ValueError as error:
            self.notes.add(path, f"{group}.hosts: the host pattern {value_in_words('', pattern)} {error}")
            return
        if len(self.hosts) + sum(name not in self.hosts for name in names) > MOST_HOSTS:
            self.notes.add(path, f"the file names more than {MOST_HOSTS} hosts up to here")
            return
        own = self._variables(variables, path, pattern)
        if port:
            own = {"ansible_port": Variable(value=port, path=path), **own}
        for name in names:
            host = self.hosts.setdefault(name, Listed(path=path))
            host.groups[group] = None
            host.variables.update(own)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """The depth of every group, and the groups that contain it."""

    depth: Mapping[str, int]
    ancestors: Mapping[str, frozenset[str]]
    """For each group, the groups that contain it; the group itself is included, ``all`` is not."""


def ranked(groups: Mapping[str, Group], notes: Notes) -> Ranks:
    """Return the ranks of *groups*; groups that contain themselves, or are nested too deeply, are added to *notes*."""
    depth = {ALL: 0}
    ancestors: dict[str, frozenset[str]] = {ALL: frozenset()}
    children: dict[str, list[str]] = {}
    missing = {name: len(group.parents.keys() - {ALL}) for name, group in groups.items() if name != ALL}
    for name, group in groups.items():
        for parent in group.parents:
            children.setdefault(parent, []).append(name)
    ready = [name for name, many in missing.items() if not many]
    while ready:
        name = ready.pop()
        inside = [parent for parent in groups[name].parents if parent != ALL]
        depth[name] = max((depth[parent] for parent in inside), default=0) + 1
        if depth[name] > DEEPEST:
            notes.add(groups[name].path, f"the group {name} is inside more than {DEEPEST} groups")
            return Ranks(depth={}, ancestors={})
        ancestors[name] = frozenset({name}).union(*(ancestors[parent] for parent in inside))
        for child in children.get(name, ()):
            missing[child] -= 1
            if not missing[child]:
                ready.append(child)
    if left := [name for name in missing if name not in depth]:
        _note_circle(groups, left, notes)
    return Ranks(depth=depth, ancestors=ancestors)


def _note_circle(groups: Mapping[str, Group], left: Iterable[str], notes: Notes) -> None:
    """Add a circle of groups to *notes*; each group in *left* is in a circle or below one."""
    unfinished = set(left)
    way = [min(unfinished)]
    while True:
        parent = min(name for name in groups[way[-1]].parents if name in unfinished)
        if parent in way:
            break
        way.append(parent)
    circle = [*way[way.index(parent) :], parent]
    shown = circle if len(circle) <= 8 else [*circle[:7], "...", parent]
    place = groups[circle[0]].parents[circle[1]]
    notes.add(place, f"the group {parent} is inside itself: {' in '.join(shown)}")


def in_order(names: Iterable[str], tree: Tree, ranks: Ranks) -> list[str]:
    """Return *names* in the order in which their variables are applied: the last value is used."""
    return sorted(names, key=lambda name: (ranks.depth[name], priority(tree.groups.get(name)), name))


def priority(group: Group | None) -> int:
    """Return ``ansible_group_priority`` of *group*; 1 if it is missing or not a number."""
    found = group.variables.get(PRIORITY) if group else None
    if found is None:
        return 1
    text = str(found.value).strip()
    return int(text) if text.lstrip("-").isdecimal() and len(text) < 10 else 1


def note_priorities(tree: Tree) -> None:
    """Add a mistake for every ``ansible_group_priority`` that is not a number."""
    for group in tree.groups.values():
        found = group.variables.get(PRIORITY)
        text = str(found.value).strip() if found else "1"
        if found and not (text.lstrip("-").isdecimal() and len(text) < 10):
            tree.notes.add(
                found.path, f"{group.name}: {PRIORITY}: expected a number, not {value_in_words('', found.value)}"
            )
