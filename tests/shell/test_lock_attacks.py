"""The lock against other users of the host, killed runs and crowds: nobody else can hold, forge or redirect it."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from runbook.onhost.host_lock import LockBusy, LockHeld, LockUnavailable, ask_lock, ask_locks, ask_unlock, read_lock
from runbook.values.command import Command, Completed, Effect
from tests.support.another_user import SHELLS, STRANGER, directory, exchange_before, give, swapping
from tests.support.own_run import Room
from tests.support.waiting import until

pytestmark = pytest.mark.real("root", "setpriv", "lab")

CROWD = os.environ.get("RUNBOOK_TEST_CROWD", "6x8")
"""How many processes try to take one lock at the same time, and how often each."""


@pytest.fixture
def room() -> Iterator[Room]:
    made = Room()
    yield made
    made.keeper.kill()
    made.keeper.communicate()


def lives_on(group: int) -> bool:
    """Whether a process of *group* is more than its remains."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, theirs, *_ = stat.read_text().rpartition(") ")[2].split()
            if theirs == str(group) and state not in "ZX":
                return True
    return False


def alive() -> str:
    """This process, as a forged lock would name it."""
    return f"{os.getpid()}:{Path('/proc/self/stat').read_text().rpartition(') ')[2].split()[19]}"


def plant(kind: str, place: Path, victim: Path) -> None:
    """What a stranger leaves where earlier versions had their locks."""
    lock = give(directory(place / "runbook-0-r1-h.lock"))
    other = give(directory(place / "runbook-7-x.lock"))
    if kind == "a link as by":
        for it in (lock, other):
            (it / "by").symlink_to(victim)
    elif kind == "a fifo as by":
        for it in (lock, other):
            os.mkfifo(it / "by")
    elif kind == "endless also":
        (other / "by").write_text("1:1\nx\nwords of a stranger\n")
        for it in (lock, other):
            (it / "also").symlink_to("/dev/urandom")
    elif kind == "a forged pid":
        (other / "by").write_text(f"{alive()}\nx\nwords of a stranger\n")
    elif kind == "a guard":
        give(directory(place / "runbook.guard"))
        (place / "runbook.guard" / "x").touch()
    elif kind == "a link as runbook":
        give_link = place / "runbook"
        give_link.symlink_to(victim)


ATTACKS = ["a link as by", "a fifo as by", "endless also", "a forged pid", "a guard", "a link as runbook"]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("kind", ATTACKS)
def test_what_a_stranger_leaves_in_run_lock_neither_blocks_nor_speaks_nor_redirects(kind, shell, room, ground):
    victim = ground / "shadow"
    victim.write_text("root:secret\n")
    plant(kind, room.run / "lock", victim)
    planted = sorted(room.run.glob("lock/**/*"))
    answer = room.take(shell=shell)
    assert isinstance(answer, LockHeld)
    assert answer.place.startswith("/run/runbook/")
    room.give()
    assert (victim.read_text(), room.entries()) == ("root:secret\n", [])
    assert sorted(room.run.glob("lock/**/*")) == planted
    assert (room.run / "runbook").stat().st_mode & 0o777 == 0o700


_PLANTER = """
mkdir /run/lock/runbook-0-r1-h.lock /run/lock/runbook-0-r1-h.lock/keep && echo ready
while :; do
    ln -s "$1" /run/lock/runbook-0-r1-h.lock/by; ln -s "$1" /run/lock/runbook-0-r1-h.lock/also
    ln -s "$1" /run/lock/runbook; ln -s "$1" /run/runbook; sleep 0.01
done
"""


