"""Two runs do not change one host at once; and a lock never outlives the connection that holds it."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from pathlib import Path
from secrets import token_hex

import pytest

from runbook.connections import transports
from runbook.errors import ProbeError
from runbook.onhost.host_lock import (
    LockBusy,
    LockHeld,
    LockUnavailable,
    ask_lock,
    ask_locks,
    ask_unlock,
    read_lock,
    read_locks,
)
from runbook.protocols import ConnectOptions
from runbook.values.command import Command, Completed, Effect
from runbook.values.inventory import Address
from tests.support.waiting import appears, until

pytestmark = pytest.mark.real("sshd", "root", "lab")

OURS = token_hex(4)
"""In the name of every run on the locks that all tests on this machine share: it tells this process's from another's."""


@pytest.fixture
def place(tmp_path):
    """A directory that root has set apart for locks, instead of /run/runbook."""
    (tmp_path / "lock").mkdir(mode=0o700)
    (tmp_path / "lock" / ".runbook-locks").touch()
    return tmp_path / "lock"


def entries(place: Path) -> list[Path]:
    """The locks that lie there."""
    return [*place.glob("[!.]*/*")]


def realm(place: Path) -> Path:
    """The directory of this boot and this process namespace."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip().split("-")
    names = os.readlink("/proc/self/ns/pid").removeprefix("pid:[").removesuffix("]")
    made = place / f"{boot[0]}{boot[-1]}-{names}"
    made.mkdir(mode=0o700, exist_ok=True)
    return made


@pytest.fixture
def connect(sshd, interrupt, place):
    """A function that connects, and whose commands have the places of locks for themselves."""
    with contextlib.ExitStack() as opened:

        class Private:
            def __init__(self, port: int = sshd.port):
                host = sshd.host(addresses=(Address(host=sshd.address, port=port),))
                self.inner = transports.load("ssh").connect(host, ConnectOptions(connect_timeout=20), interrupt)
                opened.callback(self.inner.close)

            def ask(self, command: Command):
                script = f"RUNBOOK_LOCK_PLACES={place}; {command.script}"
                return self.inner.run(Command(script=script, argv=command.argv, effect=Effect.SCRATCH, timeout=60))[0]

            def take(self, run: str, host: str = "h"):
                return read_lock(self.ask(ask_lock(run, host, f"run {run} by ann")))

        yield Private


def test_one_has_it_the_other_is_told_who_and_gets_it_afterwards(connect, place):
    """Mutants: safe.sh ``safe_lives`` always true, or always false; ``give`` doing nothing."""
    one, two = connect(), connect()
    assert isinstance(one.take("r1"), LockHeld)
    assert isinstance(one.take("r1"), LockHeld)
    told = two.take("r2")
    assert isinstance(told, LockBusy)
    assert "run r1 by ann" in told.why
    one.ask(ask_unlock("r1", "h"))
    assert [it.name for it in place.iterdir()] == [".runbook-locks"]
    assert isinstance(two.take("r2"), LockHeld)


def test_it_is_said_how_long_ago_another_run_was_here(connect, place):
    """Mutants: lock.sh ``lock_used`` that never finds anything; that is asked once our own entry is made."""
    os.utime(place, (time.time() - 900,) * 2)
    one, two = connect(), connect()
    first = one.take("r1")
    assert isinstance(first, LockHeld)
    assert first.idle > 890, "nobody was here since it was made"
    one.ask(ask_unlock("r1", "h"))
    then = two.take("r2")
    assert isinstance(then, LockHeld)
    assert 0 <= then.idle < 890
    two.ask(ask_unlock("r2", "h"))
    os.utime(place, (time.time() - 600,) * 2)
    late = one.take("r3")
    assert isinstance(late, LockHeld)
    assert 590 < late.idle < 890
    assert late.place.startswith(f"{place}/")
    assert Path(late.place).is_dir()


