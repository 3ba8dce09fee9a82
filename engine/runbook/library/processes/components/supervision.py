"""The state of the components of a host, and the commands that start and end them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.processes.components.component import Component
from runbook.library.processes.components.probe_scripts import COMMON, PROBE, WATCHER
from runbook.library.processes.facts.exit_codes import explained
from runbook.library.processes.facts.table import COMMAND, lines_of
from runbook.shell import OUTLIVE, script
from runbook.values.command import Command, Completed, read_script, write_script
from runbook.values.types import Unknown, seconds

_TURN = script(__package__, "components_turn")

_END = script(__package__, "components_terminate")

START = COMMON + OUTLIVE + _TURN + _END + script(__package__, "components_start")
"""Parameters: ``$1`` the folder, ``$2`` the last turn, ``$3`` hundredths of a second for TERM.

``$4`` the components to watch, ``$5`` whether all are ended when one dies, ``$6`` the watcher.  On stdin come records,
each with the number of its lines: ``runs``, name and pid:start; or ``start``, name, hundredths of a second to wait,
log, folder, digest and the input of the watcher; then ``end``.

Exit code 1: a component has died, which a second probe names.  Exit codes 11 and 12: nothing was done.
"""

END = COMMON + _TURN + _END + script(__package__, "components_stop")
"""``$1`` the folder, ``$2`` the last turn, ``$3`` hundredths of a second that TERM may take, then one word for each
component in the order of their ends: name and pid:start, or name, ``-`` and the pid:start of each process that is left.
"""


LINE = 1000
"""The maximum number of characters that are kept of a line of a log."""

_BLIND = "processes that the components have started cannot be searched for: reading /proc hangs on some process"

LAST_WAIT = 5.0
"""The seconds to wait after KILL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remains:
    """A process that was started by a component and still runs although the component has ended."""

    component: str
    """The name of the component that started the process."""
    pid: int
    """The pid of the process on the host."""
    start: int
    """The start time in clock ticks since boot; *pid* and *start* together identify the process."""
    state: str
    """The state as a letter: R running, S sleeping, D in the kernel (no signal reaches it), Z defunct, T stopped ..."""
    user: str
    """The user as whom the step runs."""
    command: str
    """The name of the process in the kernel (15 characters)."""

    @property
    def key(self) -> str:
        """Return the identity of the process as a target."""
        return f"{self.pid}:{self.start}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentStatus:
    """The state of a component."""

    name: str
    """The name of the component in `components`."""
    status: str
    """running, found (something else started it), ended, stopped (on purpose), lost (its end was not seen),
    or never.
    """
    pid: int = 0
    """The pid; 0 if the component was never started and is not found either."""
    start: int = 0
    """The start time in clock ticks since boot; *pid* and *start* together identify the process."""
    user: str
    """The user as whom the step and the component run."""
    command: str
    """The arguments of the running component, joined by spaces; if it does not run, the requested arguments."""
    differs: bool = False
    """Whether the component runs with other arguments, environment, directory or log than the step requires now."""
    exit_code: int | Unknown
    """The exit code of the component (128 + N: by signal N); unknown while it runs, or if its end was not seen."""
    meaning: str = ""
    """The meaning of the exit code, as text; empty if there is no exit code."""
    started: int | Unknown
    """When it was started, in seconds since 1970."""
    ended: int | Unknown
    """When it ended, in seconds since 1970; unknown while it runs, or if its end was not seen."""
    seconds: float | Unknown
    """The seconds for which the component has been running, or ran."""
    log: str
    """The path of the file on the host to which the output of the component is appended."""
    last: tuple[str, ...] = ()
    """The last lines of the log since the component was started, each with the name in brackets before it."""
    died: float = field(default=0.0, metadata={"private": True})
    """The uptime of the host when the component ended; 0: not known."""

    @property
    def key(self) -> str:
        """Return the identity of the component as a target."""
        return f"{self.pid}:{self.start}"

    @property
    def runs(self) -> bool:
        """Whether the component is running."""
        return self.status in ("running", "found")

    @property
    def ours(self) -> bool:
        """Whether the component is running and was started by runbook."""
        return self.status == "running"

    @property
    def dead(self) -> bool:
        """Whether the component has ended although nobody stopped it."""
        return self.status in ("ended", "lost")


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentSet:
    """All components of the step, in their order."""

    parts: tuple[ComponentStatus, ...]
    left: tuple[Remains, ...] | Unknown
    strays: tuple[Remains, ...]
    """The processes in the session of a dead component that do not have its mark."""
    obstacles: tuple[tuple[str, str], ...]
    """The obstacles to a start, each with the reason; the name of the component is empty if it concerns all."""
    turn: int
    busy: int
    """The pid of the process that is starting or ending components now; 0: there is none."""