@pytest.mark.soak
def test_whoever_plants_links_again_and_again_redirects_no_write_of_roots(room, ground):
    victim = ground / "shadow"
    victim.write_text("root:secret\n")
    as_stranger = ["setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups", "sh", "-c"]
    argv = ["nsenter", "--target", str(room.keeper.pid), "--mount", *as_stranger, _PLANTER, "sh", str(victim)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as planter:
        assert planter.stdout
        assert planter.stdout.readline() == "ready\n"
        try:
            for _ in range(20):
                assert isinstance(room.take(), LockHeld)
                room.give()
        finally:
            planter.kill()
    assert (victim.read_text(), room.entries()) == ("root:secret\n", [])


@pytest.mark.parametrize("kind", ["a stranger's", "a link to a stranger's", "open to all", "a file", "of a group"])
def test_a_directory_of_locks_that_is_not_roots_alone_counts_as_none_and_that_is_said(kind, room):
    place, theirs = room.run / "runbook", room.run / "theirs"
    if kind == "a file":
        place.write_text("x")
    elif kind == "a link to a stranger's":
        give(directory(theirs))
        place.symlink_to("/run/theirs")
    else:
        directory(place, {"open to all": 0o777, "of a group": 0o770}.get(kind, 0o755))
        os.chown(place, STRANGER if kind == "a stranger's" else 0, STRANGER)
    answer = room.take()
    assert isinstance(answer, LockUnavailable)
    assert "/run/" in answer.why
    if kind == "a stranger's":
        assert f"/run/runbook belongs to {STRANGER}, who could exchange what is in it meanwhile" in answer.why
    made = [*room.run.glob("runbook/*"), *room.run.glob("theirs/*")] if kind != "a file" else []
    assert [it for it in made if it.is_dir() and [*it.iterdir()]] == []


def test_the_environment_names_only_a_directory_that_this_user_has_set_apart(room, ground):
    """Mutants: places.sh ``lock_declared`` without the mark, without the mode, or without the owner."""
    good = directory(ground / "good", 0o700)
    (good / ".runbook-locks").touch()
    answer = room.take("r0", told=good)
    assert isinstance(answer, LockHeld)
    assert answer.place.startswith(f"{good}/")
    unmarked, open_ = directory(ground / "unmarked", 0o700), directory(ground / "open")
    theirs, theirs_marked = give(directory(ground / "theirs", 0o700)), directory(ground / "marked", 0o700)
    (ground / "link").symlink_to(theirs)
    for it in (open_, theirs):
        (it / ".runbook-locks").touch()
    (theirs_marked / ".runbook-locks").touch()
    give(theirs_marked / ".runbook-locks")
    for number, it in enumerate((unmarked, open_, theirs, theirs_marked, ground / "link", "relative", f"{good}\n")):
        answer = room.take(f"r{number}", told=it)
        assert isinstance(answer, LockHeld), it
        assert answer.place.startswith("/run/runbook/"), it
        room.give(f"r{number}")


@pytest.mark.parametrize("first", ["directory", "link"])
def test_whoever_exchanges_directories_right_before_each_step_gets_no_lock_of_roots(room, ground, first):
    roots = directory(ground / "roots", 0o700)
    (roots / ".runbook-locks").touch()
    yard = directory(ground / "yard", 0o1777)
    command = ask_lock("r1", "h", "run r1 by ann")
    exchange = exchange_before(["cd", "stat", "ls"], yard, roots, first)
    argv = room.argv(replace(command, script=exchange + command.script), told=yard / "place")
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, cwd="/")
    answer = read_lock(Completed(exit_code=done.returncode, stdout=done.stdout, stderr=done.stderr))
    assert isinstance(answer, LockHeld)
    assert answer.place.startswith("/run/runbook/")
    assert [it.name for it in roots.iterdir()] == [".runbook-locks"]


@pytest.mark.soak
def test_whoever_exchanges_directories_gets_no_lock_of_roots_in_200_tries(room, ground):
    roots = directory(ground / "roots")
    yard = directory(ground / "yard", 0o1777)
    script = ask_lock("", "", "").script
    again = 'i=0; while [ $i -lt 200 ]; do i=$((i+1)); ( set -- place; eval "$0"; pwd -P ); done'
    with swapping(yard, roots):
        argv = room.argv(Command(script=again, effect=Effect.SCRATCH), told=yard / "place")
        done = subprocess.run([*argv[:-1], script], capture_output=True, text=True, timeout=400, cwd="/")
    places = done.stdout.splitlines()
    assert [len(places), *{it.rpartition("/")[0] for it in places}] == [200, "/run/runbook"]
    assert [*roots.iterdir()] == []