def test_the_locks_of_a_host_are_listed_and_nothing_is_changed_by_that(connect, place):
    """Mutants: lock.sh ``lock_list`` with what is dead; a list that makes the directory, or removes an entry."""
    one = connect()
    assert read_locks(one.ask(ask_locks())) == ()
    assert [it.name for it in place.iterdir()] == [".runbook-locks"]
    assert isinstance(one.take("r1"), LockHeld)
    dead = realm(place) / "lock-0123456789abcdef-4000000-1"
    (dead / "held").mkdir(parents=True)
    (dead / "by").write_text("4000000:1\nr0\nh\nrun r0 by eve\n")
    assert read_locks(one.ask(ask_locks())) == (("held", "run r1 by ann"),)
    assert dead.exists()
    realm(place).chmod(0o777)
    with pytest.raises(ProbeError, match="can write to"):
        read_locks(one.ask(ask_locks()))


def test_hosts_of_one_run_that_are_one_machine_do_not_keep_each_other_out(connect, place):
    one, two = connect(), connect()
    assert isinstance(one.take("r1", "gpu-01"), LockHeld)
    assert isinstance(two.take("r1", "gpu-02"), LockHeld)
    one.ask(ask_unlock("r1", "gpu-01"))
    assert isinstance(connect().take("r2"), LockBusy)


def test_a_lock_ends_with_the_connection_and_leaves_nothing_behind(connect, place):
    one, two = connect(), connect()
    assert isinstance(one.take("r1"), LockHeld)
    one.inner.close()
    until(lambda: not isinstance(two.take("r2"), LockBusy), "the lock to be free")
    (left,) = entries(place)
    assert (left / "by").read_text().splitlines()[1] == "r2"


@pytest.mark.soak
def test_of_ten_at_once_one_gets_it(connect):
    """Mutants: lock.sh ``lock_look`` that gives way to nobody that asks, or that does not wait for who asks behind it."""
    made = [connect() for _ in range(10)]
    for it in made:  # each has its shell before they begin
        it.inner.run(Command(argv=("true",), effect=Effect.READ, timeout=60))
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
    assert sum(isinstance(it, LockHeld) for it in answers) == 1
    assert sum(isinstance(it, LockBusy) for it in answers) == 9


@pytest.mark.parametrize("held", [True, False], ids=["that had it", "that asked"])
def test_what_a_dead_run_left_in_the_way_is_removed(connect, place, held):
    stale = realm(place) / f"lock-{token_hex(8)}-1-99"
    stale.mkdir()
    (stale / "by").write_text("1:99 2:98\nold\nold-x\nrun old\n")
    if held:
        (stale / "held").mkdir()
    (realm(place) / f"new-{token_hex(8)}-1-99").mkdir()
    held_by = connect().take("r1")
    assert isinstance(held_by, LockHeld)
    assert entries(place) == [Path(held_by.place)]


@pytest.mark.parametrize("text", ["", "garbage", "$(touch pwned)\n`id`\n\n", "1:1:1 :: a:b\nx\ny\n", None])
def test_a_broken_lock_keeps_nobody_out(connect, place, text):
    stale = realm(place) / f"lock-{token_hex(8)}-1-99"
    (stale / "held").mkdir(parents=True)
    if text is not None:
        (stale / "by").write_text(text)
    assert isinstance(connect().take("r1"), LockHeld)


def test_a_host_without_a_place_for_a_lock_says_so(connect):
    """Mutants: lock.sh making the first directory, too."""
    one = connect()
    command = ask_lock("r1", "h", "run r1")
    script = 'exec unshare --mount sh -c \'mount -t tmpfs -o ro none /run && exec sh -c "$0" sh "$@"\' "$0" "$@"'
    argv = ("env", "-u", "RUNBOOK_LOCK_PLACES", "sh", "-c", script, command.script, *command.argv)
    (done,) = one.inner.run(Command(argv=argv, effect=Effect.SCRATCH, timeout=60))
    answer = read_lock(done)
    assert isinstance(answer, LockUnavailable)
    assert "/run/runbook: mkdir: cannot create directory" in answer.why
    assert "Read-only file system" in answer.why


def test_names_of_runs_and_hosts_cannot_leave_the_folder(connect, place):
    made = connect()
    assert isinstance(made.take(f"../../{token_hex(4)}", "a/b; touch x"), LockHeld)
    assert len(entries(place)) == 1
    assert [it.name for it in place.parent.iterdir()] == ["lock"]


