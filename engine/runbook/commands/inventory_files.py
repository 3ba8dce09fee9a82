"""Read one inventory file, in YAML or another format, and the variable files beside an Ansible inventory."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any

from runbook.dataclass import dataclass
from runbook.errors import ConfigError
from runbook.foreign_files import MOVE_IT, refuse_foreign
from runbook.values.playbook import Where

VARIABLE_FILES = ("", ".yml", ".yaml", ".json")
MOST_FILES = 2_000
"""The maximum number of variable files beside an inventory."""

_Place = Callable[[tuple[str | int, ...]], Where]


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryFile:
    """A parsed file, and the texts that it came from."""

    value: Any
    where: _Place = field(repr=False)
    texts: tuple[str, ...] = field(repr=False)


def open_inventory(path: Path, text: str) -> InventoryFile:
    """Parse *text*, the inventory in the file *path*.  Raises ConfigError with every mistake in its format."""
    from runbook.inventory import discover, formats_of, parsed_text

    if text.lstrip()[:1] in ("{", "[") and (listed := parsed_text(text, str(path), json=True)):
        return InventoryFile(value=listed.value, where=listed.where, texts=(text,))
    try:
        value, where = _parsed(text, str(path))
        failure = None
    except ConfigError as error:
        value, where, failure = None, lambda _: Where(file=str(path)), error
    if (not isinstance(value, Mapping) and value is not None) or failure:
        if document := parsed_text(text, str(path)):
            value, where, failure = document.value, document.where, None
        if failure:
            raise failure
    found = InventoryFile(value=value, where=where, texts=(text,))
    return _with_variables(found, path) if "ansible_hosts" in formats_of(value, discover()) else found


def _parsed(text: str, source: str) -> tuple[Any, _Place]:
    from runbook.inventory import could_be_inventory
    from runbook.language.yaml_source import parse_inventory

    if "$ANSIBLE_VAULT" in text:  # the tag says no more than the text below it; its place is kept
        text = re.sub(r"(?<=: )!vault(?=[ \t]*[|>])", " " * len("!vault"), text)
    document = parse_inventory(text, source, ours=could_be_inventory(text))
    return document.value, document.where


def _with_variables(found: InventoryFile, path: Path) -> InventoryFile:
    """Return *found* with the variables from the files in group_vars and host_vars beside *path*."""
    from runbook.inventory.ansible_variables import ENCRYPTED, VAULT

    value, texts = dict(found.value), list(found.texts)
    places: dict[tuple[str | int, ...], _Place] = {}
    for folder in ("group_vars", "host_vars"):
        for name, file in _variable_files(path.parent / folder):
            text = _text_of(file)
            if text.startswith(VAULT):
                variables = value.setdefault(f"{folder}/", {}).setdefault(name, {})
                variables.setdefault(ENCRYPTED, []).append(str(file))
                places[f"{folder}/", name, ENCRYPTED] = partial(_beginning, file)
                continue
            tree, where = _parsed(text, str(file))
            texts.append(text)
            if tree is not None and not isinstance(tree, Mapping):
                raise ConfigError(f"{file}: expected a mapping of variables")
            variables = value.setdefault(f"{folder}/", {}).setdefault(name, {})
            for key, inner in (tree or {}).items():
                variables[key] = inner
                places[f"{folder}/", name, str(key)] = where

    def place(at: tuple[str | int, ...]) -> Where:
        of_file = places.get(at[:3])
        return of_file(at[2:]) if of_file else found.where(at)

    return InventoryFile(value=value, where=place, texts=tuple(texts)) if places or len(texts) > 1 else found


def _beginning(file: Path, _: tuple[str | int, ...]) -> Where:
    return Where(file=str(file), line=1, column=1)


def _text_of(file: Path) -> str:
    from runbook.text_files import MAX_FILE_BYTES, read_text

    return read_text(refuse_foreign(file, MOVE_IT), MAX_FILE_BYTES)


def _variable_files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield every file of variables in *folder*, with the name of its group or host."""
    files = [
        (
            each.name
            if each.is_dir()
            else each.name.removesuffix(each.suffix if each.suffix in VARIABLE_FILES else ""),
            file,
        )
        for each in (sorted(folder.iterdir()) if folder.is_dir() else ())
        for file in (sorted(each.iterdir()) if each.is_dir() else [each])
        if file.suffix in VARIABLE_FILES or not each.is_dir()
    ]
    if len(files) > MOST_FILES:
        raise ConfigError(f"{folder} has more than {MOST_FILES} files")
    yield from ((name, file) for name, file in files if file.is_file() and not file.name.startswith("."))
