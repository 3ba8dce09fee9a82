"""Run commands in a container, through the machine that has its engine: this one, or an SSH host.

The shells in a container are the same sessions as on a machine; only the line that starts each of them is longer.
A container can be started again, or replaced by another of its name, while a run is at work on it.  So each shell
first compares what it is in (the machine's boot, the start of the first process, the mount of the root) with what was
there when the host was connected to, and ends if that differs: no command reaches another container than the plan's.
"""

from __future__ import annotations

import json
import shlex
import threading
from collections.abc import Iterable
from typing import Any, Protocol

from runbook.connections import transports
from runbook.connections.sessions.channel import Channel, Opener
from runbook.connections.sessions.connection import SessionConnection
from runbook.errors import ConnectionLost, Unreachable
from runbook.protocols import Connection, ConnectOptions, Interrupt
from runbook.shell import script
from runbook.values.command import Command, Completed, Effect
from runbook.values.inventory import Container, Host

CONTROLLER = "localhost"
"""The name of the machine that runbook runs on, where a container's inventory names no other host."""

ANSWERED_WITHIN = 20.0
"""The seconds in which the engine has to say what it knows of the container."""

MOST_WORDS = 300
"""The maximum number of characters of the engine's own message that are repeated."""

MOST_OF_ID = 13
"""The characters of an id that are shown: they tell containers, and pods, from each other."""

_IDENTITY = script(__package__, "container_identity").strip()
"""Sets ``$1`` to what tells this start of this container from every other; it needs no program but the shell."""


class NotRunning(Exception):
    """The container cannot be entered now; the message says why."""


def another(named: str, found: str, expected: Container) -> str:
    """Return the reason why the container *named* is not entered: the engine has another id for it."""
    here, listed = found[:MOST_OF_ID] or "no id", expected.id[:MOST_OF_ID]
    why = "it was removed and made again, or this is another engine or cluster"
    return f"the {named} has the id {here}, and the inventory says {listed}: {why}"


class Engine(Protocol):
    """The program that runs commands in containers."""

    def inspect(self) -> tuple[str, ...]:
        """Return the command that prints what the engine knows of the container, in JSON."""
        ...

    def entered(self, document: Any) -> tuple[str, ...]:
        """Return the command that runs a program in the container that *document* describes, without that program.

        Raises NotRunning.
        """
        ...


def connected(host: Host, engine: Engine, options: ConnectOptions, interrupt: Interrupt) -> Connection:
    """Return a connection to the container *host*.

    Raises Unreachable if its machine, the engine or the container does not answer, or if the container does not run.
    """
    machine = host.via or Host(name=CONTROLLER, transport="local")
    try:
        through = transports.opener(machine, options, interrupt)
    except Unreachable as error:
        raise Unreachable(f"{machine.name}, which has the container: {error}") from error
    container = _ContainerOpener(through, engine, machine.name, options.shell_within)
    try:
        container.enter(interrupt)
        if options.shared and not options.shared.of(_Entered).is_the_same(host.name, container.identity):
            raise Unreachable(_OTHER)
    except BaseException:
        container.close()
        raise
    return SessionConnection(
        container, interrupt, options.become_password, host.name, shell_within=options.shell_within
    )


def locked(hosts: Iterable[Host]) -> tuple[str, ...]:
    """Return the private key files that need a passphrase, of the machines that have the containers *hosts*."""
    machines = [host.via for host in hosts if host.container and host.via]
    names = dict.fromkeys(machine.transport for machine in machines)
    return tuple(path for name in names for path in transports.locked(name, machines))


class _Entered:
    """The containers that a run has entered: when a lost connection is made again, none takes another's place."""

    def __init__(self) -> None:
        self._lock, self._identities = threading.Lock(), dict[str, str]()

    def is_the_same(self, host: str, identity: str) -> bool:
        """Whether *identity* is that of the first container which this run has entered as *host*."""
        with self._lock:
            return self._identities.setdefault(host, identity) == identity

    def close(self) -> None:
        """Do nothing."""


