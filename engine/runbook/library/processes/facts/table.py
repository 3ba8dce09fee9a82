"""The processes of a host, each identified by its pid and start time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.processes.facts.control_groups import container_in, unit_in
from runbook.library.processes.facts.executables import Executable, programs_of
from runbook.library.processes.facts.table_script import PROCESSES
from runbook.secrets.detection import masked_argv
from runbook.values.command import Command, Completed, read_script
from runbook.values.types import Unknown, plural, seconds

COMMAND = 4096
"""Characters of a command line that are kept."""

TICKS = 100
"""Clock ticks in a second, as /proc counts them (USER_HZ: 100 on every architecture that GPUs are put into)."""

WHILE_READ = 10.0
"""The seconds for reading the table: a process started meanwhile is new, whatever the uptime before."""

SHELLS = frozenset(("sh", "bash", "dash", "ash", "zsh", "ksh", "fish", "tcsh", "csh"))
_PASSAGES = ("sudo", "su", "runuser", "setpriv", "setsid", "env", "busybox", "sftp-server")
_SERVERS = ("sshd", "sshd-session", "sshd-auth", "dropbear")


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process; *pid* and *start* together are never another's."""

    pid: int
    """The number of the process, which another one may have later."""
    start: int
    """Clock ticks since boot."""
    ppid: int
    """The pid of its parent: who has started it, or else 1 or another that took it over."""
    user: str
    """The name, or the number where /etc/passwd has none."""
    state: str
    """A letter: R running, S sleeping, D in the kernel (no signal reaches it), Z defunct, T stopped ..."""
    command: str
    """The arguments joined by spaces, without the secrets among them; ``[name]`` where there are none."""
    seconds: float | Unknown
    """The seconds that it has been running."""
    devices: tuple[str, ...] = ()
    """The device nodes (or files asked for) that it has open."""
    container: str = ""
    """The container's id (12 digits), its name (``lxc/web``, ``machine-web.scope``) or the Slurm job (``job_123``)."""
    unit: str = ""
    """The service of this host's systemd, or of a user's, that it runs in, where the host can tell."""
    listed: bool | Unknown = False
    """Whether nvidia-smi lists it."""
    gpus: tuple[str, ...] = ()
    """The GPUs that it holds, those that are known, with the memory that nvidia-smi lists: ``GPU 0 (81234 MiB)``."""
    why: str = ""
    """The reason why it was chosen, where there are several: ``holds /dev/nvidia0``, ``matches torchrun``."""
    owner: str = ""
    """The owner, where it was asked for: ``slurm job 4711 (RUNNING)``, ``service ollama.service (active)``."""
    ownership: str = ""
    """allocated, service, container, session, supervised, orphan or unknown; empty: not asked."""
    disguise: str = ""
    """``calls itself sshd, runs /tmp/x``: it has the name of a protected program, and is another."""

    @property
    def key(self) -> str:
        """Its identity as a target."""
        return f"{self.pid}:{self.start}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A process with what only we need to know of it."""

    process: Process
    name: str
    """The kernel's name for it; at most 15 characters, and the process may choose them."""
    argv: tuple[str, ...]
    group: int
    terminal: bool
    """Whether it has one."""
    threads: int
    leader: int = 0
    """The pid of the process whose terminal it has: the leader of its session, which lives as long as that is so."""
    tty: int = 0
    """The number of that terminal, as the kernel has it (tty_nr of proc(5))."""
    cgroup: str = ""
    """Its path among the control groups, where that names a service, a container, a job or a login."""
    read: bool = True
    """Whether its arguments could be read."""
    uid: str = "0"
    names: tuple[str, ...] | Unknown | None = None
    """The names that a process of another user may have: after its program, if that is root's; otherwise none.

    None: it is a process of root or of our own user, whose own name is believed.
    """
    runs: str = ""
    """The path of that program, where it was inspected."""
    cut: bool = False
    """Whether *argv* is only the beginning of them, or nothing: they are too long, or its user has too many."""

    @property
    def line(self) -> str:
        """Return the text that patterns are searched in: the arguments joined by spaces; empty where there are none."""
        return " ".join(self.argv)

    @property
    def defunct(self) -> bool:
        """Whether the process, with all its threads, has ended, and holds only its pid."""
        return self.process.state in "ZXx" and self.threads <= 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Every process of a host, but kernel threads and what we started ourselves."""

    rows: Mapping[int, Row]
    way_in: tuple[int, ...]
    """Our own shell's ancestors, nearest first."""
    uid: int
    hidden: str = ""
    """The reason why the table may lack processes; empty: it lacks none."""
    own: frozenset[int] = field(default_factory=frozenset)
    """Our own processes, which are left out of *rows*."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """The number of processes that are missing because their user has too many, by user."""

    def unread(self) -> tuple[Process, ...]:
        """The processes whose arguments could not be read."""
        return tuple(row.process for row in self.rows.values() if not row.read)

    def shortened(self) -> tuple[str, ...]:
        """Return the users whose processes could not be listed completely, with the reasons, as texts.

        The worst first.
        """
        cut: dict[str, int] = {}
        for row in self.rows.values():
            if row.cut:
                cut[row.process.user] = cut.get(row.process.user, 0) + 1
        users = sorted({*cut, *self.left_out}, key=lambda it: (-self.left_out.get(it, 0), -cut.get(it, 0), it))
        return tuple(_shortened(user, self.left_out.get(user, 0), cut.get(user, 0)) for user in users)

    def blind(self) -> Unknown | None:
        """Return the reason why a search by command line may miss a process; None: it misses none."""
        if self.hidden:
            return Unknown(why=self.hidden)
        if unread := self.unread():
            one = unread[0]
            return Unknown(
                why=f"the arguments of pid {one.pid} {one.command} cannot be read: the process hangs in the kernel"
            )
        if shortened := self.shortened():
            return Unknown(why=f"a match may be in what could not be read: {'; '.join(shortened[:3])}")
        return None


def _shortened(user: str, left_out: int, cut: int) -> str:
    words = [f"{plural(left_out, 'process')} of user {user} not inspected"] if left_out else []
    words += [f"the command lines of {plural(cut, 'process')} of user {user} read only in part"] if cut else []
    return " and ".join(words) + " (too many, or too long)"


VALID = 10.0
"""Seconds for which a plan may rest on what was seen of the processes; before a change they are inspected again."""


def ask_processes() -> Command:
    """Every process of the host; their arguments, which may hold anybody's secrets, stay out of the record."""
    return replace(read_script(PROCESSES), private=True, valid_for=VALID)


