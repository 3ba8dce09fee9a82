"""Report containers: how each one ended, what its exit code means, and whether it is in a restart loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Literal

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.docker.facts.containers import FORMAT, LIST, Container, container
from runbook.library.docker.facts.engine import FIND_DOCKERD, DockerAnswer, ask_docker, epoch, read_docker
from runbook.library.docker.facts.events import Events, ask_events, read_events
from runbook.library.processes.facts.exit_codes import explained, sentence
from runbook.protocols import Absent, Probe
from runbook.shell import script
from runbook.text.host_json import finite
from runbook.values.types import Duration, Unknown

_LOOK = FIND_DOCKERD + LIST + script(__package__, "containers_probe")

TOGETHER = 1.0
"""Seconds in which Docker ends, or finds ended, all that it has."""
RESTART = 120.0
"""Seconds within which a service or a machine that is restarted ends its containers, and starts dockerd again."""

FORGOTTEN = "Docker was restarted since, and does not remember whether it was asked to end it"
LOST = 255
"""The exit code that dockerd gives to a container that it finds ended, or cannot find, as it starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    name: str = ""
    """Only this container: its name, its id or the beginning of its id."""
    labels: tuple[str, ...] = ()
    """Only containers that have all of these labels: NAME or NAME=VALUE."""
    choose: Literal["all", "last_died"] = "all"
    """last_died: the container that ended last (not created last) with a code other than 0, or with a process killed
    for lack of memory; if there is none, the container that ended last.
    """
    window: Duration = field(default=Duration(3600), metadata={"minimum": 1, "maximum": 604800})
    """The period before now in which starts are counted."""
    loop_starts: int = field(default=3, metadata={"minimum": 2})
    """Number of starts in the window that count as a restart loop ..."""
    loop_gap: Duration = Duration(90)
    """... if the median time between them is at most this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One container; times are Docker's own text, or ``never``."""

    id: str
    """Its full id, 64 hexadecimal digits."""
    name: str
    """Its name, without the slash that `docker inspect` has before it."""
    image: str
    """The image that it was made from, as it was named then: a name with a tag, or an id."""
    status: str
    """Its status: created, running, paused, restarting, removing, exited, dead."""
    dead: bool
    """Whether nothing runs in it and nothing is about to: its status is exited, dead or created."""
    exit_code: int | Unknown
    """The code with which it ended (128 + N: by signal N); unknown while it runs, and where it never started."""
    meaning: str = ""
    """The meaning of the exit code; 137 is a lack of memory only with evidence."""
    cause: str = ""
    """The usual cause of this exit code on a GPU host: a first suspicion, in words."""
    out_of_memory: bool | Unknown
    """Whether Docker knows that something in it was killed for lack of memory; the kernel's log may know more."""
    oom_killed: bool
    """Whether Docker says that something in it was killed for lack of memory since its last start (State.OOMKilled)."""
    signals: tuple[str, ...] | Unknown = ()
    """Signals that Docker was asked to send it, in the window."""
    ended_with: tuple[str, ...] | Unknown = ()
    """Names of all, itself among them, that a restart of Docker or of the machine ended at one moment."""
    error: str
    """The reason why it could not be started."""
    created_at: str
    """When it was made: Docker's own text (RFC 3339, UTC)."""
    started_at: str
    """When it was last started: Docker's own text (RFC 3339, UTC); ``never``: it was not."""
    finished_at: str
    """When it last ended, likewise; ``never``: it has not. While it runs, this is the end of the run before."""
    ran: float | Unknown
    """Seconds from its last start to its end, or to now."""
    died_ago: float | Unknown
    """Seconds since it ended, or since it was made where it could not be started; unknown while it lives."""
    restart_count: int
    """The number of restarts by its restart policy; starting it by hand sets this to 0."""
    restart_policy: str
    """When Docker starts it again by itself: no, always, unless-stopped, on-failure."""
    starts: int | Unknown
    """The number of starts in the `window`, by Docker's events."""
    median_gap: float | Unknown
    """The median of the seconds from one of these starts to the next; unknown with fewer than two."""
    looping: bool | Unknown
    """Whether it is started again and again: by `window`, `loop_starts` and `loop_gap`."""
    memory: int
    """Its memory limit in bytes; 0: unlimited."""
    cpus: float
    """The number of CPUs it may use at most; 0: unlimited."""
    shm_size: int
    """Bytes of its /dev/shm; 0: not known."""
    ipc: str
    """The owner of its /dev/shm: private, shareable, host, container:ID or none."""
    log_driver: str
    """Docker's driver for the log of the container: json-file, local, journald ...; none: no log is kept."""
    health: str
    """The result of its health check: healthy, unhealthy, starting; empty: it has no check."""
    pid: int
    """The pid of its first process, as the host numbers it; 0: nothing runs in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The containers that were asked for."""

    containers: tuple[Report, ...] = ()
    """Each (name, status, exit_code, meaning, ...), the last to die first."""
    chosen: Report | Unknown = field(default_factory=lambda: Unknown(why="there is no such container"))
    """The first of `containers`; unknown if there is none: see `count`."""
    no_engine: bool = False
    """There is no Docker on this host."""
    count: int = 0
    """The number of containers that were found."""
    running: tuple[str, ...] = ()
    """Names of the running containers."""
    failed: tuple[str, ...] = ()
    """Names of the dead containers whose exit code is not 0."""
    out_of_memory: tuple[str, ...] = ()
    """Names of the containers that Docker reports as out of memory."""
    looping: tuple[str, ...] | Unknown = ()
    """Names of the containers in a restart loop."""
    unhealthy: tuple[str, ...] = ()
    """Names of the containers whose health check fails."""
    events_cut: bool = False
    """Docker no longer has the older events of the window (it keeps 256)."""


