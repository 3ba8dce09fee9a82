"""Login shells of every kind: noisy ones, closed ones, and ones that are not alone in their process group."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from runbook.errors import Unreachable
from tests.support.real_processes import gone, living
from tests.support.sshd import start_sshd
from tests.transports.commands import change, look, script
from tests.transports.ssh_login import connected

pytestmark = pytest.mark.real("sshd", "root")

NOISE = {
    "/bin/bash": (
        ".bashrc",
        "printf 'Welcome to gpu-01! '; echo quota exceeded >&2; printf '\\nlane a b c d\\nready\\n%s' x",
    ),
    "/bin/tcsh": (".tcshrc", "echo -n 'Welcome '; sh -c 'echo quota exceeded >&2'"),
    "/usr/bin/fish": (".config/fish/config.fish", "echo -n 'Welcome '; echo quota exceeded >&2"),
}


@pytest.mark.real("fish", "tcsh", "sudo")
@pytest.mark.parametrize("shell", NOISE)
def test_what_a_login_shell_prints_before_us_is_no_part_of_an_answer(shell, account, interrupt, tmp_path):
    name = account(shell, sudo="NOPASSWD: ALL")
    rc, text = Path(f"/home/{name}", NOISE[shell][0]), NOISE[shell][1]
    rc.parent.mkdir(parents=True, exist_ok=True)
    rc.write_text(f"{text}\n")
    for it in (rc, *rc.parents[: len(rc.relative_to(f"/home/{name}").parts) - 1]):
        shutil.chown(it, name)
    (tmp_path / "banner").write_text("Authorised use only\n")
    server = start_sshd(tmp_path / "sshd", extra=f"Banner {tmp_path}/banner\nPrintMotd yes")
    try:
        connection = connected(server.host(user=name), interrupt)
        for command in (look("id", "-un"), change("id -un"), script("id -un", foreign=True)):
            (done,) = connection.run(command)
            assert (done.stdout, done.stderr, done.exit_code) == (f"{name}\n", "", 0)
        (root,) = connection.run(change("id -un", become="root"))
        assert (root.stdout, root.stderr) == ("root\n", "")
        connection.close()
    finally:
        server.stop()


def told(server, interrupt, **fields) -> str:
    """What a host without a shell for us says, to a probe and to a write."""
    connection = connected(server.host(**fields), interrupt)
    with pytest.raises(Unreachable) as caught:
        connection.run(look("true"))
    with pytest.raises(Unreachable):
        connection.run(change("true"))
    connection.close()
    return str(caught.value)


def test_an_account_without_a_login_says_so(account, sshd, interrupt):
    text = told(sshd, interrupt, user=account("/usr/sbin/nologin"))
    assert text.startswith("logged in, but no shell could be started: ")
    assert "This account is currently not available." in text
    assert "runs no commands of ours" in told(sshd, interrupt, user=account("/bin/false"))


@pytest.mark.parametrize(
    ("forced", "words"),
    [
        ("/bin/echo use the other gate", "a ForceCommand, runs no commands of ours; it says: use the other gate"),
        ("internal-sftp", "runs no commands of ours"),
        ("/bin/true", "runs no commands of ours"),
        ("/bin/sh -c 'echo no entry >&2; exit 1'", "no entry"),
    ],
)
def test_a_forced_command_says_what_it_says_instead_of_a_shell(forced, words, interrupt, tmp_path):
    bare = f"SetEnv HOME=/var/empty RUNBOOK_LOCK_PLACES={os.environ['RUNBOOK_LOCK_PLACES']}"  # root's start files may print
    server = start_sshd(tmp_path / "sshd", extra=f"ForceCommand {forced}\n{bare}")
    try:
        assert words in told(server, interrupt)
    finally:
        server.stop()


WRAPPER = """#!/bin/bash
echo "$SSH_ORIGINAL_COMMAND" >> {log}
sleep {mark} &
bash -c "$SSH_ORIGINAL_COMMAND; exit \\$?"
kill %1
"""


def wrapped(tmp_path, mark, extra: str = ""):
    wrapper = tmp_path / "wrapper"
    wrapper.write_text(WRAPPER.format(log=tmp_path / "log", mark=mark))
    wrapper.chmod(0o755)
    return start_sshd(tmp_path / "sshd", extra=f"ForceCommand {wrapper}\n{extra}")


@pytest.mark.parametrize("become", ["", "daemon"])
@pytest.mark.real("sudo")
def test_a_shell_that_others_share_a_group_with_gets_one_of_its_own(become, interrupt, tmp_path, mark):
    server = wrapped(tmp_path, f"1{mark}")
    try:
        connection = connected(server.host(), interrupt)
        (hung,) = connection.run(script(f"trap '' TERM; sleep {mark}; sleep {mark}", timeout=1.0, become=become))
        assert hung.timed_out
        assert gone(f"sleep {mark}")
        assert living(f"sleep 1{mark}"), "what is not ours is not ended"
        (done,) = connection.run(change("echo done", become=become))
        assert done.stdout == "done\n"
        connection.close()
    finally:
        server.stop()


def test_without_setsid_such_a_shell_is_refused(interrupt, tmp_path, mark):
    bare = tmp_path / "bin"
    bare.mkdir()
    for it in ("sh", "bash", "id", "sleep", "grep", "cat"):
        os.symlink(f"/bin/{it}", bare / it)
    server = wrapped(tmp_path, f"1{mark}", extra=f"SetEnv PATH={bare}")
    try:
        text = told(server, interrupt)
        assert "share their process group" in text
        assert "setsid is missing" in text
    finally:
        server.stop()


def test_a_host_that_gives_no_second_channel_says_so(interrupt, tmp_path):
    server = start_sshd(tmp_path / "sshd", extra="MaxSessions 1")
    try:
        connection = connected(server.host(), interrupt)
        looked, written = connection.run(look("echo", "in"), change("echo out"))
        assert looked.stdout == "in\n"
        assert "the host starts no more shells: the server opens no more channels" in written.refused
        connection.close()
    finally:
        server.stop()
