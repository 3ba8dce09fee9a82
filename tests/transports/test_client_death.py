"""What is left on the host when our side is gone."""

from __future__ import annotations

import threading
import time

import pytest

from runbook.errors import Cancelled, ConnectionLost
from runbook.protocols import ConnectOptions
from runbook.values.inventory import Host
from runbook.values.result import Status
from tests.support.real_processes import gone, living, shows_up
from tests.support.waiting import appears, reads
from tests.transports.client_process import begun, killed
from tests.transports.commands import change, look, script
from tests.transports.direct_steps import sent


def test_what_is_owed_may_still_be_looked_at_when_the_run_was_asked_to_end_once(connection, interrupt):
    """Mutants: command_run.py ending every probe at the first wish."""
    interrupt.pressed = 1
    (done,) = connection.run(look("echo", "hi", owed=True))
    assert (done.exit_code, done.stdout) == (0, "hi\n")
    with pytest.raises(Cancelled):
        connection.run(look("sleep", "5"))


def test_kill_9_of_our_side_ends_a_look_on_the_host(host, tmp_path, mark):
    text = f"trap '' TERM HUP; echo > {tmp_path}/begun; sleep {mark}; sleep {mark}"
    process, _ = begun(host, "read", text, (600,), tmp_path / "begun")
    assert shows_up(mark)
    killed(process)
    assert gone(mark)


def test_what_ends_at_once_leaves_no_watcher_behind(interrupt, tmp_path):
    """Mutants: agent.sh that looks at no signal which comes before its sleep is known; that has a trap for TERM."""
    from runbook.connections.transports import local

    connection = local.connect(Host(name="here"), ConnectOptions(), interrupt)
    for _ in range(40):
        connection.run(change(":", timeout=86_311.0))
        connection.run(script(":", timeout=86_301.0))
    connection.close()
    assert gone("sleep 86311")


def test_kill_9_of_our_side_lets_a_write_run_to_its_end_once(host, tmp_path, mark):
    log = tmp_path / "log"
    text = f"echo begun >> {log}; echo noise; sleep 1.5; echo noise; echo noise >&2; echo ended >> {log}; : {mark}"
    process, _ = begun(host, "write", text, (60,), log)
    killed(process)
    assert reads(log, "begun\nended\n")
    time.sleep(0.5)  # noqa: TID251 that it is not begun again shows with time only
    assert log.read_text() == "begun\nended\n"


def test_kill_9_of_our_side_lets_a_write_run_no_longer_than_its_timeout(host, tmp_path, mark):
    for limit in (3, 20, 60):  # what is past its timeout already, on a slow machine, shows nothing
        there, began = tmp_path / f"begun{limit}", time.monotonic()
        text = f"echo > {there}; trap '' TERM; sleep {mark}; sleep {mark}"
        process, _ = begun(host, "write", text, (limit, 60), there)
        killed(process)
        time.sleep(1)  # noqa: TID251 anybody who would end it with our side has the time to
        lived, spent = bool(living(mark)), time.monotonic() - began
        assert gone(mark)
        if lived or spent < limit:
            break
    assert lived, "a write is not ended because our side is gone"


@pytest.mark.real("sshd", "root")
@pytest.mark.parametrize("effect", ["read", "write"])
def test_a_line_that_is_cut_is_a_lost_connection_and_not_an_answer(effect, tmp_path, interrupt, mark):
    from runbook.connections.transports import ssh
    from tests.support.sshd import start_sshd

    def cut() -> None:
        assert appears(log)
        assert effect == "write" or shows_up(mark)
        server.cut()

    server, log, go = start_sshd(tmp_path / "sshd"), tmp_path / "log", tmp_path / "go"
    try:
        connection = ssh.connect(server.host(), ConnectOptions(), interrupt)
        assert connection.run(look("true"))[0].exit_code == 0
        cutting = threading.Thread(target=cut)
        cutting.start()
        make = change if effect == "write" else script
        waits = f"until [ -e {go} ]; do sleep 0.1; done" if effect == "write" else f"sleep {mark}"
        text = f"echo x >> {log}; {waits}; echo y >> {log}"
        with pytest.raises(ConnectionLost):
            connection.run(make(text, timeout=60))
        cutting.join()
        with pytest.raises(ConnectionLost):
            connection.run(look("true"))
        connection.close()
        if effect == "read":
            assert gone(mark), "a probe ends with its line"
        go.touch()
        assert reads(log, "x\ny\n" if effect == "write" else "x\n")
        time.sleep(0.5)  # noqa: TID251 that nothing is begun again shows with time only
        assert log.read_text() == ("x\ny\n" if effect == "write" else "x\n")
    finally:
        server.stop()


@pytest.mark.real("sshd", "root")
@pytest.mark.parametrize(
    "blow",
    [
        "kill -9 $PPID; sleep 30",
        "kill -9 0",
        "kill -9 -1",
        "pkill -9 -u $(id -u) cat; echo lost",
        "pkill -9 -u $(id -u) -x sh; sleep 30",
        "setsid sleep 30 & sleep 0.1; kill -9 0",
    ],
)
def test_a_write_that_kills_what_runs_it_is_unknown_at_once(blow, account, sshd, interrupt):
    from runbook.connections.transports import ssh

    connection = ssh.connect(sshd.host(user=account()), ConnectOptions(), interrupt)
    connection.run(look("true"))
    began = time.monotonic()
    done = sent(connection, change(blow, timeout=250.0))
    assert time.monotonic() - began < 60
    assert (done.status, done.sent) == (Status.UNKNOWN, True)
    assert len(done.why.splitlines()) == 1
    connection.close()


@pytest.mark.real("sshd", "root")
def test_a_write_whose_watchdog_was_killed_is_still_waited_for_and_the_next_one_has_a_new_watchdog(
    account, sshd, interrupt
):
    from runbook.connections.transports import ssh

    connection = ssh.connect(sshd.host(user=account()), ConnectOptions(), interrupt)
    others = "for p in $(pgrep -u $(id -u) -x sh); do g=$(ps -o pgid= -p $p); [ $g = $(ps -o pgid= -p $$) ] || kill -9 $p; done"
    connection.run(look("true"))
    (done,) = connection.run(change(f"{others}; sleep 0.5; echo done"))
    assert done.stdout == "done\n"
    (slow,) = connection.run(change("sleep 30", timeout=1.0))
    assert slow.timed_out
    assert not slow.survivors
    connection.close()


@pytest.mark.real("sshd", "root")
def test_a_line_that_is_gone_before_the_write_is_sent_leaves_no_doubt(interrupt, tmp_path):
    from runbook.connections.transports import ssh
    from tests.support.sshd import start_sshd

    server = start_sshd(tmp_path / "sshd")
    try:
        connection = ssh.connect(server.host(), ConnectOptions(), interrupt)
        assert connection.run(look("true"))[0].exit_code == 0
        server.cut()
        done = sent(connection, change(f"echo x >> {tmp_path}/log"), finally_=(change("true"),))
        assert (done.status, done.sent, done.commands) == (Status.UNREACHABLE, False, [])
        assert done.why.startswith("the connection was lost before this command was sent: echo x")
        assert done.lost
        assert not (tmp_path / "log").exists()
        connection.close()
    finally:
        server.stop()
