"""A pretended host and a handful of toy actions, to hold the laws against anything that can happen."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace

from runbook.errors import Cancelled, ConnectionLost, ProbeError
from runbook.execution.diagnosis import HostContext
from runbook.execution.diagnosis.host_context import RunContext
from runbook.protocols import Action, Fails, Holds
from runbook.values.command import Command, Completed, Effect
from runbook.values.inventory import Host
from runbook.values.plan import Change, NoChange, Risk, Target
from runbook.values.playbook import FindingRule, Phase, Playbook, Severity, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Proc:
    pid: int
    start: int
    word: str

    @property
    def key(self) -> str:
        return f"{self.pid}:{self.start}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WordArgs:
    word: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Procs:
    matches: tuple[Proc, ...]


def probe(args):
    answer = yield Command(argv=("ps",), effect=Effect.READ)
    if answer.timed_out or answer.exit_code != 0:
        raise ProbeError("ps did not answer")
    rows = [line.split() for line in answer.stdout.splitlines()]
    found = [Proc(pid=int(pid), start=int(start), word=word) for pid, start, word in rows]
    return Procs(matches=tuple(it for it in found if args.word in it.word))


def decide(args, state):
    if not state.matches:
        return NoChange(why=f"nothing is called {args.word}")
    return Change(
        summary=f"end {len(state.matches)} of {args.word}",
        commands=(Command(argv=("kill", *(it.key for it in state.matches)), effect=Effect.WRITE),),
        risk=Risk.KILLS_PROCESSES,
        targets=tuple(
            Target(kind="process", key=it.key, say=f"pid {it.pid}", pid=it.pid, user="root", command=it.word)
            for it in state.matches
        ),
    )


def without(state, keys):
    return Procs(matches=tuple(it for it in state.matches if it.key not in keys))


def holds(args, state):
    return Fails(why=f"{args.word} is there") if state.matches else Holds(why=f"no {args.word}")


def probe_all(args):
    return (yield from probe(WordArgs(word="")))


def probe_twice(args):
    yield Command(argv=("ps",), effect=Effect.READ)
    return (yield from probe(args))


def of(state, word):
    return Procs(matches=tuple(it for it in state.matches if word in it.word))


def decide_risky(args, state):
    change = decide(args, of(state, args.word))
    return replace(change, risk=Risk.REBOOTS) if of(state, "init").matches else change


@dataclass(frozen=True, slots=True, kw_only=True)
class NoArgs:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Since:
    since: int


def probe_since(args):
    answer = yield Command(argv=("since",), effect=Effect.READ)
    if answer.exit_code != 0:
        raise ProbeError("the service did not answer")
    return Since(since=int(answer.stdout))


def decide_restart(args, state):
    return Change(
        summary="restart the service",
        commands=(Command(argv=("restart",), effect=Effect.WRITE),),
        finally_=(Command(argv=("light-on",), effect=Effect.WRITE),),
        risk=Risk.RESTARTS_SERVICES,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Colours:
    colour: str
    wanted: str


def probe_colours(args):
    answer = yield Command(argv=("colours",), effect=Effect.READ)
    colour, wanted = answer.stdout.split()
    return Colours(colour=colour, wanted=wanted)


def decide_paint(args, state):
    if state.colour == state.wanted:
        return NoChange(why=f"it is {state.colour}")
    return Change(
        summary=f"paint it {state.wanted}",
        commands=(Command(argv=("paint", state.wanted), effect=Effect.WRITE),),
        risk=Risk.EDITS_FILES,
    )


def decide_edit(args, state):
    change = decide_paint(args, state)
    if isinstance(change, NoChange):
        return change
    target = Target(kind="file", key=f"/colour {state.colour}", say="/colour")
    return replace(change, targets=(target,), diff=f"-{state.colour}\n+{state.wanted}\n")


def paint_blue(args):
    return Change(
        summary="paint it blue", commands=(Command(argv=("paint", "blue"), effect=Effect.WRITE),), risk=Risk.EDITS_FILES
    )


def decide_blue(args, state):
    return NoChange(why="it is blue") if state.colour == "blue" else paint_blue(args)


def probe_mute(args):
    yield Command(argv=("since",), effect=Effect.READ)
    raise ProbeError("it says nothing")


def probe_writes(args):
    yield Command(argv=("kill", "1:1"), effect=Effect.WRITE)
    return Since(since=0)


def action(name, **parts) -> Action:
    module = SimpleNamespace(__name__=f"toys.{name}", __doc__=f"Toy {name}.", **parts)
    return Action.of(module)  # type: ignore[arg-type]


ACTIONS = {
    "procs": action("procs", Args=WordArgs, State=Procs, probe=probe, holds=holds),
    "end": action("end", Args=WordArgs, State=Procs, probe=probe, decide=decide, without=without, holds=holds),
    "end_wide": action(
        "end_wide",
        Args=WordArgs,
        State=Procs,
        probe=lambda args: probe_all(args),
        decide=lambda args, state: decide(args, of(state, args.word)),
        without=without,
        reach=lambda args, state: decide(args, state).targets if state.matches else (),
        settled=lambda args, before, after: (
            not {it.key for it in of(before, args.word).matches} & {it.key for it in after.matches}
        ),
    ),
    "twice": action("twice", Args=WordArgs, State=Procs, probe=probe_twice),
    "restart": action(
        "restart",
        Args=NoArgs,
        State=Since,
        probe=probe_since,
        decide=decide_restart,
        settled=lambda args, before, after: after.since != before.since,
    ),
    "end_risky": action(
        "end_risky",
        Args=WordArgs,
        State=Procs,
        probe=probe_all,
        decide=decide_risky,
        without=without,
    ),
    "edit": action("edit", Args=NoArgs, State=Colours, probe=probe_colours, decide=decide_edit),
    "paint": action("paint", Args=NoArgs, State=Colours, probe=probe_colours, decide=decide_paint),
    "blue": action("blue", Args=NoArgs, State=Colours, probe=probe_colours, decide=decide_blue, latent=paint_blue),
    "mute": action("mute", Args=NoArgs, State=Procs, probe=probe_mute),
    "liar": action("liar", Args=NoArgs, State=Since, probe=probe_writes),
}


@dataclass
class ToyHost:
    """A machine with a process table and one service; what it does wrong is told in advance."""

    procs: dict[int, tuple[int, str]]
    """pid to (start, word)."""
    stubborn: frozenset[str] = frozenset()
    """Words that survive a kill."""
    respawns: frozenset[str] = frozenset()
    """Words that come back under a new pid."""
    kill_exit: int = 0
    lose_at: int = -1
    """The number of the command at which the line is lost; -1 never."""
    blind: bool = False
    """``ps`` does not answer."""
    cancel_at: int = -1
    lock: str = "held - /locks"
    """What the host says of the lock; nothing: the line is lost over it."""
    locks: list[str] = field(default_factory=list)
    since: int = 0
    colour: str = "grey"
    wanted: str = "grey"
    sent: list[Command] = field(default_factory=list)

    def run(self, *commands: Command) -> tuple[Completed, ...]:
        return tuple(self._run(it) for it in commands)

    def close(self) -> None:
        pass

    def writes(self) -> list[Command]:
        return [it for it in self.sent if it.effect is Effect.WRITE]

    def _run(self, command: Command) -> Completed:
        if command.effect is Effect.SCRATCH:
            self.locks.append(command.argv[0])
            if not self.lock:
                raise ConnectionLost("the line went dead")
            return Completed(exit_code=0, stdout=self.lock)
        self.sent.append(command)
        if len(self.sent) - 1 == self.lose_at:
            raise ConnectionLost("the line went dead")
        if len(self.sent) - 1 == self.cancel_at:
            raise Cancelled("interrupted", sent=False)
        match command.argv:
            case ("ps",):
                rows = [f"{pid} {start} {word}" for pid, (start, word) in sorted(self.procs.items())]
                return Completed(exit_code=1 if self.blind else 0, stdout="\n".join(rows))
            case ("kill", *keys):
                for key in keys:
                    self._kill(key)
                return Completed(exit_code=self.kill_exit)
            case ("since",):
                return Completed(exit_code=0, stdout=str(self.since))
            case ("restart",):
                self.since += 1
                return Completed(exit_code=0)
            case ("colours",):
                return Completed(exit_code=0, stdout=f"{self.colour} {self.wanted}")
            case ("paint", colour):
                self.colour = colour
                return Completed(exit_code=0)
            case ("light-on",):
                return Completed(exit_code=0)
        raise AssertionError(command)

    def _kill(self, key: str) -> None:
        pid, start = map(int, key.split(":"))
        there = self.procs.get(pid)
        if there is None or there[0] != start or there[1] in self.stubborn:
            return
        del self.procs[pid]
        if there[1] in self.respawns:
            self.procs[max([pid, *self.procs]) + 1] = (start + 1000, there[1])


class ToyClock:
    """Time that passes only when somebody sleeps."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