def ask_components(components: Sequence[Component], records: str, lines: int) -> Command:
    """Return the command that reads the state of *components* from the records in the folder *records*."""
    words: list[str] = []
    for component in components:
        words += (
            component.name,
            "".join(component.argv[:1]),
            component.cwd,
            component.log,
            dict(component.variables).get("PATH", ""),
        )
    return read_script(PROBE, str(lines), records, *words)


def read_components(components: Sequence[Component], done: Completed) -> ComponentSet:
    """Return the state of *components* in *done*.  Raises ProbeError if it does not contain the state."""
    if done.timed_out:
        raise ProbeError(f"the state of the components could not be read within {seconds(done.seconds)}")
    if done.exit_code != 0:
        raise ProbeError(
            " ".join(done.stderr.split()) or f"the probe of the components ended with exit code {done.exit_code}"
        )
    reported = [(kind, rest) for kind, _, rest in (line.partition(" ") for line in done.stdout.split("\n")) if kind]
    uptime, user = lines_of("self", reported)[0].split(" ", 1)
    turn, busy = lines_of("turn", reported)[0].split(" ")
    parts = _parts(components, reported, _logs(done.stdout.split("\n")), user, int(uptime))
    obstacles = (text.partition(" ") for text in lines_of("no", reported))
    unseen = bool(lines_of("blind", reported))
    return ComponentSet(
        parts=parts,
        left=Unknown(why=_BLIND) if unseen else _remains(lines_of("left", reported), parts, user),
        strays=_remains(lines_of("stray", reported), parts, user),
        obstacles=tuple((name.strip("-"), why) for name, _, why in obstacles),
        turn=int(turn),
        busy=int(busy) if busy != "-" else 0,
    )


def _parts(
    components: Sequence[Component],
    reported: list[tuple[str, str]],
    logs: Mapping[str, tuple[str, ...]],
    user: str,
    uptime: int,
) -> tuple[ComponentStatus, ...]:
    """Return the state of each of *components*; a running one by its present command line.  Raises ProbeError."""
    rows = [text.split(" ", 11) for text in lines_of("part", reported)]
    if [row[0] for row in rows] != [component.name for component in components]:
        raise ProbeError("the host's answer is truncated: components are missing from it")
    pairs = zip(rows, components, strict=True)
    parts = [_part(row, component, user, uptime, logs.get(row[0], ())) for row, component in pairs]
    commands = (text.partition(" ") for text in lines_of("does", reported))
    runs = {name: command.rstrip()[:COMMAND] for name, _, command in commands}
    return tuple(replace(part, command=runs.get(part.name, part.command)) for part in parts)


def _logs(lines: Iterable[str]) -> Mapping[str, tuple[str, ...]]:
    """Return the lines of each log, which follow its ``part`` line.

    A line that a progress bar overwrote has its last state.
    """
    found: dict[str, list[str]] = {}
    name = ""
    for line in lines:
        if line.startswith("part "):
            name = line.split(" ")[1]
        elif line.startswith(" ") and name:
            shown = line[1:].rstrip("\r").rpartition("\r")[2].rstrip()
            found.setdefault(name, []).append(f"[{name}] {shown[-LINE:]}")
    return {name: tuple(value) for name, value in found.items()}