@pytest.mark.parametrize("kind", ["a fifo", "endless", "a link", "a directory", "long", "escapes"])
def test_a_spoilt_entry_of_our_own_is_read_within_bounds(kind, room):
    """Mutants: lock.sh ``lock_text`` without its kinds or its bound."""
    first = room.take("r0")
    assert isinstance(first, LockHeld)
    by = room.run / Path(first.place).relative_to("/run") / "by"
    keys, *rest = by.read_text().splitlines()
    by.unlink()
    if kind == "a fifo":
        os.mkfifo(by)
    elif kind == "a directory":
        by.mkdir()
    elif kind in ("endless", "a link"):
        by.symlink_to("/dev/zero" if kind == "endless" else "/etc/shadow")
    else:
        words = "x" * 2_000_000 if kind == "long" else "\x1b[31mred\x07"
        by.write_text("\n".join([keys, *rest[:2], words]) + "\n")
    answer = room.take("r1")
    if kind in ("long", "escapes"):
        assert isinstance(answer, LockBusy)
        assert len(answer.why) < 5000
        assert answer.why.isprintable()
    else:
        assert isinstance(answer, LockHeld)


_SESSION = 'setsid "$@" & echo "$!"; wait'
"""What stands for sshd and for the shell that it starts: both end when a connection does."""


@pytest.mark.parametrize(
    "moments", [range(20, 25), pytest.param(range(20), marks=pytest.mark.soak)], ids=["seen", "any"]
)
@pytest.mark.parametrize("shell", SHELLS)
def test_whoever_is_killed_at_any_moment_leaves_no_lock_behind(shell, room, moments):
    """Mutants: lock.sh ``lock_state`` that takes everything it finds for alive."""
    command = ask_lock("dead", "h", "run dead")
    before: set[str] = set()
    for number in moments:
        inside = ["nsenter", "--target", str(room.keeper.pid), "--mount", "env", "RUNBOOK_LOCK_PLACES=", *shell]
        argv = [*inside, "-c", '( eval "$0" ); sleep 60', command.script, *command.argv]
        line = subprocess.Popen(["dash", "-c", _SESSION, "sh", *argv], stdout=subprocess.PIPE, text=True, cwd="/")
        assert line.stdout
        leader = int(line.stdout.readline())
        until(lambda leader=leader: os.getpgid(leader) == leader)
        if number < 20:
            time.sleep(0.015 * number)  # noqa: TID251 wherever it is by then
        else:
            until(lambda held=number > 22: [*room.run.glob(f"runbook/*/lock-*{'/held' if held else ''}")])
        before |= {it.name.split("-")[0] for it in room.entries()}
        line.kill()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(leader, signal.SIGKILL)
        line.communicate(timeout=60)
        until(lambda leader=leader: not lives_on(leader))  # a signal takes its time where there is much to do
        answer = room.take("after", shell)
        assert isinstance(answer, LockHeld)
        assert [it.name for it in room.entries()] == [Path(answer.place).name]
        room.give("after")
        assert room.entries() == []
    assert "lock" in before or 24 not in moments


_CROWD = r"""
i=0 got=0
while [ "$i" -lt "$TIMES" ]; do
    i=$((i + 1))
    said=$( ( set -- take "crowd-$ME" "crowd-$ME" "run crowd-$ME"; eval "$SCRIPT" ) 2>&1)
    case $said in
        held*) ;;
        busy*) continue ;;
        *) echo "odd: $said"; continue ;;
    esac
    mkdir "$INSIDE" 2>/dev/null || echo "two: $said"
    got=$((got + 1))
    rmdir "$INSIDE" 2>/dev/null || echo "two: $said"
    ( set -- give "crowd-$ME" "crowd-$ME"; eval "$SCRIPT" ) >/dev/null 2>&1
done
echo "got $got"
"""


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_of_a_crowd_never_two_have_it_and_it_never_sticks(room, ground):
    """Mutants: lock.sh ``lock_look`` that does not wait for who asks behind it, or gives way to nobody that asks."""
    many, times = map(int, CROWD.split("x"))
    script = ask_lock("", "", "").script
    crowd = []
    for number in range(many):
        env = {"ME": str(number), "TIMES": str(times), "SCRIPT": script, "INSIDE": f"{ground}/inside"}
        argv = ["nsenter", "--target", str(room.keeper.pid), "--mount", "dash", "-c", _CROWD]
        crowd.append(
            subprocess.Popen(argv, env={"PATH": os.environ["PATH"], **env}, stdout=subprocess.PIPE, text=True, cwd="/")
        )
    said = [it.communicate(timeout=3000)[0].splitlines() for it in crowd]
    assert [line for lines in said for line in lines if not line.startswith("got ")] == []
    assert sum(int(lines[-1].removeprefix("got ")) for lines in said) >= 1
    assert room.entries() == []
    assert isinstance(room.take(), LockHeld)