def site(book: Playbook, host: ToyHost, events: list | None = None) -> HostContext:
    return HostContext(
        playbook=book,
        run=RunContext(
            inputs={}, facts={"id": "r"}, actions=ACTIONS, emit=(events if events is not None else []).append
        ),
        host=Host(name="h"),
        connection=host,
        clock=ToyClock(),
    )


def with_run(context: HostContext, **fields: object) -> HostContext:
    """*context* in a run that differs by *fields*."""
    return replace(context, run=replace(context.run, **fields))


def look_at(word: str, step_id: str = "seen") -> Step:
    return Step(id=step_id, phase=Phase.DIAGNOSE, action="procs", args={"word": word})


def end(word: str, step_id: str, **keys) -> Step:
    return Step(id=step_id, phase=Phase.REMEDIATE, action="end", args={"word": word}, **keys)


def restart(step_id: str, **keys) -> Step:
    return Step(id=step_id, phase=Phase.REMEDIATE, action="restart", args={}, **keys)


def paint(step_id: str, **keys) -> Step:
    return Step(id=step_id, phase=Phase.REMEDIATE, action="paint", args={}, **keys)


def blue(step_id: str, **keys) -> Step:
    return Step(id=step_id, phase=Phase.REMEDIATE, action="blue", args={}, **keys)


def rule(finding_id: str = "held", when: str = "seen.matches", **keys) -> FindingRule:
    plain = FindingRule(
        id=finding_id,
        when=when,
        severity=Severity.ERROR,
        say="{{ seen.matches | length }} there",
        probes=("seen",),
        advise=("call somebody",),
    )
    return replace(plain, **keys)


def book(*steps: Step, findings=(), diagnose=(), verify=()) -> Playbook:
    return Playbook(
        name="toy", diagnose=tuple(diagnose), findings=tuple(findings), remediate=steps, verify=tuple(verify)
    )
