"""Read Ansible's dynamic inventories: the output of ``ansible-inventory --list``, and inventory programs."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runbook.errors import ConfigError
from runbook.foreign_files import MOVE_IT, refuse_foreign
from runbook.inventory.ansible_groups import ALL
from runbook.inventory.listing_program import printed_list
from runbook.inventory.text_formats import TextDocument

META, HOST_VARIABLES = "_meta", "hostvars"
LISTER = "ansible-inventory"


def is_listing(document: object) -> bool:
    """Whether *document* is the output of ``ansible-inventory --list``."""
    meta = document.get(META) if isinstance(document, Mapping) else None
    return isinstance(meta, Mapping) and isinstance(meta.get(HOST_VARIABLES), Mapping)


def as_tree(document: Mapping[object, Any]) -> dict[object, Any]:
    """Return *document*, the output of ``ansible-inventory --list``, as a tree of groups like that of a YAML
    inventory.
    """
    tree: dict[object, Any] = {}
    for name, body in document.items():
        if name == META:
            continue
        group = {"hosts": body} if isinstance(body, list) else body
        if not isinstance(group, Mapping):
            tree[name] = group
            continue
        lists = {key: group[key] for key in ("hosts", "children") if isinstance(group.get(key), list)}
        tree[name] = {**group, **{key: dict.fromkeys(map(str, names)) for key, names in lists.items()}}
    variables = document[META][HOST_VARIABLES]
    every = tree.setdefault(ALL, {})
    if isinstance(every, Mapping):
        tree[ALL] = {
            **every,
            "hosts": {**(every.get("hosts") or {}), **{str(key): it for key, it in variables.items()}},
        }
    return tree


def parse_text(text: str, file: str) -> TextDocument | None:
    """Return the hosts that the inventory program *file* lists; None if *file* is not a program.

    The program is run by ansible-inventory, which must be installed.  It is not run if another user could have written
    it.  Raises ConfigError.
    """
    path = Path(file)
    if not text.startswith("#!") or not os.access(path, os.X_OK):
        return None
    refuse_foreign(path, MOVE_IT)
    program = path.absolute()
    hint = f"where it is, run `{LISTER} -i {file} --list > hosts.json`, and give hosts.json"
    folder = str(program.parent)  # where another user's ansible.cfg cannot lie
    printed = printed_list(file, (LISTER, "-i", str(program), "--list"), folder, text, missing=hint)
    try:
        found = json.loads(printed)
    except (ValueError, RecursionError):
        found = None
    if not is_listing(found):
        raise ConfigError(f"{file}: {LISTER} printed no list of hosts: run `{LISTER} -i {program} --list`")
    return TextDocument(file=file, value=dict(found), places={})
