"""A Connection over lanes: probes together on one lane, each write on its own lane."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar

from engine.errors import Cancelled, ConnectionLost, Unreachable
from engine.protocols import Interrupt, Password
from engine.sessions.channel import Opener, ShellRefused
from engine.sessions.command_run import GRACE, CommandRun, require_open_connection
from engine.sessions.shell_programs import command_text
from engine.sessions.shell_session import ShellSession, Watchdog
from engine.sessions.user_shell import Access, PasswordRefused
from engine.values.command import Command, Completed, Effect

T = TypeVar("T")

ROOM = 16 * 1024 * 1024
"""Bytes that are kept of all that is said by the commands of one ``run``."""

LEAST_ROOM = 256 * 1024
"""Bytes that are kept of what one command says, however much the others have said."""

AHEAD = 64 * 1024
"""Bytes of frames that may be on their way to a lane before its answers are awaited."""


class SessionConnection:
    """Runs commands on one host over an open line.  Owned by one thread."""

    def __init__(
        self,
        opener: Opener,
        interrupt: Interrupt,
        password: Password | None = None,
        host: str = "",
        *,
        shell_within: float = 0.0,
    ) -> None:
        """*password*: for sudo, where it asks for one; *host* is where, for people; *shell_within*: see ``Access``."""
        self._opener, self._interrupt, self._host = opener, interrupt, host
        self._shell_within = shell_within
        self._password, self._asking = password, set[str]()
        self._lanes: dict[str, tuple[ShellSession, Watchdog]] = {}
        self._refused: dict[str, str] = {}
        self._login = ""
        self._said = 0
        """Characters that the commands of this ``run`` have said."""

    def run(self, *commands: Command) -> tuple[Completed, ...]:
        """See ``engine.protocols.Connection``."""
        done: list[Completed] = []
        self._said = 0
        while len(done) < len(commands):
            first = commands[len(done)]
            self._may_send(first)
            batch = self._next_batch(commands[len(done) :])
            user, why = "", first.objection()
            if not why:
                with _nothing_sent():
                    user = self._user(first)
                    why = self._refusal(user, first)
            if why:
                done += [Completed(exit_code=None, refused=why) for _ in batch]
            elif _alone(first):
                done.append(self._run_alone(first, user))
            else:
                done += self._run_batch(batch, user)
        return tuple(done)

    def close(self) -> None:
        """Hang up; nothing of ours stays on the host but writes that are still running."""
        with suppress(ConnectionLost):
            for lane, watchdog in self._lanes.values():
                watchdog.drops(lane)
        for user in list(self._lanes):
            self._forget(user)
        self._opener.close()

    def _may_send(self, command: Command) -> None:
        level = self._interrupt.level()
        if level > 1 or (level and not command.owed):
            raise Cancelled(f"asked to stop before this command was sent: {command.meant()}")

    @staticmethod
    def _next_batch(commands: Sequence[Command]) -> list[Command]:
        """The commands from the first on that can share a lane."""
        batch = [commands[0]]
        if _alone(commands[0]) or commands[0].objection():
            return batch
        for command in commands[1:]:
            if _alone(command) or command.become != batch[0].become or command.objection():
                break
            batch.append(command)
        return batch

    def _user(self, command: Command) -> str:
        """The user to become for *command*; empty when we are that user already."""
        if command.become and not self._login:
            self._refusal("", command)
            self._login = self._lanes[""][0].user
        return "" if command.become == self._login else command.become

    def _refusal(self, user: str, command: Command) -> str:
        """Why no shell starts for *user*; empty when one does.  Raises Unreachable when there is none at all."""
        try:
            self._pair(user, command)
        except ShellRefused as error:
            require_open_connection(self._opener)
            self._refused.setdefault(user, str(error))
            if not user:
                raise Unreachable(f"logged in, but no shell could be started: {error}") from error
            return self._no_sudo(user)
        return ""

    def _no_sudo(self, user: str) -> str:
        said = self._refused[user]
        wants = "password is required" in said and not self._password
        return f"sudo to {user} is refused: {said}" + (" (--ask-become-pass asks you for it)" if wants else "")

    def _pair(self, user: str, command: Command) -> tuple[ShellSession, Watchdog]:
        """The lane on which probes of *user* run, and the watchdog of everything that *user* runs.  Raises Refused."""
        if user in self._lanes:
            lane, watchdog = self._lanes[user]
            lane.pump(0)
            watchdog.listen()
            if not lane.ended and not watchdog.ended:
                return lane, watchdog
            self._forget(user)
        if user in self._refused:
            raise ShellRefused(self._refused[user])
        lane, watchdog = self._started(user, command, self._open_pair)
        watchdog.holds(lane)
        self._lanes[user] = (lane, watchdog)
        return lane, watchdog

    def _started(self, user: str, command: Command, start: Callable[[Access, Command], T]) -> T:
        """What *start* gives: without a password first, and with it where sudo will not have that."""
        if user not in self._asking:
            try:
                return start(Access(user=user, within=self._shell_within), command)
            except ShellRefused:
                require_open_connection(self._opener)
                if not user or not self._password:
                    raise
        assert self._password
        try:
            made = self._password.try_on(
                self._host,
                lambda secret, trial: start(
                    Access(user=user, password=secret, trial=trial, within=self._shell_within), command
                ),
                lambda: self._may_send(command),
            )
        except PasswordRefused:
            self._password = None  # it is tried once: accounts are locked for less
            raise
        self._asking.add(user)
        return made

    def _open_pair(self, access: Access, command: Command) -> tuple[ShellSession, Watchdog]:
        lane = ShellSession(self._opener, access)
        watchdog = None
        try:
            if not access.password:  # else a wrong password would be tried twice
                watchdog = Watchdog(self._opener, access)
            lane.wait_until_ready(lambda: self._may_send(command))
            if not watchdog:
                watchdog = Watchdog(self._opener, access)
                watchdog.wait_until_ready(lambda: self._may_send(command))
        except BaseException:
            lane.close()
            if watchdog:
                watchdog.close()
            raise
        return lane, watchdog

    def _open_lane(self, access: Access, command: Command) -> ShellSession:
        lane = ShellSession(self._opener, access, cage=not command.unkillable)
        try:
            lane.wait_until_ready(lambda: self._may_send(command))
        except BaseException:
            lane.close()
            raise
        return lane

    def _forget(self, user: str) -> None:
        for lane in self._lanes.pop(user):
            lane.close()

    def _run_batch(self, commands: Sequence[Command], user: str) -> list[Completed]:
        """Probes, one after the other on the lane of *user*, sent ahead of their answers."""
        lane, watchdog = self._lanes[user]
        if any(command.foreign for command in commands):
            lane.learn_to_sweep()
        watchdog.begins(lane, sum(command.timeout for command in commands) + GRACE, tenths=3)
        texts = [(token := lane.token(), command_text(command, token)) for command in commands]
        done: list[Completed] = []
        sent = ahead = 0
        for number, (command, (token, text)) in enumerate(zip(commands, texts, strict=True)):
            frames = []
            while sent < len(texts) and (sent == number or ahead + len(texts[sent][1]) < AHEAD):
                frames.append(texts[sent][1])
                ahead += len(frames[-1])
                sent += 1
            if frames:
                lane.give(*frames)
            done.append(self._counted(self._attempt(command, token, lane, watchdog).look()))
            ahead -= len(text)
            if command.foreign and (lane.harmed or lane.ended):
                self._give_up(lane, watchdog)
            if lane.flooded:
                lane.ended = True  # what it says is no longer known to belong to what it was asked
            if lane.ended:
                return done  # what was not begun is sent again, on a fresh lane
        with suppress(ConnectionLost):
            watchdog.ends(lane)
        return done

    def _run_alone(self, command: Command, user: str) -> Completed:
        """A write, on a lane of its own that is given up afterwards."""
        watchdog = self._lanes[user][1]
        try:
            with _nothing_sent():
                watchdog.wait_until_ready(lambda: self._may_send(command))  # or nobody would end it in time
                lane = self._started(user, command, self._open_lane)
        except ShellRefused as error:
            with _nothing_sent():
                require_open_connection(self._opener)
            return Completed(exit_code=None, refused=f"the host starts no more shells: {error}")
        try:
            self._may_send(command)
            return self._write(lane, watchdog, command)
        finally:
            lane.close()

    def _attempt(self, command: Command, token: str, lane: ShellSession, watchdog: Watchdog) -> CommandRun:
        room = max(LEAST_ROOM, ROOM - self._said)
        return CommandRun(command, token, lane, watchdog, self._opener, self._interrupt, room=room)

    def _counted(self, done: Completed) -> Completed:
        self._said += len(done.stdout) + len(done.stderr)
        return done

    @staticmethod
    def _give_up(lane: ShellSession, watchdog: Watchdog) -> None:
        """End *lane* and what a command left on it, so that the next command gets a fresh one."""
        with suppress(ConnectionLost):
            watchdog.finish(lane, 0)
        lane.ended = True

    def _write(self, lane: ShellSession, watchdog: Watchdog, command: Command) -> Completed:
        token = lane.token()
        with _nothing_sent():
            watchdog.begins(lane, command.timeout, write=True, kill=not command.unkillable, tenths=50)
        attempt = self._attempt(command, token, lane, watchdog)
        lane.give(command_text(command, token))
        done = self._counted(attempt.write())
        with suppress(ConnectionLost):  # what became of the write is known
            watchdog.drops(lane)
        return done


def _alone(command: Command) -> bool:
    return command.effect is Effect.WRITE


@contextmanager
def _nothing_sent() -> Iterator[None]:
    """The line may be lost here without any doubt about what became of the command."""
    try:
        yield
    except ConnectionLost as error:
        raise ConnectionLost(str(error), sent=False) from error
