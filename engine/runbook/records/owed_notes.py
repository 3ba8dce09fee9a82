"""Ask a host, together with its first probes, for the notes about clean-up that is owed to it."""

from __future__ import annotations

from collections.abc import Callable

from runbook.onhost.owed_note import HostNote, list_notes, read_notes
from runbook.protocols import Connection
from runbook.values.command import Command, Completed, Effect

Hear = Callable[[tuple[HostNote, ...]], None]


class NoticingConnection:
    """A connection that reads the host's notes once, together with the first probes, as each user who runs these
    probes.

    These commands run in the same shells, right before the probes, and cost no round trip of their own.
    """

    def __init__(self, inner: Connection, hear: Hear) -> None:
        self._inner, self._hear = inner, hear
        self._asked = False

    def run(self, *commands: Command) -> tuple[Completed, ...]:
        """See ``runbook.protocols.Connection``."""
        if self._asked or not commands or any(each.effect is Effect.WRITE for each in commands):
            return self._inner.run(*commands)
        sent: list[Command] = []
        ours: set[int] = set()
        users: set[str] = set()
        for command in commands:
            if command.become not in users:
                users.add(command.become)
                ours.add(len(sent))
                sent.append(list_notes(command.become))
            sent.append(command)
        answers = self._inner.run(*sent)
        self._asked = True
        notes = {note for number in sorted(ours) for note in read_notes(answers[number])}
        self._hear(tuple(notes))
        return tuple(answer for number, answer in enumerate(answers) if number not in ours)

    def close(self) -> None:
        """Close the inner connection."""
        self._inner.close()
