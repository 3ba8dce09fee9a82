"""Sudo with a password: given once, seen by nobody."""

from __future__ import annotations

import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from runbook.connections.sessions import shell as sessions_shell
from runbook.connections.sessions.channel import ShellRefused
from runbook.connections.sessions.shared_password import SharedPassword
from runbook.connections.sessions.shell import PasswordRefused
from runbook.connections.transports.ssh.connection import SshChannel
from runbook.errors import Cancelled, ConnectionLost
from tests.support.real_processes import gone
from tests.support.waiting import soon
from tests.transports.commands import change, look, script
from tests.transports.leaked_secrets import PASSWORD, spied_on
from tests.transports.ssh_login import connected

pytestmark = pytest.mark.real("sshd", "root", "sudo")

ALWAYS_ASK = "Defaults:{user} timestamp_timeout=0\n"


@pytest.fixture(params=["", ALWAYS_ASK, "Defaults:{user} use_pty\n", "Defaults:{user} passwd_tries=1\n"])
def user(request, account) -> str:
    """An account that must give its password to sudo, under several policies."""
    name = account("/bin/bash", sudo="ALL", password=PASSWORD)
    with Path(f"/etc/sudoers.d/{name}").open("a") as file:
        file.write(request.param.format(user=name))
    return name


def test_the_password_is_given_to_sudo_and_what_is_sent_reaches_the_command_alone(user, sshd, interrupt, mark):
    with spied_on("sud0-s3cret") as caught:
        connection = connected(sshd.host(user=user), interrupt, become_password=SharedPassword(PASSWORD))
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
    connection = connected(sshd.host(user=name), interrupt, become_password=SharedPassword("not this one"))
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


def test_a_wrong_password_is_told_to_one_host_of_a_run(account, sshd, interrupt, monkeypatch):
    """Mutants: shared_password.py trying on; connection.py giving the secret past it."""
    name = account("/bin/bash", sudo="ALL", password=PASSWORD)
    told: list[bytes] = []
    plain = SshChannel.send
    monkeypatch.setattr(SshChannel, "send", lambda self, data: (told.append(data), plain(self, data))[1])
    lent = SharedPassword("not this one")
    hosts = [connected(sshd.host(it, user=name), interrupt, become_password=lent) for it in ("h1", "h2", "h3")]
    with ThreadPoolExecutor(3) as pool:
        said = [it.refused for (it,) in pool.map(lambda one: one.run(look("id", become="root")), hosts)]
    assert len([it for it in told if b"not this one" in it]) == 1
    first = said.index("sudo to root is refused: the password was not accepted; it was tried once")
    del said[first]
    words = f"sudo to root is refused: the password was not accepted on h{first + 1}, and was given to no other host"
    assert said == [words, words]
    for it in hosts:
        it.close()


def test_the_others_wait_until_one_host_has_taken_the_password_and_then_go_side_by_side():
    """Mutants: shared_password.py without its lock; keeping it when the password is known to be right; not calling ``check``."""
    lent, together = SharedPassword("word"), threading.Barrier(3)
    go, began = threading.Event(), threading.Event()
    at_it: list[str] = []

    def first(secret, _):
        at_it.append(secret)
        began.set()
        assert go.wait(60)
        return "in"

    def given_up():
        raise Cancelled("asked to stop")

    with ThreadPoolExecutor(4) as pool:
        opened = pool.submit(lent.try_on, "h1", first, lambda: None)
        assert began.wait(60)
        with pytest.raises(Cancelled):
            lent.try_on("h9", at_it.append, given_up)
        rest = [pool.submit(lent.try_on, "h2", lambda *_: together.wait(60), lambda: None) for _ in range(3)]
        assert at_it == ["word"]
        go.set()
        assert opened.result(60) == "in"
        assert {it.result(60) for it in rest} == {0, 1, 2}


LEFT_OPEN = (PasswordRefused("no shell answers"), ConnectionLost("it is gone"), Cancelled("asked to stop"))


@pytest.mark.parametrize("error", LEFT_OPEN, ids=lambda it: type(it).__name__)
def test_a_password_that_was_told_and_brought_no_shell_is_told_to_nobody_else(error):
    """Mutants: shared_password.py taking every end for a wrong password, or for the right one; only a refusal for a wrong one."""
    lent, asked = SharedPassword("word"), []

    def ends_with(error, **becomes):
        def give(secret, trial):
            asked.append(secret)
            for name, it in becomes.items():
                setattr(trial, name, it)
            raise error

        with pytest.raises(type(error)) as caught:
            lent.try_on("h1", give, lambda: None)
        return str(caught.value)

    assert ends_with(ShellRefused("no shell answers within 20 s")) == "no shell answers within 20 s"
    assert (
        ends_with(PasswordRefused("not in the sudoers file."), reported=True, taken=True) == "not in the sudoers file."
    )
    assert ends_with(error, reported=True) == str(error)
    assert len(asked) == 3
    words = "the password was not accepted on h1, and was given to no other host"
    assert ends_with(PasswordRefused("never asked")) == words
    assert len(asked) == 3


def test_a_slow_wrong_answer_is_one_wrong_try_of_the_whole_run(account, sshd, interrupt, monkeypatch):
    """Mutants: user_shell.py noting nothing of a password that it told."""
    monkeypatch.setattr(sessions_shell, "GREETED_WITHIN", 1.0)  # pam_faildelay takes two seconds to say no
    name = account("/bin/bash", sudo="ALL", password=PASSWORD)
    told: list[bytes] = []
    plain = SshChannel.send
    monkeypatch.setattr(SshChannel, "send", lambda self, data: (told.append(data), plain(self, data))[1])
    lent = SharedPassword("not this one")
    one, other = (connected(sshd.host(it, user=name), interrupt, become_password=lent) for it in ("h1", "h2"))
    (first,) = one.run(look("id", become="root"))
    one.run(look("id", become="daemon"))
    (second,) = other.run(look("id", become="root"))
    # pam_faildelay waits two seconds, or up to half less or more
    assert first.refused.startswith(
        (
            "sudo to root is refused: no shell answers within 1 s (--shell-timeout gives it longer)",
            "sudo to root is refused: the password was not accepted",
        )
    )
    assert second.refused.endswith("the password was not accepted on h1, and was given to no other host")
    assert len([it for it in told if b"not this one" in it]) == 1
    one.close()
    other.close()


def test_where_sudo_asks_for_nothing_the_password_is_not_told(account, sshd, interrupt, tmp_path):
    name = account("/bin/bash", sudo="NOPASSWD: ALL")
    connection = connected(sshd.host(user=name), interrupt, become_password=SharedPassword(PASSWORD))
    read, write = connection.run(look("id", "-un", become="root"), change("cat; id -un", become="root"))
    assert (read.stdout, write.stdout) == ("root\n", "root\n")
    connection.close()


def test_what_sudo_will_not_let_us_do_is_said_in_its_words(account, sshd, interrupt):
    name = account("/bin/bash", password=PASSWORD)
    connection = connected(sshd.host(user=name), interrupt, become_password=SharedPassword(PASSWORD))
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
