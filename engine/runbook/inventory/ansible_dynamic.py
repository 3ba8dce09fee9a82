"""Read Ansible's dynamic inventories: the output of ``ansible-inventory --list``, and inventory programs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from runbook.errors import ConfigError, Problem
from runbook.foreign_files import MOVE_IT, refuse_foreign
from runbook.inventory.ansible_groups import ALL
from runbook.inventory.text_formats import TextDocument
from runbook.text_files import MAX_INVENTORY_BYTES

META, HOST_VARIABLES = "_meta", "hostvars"
LISTER = "ansible-inventory"
PATIENCE = 60.0
"""The maximum number of seconds that a program may take to list its hosts."""


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
    lister = shutil.which(LISTER)
    if not lister or not os.path.isabs(lister):
        hint = f"where it is, run `{LISTER} -i {file} --list > hosts.json`, and give hosts.json"
        raise ConfigError(
            Problem(file=file, message=f"a program that lists hosts, and there is no {LISTER}", hint=hint)
        )
    return TextDocument(file=file, value=_listed(lister, str(path.absolute()), text), places={})


@lru_cache(maxsize=8)
def _listed(lister: str, program: str, _: str) -> Mapping[str, object]:
    """Return the hosts that *program* lists, run by *lister*; the result is cached until the text of *program*
    changes.
    """
    folder = os.path.dirname(program)  # where another user's ansible.cfg cannot lie
    try:
        done = subprocess.run(
            [lister, "-i", program, "--list"],
            cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
        found = json.loads(done.stdout[: MAX_INVENTORY_BYTES + 1])
    except subprocess.TimeoutExpired as error:
        raise ConfigError(f"{program}: {LISTER} printed no list within {PATIENCE:.0f} s") from error
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"{program}: {LISTER} printed no list of hosts: run `{LISTER} -i {program} --list`"
        ) from error
    if done.returncode or not is_listing(found):
        raise ConfigError(f"{program}: {LISTER} failed: run `{LISTER} -i {program} --list`")
    return dict(found)
