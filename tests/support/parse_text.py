"""Inventories written in a test, parsed with plain YAML."""

from __future__ import annotations

from textwrap import dedent

import pytest
import yaml

from runbook.errors import ConfigError
from runbook.inventory import read
from runbook.values.inventory import Host, Inventory
from runbook.values.playbook import Where


def document(text: str, file: str = "hosts.yaml"):
    """What ``read`` takes for one file."""
    text = dedent(text)
    places = {}

    def walk(node, path):
        places.setdefault(path, node.start_mark)
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                places[(*path, yaml.safe_load(yaml.serialize(key)))] = key.start_mark
                walk(value, (*path, yaml.safe_load(yaml.serialize(key))))
        elif isinstance(node, yaml.SequenceNode):
            for number, value in enumerate(node.value):
                walk(value, (*path, number))

    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if root is not None:
        walk(root, ())

    def where(path):
        for length in range(len(path), -1, -1):
            if mark := places.get(path[:length]):
                return Where(file=file, line=mark.line + 1, column=mark.column + 1)
        return Where(file=file, line=1, column=1)

    return yaml.safe_load(text), file, where


def inventory(*texts: str) -> Inventory:
    """The inventory in *texts*; the files are called a.yaml, b.yaml ..."""
    return read([document(text, f"{letter}.yaml") for text, letter in zip(texts, "abcdef", strict=False)])


def host(fields: str, name: str = "h1") -> Host:
    """The only host of an inventory; *fields* are in flow style: ``ssh_host: a, ssh_port: 22``."""
    return inventory(f"hosts: {{{name}: {{{fields}}}}}").hosts[0]


def mistakes(*texts: str) -> list[str]:
    """Every mistake in *texts*, each with its place."""
    with pytest.raises(ConfigError) as caught:
        inventory(*texts)
    return [str(it) for it in caught.value.problems]
