"""A Connection over lanes: looks side by side in one go, each write on a lane of its own."""

from __future__ import annotations

import time
from collections.abc import Sequence

from engine.errors import Cancelled, ConnectionLost
from engine.lanes.channel import Opener
from engine.lanes.lane import Lane, Leash, Refused
from engine.lanes.program import command_text
from engine.ports import Interrupt
from engine.values.command import Command, Completed, Effect

AHEAD = 64 * 1024
"""Bytes of frames that may be on their way to a lane before its answers are awaited."""

GRACE = 10.0
"""Seconds after a command's own timeout until a silent host counts as lost."""


class LaneConnection:
    """Runs commands on one host over an open line.  Owned by one thread."""

    def __init__(self, opener: Opener, interrupt: Interrupt) -> None:
        self._opener, self._interrupt = opener, interrupt
        self._lanes: dict[str, Lane] = {}
        self._leashes: dict[str, Leash] = {}
        self._refused: dict[str, str] = {}
        self._login = ""

    def run(self, *commands: Command) -> tuple[Completed, ...]:
        """See ``engine.ports.Connection``."""
        done: list[Completed] = []
        while len(done) < len(commands):
            self._may_send(commands[len(done)])
            batch = self._next_batch(commands[len(done) :])
            user = self._user(batch[0].become)
            if why := self._refusal(user):
                done += [Completed(exit_code=1, stderr=why) for _ in batch]
            elif self._alone(batch[0]):
                done.append(self._run_alone(batch[0], user))
            else:
                done += self._run_batch(batch, user)
        return tuple(done)

    def close(self) -> None:
        """Hang up; nothing of ours stays on the host but writes that are still running."""
        try:
            for user, lane in self._lanes.items():
                self._leashes[user].drops(lane)
        except ConnectionLost:
            pass
        for lane in self._lanes.values():
            lane.close()
        for leash in self._leashes.values():
            leash.close()
        self._lanes, self._leashes = {}, {}
        self._opener.close()

    def _may_send(self, command: Command) -> None:
        level = self._interrupt.level()
        if level > 1 or (level and not command.owed):
            raise Cancelled(f"asked to stop before this was sent: {command}")

    @staticmethod
    def _alone(command: Command) -> bool:
        return command.effect is Effect.WRITE or command.foreign

    def _next_batch(self, commands: Sequence[Command]) -> list[Command]:
        """The commands from the first on that can share a lane."""
        batch = [commands[0]]
        if not self._alone(commands[0]):
            for it in commands[1:]:
                if self._alone(it) or it.become != batch[0].become:
                    break
                batch.append(it)
        return batch

    def _user(self, become: str) -> str:
        """The user to become; empty when we are that user already."""
        if become and not self._login:
            self._lane("")
            self._login = self._lanes[""].user if "" in self._lanes else ""
        return "" if become == self._login else become

    def _refusal(self, user: str) -> str:
        """Why no shell starts for *user*; empty when one does."""
        if user not in self._refused and user not in self._lanes:
            self._lane(user)
        return self._refused.get(user, "")

    def _lane(self, user: str) -> Lane | None:
        """The lane on which looks of *user* run; None when the host refuses."""
        if user in self._lanes:
            return self._lanes[user]
        if user in self._refused:
            return None
        lane = Lane(self._opener, user)
        fresh = user not in self._leashes
        if fresh:
            self._leashes[user] = Leash(self._opener, user)
        try:
            lane.wait_until_ready()
        except Refused as error:
            if not self._opener.stands():
                raise ConnectionLost("the line was lost while a shell was being started") from error
            self._refused[user] = f"sudo to {user} is refused: {error}" if user else f"no shell on the host: {error}"
            lane.close()
            self._leashes.pop(user).close()
            return None
        self._leashes[user].holds(lane)
        self._lanes[user] = lane
        return lane

    def _run_batch(self, commands: Sequence[Command], user: str) -> list[Completed]:
        """Looks, one after the other on the lane of *user*, sent ahead of their answers."""
        lane = self._lane(user)
        assert lane is not None
        leash = self._leashes[user]
        leash.begins(lane, sum(it.timeout for it in commands) + GRACE, tenths=3)
        texts = [(token := lane.token(), command_text(it, token)) for it in commands]
        done: list[Completed] = []
        sent = ahead = 0
        for number, (command, (token, text)) in enumerate(zip(commands, texts, strict=True)):
            while sent < len(texts) and (sent == number or ahead + len(texts[sent][1]) < AHEAD):
                lane.send(texts[sent][1])
                ahead += len(texts[sent][1])
                sent += 1
            done.append(self._await_look(lane, leash, command, token))
            ahead -= len(text)
            if lane.ended:
                self._lanes.pop(user).close()
                return done  # what was not begun is sent again, on a fresh lane
        leash.ends(lane)
        return done

    def _await_look(self, lane: Lane, leash: Leash, command: Command, token: str) -> Completed:
        began = time.monotonic()
        marks: dict[str, tuple[str, str]] = {}
        while len(marks) < 2:
            for name, stream in (("out", lane.out), ("err", lane.err)):
                if name not in marks and (found := stream.take(token)):
                    marks[name] = found
            if len(marks) == 2:
                break
            if lane.ended:
                return self._broken_off(lane, leash, command, time.monotonic() - began)
            spent = time.monotonic() - began
            if self._interrupt.level():
                self._end_for_interrupt(lane, leash, command)
            if spent >= command.timeout:
                return self._timed_out(lane, leash, spent)
            lane.pump(min(0.1, max(0.0, command.timeout - spent)))
        return _completed(marks, time.monotonic() - began)

    def _timed_out(self, lane: Lane, leash: Leash, spent: float) -> Completed:
        """End the look on the host, without waiting for its pipes."""
        left = leash.finish(lane, 3)
        out, err = lane.out.rest(), lane.err.rest()
        lane.ended = True
        if left is None:
            self._line_must_stand()
            left = ("the host did not say whether it ended",)
        return Completed(exit_code=None, stdout=out, stderr=err, seconds=spent, timed_out=True, survivors=left)

    def _end_for_interrupt(self, lane: Lane, leash: Leash, command: Command) -> None:
        left = leash.finish(lane, 3)
        lane.ended = True
        self._forget(lane)
        words = f"; still there: {', '.join(left)}" if left else ""
        raise Cancelled(f"asked to stop; this look was ended on the host: {command}{words}", sent=True)

    def _broken_off(self, lane: Lane, leash: Leash, command: Command, spent: float) -> Completed:
        """The lane ended under a command: the line is gone, or something on the host killed our shell."""
        self._line_must_stand()
        out, err = lane.out.rest(), lane.err.rest()
        leash.listen(0.2)
        late = lane.name in leash.late
        note = "" if late else f"\nrunbook: the shell that ran this was killed on the host ({command.effect})"
        return Completed(exit_code=None, stdout=out, stderr=err + note, seconds=spent, timed_out=late)

    def _line_must_stand(self) -> None:
        if not self._opener.stands():
            raise ConnectionLost("the connection to the host was lost")

    def _forget(self, lane: Lane) -> None:
        lane.close()
        self._lanes = {user: it for user, it in self._lanes.items() if it is not lane}

    def _run_alone(self, command: Command, user: str) -> Completed:
        """A write, or a command of somebody else's, on a lane of its own that is given up afterwards."""
        lane = Lane(self._opener, user)
        try:
            lane.wait_until_ready()
            self._may_send(command)
            return (
                self._write(lane, command, user)
                if command.effect is Effect.WRITE
                else self._foreign(lane, command, user)
            )
        except Refused as error:
            self._line_must_stand()
            return Completed(exit_code=1, stderr=f"no shell on the host: {error}")
        finally:
            lane.close()

    def _foreign(self, lane: Lane, command: Command, user: str) -> Completed:
        leash = self._leashes[user]
        leash.holds(lane)
        leash.begins(lane, command.timeout + GRACE, tenths=3)
        token = lane.token()
        lane.send(command_text(command, token))
        done = self._await_look(lane, leash, command, token)
        if not lane.ended:
            leash.finish(lane, 0)
        leash.drops(lane)
        return done

    def _write(self, lane: Lane, command: Command, user: str) -> Completed:
        leash, token = self._leashes[user], lane.token()
        leash.begins(lane, command.timeout, write=True, kill=not command.unkillable, tenths=50)
        began = time.monotonic()
        lane.send(command_text(command, token))
        done = self._await_write(lane, leash, command, token, began)
        leash.drops(lane)
        return done

    def _await_write(self, lane: Lane, leash: Leash, command: Command, token: str, began: float) -> Completed:
        marks: dict[str, tuple[str, str]] = {}
        while True:
            for name, stream in (("out", lane.out), ("err", lane.err)):
                if name not in marks and (found := stream.take(token)):
                    marks[name] = found
            spent = time.monotonic() - began
            if len(marks) == 2:
                return _completed(marks, spent)
            leash.listen()
            if lane.name in leash.late:
                return self._late_write(lane, leash, command, spent)
            if self._interrupt.level() > 1:
                self._cut_write(lane, leash, command)
            if lane.ended:
                if spent < command.timeout:
                    return self._broken_off(lane, leash, command, spent)
                leash.listen(0.1)
            if spent > command.timeout + GRACE + 5:
                raise ConnectionLost("the host stopped answering while this ran")
            lane.pump(0.1) if not lane.ended else time.sleep(0.05)

    def _late_write(self, lane: Lane, leash: Leash, command: Command, spent: float) -> Completed:
        if command.unkillable:
            left: tuple[str, ...] = (f"left running: {command.argv[0] if command.argv else 'the script'}",)
        else:
            left = leash.wait_over(lane, 2.0) or ()
        out, err = lane.out.rest(), lane.err.rest()
        return Completed(exit_code=None, stdout=out, stderr=err, seconds=spent, timed_out=True, survivors=left)

    def _cut_write(self, lane: Lane, leash: Leash, command: Command) -> None:
        if command.unkillable:
            raise Cancelled(f"asked to stop twice; this cannot be ended and was left running: {command}", sent=True)
        left = leash.finish(lane, 10)
        words = f"; still there: {', '.join(left)}" if left else ""
        raise Cancelled(f"asked to stop twice; this change was ended half-way: {command}{words}", sent=True)


def _completed(marks: dict[str, tuple[str, str]], spent: float) -> Completed:
    out, code = marks["out"]
    return Completed(exit_code=int(code), stdout=out, stderr=marks["err"][0], seconds=spent)
