"""Two runs do not change one host at once; and a lock never outlives the connection that holds it."""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from pathlib import Path
from secrets import token_hex

import pytest

from engine import transports
from engine.facts.locking import Busy, Held, NoLock, ask_lock, ask_unlock, read_lock
from engine.ports import ConnectOptions
from engine.values.command import Command, Completed, Effect

pytestmark = pytest.mark.real("sshd", "root", "lab")


@pytest.fixture
def place(tmp_path):
    """Folders that stand for /run/lock and /tmp."""
    (tmp_path / "lock").mkdir()
    return tmp_path / "lock"


@pytest.fixture
def connect(sshd, interrupt, place):
    """A function that connects, and whose commands have the places of locks for themselves."""
    with contextlib.ExitStack() as opened:

        class Private:
            def __init__(self):
                host = sshd.host()
                self.inner = transports.load("ssh").connect(host, ConnectOptions(connect_timeout=20), interrupt)
                opened.callback(self.inner.close)

            def ask(self, command: Command):
                script = command.script.replace("places='/run/lock /var/lock /tmp'", f"places='{place}'")
                assert script != command.script
                return self.inner.run(Command(script=script, argv=command.argv, effect=Effect.SCRATCH, timeout=20))[0]

            def take(self, run: str, host: str = "h"):
                return read_lock(self.ask(ask_lock(run, host, f"run {run} by ann")))

        yield Private


def test_one_has_it_the_other_is_told_who_and_gets_it_afterwards(connect, place):
    """Mutants: locking.py ``lives`` always true, or always false; ``give`` doing nothing."""
    one, two = connect(), connect()
    assert isinstance(one.take("r1"), Held)
    assert isinstance(one.take("r1"), Held)
    told = two.take("r2")
    assert isinstance(told, Busy)
    assert "run r1 by ann" in told.why
    one.ask(ask_unlock("r1", "h"))
    assert list(place.iterdir()) == []
    assert isinstance(two.take("r2"), Held)


def test_hosts_of_one_run_that_are_one_machine_do_not_keep_each_other_out(connect, place):
    one, two = connect(), connect()
    assert isinstance(one.take("r1", "gpu-01"), Held)
    assert isinstance(two.take("r1", "gpu-02"), Held)
    one.ask(ask_unlock("r1", "gpu-01"))
    assert isinstance(connect().take("r2"), Busy)


def test_a_lock_ends_with_the_connection_and_leaves_nothing_behind(connect, place):
    one, two = connect(), connect()
    assert isinstance(one.take("r1"), Held)
    one.inner.close()
    deadline = time.monotonic() + 10
    while isinstance(two.take("r2"), Busy):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert [it.name.endswith("r2-h.lock") for it in place.iterdir()] == [True]


def test_of_ten_at_once_one_gets_it(connect):
    """Mutants: locking.py without the guard."""
    made = [connect() for _ in range(10)]
    together = threading.Barrier(10)
    answers: list = []

    def take(number: int) -> None:
        together.wait()
        answers.append(made[number].take(f"r{number}"))

    threads = [threading.Thread(target=take, args=(it,)) for it in range(10)]
    for it in threads:
        it.start()
    for it in threads:
        it.join()
    assert sum(isinstance(it, Held) for it in answers) == 1
    assert sum(isinstance(it, Busy) for it in answers) == 9


@pytest.mark.parametrize("made_at", [-300, 3600], ids=["long ago", "before the clock was set back"])
def test_what_a_dead_run_left_in_the_way_is_taken_over(connect, place, made_at):
    """Mutants: locking.py without ``old``, or either half of it."""
    made = connect()
    stale = place / "runbook-0-x.lock"
    stale.mkdir()
    (stale / "by").write_text("1:99 2:98\nold\nrun old\n")
    guard = place / "runbook.guard"
    guard.mkdir()
    import os

    os.utime(guard, (time.time() + made_at,) * 2)
    assert isinstance(made.take("r1"), Held)
    assert not stale.exists()
    assert not guard.exists()


@pytest.mark.parametrize("text", ["", "garbage", "$(touch pwned)\n`id`\n\n", "1:1:1 :: a:b\nx\ny\n"])
def test_a_broken_lock_keeps_nobody_out(connect, place, text):
    stale = place / "runbook-7-x.lock"
    stale.mkdir()
    (stale / "by").write_text(text)
    assert isinstance(connect().take("r1"), Held)


def test_a_host_without_a_place_for_a_lock_says_so(connect, place):
    shutil.rmtree(place)
    answer = connect().take("r1")
    assert isinstance(answer, NoLock)
    assert "can be written" in answer.why


def test_names_of_runs_and_hosts_cannot_leave_the_folder(connect, place):
    made = connect()
    assert isinstance(made.take(f"../../{token_hex(4)}", "a/b; touch x"), Held)
    assert len(list(place.iterdir())) == 1
    assert not list(Path(place.parent).glob("*.lock"))


def test_a_write_that_runs_on_without_us_keeps_the_lock_until_it_ends(connect, place, tmp_path):
    """Mutants: program.py without ``_KEEP_LOCK``; locking.py without ``also``."""
    one, two = connect(), connect()
    held = one.take("r1")
    assert isinstance(held, Held)
    go, began = tmp_path / "go", tmp_path / "began"
    script = 'touch "$2"; until [ -e "$1" ]; do sleep 0.1; done'
    change = Command(script=script, argv=(str(go), str(began)), effect=Effect.WRITE, timeout=60, lock=held.place)
    running = threading.Thread(target=_run, args=(one.inner, change))
    running.start()
    deadline = time.monotonic() + 10
    while not began.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    one.inner._opener.close()  # the line goes down
    running.join(20)
    time.sleep(1)
    assert isinstance(two.take("r2"), Busy)
    go.touch()
    deadline = time.monotonic() + 15
    while not isinstance(two.take("r2"), Held):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _run(connection, change: Command) -> None:
    with contextlib.suppress(Exception):
        connection.run(change)


def test_an_answer_that_did_not_come_is_no_leave_to_go_on():
    assert isinstance(read_lock(Completed(exit_code=None, timed_out=True)), Busy)
    assert isinstance(read_lock(Completed(exit_code=4, stderr="no folder")), NoLock)