def probe(args: Args) -> Probe[State]:
    """List all containers and the events of the window; choose from them here."""
    listed, happened = yield (ask_docker(_LOOK, FORMAT, *args.labels), ask_events(args.window))
    answer = read_docker(listed)
    if answer.absent:
        return Absent(why=answer.absent, state=State(no_engine=True))
    events: Events | Unknown
    try:
        events = read_events(happened)
    except ProbeError as error:
        events = Unknown(why=str(error))
    labelled = [frozenset(answer.all(f"label{at}")) for at in range(len(args.labels))]
    known = [container(each) for each in answer.all("container")]
    found = _chosen(args, [each for each in known if all(each.id in ids for ids in labelled)])
    now = epoch(answer.one("clock"))
    restarted = _restarted(answer, now)
    return _state(
        [
            replace(
                _report(each, events, args, now),
                signals=_signals(each, events, restarted),
                ended_with=_ended_with(each, known, events, restarted),
            )
            for each in found
        ],
        events,
    )


def _chosen(args: Args, found: Sequence[Container]) -> list[Container]:
    if args.name:
        exact = [each for each in found if args.name in (each.name, each.id)]
        found = exact or [each for each in found if len(args.name) >= 4 and each.id.startswith(args.name)]
        if len(found) > 1:
            raise ProbeError(f"several containers' ids begin with {args.name}: {', '.join(map(str, found))}")
    if args.choose == "all":
        return sorted(found, key=lambda it: (not it.dead, -it.died))
    ended = [each for each in found if each.dead and epoch(each.finished_at)]
    return sorted(ended, key=lambda it: (it.exit_code != 0 or it.oom_killed, it.died))[-1:]


def _restarted(answer: DockerAnswer, now: float) -> float | Unknown:
    """When dockerd was started; seconds since 1970."""
    for row in answer.all("daemon"):
        age = finite(str(row["up"])) - finite(str(row["began"])) / 100  # USER_HZ is 100 wherever Linux has /proc
        if age >= 0:
            return now - age
    return Unknown(why="the process of dockerd is not seen from here, and so not when it was started")


def _signals(one: Container, events: Events | Unknown, restarted: float | Unknown) -> tuple[str, ...] | Unknown:
    """Return the signals that Docker was asked to send *one*; it forgets those from before its own restart."""
    if isinstance(events, Unknown) or events.signals.get(one.id):
        return events if isinstance(events, Unknown) else events.signals[one.id]
    before = one.dead and isinstance(restarted, float) and 0 < epoch(one.finished_at) < restarted
    return Unknown(why=FORGOTTEN) if before else ()


def _ended_with(
    one: Container, known: Sequence[Container], events: Events | Unknown, restarted: float | Unknown
) -> tuple[str, ...] | Unknown:
    """The containers that a restart ended together with *one*.

    Two or more that ended at one moment, unasked, about when dockerd was started, or *one* alone with the code that
    dockerd gives to what it finds ended as it starts.  Once it has been restarted, dockerd no longer knows what it was
    asked before: what ended long before that may have been stopped on request.
    """
    end = epoch(one.finished_at)
    if not one.dead or not end:
        return ()
    group = [each for each in known if each.dead and abs(epoch(each.finished_at) - end) <= TOGETHER]
    if len(group) < 2 and one.exit_code != LOST:
        return ()
    if isinstance(restarted, Unknown):
        return restarted
    if end < restarted - RESTART:
        return Unknown(why=FORGOTTEN)
    if end > restarted + RESTART or any(epoch(each.started_at) > restarted for each in group):
        return ()
    if isinstance(events, Unknown):
        return events
    return () if any(events.signals.get(each.id) for each in group) else tuple(each.name for each in group)


