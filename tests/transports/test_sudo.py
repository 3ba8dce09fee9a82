"""Sudo with a password: given once, seen by nobody."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.transports.ssh.line import SshChannel
from transports.test_conformance import change, gone, look, mark, script  # noqa: F401
from transports.test_logins import soon
from transports.test_ssh import connected

pytestmark = pytest.mark.real("sshd", "root", "sudo")

PASSWORD = "s3cret 'pass' $word \"x\" \\ ü"
ALWAYS_ASK = "Defaults:{user} timestamp_timeout=0\n"


@contextmanager
def spied_on(secret: str) -> Iterator[list[str]]:
    """Every process whose arguments or environment hold *secret* meanwhile."""
    caught: list[str] = []
    over = threading.Event()
    needle = secret.encode()

    def watch() -> None:
        while not over.is_set():
            for pid in os.listdir("/proc"):
                for name in ("cmdline", "environ") if pid.isdigit() else ():
                    try:
                        text = Path(f"/proc/{pid}/{name}").read_bytes()
                    except OSError:
                        continue
                    if needle in text:
                        caught.append(f"{name} of {pid}: {text!r}")

    thread = threading.Thread(target=watch)
    thread.start()
    yield caught
    over.set()
    thread.join()


@pytest.fixture(params=["", ALWAYS_ASK, "Defaults:{user} use_pty\n", "Defaults:{user} passwd_tries=1\n"])
def user(request, account) -> str:
    """An account that must give its password to sudo, under several policies."""
    name = account("/bin/bash", sudo="ALL", password=PASSWORD)
    with Path(f"/etc/sudoers.d/{name}").open("a") as file:
        file.write(request.param.format(user=name))
    return name


def test_the_password_is_given_to_sudo_and_what_is_sent_reaches_the_command_alone(user, sshd, interrupt, mark):  # noqa: F811
    with spied_on("s3cret") as caught:
        connection = connected(sshd.host(user=user), interrupt, become_password=PASSWORD)
        plain, root, other = connection.run(
            look("id", "-un"), look("id", "-un", become="root"), look("id", "-un", become="daemon")
        )
        assert [it.stdout for it in (plain, root, other)] == [f"{user}\n", "root\n", "daemon\n"]
        for _ in range(2):
            (written,) = connection.run(change("id -un; cat", stdin="input\n", become="root"))
            assert (written.stdout, written.stderr, written.exit_code) == ("root\ninput\n", "", 0)
        (shown,) = connection.run(script("cat; echo no more; env; cat /proc/$PPID/cmdline", become="root"))
        assert shown.stdout.startswith("no more\n")
        (own,) = connection.run(script("read -r it; echo $?", foreign=True, become="root"))
        (hung,) = connection.run(script(f"trap '' TERM; sleep {mark}; sleep {mark}", timeout=1.0, become="root"))
        assert hung.timed_out
        assert gone(mark)
        everything = repr((plain, root, other, written, shown, own, hung))
        connection.close()
    assert not caught
    assert "s3cret" not in everything


def test_a_wrong_password_is_tried_once_on_a_connection(account, sshd, interrupt, monkeypatch):
    name = account("/bin/bash", sudo="ALL", password=PASSWORD)
    connection = connected(sshd.host(user=name), interrupt, become_password="not this one")
    told: list[bytes] = []
    plain = SshChannel.send
    monkeypatch.setattr(SshChannel, "send", lambda self, data: (told.append(data), plain(self, data))[1])
    first, again = connection.run(look("id", become="root"), look("id", become="root"))
    (other,) = connection.run(look("id", become="daemon"))
    (written,) = connection.run(change("id", become="root"))
    assert first.refused == "sudo to root is refused: the password was not accepted; it was tried once"
    assert again.refused == written.refused == first.refused
    assert other.refused.startswith("sudo to daemon is refused")
    assert len([it for it in told if b"not this one" in it]) == 1
    assert soon(
        lambda: not subprocess.run(["pgrep", "-x", "-u", name, "sudo"], capture_output=True, check=False).stdout
    )
    assert connection.run(look("echo", "fine"))[0].stdout == "fine\n"
    connection.close()


def test_where_sudo_asks_for_nothing_the_password_is_not_told(account, sshd, interrupt, tmp_path):
    name = account("/bin/bash", sudo="NOPASSWD: ALL")
    connection = connected(sshd.host(user=name), interrupt, become_password=PASSWORD)
    read, write = connection.run(look("id", "-un", become="root"), change("cat; id -un", become="root"))
    assert (read.stdout, write.stdout) == ("root\n", "root\n")
    connection.close()


def test_what_sudo_will_not_let_us_do_is_said_in_its_words(account, sshd, interrupt):
    name = account("/bin/bash", password=PASSWORD)
    connection = connected(sshd.host(user=name), interrupt, become_password=PASSWORD)
    (done,) = connection.run(look("id", become="root"))
    assert done.refused.startswith(f"sudo to root is refused: {name} is not in the sudoers file")
    (nobody,) = connection.run(look("id", become="no-such-user"))
    assert nobody.refused
    connection.close()
    name = account("/bin/bash", sudo="NOPASSWD: ALL")
    connection = connected(sshd.host(user=name), interrupt)
    (nobody,) = connection.run(look("id", become="no-such-user"))
    assert nobody.refused.startswith("sudo to no-such-user is refused: sudo: unknown user no-such-user")
    connection.close()
