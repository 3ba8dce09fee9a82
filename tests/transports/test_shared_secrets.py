"""The program is lent a password, or a passphrase: by a file, or on a terminal; and shows it to nobody."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import termios
import time

import pytest

from runbook.commands.credentials import become_password
from runbook.errors import ConfigError
from tests.support.sshd import make_key
from tests.support.waiting import until
from tests.transports.leaked_secrets import PASSWORD, spied_on
from tests.transports.ssh_login import admitted

PROGRAM = (sys.executable, "-m", "runbook")

PLAYBOOK = """
name: who
about: Who we are, and one change.
hosts: all
diagnose:
  - id: me
    become: true
    command: {argv: [id, -un]}
remediate:
  - id: note
    become: true
    command: {check: {script: 'test -e "$1"', params: ["%(file)s"]}, do: {script: 'cat > "$1"; id -un', params: ["%(file)s"]}}
"""


@pytest.fixture
def site(tmp_path, sshd, account, home):
    """An inventory with one host whose sudo wants a password, and a playbook; a function that gives the command line."""
    name = account("/bin/bash", sudo="ALL", password=PASSWORD)
    fields = {"ssh_host": sshd.address, "ssh_port": sshd.port, "ssh_user": name, "ssh_key": str(sshd.key)}
    (tmp_path / "hosts.yaml").write_text(json.dumps({"hosts": {"h": {**fields, "is_container": True}}}))
    (tmp_path / "who.yaml").write_text(PLAYBOOK % {"file": tmp_path / "written"})
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    (tmp_path / "password").chmod(0o600)

    def argv(*more: str) -> tuple[str, ...]:
        return (
            *PROGRAM,
            "run",
            str(tmp_path / "who.yaml"),
            "--hosts",
            "all",
            "-i",
            str(tmp_path / "hosts.yaml"),
            *more,
        )

    return argv


def run(argv: tuple[str, ...]) -> subprocess.CompletedProcess:
    return subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60, check=False)


@pytest.mark.real("sshd", "root", "sudo")
def test_a_password_from_a_file_makes_a_whole_run_and_stands_nowhere(site, tmp_path):
    lent = ("--become-password-file", str(tmp_path / "password"), "--report", str(tmp_path / "report.jsonl"))
    with spied_on("sud0-s3cret") as caught:
        planned = run(site("--dry-run", "--output", "json", *lent))
        done = run(site("--yes", "--output", "json", *lent))
    assert not caught
    assert (planned.returncode, done.returncode) == (0, 0), planned.stdout + done.stdout + done.stderr
    assert not (tmp_path / "written").read_text()
    host = json.loads(done.stdout)["hosts"][0]
    assert host["steps"][0]["state"]["stdout"] == "root\n"
    assert host["steps"][1]["status"] == "changed"
    for text in (planned.stdout, planned.stderr, done.stdout, done.stderr, (tmp_path / "report.jsonl").read_text()):
        assert "s3cret" not in text


@pytest.mark.real("sshd", "root", "sudo")
def test_without_a_password_nothing_is_sent_and_the_option_is_named(site):
    done = run(site("--yes", "--output", "json"))
    assert done.returncode == 1
    host = json.loads(done.stdout)["hosts"][0]
    assert host["verdict"] in ("unknown", "failed")
    assert "sudo to root is refused: sudo: a password is required (--ask-become-pass" in host["steps"][0]["why"]
    assert host["steps"][0]["commands"] == []


def on_a_terminal(argv: tuple[str, ...], prompt: str, answer: str) -> tuple[str, int]:
    """What the program shows on a terminal where somebody answers *prompt*, and its exit code."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(argv[0], argv)
    shown, answered, deadline = "", False, time.monotonic() + 60
    while time.monotonic() < deadline:
        if not select.select([fd], [], [], 1)[0]:
            continue
        try:
            shown += os.read(fd, 65536).decode(errors="replace")
        except OSError:
            break
        if prompt in shown and not answered:
            answered = True
            until(lambda: not termios.tcgetattr(fd)[3] & termios.ECHO, "no echo")
            os.write(fd, f"{answer}\n".encode())
    os.close(fd)
    return shown, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.real("sshd", "root", "sudo")
def test_a_password_is_asked_for_on_a_terminal_without_an_echo(site, tmp_path):
    shown, code = on_a_terminal(site("--yes", "-K"), "Password for sudo on the hosts", PASSWORD)
    assert code == 0, shown
    assert (tmp_path / "written").exists()
    assert "s3cret" not in shown
    refused = run(site("-K"))
    assert refused.returncode == 2
    assert "--ask-become-pass: there is no terminal to ask on" in refused.stderr


@pytest.mark.real("sshd", "root")
def test_a_passphrase_is_asked_for_on_a_terminal_once_and_not_without_one(tmp_path, sshd, home):
    key = make_key(tmp_path / "locked", passphrase="secret words")
    admitted(sshd, key)
    host = {
        "ssh_host": sshd.address,
        "ssh_port": sshd.port,
        "ssh_user": "root",
        "ssh_key": str(key),
        "is_container": True,
    }
    (tmp_path / "hosts.yaml").write_text(json.dumps({"hosts": {"a": host, "b": host}}))
    argv = (*PROGRAM, "exec", "all", "-i", str(tmp_path / "hosts.yaml"), "--read", "--", "echo", "in", "side")
    shown, code = on_a_terminal(argv, f"Passphrase for {key}", "secret words")
    assert code == 0, shown
    assert shown.count("Passphrase for") == 1
    assert "secret words" not in shown
    done = run(argv)
    assert done.returncode == 4
    assert f"the key {key} is encrypted, and no agent holds it (ssh-add {key})" in done.stdout


class Nobody:
    def is_there(self) -> bool:
        return False

    def secret(self, prompt: str) -> str:
        raise AssertionError(prompt)


def test_a_password_file_must_be_ones_own_and_hold_a_password(tmp_path):
    file = tmp_path / "password"
    file.write_text("word\r\nsecond line\n")
    file.chmod(0o600)
    assert become_password(str(file), False, Nobody()) == "word"
    assert become_password("", False, Nobody()) == ""
    for mode in (0o640, 0o604, 0o660, 0o777):
        file.chmod(mode)
        with pytest.raises(ConfigError, match=f"others can read .*password .mode {mode:04o}.; run chmod 600"):
            become_password(str(file), False, Nobody())
    file.chmod(0o600)
    with pytest.raises(ConfigError, match="give one of them"):
        become_password(str(file), True, Nobody())
    for content, words in ((b"", "empty"), (b"\n\n", "empty"), (b"a\0b", "not text"), (b"\xff\xfe", "not UTF-8")):
        file.write_bytes(content)
        with pytest.raises(ConfigError, match=words):
            become_password(str(file), False, Nobody())
    with pytest.raises(ConfigError, match="no such file"):
        become_password(str(tmp_path / "none"), False, Nobody())
    with pytest.raises(ConfigError, match="is a directory"):
        become_password(str(tmp_path), False, Nobody())


def test_a_password_may_come_from_a_pipe(tmp_path):
    reading, writing = os.pipe()
    os.write(writing, b"word\n")
    os.close(writing)
    assert become_password(f"/dev/fd/{reading}", False, Nobody()) == "word"
    os.close(reading)