def read_processes(done: Completed) -> Table:
    """The processes in *done*.  Raises ProbeError when they cannot be believed."""
    if done.timed_out:
        raise ProbeError(f"the processes could not be read within {seconds(done.seconds)}: /proc itself may hang")
    if done.exit_code != 0:
        said = done.stderr.strip().split("\n")[-1]
        raise ProbeError(
            f"the processes could not be read (exit code {done.exit_code})" + (f": {said}" if said else "")
        )
    return table_of(done.stdout.split("\n"))


def table_of(lines: list[str]) -> Table:
    """The processes in the lines of the script.  Raises ProbeError when they cannot be believed."""
    reported = [line.partition(" ")[::2] for line in lines]
    me, shell, uid, up, hide = next((text.split() for text in lines_of("self", reported)), ("0", "0", "-1", "-", "-"))
    rows = _all_rows(reported, up)
    rows = _with_names(rows, _names_of(rows, uid, programs_of(reported)))
    _check_own_rows(rows, int(me), int(shell))
    way_in = _above(rows, int(shell))
    own = _own(rows, int(shell), way_in)
    sees_all = 1 in rows and (hide == "-" or int(uid) == 0)
    return Table(
        rows={pid: row for pid, row in rows.items() if pid not in own},
        way_in=way_in,
        uid=int(uid),
        hidden="" if sees_all else "this user may not see the processes of others (/proc is mounted with hidepid)",
        own=own,
        left_out=_unlisted_by_user(reported),
    )


def lines_of(wanted: str, reported: Iterable[tuple[str, str]]) -> list[str]:
    """Return the lines of the kind *wanted*."""
    return [rest for kind, rest in reported if kind == wanted]


def _all_rows(reported: list[tuple[str, str]], up: str) -> dict[int, Row]:
    """Every process, ordered by pid, on a host that has been *up* for so many seconds."""
    users = dict(text.split(" ", 1) for text in lines_of("u", reported) if " " in text)
    arguments, stuck = _arguments(lines_of("a", reported))
    cut = frozenset(lines_of("cut", reported))
    uptime = float(up) if re.fullmatch(r"[0-9]+\.?[0-9]*", up) else -1.0
    found = _rows(lines_of("p", reported), users, arguments, stuck, cut, uptime)
    return dict(sorted(found, key=lambda pair: pair[0]))  # the shell's glob sorts pids as text: 1200 before 99


def _with_names(rows: Mapping[int, Row], named: Mapping[int, tuple[tuple[str, ...] | Unknown, str]]) -> dict[int, Row]:
    """Return *rows*; those in *named* with their possible names and the path of their program."""
    return {
        pid: replace(row, names=named[pid][0], runs=named[pid][1]) if pid in named else row for pid, row in rows.items()
    }


def _check_own_rows(rows: Mapping[int, Row], me: int, shell: int) -> None:
    """Raise ProbeError where our own processes do not stand among *rows* as they should."""
    if me not in rows or shell not in (me, *_above(rows, me)):
        raise ProbeError("/proc shows the processes of another pid namespace: its pids cannot be trusted here")
    if not rows[shell].argv:
        raise ProbeError(
            "the arguments of processes, even of our own, could not be read (this needs xargs, head, tr, env and awk)"
        )


def _unlisted_by_user(reported: list[tuple[str, str]]) -> dict[str, int]:
    """Return the number of processes that were not listed, by user."""
    counts = (text.partition(" ") for text in lines_of("left", reported))
    return {user: int(number) for number, _, user in counts}


