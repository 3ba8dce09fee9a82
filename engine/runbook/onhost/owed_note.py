"""Notes on hosts about clean-up that is owed to them, beside the locks of a run: for people and other controllers.

They are in the directories of the user's locks (``facts.system.host_lock``), so that no other user can forge, change
or redirect a note.  They disappear with the next boot.  Nothing in them is ever executed; their text is only shown.
"""

from __future__ import annotations

import re

from runbook.dataclass import dataclass
from runbook.onhost.host_lock import lock_name
from runbook.shell import OWED, OWED_LIST, SAFE
from runbook.values.command import Command, Completed, Effect
from runbook.values.owed import NotedIn, Owed, OwedCleanup

TIMEOUT = 15.0
"""Seconds that the host may take to make or remove a note."""

LIST_TIMEOUT = 5.0
"""The seconds that the host may take to print its notes."""

MAX_LINE_CHARACTERS = 200
"""The maximum number of characters of a line of a note."""

MOST_STEPS = 20
"""The maximum number of steps that a note names."""

_RUN = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{4,16}")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostNote:
    """A note that was read from a host."""

    owed: Owed
    host: str
    """The host's name in its run."""
    running: bool
    """Whether the connection of the note's run still exists, so that the run may still do the step."""


def make_note(cleanup: OwedCleanup, become: str = "") -> Command:
    """Return the command that writes the note about *cleanup*, beside the locks of the user *become*."""
    lines = (cleanup.run, cleanup.host, cleanup.by, cleanup.since, cleanup.playbook)
    steps = [step.words for step in cleanup.steps[:MOST_STEPS]]
    text = "\n".join(_line(line) for line in (*lines, *steps))
    return _note("note", cleanup, text, become=become)


def remove_note(cleanup: OwedCleanup, become: str = "") -> Command:
    """Return the command that removes the note about *cleanup*, beside the locks of the user *become*."""
    return _note("unnote", cleanup, become=become)


def _note(verb: str, cleanup: OwedCleanup, *text: str, become: str) -> Command:
    words = (verb, lock_name(cleanup.run, cleanup.host), cleanup.run, *text)
    owed = verb == "unnote"
    return Command(script=SAFE + OWED, argv=words, effect=Effect.SCRATCH, timeout=TIMEOUT, become=become, owed=owed)


def why_not(done: Completed) -> str:
    """Return the reason why ``make_note`` or ``remove_note`` failed; empty if it succeeded."""
    if done.refused:
        return done.refused
    if done.exit_code == 0 and done.stdout.strip() in ("noted", "removed"):
        return ""
    said = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return said[-1] if said else "the host gave no reason"


def list_notes(become: str = "") -> Command:
    """Return the command that prints the notes beside the locks of the user *become*; it changes nothing."""
    return Command(script=OWED_LIST, effect=Effect.READ, timeout=LIST_TIMEOUT, become=become)


def read_notes(done: Completed) -> tuple[HostNote, ...]:
    """Parse the output of ``list_notes``; a malformed note is skipped."""
    if done.exit_code != 0 or done.timed_out:
        return ()
    blocks: list[list[str]] = []
    for line in done.stdout.splitlines():
        if line.startswith("note "):
            blocks.append([line.removeprefix("note ")])
        elif blocks and line.startswith(" "):
            blocks[-1].append(_line(line[1:]))
    return tuple(note for block in blocks if (note := _read(block)))


def _read(block: list[str]) -> HostNote | None:
    if len(block) < 7 or not _RUN.fullmatch(block[1]):
        return None
    state, run, host, by, since, playbook, *steps = block
    owed = Owed(
        run=run, playbook=playbook, by=by, since=since, steps=tuple(filter(None, steps[:MOST_STEPS])),
        noted=(NotedIn.HOST,),
    )  # fmt: skip
    return HostNote(owed=owed, host=host, running=state == "running")


def _line(text: str) -> str:
    """Return *text* as one line of a note, without characters that control a terminal."""
    plain = "".join(sign if sign.isprintable() else " " for sign in text)
    return " ".join(plain.split())[:MAX_LINE_CHARACTERS]
