"""The program is stopped in the middle of a write, and goes on later: what was answered meanwhile is an answer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

import pytest

from tests.support.program import PROGRAM
from tests.support.sshd import start_sshd
from tests.support.waiting import appears

pytestmark = [pytest.mark.real("sshd", "root"), pytest.mark.soak]

TIMEOUT = 3

BOOK = """
name: long
about: A change that takes a second.
hosts: all
remediate:
  - id: change
    timeout: {timeout}s
    command: {{do: {{script: "echo $$ >{folder}/begun; {do}; echo well"}}}}
"""


@pytest.mark.parametrize("transport", ["ssh", "local"])
@pytest.mark.parametrize(
    ("asleep", "do", "status"),
    [
        (TIMEOUT + 3, "touch {folder}/over", "changed"),
        (TIMEOUT + 17, "touch {folder}/over", "changed"),
        (TIMEOUT + 3, "touch {folder}/over; sleep 1000", "timeout"),
    ],
)
def test_a_write_that_was_answered_while_the_program_was_stopped(asleep, do, status, transport, tmp_path):
    """The order in which threads wake is not ours to choose: tests/transports/test_late_answers.py has the mutants."""
    server = start_sshd(tmp_path / "sshd") if transport == "ssh" else None
    fields = {"transport": "local"}
    if server:
        fields = {"ssh_host": server.address, "ssh_port": server.port, "ssh_user": "root", "ssh_key": str(server.key),
                  "is_ephemeral": True}  # fmt: skip
    (tmp_path / "hosts.yaml").write_text(json.dumps({"hosts": {"h": fields}}))
    book = BOOK.format(timeout=TIMEOUT, folder=tmp_path, do=do.format(folder=tmp_path))
    (tmp_path / "long.yaml").write_text(book)
    argv = ("run", str(tmp_path / "long.yaml"), "-i", str(tmp_path / "hosts.yaml"), "--hosts", "all", "--yes")
    process = subprocess.Popen(
        (*PROGRAM, *argv, "--output", "json"), stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
        env={**os.environ, "HOME": str(tmp_path)},
    )  # fmt: skip
    try:
        assert appears(tmp_path / "begun")
        process.send_signal(signal.SIGSTOP)
        assert appears(tmp_path / "over"), "the host goes on meanwhile"
        time.sleep(asleep)  # noqa: TID251 what this is about
        process.send_signal(signal.SIGCONT)
        out, _ = process.communicate(timeout=90)
    finally:
        process.kill()
        if server:
            server.stop()
    (step,) = json.loads(out)["hosts"][0]["steps"]
    assert step["status"] == status, step["why"]
    (command,) = [it for it in step["commands"] if it["effect"] == "write"]
    assert command["timed_out"] is (status == "timeout")
    assert command["exit_code"] == (0 if status == "changed" else None)
    if status == "changed":
        assert command["stdout"] == "well\n"
