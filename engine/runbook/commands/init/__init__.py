"""The commands ``runbook init`` and ``runbook new``: write files for a beginning."""

from __future__ import annotations

import re
from pathlib import Path

from runbook.commands.input_files import ENDINGS, library
from runbook.errors import ConfigError, Problem
from runbook.foreign_files import refuse_foreign

PLAYBOOK_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
"""The form of a playbook's name, which is used on the command line and as a file name."""

FILES = {
    "inventory/distributed_hosts.yaml": "inventory.yaml",
    "playbooks/stuck-training.yaml": "playbook.yaml",
    ".github/workflows/playbooks.yaml": "workflow.yaml",
}
"""The files that ``init`` writes, each with the file that has its text."""

ELSEWHERE = "write it in a directory that only you can write to"


def init_text(folder: str) -> str:
    """Write an inventory, a first playbook and a check for CI to *folder*; return text about the next steps.

    Raises ConfigError, before anything is written, if one of the files exists.
    """
    there = [name for name in FILES if (Path(folder) / name).exists()]
    if there:
        words = f"{folder}: {', '.join(there)} {'is' if len(there) == 1 else 'are'} there already; nothing was written"
        raise ConfigError(Problem(message=words, hint="runbook new NAME adds a playbook"))
    for name in FILES:
        refuse_foreign(Path(folder) / name, ELSEWHERE, new=True)
    for name, source in FILES.items():
        _write(Path(folder) / name, _text(source).replace("NAME", "stuck-training"))
    lines = [f"wrote {Path(folder) / name}" for name in FILES]
    return "\n".join([*lines, "", "Name your hosts in the inventory, then:", *_NEXT])


_NEXT = (
    "  runbook hosts                                     the hosts that it has; connects to nothing",
    "  runbook exec all --read -- uptime                 whether they answer",
    "  runbook run stuck-training --hosts all --dry-run  what is wrong, and what would be done",
)


def new_text(name: str) -> str:
    """Write a playbook *name* to ``./playbooks``; return text about the next steps.  Raises ConfigError."""
    if not PLAYBOOK_NAME.fullmatch(name):
        words = f"{name!r} is no name for a playbook"
        raise ConfigError(Problem(message=words, hint="small letters, digits and single dashes: stuck-training"))
    for ending in ENDINGS:
        if (path := Path("playbooks") / f"{name}{ending}").exists():
            raise ConfigError(Problem(message=f"{path} is there already", hint=f"runbook check {name}"))
        if (shipped := library() / f"{name}{ending}").exists():
            words = f"the library has a playbook {name!r}, which yours would hide ({shipped})"
            raise ConfigError(Problem(message=words, hint="choose another name, or copy that file"))
    path = Path("playbooks") / f"{name}.yaml"
    _write(path, _text("playbook.yaml").replace("NAME", name))
    return (
        f"wrote {path}\n\nFill it in, then:\n  runbook check {name}\n  runbook lab run {name} --host gpu-01=leftovers"
        f" --dry-run\n  runbook run {name} --hosts HOST --dry-run"
    )


def _text(name: str) -> str:
    return (Path(__file__).parent / name).read_text()


def _write(path: Path, text: str) -> None:
    """Write a new file.  Raises ConfigError if that fails; an existing file is never overwritten."""
    refuse_foreign(path, ELSEWHERE, new=True)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        refuse_foreign(path, ELSEWHERE, new=True)  # in a directory such as /tmp, somebody else may have made it
        with path.open("x") as file:
            file.write(text)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error
