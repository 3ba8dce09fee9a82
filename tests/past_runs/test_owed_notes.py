"""Notes on hosts about owed clean-ups: only who made them can, and what they say is only ever shown."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from runbook.onhost.owed_note import list_notes, make_note, read_notes, remove_note, why_not
from runbook.records.owed_notes import NoticingConnection
from runbook.values.command import Command, Completed, Effect, read
from runbook.values.owed import NotedIn, OwedCleanup, OwedStep
from tests.support.another_user import SHELLS, STRANGER, directory, give
from tests.support.own_run import Room
from tests.support.tables import every_row

STEP = OwedStep(id="put_back", action="command", say="restore it")
CLEANUP = OwedCleanup(
    run="20261123T020000Z-7f3a",
    playbook="flip",
    host="gpu-01",
    by="ann@ops",
    since="2026-11-23T02:00:00+00:00",
    steps=(STEP,),
)


class OwnRoom(Room):
    """This machine with a /run of its own."""

    def send(self, command: Command, shell: tuple[str, ...] = ("dash",), told: object = "", user: int = 0) -> Completed:
        argv = self.argv(command, shell, told)
        if user:
            argv[argv.index("env") : argv.index("env")] = [
                "setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups",
            ]  # fmt: skip
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30, cwd="/", check=False)
        return Completed(exit_code=done.returncode, stdout=done.stdout, stderr=done.stderr)

    def seen(self, shell: tuple[str, ...] = ("dash",), **keys):
        done = self.send(list_notes(), shell, **keys)
        assert (done.exit_code, done.stderr) == (0, "")
        return read_notes(done)


@pytest.fixture
def room() -> Iterator[OwnRoom]:
    made = OwnRoom()
    yield made
    made.keeper.kill()
    made.keeper.communicate()


REAL = pytest.mark.real("root", "setpriv", "lab")


@REAL
@pytest.mark.parametrize("shell", SHELLS)
def test_a_note_is_made_read_replaced_and_removed(shell, room):
    """Mutants: owed.sh without `safe_put`; owed_list.sh `ours` always false."""
    assert room.seen(shell) == ()
    assert not (room.run / "runbook").exists(), "to list makes nothing"
    assert why_not(room.send(make_note(CLEANUP), shell)) == ""
    (note,) = room.seen(shell)
    assert (note.host, note.owed.run, note.owed.by, note.owed.since) == (
        "gpu-01",
        CLEANUP.run,
        "ann@ops",
        CLEANUP.since,
    )
    assert (note.owed.playbook, note.owed.steps, note.owed.noted) == (
        "flip",
        ("put_back: restore it",),
        (NotedIn.HOST,),
    )
    more = replace(CLEANUP, steps=(STEP, replace(STEP, id="other", say="")))
    assert why_not(room.send(make_note(more), shell)) == ""
    (note,) = room.seen(shell)
    assert note.owed.steps == ("put_back: restore it", "other")
    (path,) = room.run.glob("runbook/*/owed-*")
    assert path.stat().st_mode & 0o777 == 0o600
    assert why_not(room.send(remove_note(CLEANUP), shell)) == ""
    assert why_not(room.send(remove_note(CLEANUP), shell)) == ""
    assert [*room.run.glob("runbook/*")] == []


@REAL
@pytest.mark.parametrize("shell", SHELLS)
def test_a_note_says_whether_the_connection_of_its_run_is_there(shell, room):
    """Mutants: owed_list.sh `alive` always true, or always false, or without the start."""
    assert why_not(room.send(make_note(CLEANUP), shell)) == ""
    (path,) = room.run.glob("runbook/*/owed-*")
    _, _, rest = path.read_text().partition("\n")
    start = Path("/proc/self/stat").read_text().rpartition(") ")[2].split()[19]
    for keys, running in (
        (f"1:1 {os.getpid()}:{start}", True),
        (f"{os.getpid()}:{int(start) + 1}", False),
        ("", False),
        ("1:* /etc/*", False),
        ("4194305:1", False),
    ):
        path.write_text(f"{keys}\n{rest}")
        assert [it.running for it in room.seen(shell)] == [running], keys


FORGED = "1:1\n20200101T000000Z-0000\ngpu-01\nroot@nowhere\n2020\nevil\nstep: run rm -rf /\n"


@REAL
@pytest.mark.parametrize("shell", SHELLS)
def test_root_believes_no_note_that_another_user_could_have_made(shell, room, ground):
    """Mutants: owed_list.sh `in_place` without `ours .`; `ours` without the owner or the mode; the mark of the place alone."""
    assert why_not(room.send(make_note(CLEANUP))) == ""
    (path,) = room.run.glob("runbook/*/owed-*")
    realm = path.parent
    theirs = give(directory(ground / "theirs", 0o700))
    (theirs / ".runbook-locks").touch()
    give(theirs / ".runbook-locks")
    inner = give(directory(theirs / realm.name, 0o700))
    forged = inner / "owed-forged"
    forged.write_text(FORGED)
    forged.chmod(0o600)
    give(forged)
    link = ground / "link"
    link.symlink_to(theirs)
    marked = directory(ground / "marked", 0o700)
    (marked / ".runbook-locks").touch()
    give(marked / ".runbook-locks")
    roots = directory(marked / realm.name, 0o700)
    (roots / "owed-x").write_text(FORGED)
    (roots / "owed-x").chmod(0o600)
    for told in (theirs, link, marked, "", "relative", theirs / "none"):
        assert [it.owed.run for it in room.seen(shell, told=told)] == [CLEANUP.run], told
    for name in ("owed-theirs", "owed-open", "owed-link", "owed-folder", "owed-pipe"):
        place = realm / name
        if name == "owed-link":
            place.symlink_to(forged)
        elif name == "owed-folder":
            place.mkdir()
        elif name == "owed-pipe":
            os.mkfifo(place)
        else:
            place.write_text(FORGED)
            place.chmod(0o600 if name == "owed-theirs" else 0o666)
    give(realm / "owed-theirs")
    assert [it.owed.run for it in room.seen(shell)] == [CLEANUP.run]
    realm.chmod(0o755)
    assert room.seen(shell) == ()
    realm.chmod(0o700)
    os.chown(realm, STRANGER, STRANGER)
    assert room.seen(shell) == ()


@REAL
def test_no_note_is_made_where_another_user_could_exchange_it_and_that_is_said(room):
    give(directory(room.run / "runbook"))
    why = why_not(room.send(make_note(CLEANUP)))
    assert "belongs to" in why
    assert [*room.run.glob("runbook/**/owed-*")] == []


@REAL
@pytest.mark.parametrize("shell", SHELLS)
def test_text_of_a_note_steers_no_terminal_and_has_bounds(shell, room):
    """Mutants: `_line` that returns what it is given; owed_list.sh without `tr`, or without the number of notes."""
    evil = "\x1b]0;x\x07\x1b[2J\u202e\x9b31m\r\nnote left\n 20200101T000000Z-0000\n"
    steps = tuple(OwedStep(id=f"s{number}", action="a", say=evil + "x" * 5000) for number in range(100))
    assert why_not(room.send(make_note(replace(CLEANUP, by=evil, steps=steps)), shell)) == ""
    (path,) = room.run.glob("runbook/*/owed-*")
    for number in range(40):
        head, _, rest = path.read_bytes().partition(b"\n")
        (path.parent / f"owed-{number}").write_bytes(
            head + b"\n" + rest.replace(b"7f3a\n", b"7f3a\x1b\n") + b"\xc2\x9b\xff" * 9000
        )
        (path.parent / f"owed-{number}").chmod(0o600)
    done = room.send(list_notes(), shell)
    assert len(done.stdout) < 20 * 5000
    assert "\x1b" not in done.stdout
    notes = read_notes(done)
    assert len(notes) == 20
    for note in notes:
        for text in (note.owed.by, note.owed.since, note.owed.playbook, *note.owed.steps):
            assert text.isprintable()
            assert len(text) <= 200
        assert len(note.owed.steps) <= 20


@every_row(
    "said",
    [
        "",
        "note left\n",
        "note left\n x\n",
        "note\n note\n",
        " a\n b\n",
        "note left\n ../../x\n h\n b\n s\n p\n step\n",
        "\0" * 100,
    ],
)
def test_what_is_no_note_is_passed_over(said):
    assert read_notes(Completed(exit_code=0, stdout=said)) == ()
    assert read_notes(Completed(exit_code=None)) == ()


# ---- what it costs -------------------------------------------------------------------------------------------------


class Counting:
    """A connection that answers everything with nothing, and keeps each round."""

    def __init__(self) -> None:
        self.rounds: list[list[Command]] = []

    def run(self, *commands: Command) -> tuple[Completed, ...]:
        self.rounds.append(list(commands))
        return tuple(Completed(exit_code=0, stdout=it.argv[0] if it.argv else "") for it in commands)

    def close(self) -> None:
        pass


def test_notes_are_asked_for_within_the_first_round_of_probes_and_once():
    """Mutants: `NoticingConnection.run` that asks again, asks in a round of its own, or asks along with a write."""
    inner, heard = Counting(), []
    connection = NoticingConnection(inner, heard.append)
    write = Command(argv=("w",), effect=Effect.WRITE)
    connection.run(write)
    root = replace(read("c"), become="root")
    answers = connection.run(read("a"), read("b"), root)
    assert [it.stdout for it in answers] == ["a", "b", "c"]
    connection.run(read("d"), root)
    assert [len(it) for it in inner.rounds] == [1, 5, 2]
    users = [it.become for it in inner.rounds[1]]
    assert users == ["", "", "", "root", "root"], "on the shells that are there anyway"
    assert all(it.effect is Effect.READ for it in inner.rounds[1])
    assert heard == [()]
