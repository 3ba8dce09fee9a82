"""A host that never stops talking, on every stream at every stage: the program stays small, and the others end well."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import paramiko
import pytest

from tests.support.sshd import Sshd, start_sshd

pytestmark = [pytest.mark.real("sshd", "root"), pytest.mark.soak]

MOST = 200 * 1024
"""KiB of memory that the program may have at its largest."""

MEASURED = """
import runpy, sys
try:
    sys.argv = ["runbook", *sys.argv[2:]]
    runpy.run_module("runbook", run_name="__main__", alter_sys=True)
finally:
    own = open("/proc/self/status").read()
    open({file!r}, "w").write(own.split("VmHWM:")[1].split()[0])
"""

LOOK = """
name: talk
about: A probe.
diagnose:
  - id: said
    command: {{script: "{script}"}}
    timeout: 5s
{more}
"""


class Talker:
    """A server on an address of its own that does *talk* with anybody who connects."""

    def __init__(self, address: str, talk: Callable[[socket.socket], None]) -> None:
        self.listening = socket.create_server((address, 0))
        self.address, self.port = self.listening.getsockname()
        self._talk = talk
        self._taken: list[socket.socket] = []
        self._talks: list[threading.Thread] = []
        self._serving = threading.Thread(target=self._serve, daemon=True)
        self._serving.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self._taken.append(self.listening.accept()[0])
                self._talks.append(threading.Thread(target=self._one, args=(self._taken[-1],), daemon=True))
                self._talks[-1].start()

    def _one(self, connection: socket.socket) -> None:
        try:
            self._talk(connection)
        except (OSError, EOFError, paramiko.SSHException):
            return

    def stop(self) -> None:
        """Take no more (a close alone wakes nobody who waits in accept), and end every talk."""
        self.listening.shutdown(socket.SHUT_RDWR)
        self._serving.join()
        self.listening.close()
        for it in self._taken:
            with contextlib.suppress(OSError):
                it.shutdown(socket.SHUT_RDWR)
        for it in self._talks:
            it.join(60)
        for it in self._taken:
            it.close()


def endless(first: bytes, again: bytes) -> Callable[[socket.socket], None]:
    def talk(connection: socket.socket) -> None:
        connection.sendall(first)
        while True:
            connection.sendall(again)

    return talk


class Heedless(paramiko.ServerInterface):
    """A server that lets everybody in, and does not wait for its window."""

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        return paramiko.AUTH_SUCCESSFUL

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        channel.out_window_size = 1 << 50
        threading.Thread(target=self._flood, args=(channel,), daemon=True).start()
        return True

    @staticmethod
    def _flood(channel: paramiko.Channel) -> None:
        try:
            while True:
                channel.sendall(b"y\n" * 8192)
        except (OSError, EOFError, paramiko.SSHException):
            return


HEEDLESS = ("more data than the SSH window allows", "printed over", "no shell answers within")
"""Why it is given up: whichever bound is met first, of what is kept or of the time."""


def heedless(connection: socket.socket) -> None:
    transport = paramiko.Transport(connection)
    transport.add_server_key(paramiko.ECDSAKey.generate())
    transport.start_server(server=Heedless())
    transport.join()


BEFORE_LOGIN = {
    "identification": (endless(b"", b"x" * 65536), "it sends endless text instead of an SSH identification"),
    "lines": (endless(b"", b"welcome\r\n" * 8192), "no SSH banner"),
    "packet": (endless(b"SSH-2.0-x\r\n\x7f\xff\xff\xfc", b"\0" * 65536), "it announces an SSH packet of 2147483"),
}


def run(
    tmp_path: Path, hosts: dict[str, dict], playbook: str, *argv: str, key: Path, output: str = "json"
) -> tuple[int, dict, str]:
    """The largest memory of the program in KiB, what it reports, and what it says, of a run on *hosts*."""
    common = {"ssh_user": "root", "ssh_key": str(key), "is_ephemeral": True}
    inventory, book, peak = tmp_path / "hosts.yaml", tmp_path / "talk.yaml", tmp_path / "peak"
    inventory.write_text(json.dumps({"hosts": {name: {**common, **it} for name, it in hosts.items()}}))
    book.write_text(playbook)
    done = subprocess.run(
        (sys.executable, "-c", MEASURED.format(file=str(peak)), "runbook", "run", str(book), "-i", str(inventory),
         "--hosts", "all", "--output", output, "--report", str(tmp_path / "r.txt"),
         "--report", str(tmp_path / "r.jsonl"), "--report", str(tmp_path / "r.json"), *argv),
        capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=150, check=False,
        env={**os.environ, "HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.stdout, done.stderr
    assert "given up" not in done.stderr
    assert "internal error:" not in done.stderr
    return int(peak.read_text()), json.loads((tmp_path / "r.json").read_text()), done.stderr


def at(server: Sshd | Talker) -> dict:
    return {"ssh_host": server.address, "ssh_port": server.port}


def by_name(document: dict) -> dict[str, dict]:
    return {it["host"]: it for it in document["hosts"]}


@pytest.fixture
def good(tmp_path):
    server = start_sshd(tmp_path / "good", address="127.0.8.1")
    yield server
    server.stop()


@pytest.mark.parametrize("through", ["", "jump"])
@pytest.mark.parametrize("stage", BEFORE_LOGIN)
def test_before_the_login(stage, through, good, tmp_path):
    talk, words = BEFORE_LOGIN[stage]
    server = Talker("127.0.8.2", talk)
    hosts = {"talker": at(server), "good": at(good)}
    if through:
        hosts["talker"]["ssh_proxy"] = "good"
    try:
        peak, said, _ = run(tmp_path, hosts, LOOK.format(script="echo well", more=""), key=good.key)
    finally:
        server.stop()
    assert by_name(said)["good"]["verdict"] == "healthy"
    assert by_name(said)["talker"]["verdict"] == "unreachable"
    assert words in by_name(said)["talker"]["error"]
    assert peak < MOST


def test_a_server_that_does_not_wait_for_its_window(good, tmp_path):
    server = Talker("127.0.8.2", heedless)
    try:
        hosts = {"talker": at(server), "good": at(good)}
        peak, said, _ = run(tmp_path, hosts, LOOK.format(script="echo well", more=""), key=good.key)
    finally:
        server.stop()
    assert by_name(said)["good"]["verdict"] == "healthy"
    assert by_name(said)["talker"]["verdict"] == "unreachable", by_name(said)
    assert any(it in by_name(said)["talker"]["error"] for it in HEEDLESS), by_name(said)["talker"]["error"]
    assert peak < MOST


WATCHED = """#!/bin/bash
mkdir {folder}/1 2>/dev/null && exec bash -c "$SSH_ORIGINAL_COMMAND"
mkdir {folder}/2 2>/dev/null || exec bash -c "$SSH_ORIGINAL_COMMAND"
(until pgrep -f '[s]leep {begun}'; do sleep 0.1; done >/dev/null; touch {folder}/talked; exec yes {where}) &
exec bash -c "$SSH_ORIGINAL_COMMAND"
"""

SUDO = """#!/bin/sh
exec yes {where}
"""

FORCED = {
    "login shell, stdout": ("yes", "unreachable", "printed over 1024 KiB and no shell answered"),
    "login shell, stderr": ("yes >&2", "unreachable", "printed over 1024 KiB and no shell answered"),
    "login shell, one line": ("tr '\\0' x </dev/zero", "unreachable", "printed over 1024 KiB and no shell answered"),
    "login shell, then ours": (
        'sleep 1; yes & yes >&2 & exec bash -c "$SSH_ORIGINAL_COMMAND"', "unreachable", "no shell answered",
    ),
}  # fmt: skip


@pytest.mark.parametrize("stage", FORCED)
def test_before_the_greeting(stage, good, tmp_path):
    line, verdict, words = FORCED[stage]
    script = tmp_path / "forced"
    script.write_text(f"#!/bin/bash\n{line}\n")
    script.chmod(0o755)
    server = start_sshd(tmp_path / "talker", address="127.0.8.2", key=good.key, extra=f"ForceCommand {script}")
    try:
        hosts = {"talker": at(server), "good": at(good), "behind": {**at(server), "ssh_proxy": "good"}}
        peak, said, _ = run(tmp_path, hosts, LOOK.format(script="echo well", more=""), key=good.key)
    finally:
        server.stop()
    assert by_name(said)["good"]["verdict"] == "healthy"
    for name in ("talker", "behind"):
        assert by_name(said)[name]["verdict"] == verdict
        assert words in by_name(said)[name]["error"]
    assert peak < MOST


@pytest.mark.real("sudo")
@pytest.mark.parametrize("where", ["", ">&2"])
def test_where_sudo_asks(where, good, tmp_path):
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "sudo").write_text(SUDO.format(where=where))
    (programs / "sudo").chmod(0o755)
    path = f"SetEnv PATH={programs}:/usr/bin:/bin:/usr/sbin:/sbin"
    server = start_sshd(tmp_path / "talker", address="127.0.8.2", key=good.key, extra=path)
    try:
        hosts = {"talker": at(server), "good": at(good)}
        more = "    become: daemon"
        peak, said, _ = run(tmp_path, hosts, LOOK.format(script="echo well", more=more), key=good.key)
    finally:
        server.stop()
    assert by_name(said)["good"]["verdict"] == "healthy"
    assert by_name(said)["talker"]["verdict"] == "unknown"
    assert "sudo to daemon is refused: its login shell" in by_name(said)["talker"]["steps"][0]["why"]
    assert peak < MOST


@pytest.mark.parametrize("where", ["", ">&2"])
def test_the_shell_of_a_change(where, good, tmp_path):
    begun = f"2.0{secrets.randbelow(10**9):09}"  # no other sleep of this machine has it
    script, book = tmp_path / "forced", LOOK.format(script="echo well", more=AGAIN.replace("sleep 2", f"sleep {begun}"))
    script.write_text(WATCHED.format(folder=tmp_path / "marks", where=where, begun=begun))
    (tmp_path / "marks").mkdir()
    script.chmod(0o755)
    server = start_sshd(tmp_path / "talker", address="127.0.8.2", key=good.key, extra=f"ForceCommand {script}")
    try:
        hosts = {"talker": at(server), "good": at(good)}
        peak, said, _ = run(tmp_path, hosts, book, "--yes", key=good.key)
    finally:
        server.stop()
    assert (tmp_path / "marks" / "talked").exists()
    assert by_name(said)["good"]["verdict"] == "resolved"
    ended = by_name(said)["talker"]
    assert ended["verdict"] in ("resolved", "unknown", "unreachable", "failed")
    if ended["verdict"] != "resolved":
        assert "printed over 1024 KiB" in json.dumps(ended), json.dumps(ended, indent=1)
    assert peak < MOST


AGAIN = """
remediate:
  - id: change
    command: {do: {script: "sleep 2"}}
