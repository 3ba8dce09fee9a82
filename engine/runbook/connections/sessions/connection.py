"""Run commands on one host in shell sessions: probes together in one session, each change in a session of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TypeVar

from runbook.connections.sessions.channel import NoAnswer, Opener, ShellRefused
from runbook.connections.sessions.command_run import CommandRun, require_open_connection
from runbook.connections.sessions.programs import batch, needed
from runbook.connections.sessions.session import Check, ConfinedSession, GroupKiller, SharedGroup, ShellSession
from runbook.connections.sessions.shell import Access, PasswordRefused
from runbook.errors import Cancelled, ConnectionLost, Unreachable
from runbook.protocols import Interrupt, Password, seconds_since_boot
from runbook.values.command import Command, Completed, Effect

S = TypeVar("S", ShellSession, GroupKiller)

ROOM = 16 * 1024 * 1024
"""The maximum number of bytes of output that are kept for all commands of one ``run``."""

LEAST_ROOM = 256 * 1024
"""The minimum number of bytes of output that are kept for each command, however much the others have printed."""

AT_ONCE = 64 * 1024
"""The characters of commands that are sent to a session before their answers are awaited."""

TOO_LATE = (
    "this process, or the way to the host, stood still after the write was permitted; others may have gone on since"
)


class SessionConnection:
    """Runs commands on one host over an open connection.  Used by one thread only."""

    def __init__(
        self,
        opener: Opener,
        interrupt: Interrupt,
        password: Password | None = None,
        host: str = "",
        *,
        shell_within: float = 0.0,
    ) -> None:
        """Store the connection *opener*; *password*: for sudo, if sudo asks for one; *host*: the host's name for
        messages.

        *shell_within*: see ``Access``.
        """
        self._opener, self._interrupt, self._host = opener, interrupt, host
        self._shell_within = shell_within
        self._password, self._asking = password, set[str]()
        self._own_group = False
        self._sessions: dict[tuple[str, bool], ShellSession] = {}
        """Keyed by the user, and whether the session is confined."""
        self._unconfined: dict[str, str] = {}
        """The reason why a user's commands cannot be confined, keyed by user."""
        self._killers: dict[str, GroupKiller] = {}
        self._refused: dict[str, str] = {}
        self._login = ""
        self._said = 0
        """The characters that the commands of this ``run`` have printed."""

    def run(self, *commands: Command) -> tuple[Completed, ...]:
        """See ``runbook.protocols.Connection``."""
        done: list[Completed] = []
        self._said = 0
        while len(done) < len(commands):
            first = commands[len(done)]
            self._may_send(first)
            user, why = "", first.objection()
            if not why:
                with _nothing_sent():
                    user, why = self._user_or_refusal(first)
            together = self._next_batch(commands[len(done) :], split=user not in self._unconfined)
            if why:
                done += [Completed(exit_code=None, refused=why) for _ in together]
            elif _is_change(first):
                done.append(self._run_change(first, user))
            else:
                with _nothing_sent():
                    session = self._probe_session(first, user)
                if isinstance(session, NoAnswer):
                    done += [Completed(exit_code=None, refused=f"to keep it from writing: {session}") for _ in together]
                    continue
                believed = self._unconfined.get(user, "")
                answers = zip(together, self._run_batch(together, session, user), strict=False)
                done += [replace(it, unconfined=believed) if command.confined else it for command, it in answers]
        return tuple(done)

    def close(self) -> None:
        """Close the connection; only changes that are still running stay on the host."""
        for shell in (*self._sessions.values(), *self._killers.values()):
            shell.close()
        self._sessions, self._killers = {}, {}
        self._opener.close()

    def _may_send(self, command: Command) -> None:
        level = self._interrupt.level()
        if level > 1 or (level and not command.owed):
            raise Cancelled(f"asked to stop before this command was sent: {command.meant()}")

    @staticmethod
    def _next_batch(commands: Sequence[Command], *, split: bool) -> list[Command]:
        """Return the first commands that can share a session; *split*: confined commands need a session of their
        own.
        """
        together = [commands[0]]
        if _is_change(commands[0]) or commands[0].objection():
            return together
        for command in commands[1:]:
            if _is_change(command) or command.become != together[0].become or command.objection():
                break
            if split and command.confined != together[0].confined:
                break
            together.append(command)
        return together

    # ---- shells ----------------------------------------------------------------------------------------------------

    def _user_or_refusal(self, command: Command) -> tuple[str, str]:
        """Return the user to become (empty if we are that user already), and the reason why no shell starts as this
        user.
        """
        user = ""
        try:
            if command.become and not self._login:
                self._login = self._session("", command).user(lambda: self._may_send(command))
            user = "" if command.become == self._login else command.become
            self._session(user, command)
        except ShellRefused as error:
            require_open_connection(self._opener)
            self._refused.setdefault(user, str(error))
            if not user:
                raise Unreachable(f"logged in, but no shell could be started: {error}") from error
            return user, self._no_sudo(user)
        return user, ""

    def _no_sudo(self, user: str) -> str:
        said = self._refused[user]
        wants = "password is required" in said and not self._password
        return f"sudo to {user} is refused: {said}" + (" (--ask-become-pass asks you for it)" if wants else "")

    def _session(self, user: str, command: Command, *, confined: bool = False) -> ShellSession:
        """Return the session for the probes of *user*, or for the *confined* probes of *user*.  Raises ShellRefused."""
        if session := self._sessions.get((user, confined)):
            session.pump(0)
            if not session.ended:
                return session
            self._sessions.pop((user, confined)).close()
        if user in self._refused:
            raise ShellRefused(self._refused[user])
        kind = ConfinedSession if confined else ShellSession
        session = self._sessions[user, confined] = self._opened(user, command, kind)
        if not session.root:
            self._unconfined[user] = "only root can be kept from writing"
        return session

    def _probe_session(self, command: Command, user: str) -> ShellSession | NoAnswer:
        """Return the session for *command*: the plain one, unless the command is confined and the host can confine it.

        Returns NoAnswer if the host does not answer in time: then it is unknown whether the host can confine commands.
        """
        if command.confined and user not in self._unconfined:
            try:
                return self._session(user, command, confined=True)
            except NoAnswer as silence:
                require_open_connection(self._opener)
                return silence
            except ShellRefused as error:
                require_open_connection(self._opener)
                self._unconfined[user] = str(error)
        return self._sessions[user, False]

    def _leave_namespaces(self) -> None:
        """End the confined sessions before a change: they would keep mounts busy, and not see the mounts of the
        change.
        """
        for user, confined in tuple(self._sessions):
            if confined:
                self._sessions.pop((user, confined)).close()

    def _opened(self, user: str, command: Command, kind: Callable[[Opener, Access], S]) -> S:
        """Return a new shell of *user* for *command*; in a process group of its own if the host does not give it
        one.
        """
        try:
            return self._started(user, lambda: self._may_send(command), kind)
        except SharedGroup:
            if self._own_group:
                raise
            self._own_group = True  # from now on every shell on this host is given one
            return self._started(user, lambda: self._may_send(command), kind)

    def _started(self, user: str, check: Check, kind: Callable[[Opener, Access], S]) -> S:
        """Return a new shell: first without a password, and with the password if sudo needs it."""
        access = Access(user=user, own_group=self._own_group, within=self._shell_within)
        if user not in self._asking:
            try:
                return self._ready(access, check, kind)
            except ShellRefused as error:
                require_open_connection(self._opener)
                if not user or not self._password or isinstance(error, SharedGroup):
                    raise
        assert self._password
        try:
            made = self._password.try_on(
                self._host,
                lambda secret, trial: self._ready(replace(access, password=secret, trial=trial), check, kind),
                check,
            )
        except PasswordRefused:
            self._password = None  # it is tried once: accounts are locked for less
            raise
        self._asking.add(user)
        return made

    def _ready(self, access: Access, check: Check, kind: Callable[[Opener, Access], S]) -> S:
        shell = kind(self._opener, access)
        try:
            shell.wait_until_ready(check)
        except BaseException:
            shell.close()
            raise
        return shell

    def _end(self, session: ShellSession, user: str, tenths: int) -> tuple[str, ...] | None:
        """End everything of *session* on the host, and return the survivors; None if the host does not report them."""
        session.ended = True
        try:
            killer = self._killers.get(user)
            if not killer or killer.ended:
                killer = self._killers[user] = self._started(user, _go_on, GroupKiller)
            return killer.end(session, tenths, within=8.0 + tenths / 10)
        except ShellRefused:
            return None

    # ---- commands --------------------------------------------------------------------------------------------------

    def _run_batch(self, commands: Sequence[Command], session: ShellSession, user: str) -> list[Completed]:
        """Run the first of *commands*, which are probes, one after the other in *session*; return their results.

        More commands than one batch can hold are left for the next call.
        """
        several = [(command, session.token()) for command in _at_once(commands)]
        session.give(session.teach(needed((command for command, _ in several), root=session.root)), batch(several))
        done: list[Completed] = []
        for command, token in several:
            done.append(self._counted(self._attempt(command, token, session, user).probe()))
            if command.foreign and (session.harmed or session.ended):
                self._give_up(session, user)
            if session.flooded:
                session.ended = True  # what it says is no longer known to belong to what it was asked
            if session.ended:
                break  # what was not begun is sent again, in a fresh session
        return done

    def _run_change(self, command: Command, user: str) -> Completed:
        """Run a change in a session of its own, which is ended afterwards; return its result."""
        self._leave_namespaces()
        try:
            with _nothing_sent():
                session = self._opened(user, command, lambda *words: ShellSession(*words, alone=not command.unkillable))
        except ShellRefused as error:
            with _nothing_sent():
                require_open_connection(self._opener)
            return Completed(exit_code=None, refused=f"the host starts no more shells: {error}")
        try:
            self._may_send(command)
            if command.send_before and seconds_since_boot() >= command.send_before:
                return Completed(exit_code=None, refused=TOO_LATE)
            token = session.token()
            attempt = self._attempt(command, token, session, user)
            session.give(session.teach(needed([command], root=session.root)), batch([(command, token)]))
            return self._counted(attempt.change())
        finally:
            session.close()

    def _attempt(self, command: Command, token: str, session: ShellSession, user: str) -> CommandRun:
        room = max(LEAST_ROOM, ROOM - self._said)

        def end(tenths: int) -> tuple[str, ...] | None:
            return self._end(session, user, tenths)

        return CommandRun(command, token, session, end, self._opener, self._interrupt, room=room)

    def _counted(self, done: Completed) -> Completed:
        self._said += len(done.stdout) + len(done.stderr)
        return done

    def _give_up(self, session: ShellSession, user: str) -> None:
        """End *session* and everything that a command left in it, so that the next command gets a new session."""
        with suppress(ConnectionLost):
            self._end(session, user, 0)


def _is_change(command: Command) -> bool:
    return command.effect is Effect.WRITE


def _at_once(commands: Sequence[Command]) -> Iterator[Command]:
    """Yield the commands that are sent together, at least one: a shell reads all of a batch before it runs the
    first.
    """
    size = 0
    for number, command in enumerate(commands):
        size += len(command.script) + len(command.stdin) + sum(map(len, command.argv))
        if number and size > AT_ONCE:
            return
        yield command


def _go_on() -> None:
    """Do nothing, so that ending a command is never interrupted, whatever the run was asked to do."""


@contextmanager
def _nothing_sent() -> Iterator[None]:
    """Mark a ConnectionLost within this context as raised before the command was sent."""
    try:
        yield
    except ConnectionLost as error:
        raise ConnectionLost(str(error), sent=False) from error
