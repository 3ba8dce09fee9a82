"""Shell completion: propose candidates for the current word, read only from files; never raises."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

Given = Mapping[str, Any]
"""The options and arguments before the word, keyed by name."""
Completer = Callable[[Given, str], Iterable[str]]

MAX_PROPOSALS = 200
"""The maximum number of proposals."""


def proposals(complete: Completer, given: Given, begun: str) -> list[str]:
    """Return the proposals of *complete* that begin with *begun*; empty if a file cannot be read."""
    try:
        return [word for word in complete(given, begun) if word.startswith(begun)][:MAX_PROPOSALS]
    except Exception:  # a broken file is reported by the command, not by the key that completes it
        return []


def playbooks(given: Given, begun: str) -> Iterable[str]:
    """Return every playbook that can be named without a path."""
    from runbook.commands.input_files import playbook_files

    return [playbook_file.stem for playbook_file in playbook_files()]


def hosts(given: Given, begun: str) -> Iterable[str]:
    """Return candidates for the last term of a host pattern: a host, a group, or all."""
    from runbook.commands.input_files import inventory_paths, read_inventory

    inventory = read_inventory(inventory_paths(given.get("inventory") or ()))
    head = re.match(r"(?:.*[,!&^](?![^\[]*\]))?", begun)
    before = head.group() if head else ""
    names = ("all", *(host.name for host in inventory.hosts), *sorted(inventory.groups))
    return [before + name for name in dict.fromkeys(names)]


def inputs(given: Given, begun: str) -> Iterable[str]:
    """Return ``NAME=VALUE`` for every input of the playbook, with each allowed value, or with the default."""
    declared = _tree(given).get("inputs", {})
    return [f"{name}={value}" for name, it in declared.items() for value in _values(name, it or {})]


def tags(given: Given, begun: str) -> Iterable[str]:
    """Return every tag that a step of the playbook has."""
    steps = _tree(given).get("remediate", ())
    return sorted({str(tag) for step in steps for tag in step.get("tags", ())})


def outputs(given: Given, begun: str) -> Iterable[str]:
    """Return the name of every reporter."""
    from runbook.reporting import reporters

    return reporters.names()


def actions(given: Given, begun: str) -> Iterable[str]:
    """Return the name of every action."""
    from runbook.plugins import modules

    return list(modules())


def lab_hosts(given: Given, begun: str) -> Iterable[str]:
    """Return the hosts of the running lab."""
    from runbook import lab

    folder = given.get("directory")
    return [host.name for host in lab.status(Path(folder) if folder else lab.default_directory())]


def _tree(given: Given) -> Mapping[str, Any]:
    """Return the playbook of the command line as a YAML tree.

    The parser stops at the option whose value is being completed; then the first word that names a playbook is used.
    """
    from runbook.commands.input_files import find_playbook, playbook_files
    from runbook.language.yaml_source import parse_playbook
    from runbook.text_files import read_text

    words = [given.get("playbook") or "", *os.environ.get("COMP_WORDS", "").split()]
    known = {playbook_file.stem for playbook_file in playbook_files()}
    named = next(word for word in words if word in known or word.endswith((".yaml", ".yml")))
    path = find_playbook(named) if named in known else Path(named)
    tree: Any = parse_playbook(read_text(path), str(path)).value
    return tree if isinstance(tree, Mapping) else {}


def _values(name: str, declared: Mapping[str, Any]) -> Sequence[str]:
    from runbook.secrets.names import is_secret

    if declared.get("secret") is True or is_secret(name, declared.get("default")):
        return [""]
    if "enum" in declared:
        return [str(each) for each in declared["enum"]]
    if declared.get("type") == "boolean":
        return ["true", "false"]
    default = declared.get("default", "")
    return [default if isinstance(default, str) else json.dumps(default)]