"""

ANSWERS = {
    "stdout": "yes",
    "stderr": "yes >&2",
    "both": "yes & yes >&2; wait",
    "one line": "tr '\\\\0' x </dev/zero",
    "no text": "cat /dev/urandom & cat /dev/urandom >&2",
    "and an end": "timeout 1 yes; timeout 1 yes >&2; true",
}


@pytest.mark.parametrize(
    ("stage", "output"),
    [
        *((stage, "json") for stage in ANSWERS),
        *((it, to) for it in ("both", "and an end") for to in ("jsonl", "console")),
    ],
)
def test_in_an_answer(stage, output, good, tmp_path):
    server = start_sshd(tmp_path / "talker", address="127.0.8.2", key=good.key)
    script = f"case $SSH_CONNECTION in *127.0.8.2*) {ANSWERS[stage]};; *) echo well;; esac"
    try:
        hosts = {"talker": at(server), "good": at(good)}
        peak, said, _ = run(tmp_path, hosts, LOOK.format(script=script, more=""), key=good.key, output=output)
    finally:
        server.stop()
    assert by_name(said)["good"]["verdict"] == "healthy"
    (step,) = by_name(said)["talker"]["steps"]
    if stage == "and an end":
        assert step["status"] == "ok", step["why"]
    else:
        assert "did not end within" in step["why"]
    assert "bytes left out" in "".join(step["commands"][0][it] for it in ("stdout", "stderr"))
    assert peak < MOST