class _ContainerOpener:
    """Starts shells in one start of one container."""

    def __init__(self, through: Opener, engine: Engine, machine: str, shell_within: float) -> None:
        self._through, self._engine, self._machine, self._within = through, engine, machine, shell_within
        self._words: tuple[str, ...] = ()
        """The command that enters the container."""
        self.identity = ""
        """The identity of this start of the container: no other start has the same."""
        self._lost = ""

    def enter(self, interrupt: Interrupt) -> None:
        """Find the container, and note what it is.  Raises Unreachable."""
        try:
            self._words, self.identity = self._found(interrupt)
        except (NotRunning, ConnectionLost) as error:
            raise Unreachable(str(error)) from error

    def open(self, line: str) -> Channel:
        """Start a shell in the container that runs *line*; if it is not the container any more, the shell ends."""
        check = f'{_IDENTITY}[ "$1" = {shlex.quote(self.identity)} ]||{{ echo "{_OTHER}" >&2;exit 3;}};set --;{line}'
        return self._through.open(f"exec {shlex.join((*self._words, 'sh', '-c', check))}")

    def stands(self) -> bool:
        """Whether the machine can be reached, and the container still runs since its connection was opened."""
        if not self._through.stands():
            return False
        try:
            found = self._found(_Undisturbed())
        except ConnectionLost:
            return False
        except (NotRunning, Unreachable) as error:
            self._lost = str(error)
            return False
        if found != (self._words, self.identity):
            self._lost = _OTHER
        return not self._lost

    def lost_because(self) -> str:
        """Return what happened to the container; empty if the connection to its machine was lost."""
        return self._lost or self._through.lost_because()

    def close(self) -> None:
        """Close the connection to the machine."""
        self._through.close()

    def _found(self, interrupt: Interrupt) -> tuple[tuple[str, ...], str]:
        """Return the command that enters the container, and the container's identity.  Raises NotRunning."""
        session = SessionConnection(_Kept(self._through), interrupt, host=self._machine, shell_within=self._within)
        try:
            words = self._engine.entered(self._document(_answer(session, self._engine.inspect())))
            inside = _answer(session, (*words, "sh", "-c", f'{_IDENTITY}printf "%s\\n" "$1"'))
        finally:
            session.close()
        self._require(inside, words[0])
        if len(inside.stdout.split()) != 1:
            raise NotRunning(f"{words[0]}: the shell in the container does not say in which it is")
        return words, inside.stdout.strip()

    def _document(self, done: Completed) -> Any:
        program = self._engine.inspect()[0]
        self._require(done, program)
        try:
            return json.loads(done.stdout)
        except (ValueError, RecursionError) as error:
            raise NotRunning(f"{program} printed no JSON about the container") from error

    def _require(self, done: Completed, program: str) -> None:
        """Raise NotRunning, with the program's own words, if *done* was not successful."""
        if done.exit_code == 0:
            return
        lines = [line.strip() for line in (done.stderr.strip() or done.stdout).splitlines() if line.strip()]
        said = done.refused or (lines[-1] if lines else "")
        if done.timed_out:
            said = f"did not answer within {ANSWERED_WITHIN:.0f} s"
        elif done.exit_code == 127 and "not found" in done.stderr and program in done.stderr:
            said = f"there is no {program} on {self._machine}"
        raise NotRunning(f"{program}: {said[:MOST_WORDS] or f'exit code {done.exit_code}'}")


_OTHER = "the container was started again, or replaced, after runbook had connected to it"


def _answer(session: Connection, words: tuple[str, ...]) -> Completed:
    (done,) = session.run(Command(argv=words, effect=Effect.READ, timeout=ANSWERED_WITHIN))
    return done


class _Undisturbed:
    """An interrupt for what has to be known although the run was asked to stop."""

    def level(self) -> int:
        """Return 0: go on."""
        return 0


class _Kept:
    """A connection to the machine that stays open when one of its sessions is closed."""

    def __init__(self, through: Opener) -> None:
        self.open, self.stands, self.lost_because = through.open, through.stands, through.lost_because

    def close(self) -> None:
        """Do nothing."""


def context_words(option: str, container: Container) -> tuple[str, ...]:
    """Return the *option* that chooses the context of *container*; nothing if it names none."""
    return (option, container.context) if container.context else ()