def _arguments(reported: Iterable[str]) -> tuple[dict[str, list[str]], frozenset[str]]:
    """The arguments by pid, and the pids whose arguments could not be read."""
    found: dict[str, list[str]] = {}
    stuck: frozenset[str] = frozenset()
    for one in reported:
        pid, _, argument = one.partition(" ")
        if pid == "stuck":
            stuck = frozenset(argument.split())
        else:
            found.setdefault(pid, []).append(argument.replace("\x01", "\n"))
    return found, stuck


def _rows(
    reported: Iterable[str],
    users: Mapping[str, str],
    arguments: Mapping[str, list[str]],
    stuck: frozenset[str],
    cut: frozenset[str],
    uptime: float,
) -> Iterator[tuple[int, Row]]:
    split = [line.split(" ", 9) for line in reported]
    first = next((cgroup for pid, *_, cgroup, _ in split if pid == "1"), "-").removeprefix("-")
    for pid, state, ppid, group, terminal, threads, start, uid, shown_cgroup, name in split:
        cgroup = shown_cgroup.removeprefix("-")
        leader, _, tty = terminal.partition(".")
        argv = tuple(arguments.get(pid, ()))
        name = name.replace("\x01", "\n")
        age = uptime - int(start) / TICKS
        age = 0.0 if uptime >= 0 > age > -WHILE_READ else age
        process = Process(
            pid=int(pid),
            start=int(start),
            ppid=int(ppid),
            user=users.get(uid, uid),
            state=state,
            command=" ".join(masked_argv(argv))[:COMMAND] or f"[{name}]",
            seconds=round(age, 2)
            if age >= 0
            else Unknown(why="the host's uptime is unknown, or not that of the kernel"),
            container=container_in(cgroup, first),
            unit=unit_in(cgroup, first),
        )
        read = bool(argv) or state in "ZXx" or pid not in stuck
        yield (
            process.pid,
            Row(
                process=process,
                name=name,
                argv=argv,
                group=int(group),
                terminal=terminal != "0",
                threads=int(threads),
                leader=int(leader),
                tty=int(tty or 0),
                cgroup=cgroup,
                read=read,
                cut=pid in cut,
                uid=uid,
            ),
        )


def _names_of(
    rows: Mapping[int, Row], own: str, programs: Mapping[int, Executable]
) -> dict[int, tuple[tuple[str, ...] | Unknown, str]]:
    """Return the names that other users' processes may have, and the paths of their programs."""
    found: dict[int, tuple[tuple[str, ...] | Unknown, str]] = {}
    for pid, row in rows.items():
        program = programs.get(pid)
        if row.uid in ("0", own):
            continue
        if program is None:
            unseen = own != "0" and row.process.state not in "ZXx"
            found[pid] = (
                (Unknown(why=f"it is not known which program pid {pid} runs: set `become: true`"), "")
                if unseen
                else ((), "")
            )
        elif program.name in _SERVERS and not _under_root_s_server(row, rows):
            found[pid] = ((), program.path)
        else:
            found[pid] = ((program.name,) if program.roots else (), program.path)
    return found


def _under_root_s_server(row: Row, rows: Mapping[int, Row]) -> bool:
    """Whether a server of root's has started it: anybody may start an sshd of his own."""
    parent = rows.get(row.process.ppid)
    return parent is not None and parent.uid == "0" and _is_server(parent)


def _above(rows: Mapping[int, Row], pid: int) -> tuple[int, ...]:
    """The ancestors of *pid*, nearest first."""
    found: list[int] = []
    while pid in rows and (pid := rows[pid].process.ppid) and pid not in found:
        found.append(pid)
    return tuple(found)


def _own(rows: Mapping[int, Row], shell: int, way_in: tuple[int, ...]) -> frozenset[int]:
    """Return our shell and its descendants; over SSH, all descendants of the server process of our connection.

    That holds only if nothing but shells and sudo is between that process and our shell.  Otherwise a user who logged
    in to the host by SSH runs us there, and may have started jobs from the same session.
    """
    top = {shell}
    for pid in way_in:
        if pid not in rows or _is_server(rows[pid]):
            top |= {pid} & rows.keys() - {1}
            break
        if not _is_passage(rows[pid]):
            break
    below: dict[int, list[int]] = {}
    for pid, row in rows.items():
        below.setdefault(row.process.ppid, []).append(pid)
    found: set[int] = set()
    waiting = list(top)
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += below.get(one, [])
    return frozenset(found - set(way_in))


def _is_passage(row: Row) -> bool:
    """Whether it only hands us on: a shell, or what becomes another user."""
    first = row.argv[0].rpartition("/")[2].lstrip("-") if row.argv else ""
    return first in SHELLS or first in _PASSAGES


def _is_server(row: Row) -> bool:
    first = row.argv[0].split(":")[0].rpartition("/")[2] if row.argv else ""
    return row.name in _SERVERS or first in _SERVERS