def test_a_write_that_runs_on_without_us_keeps_the_lock_until_it_ends(sshd, connect, tmp_path, relayed):
    """Mutants: shell_programs.py without ``_KEEP_LOCK``; lock.sh without ``also``."""
    line = relayed((sshd.address, sshd.port))
    one, two = connect(line.port), connect()
    held = one.take("r1")
    assert isinstance(held, LockHeld)
    go, began = tmp_path / "go", tmp_path / "began"
    script = 'touch "$2"; until [ -e "$1" ]; do sleep 0.1; done'
    change = Command(script=script, argv=(str(go), str(began)), effect=Effect.WRITE, timeout=250, lock=held.place)
    running = threading.Thread(target=_run, args=(one.inner, change))
    running.start()
    assert appears(began)
    line.cut()
    running.join(60)
    without_its_holders(held)
    assert isinstance(two.take("r2"), LockBusy)
    go.touch()
    until(lambda: isinstance(two.take("r2"), LockHeld), "the change to end")


STOP = "until [ $(wc -w </proc/$$/task/$$/children) -ge 3 ]; do sleep 0.05; done; kill -s STOP $$"
"""Once the clock and the relays of a change are there, stops its shell."""


@pytest.mark.parametrize("left", ["sleep 300 &", f"{STOP}; sleep 300 &", STOP])
def test_what_a_change_leaves_behind_keeps_no_lock(connect, left):
    """A daemon on the change's stdout, or a shell that the change has stopped.

    Mutants: programs.py without ``runbook_let_lock``; lock.sh that takes what is over for a holder.
    """
    one, two = connect(), connect()
    held = one.take("r1")
    assert isinstance(held, LockHeld)
    (done,) = one.inner.run(Command(script=f"{left}\necho $$ $!", effect=Effect.WRITE, timeout=60, lock=held.place))
    try:
        assert done.exit_code == 0
        one.inner.close()
        without_its_holders(held)
        assert isinstance(two.take("r2"), LockHeld)
    finally:
        for pid in map(int, done.stdout.split()):
            with contextlib.suppress(ProcessLookupError):  # the shell may have ended by then
                os.kill(pid, signal.SIGKILL)


def without_its_holders(held: LockHeld) -> None:
    """Wait until what held the lock for its connection has ended."""
    holders = [holder.split(":")[0] for holder in (Path(held.place) / "by").read_text().splitlines()[0].split()]
    until(lambda: not any(Path("/proc", holder).exists() for holder in holders), "the holders to end")


def _run(connection, change: Command) -> None:
    with contextlib.suppress(Exception):
        connection.run(change)


def test_an_answer_that_did_not_come_is_no_leave_to_go_on():
    assert isinstance(read_lock(Completed(exit_code=None, timed_out=True)), LockBusy)
    assert isinstance(read_lock(Completed(exit_code=4, stderr="no folder")), LockUnavailable)


@pytest.fixture
def logged_in(sshd, interrupt):
    """A function that connects as a user of this machine."""
    with contextlib.ExitStack() as opened:

        def connect(user: str, port: int = sshd.port):
            host = sshd.host(user=user, addresses=(Address(host=sshd.address, port=port),))
            line = transports.load("ssh").connect(host, ConnectOptions(connect_timeout=20), interrupt)
            opened.callback(line.close)
            return line

        yield connect


def taken(line, run: str, become: str = ""):
    """The answer to *run* that asks for the lock of *become*, once no test of another process has it."""

    def answer():
        said = read_lock(line.run(ask_lock(f"{OURS}-{run}", "h", f"run {OURS}-{run} by ann", become))[0])
        return None if isinstance(said, LockBusy) and OURS not in said.why else said

    return until(answer, "no other test to have the lock", within=200)


def given(line, run: str, become: str = "") -> None:
    line.run(ask_unlock(f"{OURS}-{run}", "h", become))