WRITES = re.compile(r"O_CREAT|O_WRONLY|O_RDWR|O_TRUNC")


@pytest.mark.parametrize("inodes", [2, 3], ids=["no directory can be made", "no file"])
def test_a_full_directory_of_locks_is_told_at_once(room, inodes):
    """Mutant: a loop whose counter another function sets, so that it never ends."""
    room.take()
    room.give()
    (room.run / "runbook").mkdir(mode=0o700, exist_ok=True)
    inside = ["nsenter", "--target", str(room.keeper.pid), "--mount", "mount", "-t", "tmpfs"]
    subprocess.run([*inside, "-o", f"mode=700,nr_inodes={inodes}", "none", "/run/runbook"], check=True)
    answer = room.take()
    assert isinstance(answer, LockUnavailable)
    assert "No space left on device" in answer.why


@pytest.mark.real("strace")
def test_nothing_outside_of_the_directory_of_locks_is_made_or_changed(room, tmp_path):
    calls = "mkdir,mkdirat,rename,renameat,renameat2,unlink,unlinkat,rmdir,open,openat,creat,link,linkat,symlink"
    calls += ",symlinkat,chmod,fchmodat,chown,fchownat,truncate,mknod,mknodat,utimensat"
    seen: list[str] = []
    for number, command in enumerate((ask_lock("r1", "h", "run r1 by ann"), ask_unlock("r1", "h"))):
        log = tmp_path / str(number)
        argv = room.argv(command)
        at = argv.index("dash")
        argv[at:at] = ["strace", "-f", "-y", "-e", f"trace={calls}", "-o", str(log)]
        subprocess.run(argv, check=True, capture_output=True, timeout=60, cwd="/")
        seen += log.read_text().splitlines()
    changes = [it for it in seen if ("open" not in it or WRITES.search(it)) and "ENOENT" not in it and "(" in it]
    assert any("mkdir" in it for it in changes)
    outside = []
    for it in changes:
        where = re.search(r'(?:AT_FDCWD<([^>]*)>|\d+<([^>]*)>), "([^"]*)"', it) or re.search(r'()()\("([^"]*)"', it)
        if not where:
            continue
        path = os.path.normpath(os.path.join(where[1] or where[2] or "?", where[3]))
        if not path.startswith(("/run/runbook", "?")) and path != "/dev/null":
            outside.append(it)
    assert outside == []
    assert room.entries() == []


@pytest.mark.parametrize("there", ["/run", "neither"])
def test_a_place_that_is_not_there_is_no_doubt_behind_one_that_holds_no_lock(room, there):
    """As /run/user/UID behind the home of who logs in: here, /var/run behind /run.

    Mutants: lock.sh ``lock_in`` without ``empty``; with ``empty`` before any place was seen.
    """
    paths = {"/run": ("/run", "/no-such"), "neither": ("/not-here", "/no-such")}[there]
    command = ask_locks()
    script = command.script.replace(
        "lock_in /run runbook || lock_in /var/run", f"lock_in {paths[0]} runbook || lock_in {paths[1]}"
    )
    assert script != command.script
    done = subprocess.run(
        room.argv(replace(command, script=script)), capture_output=True, text=True, timeout=60, cwd="/"
    )
    if there == "/run":
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    else:
        assert done.returncode == 4
        assert "there is no directory /not-here; there is no directory /no-such" in done.stderr


def test_who_logs_in_without_a_runtime_directory_has_no_lock():
    """The home of another user than root, who has no /run/user/UID.  Mutant: lock.sh ``lock_in`` without ``empty``."""
    user = next(it for it in pwd.getpwall() if it.pw_uid and len(it.pw_dir) > 1 and Path(it.pw_dir).is_dir() and not Path(f"/run/user/{it.pw_uid}").exists())  # fmt: skip
    by = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    command = ask_locks()
    argv = [*by, "env", "-u", "RUNBOOK_LOCK_PLACES", "dash", "-c", command.script, "sh", *command.argv]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, cwd="/")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
