"""Getting in over sshd: keepalives, host keys, users, and shells of every kind."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from pathlib import Path

import paramiko
import pytest

from runbook.connections.sessions import shell as sessions_shell
from runbook.connections.transports.ssh import keepalive
from runbook.errors import ConnectionLost, Unreachable
from runbook.lab import ssh_server
from runbook.values.inventory import Address, HostKeys
from tests.support.real_processes import gone
from tests.support.sshd import start_sshd
from tests.support.waiting import appears
from tests.transports.commands import change, look, script
from tests.transports.ssh_login import connected, refusal

pytestmark = pytest.mark.real("sshd", "root")


def test_a_server_that_never_opens_a_channel_is_given_up(sshd, interrupt, monkeypatch):
    """Mutants: connection.py that opens a channel without a limit."""
    over = threading.Event()
    monkeypatch.setattr(ssh_server._Door, "check_channel_request", lambda *_: over.wait(120))
    key = paramiko.RSAKey.generate(2048)
    allowed = frozenset({Path(f"{sshd.key}.pub").read_text().split()[1]})
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = threading.Thread(target=lambda: ssh_server._serve(listener.accept()[0], key, allowed), daemon=True)
        serving.start()
        there = Address(host="127.0.0.1", port=listener.getsockname()[1])
        host = sshd.host(addresses=(there,))
        connection = connected(host, interrupt, shell_within=0.5)
        began = time.monotonic()
        with pytest.raises(ConnectionLost):
            connection.run(look("true"))
        assert 0.5 <= time.monotonic() - began < 60
        over.set()
        connection.close()
        serving.join(60)


SILENT = 5.0
"""Seconds of silence after which the server of the next tests counts as dead; it is asked as often."""


@pytest.fixture
def quickly_dead(monkeypatch):
    monkeypatch.setattr(keepalive, "UNANSWERED", 1)


def test_a_server_that_has_stopped_while_its_kernel_answers_is_noticed_by_its_keepalives(
    sshd, interrupt, quickly_dead, tmp_path
):
    """Mutants: keepalive.py that never hangs up; connection.py with paramiko's own keepalive."""
    connection = connected(sshd.host(), interrupt, keepalive=SILENT)
    assert connection.run(look("echo", "in"))[0].stdout == "in\n"
    before = sshd.sessions()

    def stop() -> None:
        appears(tmp_path / "begun")
        for pid in before:
            os.kill(pid, signal.SIGSTOP)

    stopper = threading.Thread(target=stop)
    stopper.start()
    try:
        with pytest.raises(ConnectionLost):
            connection.run(script(f": >{tmp_path}/begun; sleep 300", timeout=280))
    finally:
        stopper.join()
        for pid in before:
            os.kill(pid, signal.SIGCONT)
    connection.close()


@pytest.mark.slow
@pytest.mark.soak
def test_a_server_that_only_has_nothing_to_say_is_kept(sshd, interrupt, quickly_dead):
    """Mutants: keepalive.py without asking; bounded_transport.py that does not note what it reads."""
    connection = connected(sshd.host(), interrupt, keepalive=SILENT)
    assert connection.run(look("sh", "-c", f"sleep {2.5 * SILENT}; echo in"))[0].stdout == "in\n"
    connection.close()


@pytest.mark.slow
@pytest.mark.soak
def test_the_labs_own_server_answers_keepalives(sshd, interrupt, quickly_dead):
    key = paramiko.RSAKey.generate(2048)
    allowed = frozenset({Path(f"{sshd.key}.pub").read_text().split()[1]})
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = threading.Thread(target=lambda: ssh_server._serve(listener.accept()[0], key, allowed), daemon=True)
        serving.start()
        there = Address(host="127.0.0.1", port=listener.getsockname()[1])
        connection = connected(sshd.host(addresses=(there,)), interrupt, keepalive=SILENT)
        assert connection.run(look("sh", "-c", f"sleep {2.5 * SILENT}; echo in"))[0].stdout == "in\n"
        connection.close()
        serving.join(60)