@pytest.mark.real("sudo")
def test_two_people_who_become_the_same_user_keep_each_other_out(logged_in, account):
    """Mutants: host_lock.py ``ask_lock`` without ``become``."""
    one, two = (logged_in(account(sudo="NOPASSWD: ALL")) for _ in range(2))
    held = taken(one, "sudo-1", "root")
    assert isinstance(held, LockHeld)
    assert held.place.startswith("/run/runbook/")
    told = taken(two, "sudo-2", "root")
    assert isinstance(told, LockBusy)
    assert f"run {OURS}-sudo-1 by ann" in told.why
    given(one, "sudo-1", "root")
    assert not Path(held.place).exists()
    assert isinstance(taken(two, "sudo-2", "root"), LockHeld)
    given(two, "sudo-2", "root")


@pytest.mark.real("sudo")
def test_a_user_has_its_own_lock_at_home_also_for_who_becomes_that_user(logged_in, account):
    """Mutants: places.sh ``lock_home`` that takes HOME, or the directory that XDG_RUNTIME_DIR names."""
    ann, bob = account(), account(sudo="NOPASSWD: ALL")
    one, two = logged_in(ann), logged_in(bob)
    held = taken(one, "own-1")
    assert isinstance(held, LockHeld)
    assert held.place.startswith(f"/home/{ann}/.cache/runbook/")
    assert isinstance(taken(two, "own-2", ann), LockBusy)
    assert isinstance(taken(two, "own-2"), LockHeld)
    given(one, "own-1")
    assert isinstance(taken(two, "own-2", ann), LockHeld)


@pytest.mark.real("sudo")
def test_a_change_made_with_sudo_keeps_the_lock_after_the_line_is_cut(sshd, logged_in, account, tmp_path, relayed):
    """Mutants: shell_programs.py without ``_KEEP_LOCK``."""
    relay = relayed((sshd.address, sshd.port))
    one = logged_in(account(sudo="NOPASSWD: ALL"), relay.port)
    two = logged_in(account(sudo="NOPASSWD: ALL"))
    held = taken(one, "cut-1", "root")
    assert isinstance(held, LockHeld)
    go, began = tmp_path / "go", tmp_path / "began"
    script = 'touch "$2"; until [ -e "$1" ]; do sleep 0.1; done'
    change = Command(
        script=script, argv=(str(go), str(began)), effect=Effect.WRITE, timeout=250, lock=held.place, become="root"
    )
    running = threading.Thread(target=_run, args=(one, change))
    running.start()
    assert appears(began)
    relay.cut()
    running.join(60)
    without_its_holders(held)
    told = taken(two, "cut-2", "root")
    assert isinstance(told, LockBusy)
    assert f"run {OURS}-cut-1 by ann" in told.why
    go.touch()
    until(lambda: isinstance(taken(two, "cut-2", "root"), LockHeld), "the change to end")
    given(two, "cut-2", "root")


def test_a_change_is_not_begun_once_the_lock_is_gone(connect, tmp_path):
    """Mutants: shell_programs.py that goes on whatever becomes of the lock; without ``gone``."""
    one = connect()
    for number, spoil in enumerate(("gone", "held")):
        held = one.take("r", f"h{number}")
        assert isinstance(held, LockHeld)
        if spoil == "gone":
            (Path(held.place) / "gone").mkdir()
        else:
            (Path(held.place) / "held").rmdir()
        made = tmp_path / spoil
        (done,) = one.inner.run(Command(argv=("touch", str(made)), effect=Effect.WRITE, timeout=20, lock=held.place))
        assert (done.exit_code, made.exists()) == (75, False)
        assert "the host's lock could not be kept, and nothing was started" in done.stderr


def test_a_change_that_runs_on_keeps_the_lock_also_when_it_is_given_back(connect, tmp_path):
    """Mutants: lock.sh ``lock_give`` without ``also``."""
    one, two = connect(), connect()
    held = one.take("r1")
    assert isinstance(held, LockHeld)
    alive = Path("/proc/self/stat").read_text().rpartition(") ")[2].split()[19]
    (Path(held.place) / "also").write_text(f"{os.getpid()}:{alive}\n")
    one.ask(ask_unlock("r1", "h"))
    assert Path(held.place).exists()
    one.inner.close()
    assert isinstance(two.take("r2"), LockBusy)