def _state(reports: Sequence[Report], events: Events | Unknown) -> State:
    def names(wanted: Sequence[Report]) -> tuple[str, ...]:
        return tuple(report.name for report in wanted)

    state = State(
        containers=tuple(reports),
        count=len(reports),
        running=names([report for report in reports if report.status == "running"]),
        failed=names(
            [
                report
                for report in reports
                if report.dead and report.exit_code not in (0,) and isinstance(report.exit_code, int)
            ]
        ),
        out_of_memory=names([report for report in reports if report.out_of_memory is True]),
        looping=names([report for report in reports if report.looping is True]),
        unhealthy=names([report for report in reports if report.health == "unhealthy"]),
        events_cut=isinstance(events, Events) and events.cut,
    )
    if isinstance(events, Unknown) and reports and not state.looping:
        state = replace(state, looping=events)
    return replace(state, chosen=reports[0]) if reports else state


def _report(container: Container, events: Events | Unknown, args: Args, now: float) -> Report:
    code = _exit_code(container)
    short = _short_of_memory(container, events)
    evidence = [
        word for word, so in (("Docker says OOMKilled", container.oom_killed), ("an oom event", short is True)) if so
    ]
    blind = events.why if isinstance(events, Unknown) else ""
    known = isinstance(code, int)
    starts = len(events.starts.get(container.id, ())) if isinstance(events, Events) else events
    gap = events.gap(container.id) if isinstance(events, Events) else events
    ended = epoch(container.finished_at) if container.dead else now
    began = epoch(container.started_at)
    return Report(
        id=container.id,
        name=container.name,
        image=container.image,
        status=container.status,
        dead=container.dead,
        exit_code=code,
        meaning=sentence(code, tuple(evidence), blind) if isinstance(code, int) else "",
        cause=explained(code).cause if isinstance(code, int) else "",
        out_of_memory=short,
        oom_killed=container.oom_killed,
        error=container.error,
        created_at=container.created_at,
        started_at=container.started_at,
        finished_at=container.finished_at,
        ran=round(max(0.0, ended - began), 3) if began and ended else Unknown(why="the container was never started"),
        died_ago=round(max(0.0, now - container.died), 3)
        if container.dead and known
        else Unknown(why="the container has not ended"),
        restart_count=container.restart_count,
        restart_policy=container.restart_policy,
        starts=starts,
        median_gap=gap,
        looping=_looping(container, starts, gap, args, now - began),
        memory=container.memory,
        cpus=container.cpus,
        shm_size=container.shm_size,
        ipc=container.ipc,
        log_driver=container.log_driver,
        health=container.health,
        pid=container.pid,
    )


def _exit_code(container: Container) -> int | Unknown:
    if container.status in ("running", "paused"):
        return Unknown(why=f"{container.name} has not ended: it is {container.status}")
    if container.status == "created" and not container.error:
        return Unknown(why=f"{container.name} was never started")
    return container.exit_code


def _short_of_memory(container: Container, events: Events | Unknown) -> bool | Unknown:
    if container.oom_killed:
        return True
    return events if isinstance(events, Unknown) else container.id in events.out_of_memory


def _looping(
    container: Container, starts: int | Unknown, gap: float | Unknown, args: Args, since: float
) -> bool | Unknown:
    """Whether the container restarts in a loop: by its starts, or by Docker's count if it is about to start again.

    A container that has run for longer than the gap (*since* seconds) is out of the loop.
    """
    if container.status in ("running", "paused") and since > args.loop_gap:
        return False
    if container.status == "restarting" and container.restart_count >= args.loop_starts:
        return True
    if isinstance(starts, Unknown):
        return starts
    return starts >= args.loop_starts and isinstance(gap, float) and gap <= args.loop_gap


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the commands that a person would run by hand."""
    return (
        "docker ps -a --no-trunc",
        f"docker inspect --format '{{{{json .State}}}}' {args.name or 'NAME'}",
        f"docker events --since {args.window:.0f}s --until 0s --filter type=container",
    )