def test_a_shell_that_starts_late_is_given_the_time_that_was_asked_for(sshd, interrupt, monkeypatch):
    """Mutants: connection.py or workspace.py that do not hand it on."""
    monkeypatch.setattr(sessions_shell, "GREETED_WITHIN", 0.3)
    monkeypatch.setattr(sessions_shell, "CATCH_UP", 0.1)
    monkeypatch.setattr(sessions_shell, "EXEC", f"sleep 2; {sessions_shell.EXEC}")
    with pytest.raises(Unreachable, match=r"no shell answers within 0 s \(--shell-timeout gives it longer\)"):
        connected(sshd.host(), interrupt).run(look("true"))
    connection = connected(sshd.host(), interrupt, shell_within=60.0)
    assert connection.run(look("echo", "in"))[0].stdout == "in\n"
    connection.close()


def test_an_unknown_host_key_is_kept_once_and_a_changed_one_is_refused(tmp_path, interrupt, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    server = start_sshd(tmp_path / "one")
    host = server.host(host_keys=HostKeys.ACCEPT_NEW)
    own = tmp_path / "config" / "runbook" / "known_hosts"
    assert "not known" in refusal(host, interrupt, strict_host_keys=True)
    assert not own.exists()
    many = [threading.Thread(target=lambda: connected(host, interrupt).close()) for _ in range(6)]
    for it in many:
        it.start()
    for it in many:
        it.join()
    assert [it.split(" ")[0] for it in own.read_text().splitlines()] == [f"[127.0.0.1]:{server.port}"]
    connected(host, interrupt, strict_host_keys=True).close()
    server.stop()
    (tmp_path / "one" / "host_key").unlink()
    (tmp_path / "one" / "host_key.pub").unlink()
    again = start_sshd(tmp_path / "one", port=server.port, key=server.key)
    try:
        text = refusal(host, interrupt)
        assert "has changed" in text
        assert f"{own}:1" in text
        connected(again.host(), interrupt).close()
    finally:
        again.stop()


@pytest.mark.real("fish", "tcsh", "sudo")
@pytest.mark.parametrize("shell", ["/bin/dash", "/usr/bin/fish", "/bin/tcsh"])
def test_any_login_shell_and_sudo_without_a_password(shell, account, sshd, interrupt, mark):
    user = account(shell, sudo="NOPASSWD: ALL")
    connection = connected(sshd.host(user=user), interrupt)
    plain, root = connection.run(look("id", "-un"), look("id", "-un", become="root"))
    assert (plain.stdout, root.stdout) == (f"{user}\n", "root\n")
    (odd,) = connection.run(script('printf %s "$1"', "a'b\"c\n$HOME`x`\\!", become="root"))
    assert odd.stdout == "a'b\"c\n$HOME`x`\\!"
    (written,) = connection.run(change("cat; id -un", stdin="input\n", become="root"))
    assert written.stdout == "input\nroot\n"
    (hung,) = connection.run(script(f"trap '' TERM; sleep {mark}; sleep {mark}", timeout=1.0, become="root"))
    assert hung.timed_out
    assert gone(mark)
    connection.close()


@pytest.mark.real("sudo")
def test_a_refused_sudo_is_said_and_sends_nothing(account, sshd, interrupt, tmp_path):
    connection = connected(sshd.host(user=account("/bin/bash")), interrupt)
    tmp_path.chmod(0o777)
    refused, fine = connection.run(look("id", become="root"), look("echo", "fine"))
    assert refused.refused.startswith("sudo to root is refused: sudo: a password is required")
    assert "--ask-become-pass" in refused.refused
    assert refused.exit_code is None
    assert not refused.answers(look("id"))
    assert fine.stdout == "fine\n"
    (written,) = connection.run(change(f"echo > {tmp_path}/w", become="root"))
    assert written.refused
    assert not written.answers(look("id"))
    assert not (tmp_path / "w").exists()
    connection.close()


def test_root_needs_no_sudo_to_be_root(sshd, interrupt):
    connection = connected(sshd.host(), interrupt)
    assert connection.run(look("id", "-un", become="root"))[0].stdout == "root\n"
    connection.close()