def _part(row: Sequence[str], component: Component, user: str, uptime: int, last: tuple[str, ...]) -> ComponentStatus:
    name, status, key, _, began, began_at, code, over, over_at, asked, digest, log = row
    pid, _, start = key.partition(":")
    never = Unknown(why=f"{name} was never started by this action")
    unseen = Unknown(why=_unseen(name, status))
    known = status == "ended"
    lived = (int(over) if known else uptime) - int(began) if began != "-" else 0
    return ComponentStatus(
        name=name,
        status=_status(status, asked == "yes"),
        pid=int(pid) if pid != "-" else 0,
        start=int(start or 0),
        user=user,
        command=" ".join(component.argv),
        differs=status == "running" and digest != component.digest,
        exit_code=int(code) if known else never if status == "never" else unseen,
        meaning=explained(int(code)).meaning if known else "",
        started=int(began_at) if began_at != "-" else never,
        ended=int(over_at) if known else never if status == "never" else unseen,
        seconds=never if status == "never" else lived / 100 if known or status == "running" else unseen,
        log=log,
        last=last,
        died=int(over) / 100 if known else 0.0,
    )


def _status(status: str, asked: bool) -> str:
    if status == "running" or status == "never":
        return status
    if asked:
        return "stopped"
    return "lost" if status == "before" else status


def _unseen(name: str, status: str) -> str:
    words = {
        "running": f"{name} runs",
        "before": f"the host was rebooted since {name} was started",
        "lost": f"the watcher of {name} was killed, or could not record its end",
    }
    return words.get(status, "")


def _remains(rows: Iterable[str], parts: Iterable[ComponentStatus], user: str) -> tuple[Remains, ...]:
    """Return the processes that still run although their components have ended."""
    down = {part.name for part in parts if not part.runs}
    found = []
    for name, key, state, called in (row.split(" ", 3) for row in rows):
        pid, _, start = key.partition(":")
        if name in down:
            found.append(
                Remains(component=name, pid=int(pid), start=int(start), state=state, user=user, command=called)
            )
    return tuple(sorted(found, key=lambda remains: remains.pid))


def start_components(
    components: Iterable[Component],
    running: Mapping[str, str],
    records: str,
    turn: int,
    *,
    watch: float,
    grace: float,
    end_others: bool,
) -> Command:
    """Start *components* in order, except those that are *running* (name to pid:start), and watch all of them.

    Lists of processes show only the arguments of components.
    """
    chosen, texts = tuple(components), list[str]()
    for component in chosen:
        if component.name in running:
            texts += ["runs", component.name, running[component.name]]
        else:
            pairs = [text for pair in component.variables for text in pair]
            texts += [
                "start",
                component.name,
                _hundredths(component.delay),
                component.log,
                component.cwd,
                component.digest,
            ]
            texts += [str(len(component.env)), str(len(component.argv)), *pairs, *component.argv]
    stdin = "".join(f"{text.count(chr(10)) + 1}\n{text}\n" for text in (*texts, "end"))
    words = (records, str(turn), _hundredths(grace), _hundredths(watch), "yes" if end_others else "no", WATCHER)
    needs = sum(each.delay + 15 for each in chosen) + watch + len(chosen) * (grace + LAST_WAIT + 5) + 60
    made = _write(("start-components", *(each.name for each in chosen)), START, words, needs, stdin)
    return replace(made, runs=tuple((each.cwd, *each.argv) for each in chosen if each.name not in running))


def end_components(
    running: Iterable[ComponentStatus], left: Iterable[Remains], records: str, turn: int, *, grace: float
) -> Command:
    """End *running*, the last first, each with its children; then the remains of others in *left*."""
    words = [f"{status.name} {status.key}" for status in reversed(tuple(running))]
    remains: dict[str, list[str]] = {}
    for remnant in left:
        remains.setdefault(remnant.component, []).append(remnant.key)
    words += [f"{name} - {' '.join(keys)}" for name, keys in remains.items()]
    needs = len(words) * (grace + LAST_WAIT + 5) + 60
    names = dict.fromkeys(word.partition(" ")[0] for word in words)
    return _write(("end-components", *names), END, (records, str(turn), _hundredths(grace), *words), needs)


def _write(called: tuple[str, ...], script: str, words: tuple[str, ...], needs: float, stdin: str = "") -> Command:
    plain = write_script(script, *words, called=called, accepts=(0, 1))
    return replace(plain, stdin=stdin, private=True, waits=needs)


def _hundredths(value: float) -> str:
    return str(round(value * 100))
