"""Protected processes: some are spared unless `allow` names their program, others always."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import replace

from runbook.dataclass import dataclass
from runbook.library.processes.facts.known_daemons import DAEMON_NAMES
from runbook.library.processes.facts.table import SHELLS, Process, Row, Table
from runbook.values.types import Unknown

_INTERPRETED = frozenset(
    ("pip", "pip3", "pipx", "jupyter", "jupyter-lab", "jupyter-notebook", "jupyterhub", "supervisord")
)
"""Protected programs that are known by the script that an interpreter runs; a job may call its script anything else."""

_OF_GPUS = ("a daemon of the GPU driver", "a GPU monitoring tool, not a job", "a desktop")
"""The reasons to spare programs that open GPUs as a matter of course."""

_KERNEL = 15
"""Characters that the kernel keeps of a program's name."""

_EXACT = {word[:cut]: why for why, names in DAEMON_NAMES.items() for word in names.split() for cut in (_KERNEL, None)}
_PREFIXES = tuple(
    (word.removesuffix("*")[:_KERNEL], why)
    for why, names in DAEMON_NAMES.items()
    for word in names.split()
    if word.endswith("*")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Protected:
    """A process that is spared whatever it matches or holds."""

    pid: int
    """The number of the process, as `process` has it."""
    user: str
    """Its user: the name, or the number where /etc/passwd has none."""
    command: str
    """The arguments joined by spaces, without the secrets among them; ``[name]`` where there are none."""
    process: Process
    """The process with all of its fields."""
    why: str
    """The reason why it is spared, in words: `sshd is a remote access service`, `our own connection needs it` ..."""

    def __str__(self) -> str:
        return f"pid {self.pid}: {self.why}"


def spared(process: Process, why: str) -> Protected:
    """*process*, with the reason why it is spared."""
    return Protected(pid=process.pid, user=process.user, command=process.command, process=process, why=why)


def programs(row: Row) -> tuple[str, ...]:
    """Return the names of the process: by its first argument, and by the kernel."""
    first = row.argv[0].split(" ")[0].rstrip(":") if row.argv else ""
    return tuple(dict.fromkeys(word for word in (first.rpartition("/")[2].lstrip("-"), row.name) if word))


_WITH_VALUE = ("-X", "-W", "--check-hash-based-pycs", "-r", "--require", "--import", "--loader")
"""Options of Python and of Node that may have their value in the next argument."""


def script_of(row: Row) -> tuple[str, ...]:
    """The program that an interpreter runs, as it is called: ``python3 -u /usr/bin/pip install ...`` is pip.

    Of a module (``python -m pip.__main__``, ``-um pip``, ``-mpip``) the package; nothing of a text (``-c``, ``-e``).
    """
    first = row.argv[0].rpartition("/")[2] if row.argv else ""
    if not re.fullmatch(r"python[0-9.]*|pypy[0-9.]*|perl|ruby|node", first):
        return ()
    waiting = list(row.argv[1:])
    while waiting:
        word = waiting.pop(0)
        if module := re.fullmatch(r"-[bBdEiIOPqsSuvx]*m(.*)", word, re.DOTALL):
            name = module[1] or next(iter(waiting), "")
            return (name.partition(".")[0],) if name else ()
        if re.fullmatch(r"-[bBdEiIOPqsSuvx]*[ce].*|-", word, re.DOTALL):
            return ()
        if not word.startswith("-"):
            return (word.rpartition("/")[2],)
        if word in _WITH_VALUE:
            waiting = waiting[1:]
    return ()


def daemon(row: Row, allow: Collection[str] = ()) -> str:
    """Return the reason why its program is spared; empty: it is not, or *allow* names it."""
    if row.names is None:
        called: tuple[str, ...] = (*programs(row), *(name for name in script_of(row) if name in _INTERPRETED))
    else:
        called = () if isinstance(row.names, Unknown) else row.names
    for program in called:
        why = _why(program)
        cut = len(program) == _KERNEL and any(name[:_KERNEL] == program for name in allow)
        if why and program not in allow and not cut:
            return f"{program} is {why}"
    return "it is runbook itself" if row.names is None and is_this_tool(row) else ""


def _why(name: str) -> str:
    """Return the reason why a program of that name is spared; empty: it is not."""
    return _EXACT.get(name) or next((why for prefix, why in _PREFIXES if name.startswith(prefix)), "")


def disguise(row: Row) -> str:
    """``calls itself sshd, runs /tmp/x`` where it has a protected name without being that; else empty."""
    if row.names is None or isinstance(row.names, Unknown) or any(map(_why, row.names)):
        return ""
    claimed = next((program for program in programs(row) if _why(program)), "")
    return f"calls itself {claimed}, runs {row.runs or 'a program that could not be inspected'}" if claimed else ""


def as_process(row: Row) -> Process:
    """The process, with the name that it hides behind."""
    hides = disguise(row)
    return replace(row.process, disguise=hides) if hides else row.process


def misplaced(row: Row) -> bool:
    """Whether nothing of a protected program of another user has to do with a GPU: an editor that holds one is odd."""
    if row.names is None or isinstance(row.names, Unknown):
        return False
    return not any(_why(name) in _OF_GPUS for name in row.names)


def is_this_tool(row: Row) -> bool:
    """Whether it runs a playbook, as this very program does."""
    first = row.argv[0].rpartition("/")[2] if row.argv else ""
    if len(row.argv) < 2 or not first.startswith("python"):
        return False
    return row.argv[1].rpartition("/")[2] == "runbook" or row.argv[1:3] == ("-m", "runbook")


def protection(row: Row, table: Table, allow: Collection[str] = ()) -> str | Unknown:
    """Return the reason why the process must not be ended; empty: it may be; unknown: its name cannot be checked.

    A name protects a process of root or of our own user.  A process of another user is known by its program, if only
    root can have installed that; an sshd also by its parent, an sshd of root.  Pid 1 and the processes of our own
    connection are spared even if *allow* names their programs.
    """
    pid = row.process.pid
    if pid == 1:
        return "pid 1 keeps the host, or the container, alive"
    if pid in table.way_in or pid in table.own:
        return "our own connection needs it"
    if isinstance(row.names, Unknown) and any(_why(program) and program not in allow for program in programs(row)):
        return row.names
    return daemon(row, allow)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtectionSplit:
    """Processes by whether they may be ended."""

    free: tuple[Row, ...]
    protected: tuple[Protected, ...]
    """The processes that must not be ended, each with the reason."""
    doubt: Unknown | None
    """The first reason why a process is not known to be protected or not; None: it is known of all."""


def split_by_protection(rows: Iterable[Row], table: Table, allow: Collection[str]) -> ProtectionSplit:
    """Separate the processes of *rows* that may be ended from the protected ones."""
    judged = [(row, protection(row, table, allow)) for row in rows]
    return ProtectionSplit(
        free=tuple(row for row, why in judged if why == ""),
        protected=tuple(spared(row.process, why) for row, why in judged if why and isinstance(why, str)),
        doubt=next((why for _, why in judged if isinstance(why, Unknown)), None),
    )


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
