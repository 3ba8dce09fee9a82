"""Probes of authors run where no file system can be written: as root, in a mount namespace of their session's."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path
from uuid import uuid4

import pytest

from runbook.connections.sessions.programs import confine, greeting
from runbook.connections.transports import local
from runbook.errors import Cancelled
from runbook.protocols import ConnectOptions
from runbook.values.command import Completed
from runbook.values.inventory import Host
from tests.support.real_processes import each, gone, shell, shows_up
from tests.support.waiting import LIMIT
from tests.transports.client_process import killed, started
from tests.transports.commands import change, look, script
from tests.transports.ssh_login import connected

pytestmark = pytest.mark.real("root", "lab")

SAYS = ("Read-only file system", "Errno 30")


def confined(text: str, *argv: str, **keys):
    return script(text, *argv, foreign=True, confined=True, **keys)


def test_a_program_of_the_authors_writes_nothing(connection, tmp_path):
    """Mutants: connection.py that takes the plain session; confinement.sh that leaves out a mount, or remounts none."""
    name = f"runbook-confined-{uuid4().hex}"
    texts = (
        f"python3 -c \"open('{tmp_path}/x', 'w')\"",
        f"awk 'BEGIN {{ print 1 > \"{tmp_path}/x\" }}'",
        f"sh -c 'echo x >{tmp_path}/x'",
        f"echo x >{tmp_path}/x",
        f"mkdir {tmp_path}/x",
        f"touch {tmp_path}",
        f"echo x >/var/tmp/{name}",
        f"echo x >/run/{name}",
    )
    before = os.stat(tmp_path)
    for text, done in zip(texts, connection.run(*map(confined, texts)), strict=True):
        assert done.unconfined == "", done.unconfined
        assert any(word in done.stderr for word in SAYS) or "not found" in done.stderr, (text, done)
    assert os.stat(tmp_path) == before
    assert os.listdir(tmp_path) == []
    assert not Path(f"/var/tmp/{name}").exists()
    assert not Path(f"/run/{name}").exists()


def test_it_reads_as_ever_and_has_a_place_for_temporary_files(connection, tmp_path):
    """Mutants: a private /tmp; no TMPDIR."""
    (tmp_path / "log").write_text("line\n")
    text = f'cat {tmp_path}/log; echo x >/dev/null && echo x >"$TMPDIR/x" && cat "$TMPDIR/x"; cat; pwd'
    (done,) = connection.run(confined(text, stdin="in\n", cwd="/usr"))
    assert (done.stdout, done.stderr, done.exit_code) == ("line\nx\nin\n/usr\n", "", 0)


def test_others_are_where_they_were(connection, tmp_path):
    """Mutants: every probe confined; a change that is sent to the confined session."""
    mounts = script("readlink /proc/self/ns/mnt")
    plain, own, again = connection.run(mounts, confined(mounts.script), mounts)
    assert plain.stdout == again.stdout != own.stdout
    (written,) = connection.run(change(f"echo x >{tmp_path}/x; readlink /proc/self/ns/mnt"))
    assert (written.stdout, (tmp_path / "x").read_text()) == (plain.stdout, "x\n")


def test_a_session_has_one_namespace_until_something_is_changed(connection):
    """Mutants: a namespace for each command; one that outlives a change."""
    ask = confined("readlink /proc/self/ns/mnt; echo $$")
    first, second = connection.run(ask, ask)
    (third,) = connection.run(ask)
    assert first.stdout == second.stdout == third.stdout
    connection.run(change("true"))
    (fourth,) = connection.run(ask)
    assert fourth.stdout.splitlines()[1] != first.stdout.splitlines()[1]


def test_what_is_mounted_by_a_change_is_there_for_the_next_probe(connection, tmp_path):
    """Mutant: ``_leave_namespaces`` not called."""
    (tmp_path / "on").mkdir()
    ask = confined(f"ls {tmp_path}/on; echo x >{tmp_path}/on/x")
    connection.run(ask)
    try:
        connection.run(change(f"mount -t tmpfs none {tmp_path}/on && mkdir {tmp_path}/on/made"))
        (done,) = connection.run(ask)
        assert (done.stdout, done.unconfined) == ("made\n", "")
        assert SAYS[0] in done.stderr
    finally:
        connection.run(change(f"umount {tmp_path}/on"))


def test_its_time_is_up(connection, mark):
    """Mutant: a confined session without watchers, whose greeting is not sent again."""
    (done,) = connection.run(confined(f"trap '' TERM; setsid sleep 1{mark} & sleep {mark}; sleep {mark}", timeout=1.5))
    assert (done.timed_out, done.survivors) == (True, ())
    assert gone(f"sleep {mark}")
    assert gone(f"sleep 1{mark}")
    assert connection.run(confined("echo on"))[0].stdout == "on\n"


def test_what_it_leaves_behind_is_ended(connection, mark):
    (done,) = connection.run(confined(f"setsid sleep {mark} & echo hi"))
    assert done.stdout == "hi\n"
    assert gone(f"sleep {mark}")


def test_a_run_that_is_asked_to_stop(connection, interrupt, mark):
    def press() -> None:
        assert shows_up(f"sleep {mark}")
        interrupt.pressed = 1

    pressing = threading.Thread(target=press)
    pressing.start()
    with pytest.raises(Cancelled):
        connection.run(confined(f"trap '' TERM; sleep {mark}; sleep {mark}"))
    pressing.join()
    assert gone(f"sleep {mark}")


def test_kill_9_of_our_side(host, tmp_path, mark):
    text = f"trap '' TERM HUP; exec 9<{tmp_path}; sleep {mark}; sleep {mark}"
    process = started(host, "confined", text, 600)
    assert shows_up(f"sleep {mark}")
    killed(process)
    assert gone(f"sleep {mark}")


@pytest.mark.real("sshd")
def test_without_root_nothing_is_claimed(sshd, account, interrupt):
    """Mutants: ``unconfined`` left empty; ``root`` of a greeting always yes."""
    there = connected(sshd.host(user=account()), interrupt)
    _, done, plain = there.run(look("true"), confined("echo hi >$HOME/x; cat $HOME/x"), look("true"))
    assert (done.stdout, done.unconfined, plain.unconfined) == ("hi\n", "only root can be kept from writing", "")
    there.close()


@pytest.mark.real("sshd", "sudo")
def test_root_by_sudo_is_confined_and_the_user_himself_is_not(sshd, account, interrupt, tmp_path):
    there = connected(sshd.host(user=account(sudo="NOPASSWD: ALL")), interrupt)
    root, user = there.run(confined(f"echo x >{tmp_path}/x", become="root"), confined("echo hi"))
    assert (SAYS[0] in root.stderr, root.unconfined) == (True, "")
    assert (user.stdout, bool(user.unconfined)) == ("hi\n", True)
    there.close()


@pytest.mark.parametrize("name", each(("dash", "bash", "busybox", "only busybox")))
def test_every_shell_enters_it(name, tmp_path):
    """Mutant: what one of them does not know, in confine.sh or confinement.sh."""
    (tmp_path / "a b").mkdir()
    words = shell(name, tmp_path)
    link = tmp_path / "bin"
    link.mkdir()
    if len(words) < 3:
        (link / "sh").write_text(f'#!/bin/{words[0]}\nexec {" ".join(words)} "$@"\n')
        (link / "sh").chmod(0o755)
        words = ("env", f"PATH={link}:{os.environ['PATH']}", *words)
    odd = tmp_path / "a b" / "x\\y"
    odd.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "nosuid", "none", odd], check=True)
    try:
        again = f"echo x >'{odd}/x'; grep 'x.134y ' /proc/self/mountinfo; echo over\n"
        with subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1
        ) as process:
            assert process.stdin
            assert process.stdout
            process.stdin.write(greeting("here") + confine("here"))
            said = next(line for line in process.stdout if line.startswith("confined"))
            assert said == "confined here yes\n"
            process.stdin.write(again)
            process.stdin.flush()
            rest = []
            while not rest or rest[-1] != "over\n":
                rest.append(process.stdout.readline())
            process.stdin.close()
        assert "ead-only file system" in "".join(rest)
        assert " ro,nosuid" in "".join(rest)
        assert not list(odd.iterdir())
    finally:
        subprocess.run(["umount", odd], check=True)


@pytest.mark.real("busybox")
def test_nothing_of_the_text_is_left_to_the_shell_within(tmp_path):
    """Mutant: a ``confine`` that is not one command, of which a shell may have read a part when it is replaced."""
    words = shell("busybox", tmp_path)
    for more in range(0, 1024, 128):  # it reads 1023 bytes at once
        text = f": {'x' * more}\n{greeting('here')}{confine('here')}"
        with subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            process.stdin.write(text)
            process.stdin.flush()
            assert next(line for line in process.stdout if line.startswith("confined")) == "confined here yes\n"
            said, _ = process.communicate("echo over\n", timeout=LIMIT)
        assert said == "over\n", more


@pytest.fixture
def instead(tmp_path, interrupt):
    """What a confined write says where another program stands before `mount` or `unshare` in PATH."""
    tools = Path("/usr/local/lib/runbook-test-confined")  # which root believes

    def written(name: str, text: str, **options) -> Completed:
        tools.mkdir()
        (tools / name).write_text(f"#!/bin/sh\n{text}")
        (tools / name).chmod(0o755)
        path = os.environ["PATH"]
        os.environ["PATH"] = f"{tools}:{path}"
        try:
            there = local.connect(Host(name="here"), ConnectOptions(**options), interrupt)
            (done,) = there.run(confined(f"echo x >{tmp_path}/x"))
            there.close()
        finally:
            os.environ["PATH"] = path
            (tools / name).unlink()
            tools.rmdir()
        return done

    return written


def test_a_mount_that_stays_writable_is_no_confinement(instead, tmp_path):
    """Mutant: confinement.sh that does not look again at what it has remounted."""
    done = instead("mount", 'case $* in *remount*/*) exit 0 ;; esac\nexec /bin/mount "$@"\n')
    assert "cannot be made read-only" in done.unconfined
    assert (tmp_path / "x").exists()


def test_a_mount_that_turns_up_meanwhile_is_made_read_only_too(instead, tmp_path):
    """Mutant: confinement.sh with a single try."""
    seen = tmp_path / "seen"
    first = f'case $* in *remount*"{tmp_path.parts[1]}"* | *remount*" /") [ -e {seen} ] || {{ : >{seen}; exit 0; }} ;; esac\n'
    done = instead("mount", f'{first}exec /bin/mount "$@"\n')
    assert seen.exists()
    assert (done.unconfined, (tmp_path / "x").exists()) == ("", False)


def test_a_host_that_does_not_say_in_time_whether_it_can_is_not_believed(instead, tmp_path):
    """Mutant: connection.py that takes the plain session after any refusal."""
    done = instead("unshare", "exec sleep 60\n", shell_within=1.0)
    assert done.exit_code is None
    assert "to keep it from writing: no shell answers within 1 s" in done.refused
    assert not (tmp_path / "x").exists()
