"""Processes that are never ended unless somebody names them, and some not even then."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace

from engine.facts.processes.known_daemons import NAMES
from engine.facts.processes.table import SHELLS, Process, Row, Table
from engine.values.types import Unknown

_INTERPRETED = frozenset(
    ("pip", "pip3", "pipx", "jupyter", "jupyter-lab", "jupyter-notebook", "jupyterhub", "supervisord")
)
"""Protected programs that are known by the script that an interpreter runs; a job may call its script anything else."""

_OF_GPUS = ("a daemon of the GPU driver", "a look at the GPU, not a job", "a desktop")
"""Why programs are spared that open GPUs as a matter of course."""

_KERNEL = 15
"""Characters that the kernel keeps of a program's name."""

_EXACT = {it[:cut]: why for why, names in NAMES.items() for it in names.split() for cut in (_KERNEL, None)}
_PREFIXES = tuple(
    (it.removesuffix("*")[:_KERNEL], why) for why, names in NAMES.items() for it in names.split() if it.endswith("*")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Protected:
    """A process that is spared whatever it matches or holds."""

    pid: int
    user: str
    command: str
    process: Process
    why: str


def programs(row: Row) -> tuple[str, ...]:
    """What the process is called: by its first argument, and by the kernel."""
    first = row.argv[0].split(" ")[0].rstrip(":") if row.argv else ""
    return tuple(dict.fromkeys(it for it in (first.rpartition("/")[2].lstrip("-"), row.name) if it))


def _script(row: Row) -> tuple[str, ...]:
    """The program that an interpreter runs, as it is called: ``python3 /usr/bin/pip install ...`` is pip."""
    first = row.argv[0].rpartition("/")[2] if row.argv else ""
    if not re.fullmatch(r"python[0-9.]*|perl|ruby|node", first) or len(row.argv) < 2:
        return ()
    if row.argv[1] == "-m" and len(row.argv) > 2:
        return (row.argv[2].partition(".")[0],)
    return () if row.argv[1].startswith("-") else (row.argv[1].rpartition("/")[2],)


def daemon(row: Row, allow: Collection[str] = ()) -> str:
    """Why its program is spared; empty: it is not, or *allow* names it."""
    if row.names is None:
        called: tuple[str, ...] = (*programs(row), *(name for name in _script(row) if name in _INTERPRETED))
    else:
        called = () if isinstance(row.names, Unknown) else row.names
    for it in called:
        why = _why(it)
        cut = len(it) == _KERNEL and any(name[:_KERNEL] == it for name in allow)
        if why and it not in allow and not cut:
            return f"{it} is {why}"
    return "it is this tool" if row.names is None and is_this_tool(row) else ""


def _why(name: str) -> str:
    """Why a program of that name is spared; empty: it is not."""
    return _EXACT.get(name) or next((why for prefix, why in _PREFIXES if name.startswith(prefix)), "")


def disguise(row: Row) -> str:
    """``calls itself sshd, runs /tmp/x`` where it has a protected name without being that; else empty."""
    if row.names is None or isinstance(row.names, Unknown) or any(map(_why, row.names)):
        return ""
    claimed = next((it for it in programs(row) if _why(it)), "")
    return f"calls itself {claimed}, runs {row.runs or 'a program that could not be seen'}" if claimed else ""


def shown(row: Row) -> Process:
    """The process, with the name that it hides behind."""
    hides = disguise(row)
    return replace(row.process, disguise=hides) if hides else row.process


def misplaced(row: Row) -> bool:
    """Whether nothing of a protected program of another user has to do with a GPU: an editor that holds one is odd."""
    if row.names is None or isinstance(row.names, Unknown):
        return False
    return not any(_why(it) in _OF_GPUS for it in row.names)


def is_this_tool(row: Row) -> bool:
    """Whether it runs a playbook, as this very program does."""
    first = row.argv[0].rpartition("/")[2] if row.argv else ""
    if len(row.argv) < 2 or not first.startswith("python"):
        return False
    return row.argv[1].rpartition("/")[2] == "runbook" or row.argv[1:3] == ("-m", "engine")


def protection(row: Row, table: Table, allow: Collection[str] = ()) -> str | Unknown:
    """Why the process must not be ended; empty: it may be; unknown where its protected name cannot be checked.

    A name protects a process of root's and of our own user. Another user's is known by the program that it runs, if
    only root can have put that there; an sshd also by root's sshd, which has started it. Pid 1 and whatever our own
    connection hangs on are spared even where *allow* names their program.
    """
    pid = row.process.pid
    if pid == 1:
        return "pid 1 keeps the host, or the container, alive"
    if pid in table.way_in or pid in table.own:
        return "our own connection hangs on it"
    if isinstance(row.names, Unknown) and any(_why(it) and it not in allow for it in programs(row)):
        return row.names
    return daemon(row, allow)


def interactive(row: Row) -> bool:
    """Whether it is a shell that a person types into: what it runs are several jobs, not one."""
    if not row.argv:
        return False
    shell = row.argv[0].rpartition("/")[2]
    if shell.lstrip("-") not in SHELLS:
        return False
    return shell.startswith("-") or (row.terminal and not _runs_a_script(row.argv[1:]))


def _runs_a_script(arguments: tuple[str, ...]) -> bool:
    """Whether a shell with these arguments runs a file or a text (``-c``)."""
    waiting = list(arguments)
    while waiting:
        one = waiting.pop(0)
        if one in ("--rcfile", "--init-file", "-o", "-O", "+o", "+O"):
            waiting[:1] = []
        elif re.fullmatch(r"-[a-zA-Z]*c[a-zA-Z]*", one) or not one.startswith(("-", "+")):
            return True
    return False
