"""Whole runs on hosts behind one gateway that is lost on the way."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import uuid
from pathlib import Path

import pytest

from tests.support.program import PROGRAM, runbook
from tests.support.sshd import start_sshd
from tests.support.waiting import soon
from tests.transports.gateway_hosts import logins

pytestmark = pytest.mark.real("sshd", "root")

HOSTS = 4
PROBE = """
name: probe
about: Waits.
hosts: all
diagnose:
  - {id: wait, command: {argv: [sleep, "MARK"]}}
"""
WRITE = """
name: write
about: Writes.
hosts: all
remediate:
  - id: write
    command: {do: {script: 'echo begun >> "$1"; sleep 1.5; echo ended >> "$1"', params: [FOLDER/begun]}}
  - {id: later, command: {do: {script: 'echo later >> "$1"', params: [FOLDER/begun]}}}
"""


class Place:
    """A gateway, hosts behind it, and the program."""

    def __init__(self, folder: Path) -> None:
        locks = os.environ["RUNBOOK_LOCK_PLACES"]
        settings = f"SetEnv HOME=/var/empty RUNBOOK_LOCK_PLACES={locks}"  # no .bashrc, which may take seconds
        self.folder, self.begun, self.mark = folder, folder / "begun", f"2.{uuid.uuid4().int % 10**9:09d}"
        self.target = start_sshd(folder / "target", extra=settings)
        self.gate = start_sshd(folder / "gate", "127.0.0.2", key=self.target.key)
        login = f"ssh_user: root, ssh_key: {self.target.key}, is_ephemeral: true, gpu: none"
        far = f"{{ssh_host: {self.target.address}, ssh_port: {self.target.port}, ssh_proxy: gate, {login}}}"
        lines = [f"  far-{it}: {far}" for it in range(1, HOSTS + 1)]
        lines += [f"  gate: {{ssh_host: {self.gate.address}, ssh_port: {self.gate.port}, status: gateway, {login}}}"]
        (folder / "hosts.yaml").write_text("\n".join(["hosts:", *lines, ""]))
        (folder / "probe.yaml").write_text(PROBE.replace("MARK", self.mark))
        (folder / "write.yaml").write_text(WRITE.replace("FOLDER", str(folder)))

    def argv(self, *words: str) -> tuple[str, ...]:
        return (*words, "--hosts", "all", "-i", "hosts.yaml")

    def lines(self) -> list[str]:
        return self.begun.read_text().split("\n")[:-1] if self.begun.exists() else []

    def all_are_at_it(self) -> bool:
        """Whether every host probes, or writes."""
        return HOSTS in (len(self.lines()), sum(it == ["sleep", self.mark] for it in command_lines()))

    def cut_when_all_have_begun(self, *, for_good: bool = False) -> threading.Thread:
        """Kill what serves the gateway's connection once every host is at it; *for_good*: sshd itself, too."""

        def cut() -> None:
            assert soon(self.all_are_at_it, 100)
            sessions = self.gate.sessions()
            assert len(sessions) == 1
            if for_good:
                self.gate.process.kill()
                self.gate.process.wait()
            os.kill(sessions[0], signal.SIGKILL)

        thread = threading.Thread(target=cut)
        thread.start()
        return thread

    def stop(self) -> None:
        self.target.stop()
        with contextlib.suppress(ProcessLookupError):
            self.gate.stop()


def command_lines() -> list[list[str]]:
    """Of every process."""
    found = []
    for it in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append(it.read_text(errors="replace").split("\0")[:-1])
    return found


@pytest.fixture
def place(tmp_path):
    made = Place(tmp_path)
    yield made
    made.stop()


def test_probes_are_sent_once_more_over_a_new_connection(place):
    """Mutants: each host opens its own; the lost one is used again; the run ends with the gateway."""
    cutting = place.cut_when_all_have_begun()
    said = runbook("run", *place.argv("probe.yaml"), "--output", "json", cwd=place.folder, timeout=240)
    cutting.join()
    assert said.document["totals"] == {"healthy": HOSTS}
    assert logins(place.gate) == 2
    assert soon(lambda: not place.gate.sessions())


def test_a_gateway_that_stays_away_is_the_one_reason_of_all(place):
    """Mutants: each host has words of its own; a gateway that is gone is asked by each host."""
    cutting = place.cut_when_all_have_begun(for_good=True)
    said = runbook("run", *place.argv("probe.yaml"), cwd=place.folder, timeout=240)
    cutting.join()
    assert said.code == 4
    why = f"via the gateway gate: 127.0.0.2:{place.gate.port}: connection refused"
    assert f"far-[1-4]: unreachable: {why}\n" in said.out, said.out
    assert said.out.count("check the gateway: no host behind it can be reached without it") == 1


def test_a_write_is_unknown_on_every_host_and_sent_once_and_the_gateway_is_named_once(place):
    """Mutants: sent again; the words differ between hosts; later steps still sent."""
    cutting = place.cut_when_all_have_begun()
    said = runbook("run", *place.argv("write.yaml"), "--yes", "--output", "json", cwd=place.folder, timeout=240)
    cutting.join()
    assert said.document["totals"] == {"unknown": HOSTS}
    whys = {step["why"] for host in said.document["hosts"] for step in host["steps"] if step["id"] == "write"}
    assert len(whys) == 1
    assert "(the connection to the gateway gate was lost: " in whys.pop()
    assert soon(lambda: place.lines().count("ended") == HOSTS)
    assert sorted(place.lines()) == ["begun"] * HOSTS + ["ended"] * HOSTS


@pytest.mark.parametrize(("how", "code"), [(signal.SIGKILL, -9), (signal.SIGINT, 130)])
def test_the_connection_ends_with_the_program(how, code, place):
    """Mutants: an interrupted run leaves the connection open."""
    argv = (*PROGRAM, "run", *place.argv("probe.yaml"))
    with subprocess.Popen(argv, cwd=place.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        assert soon(place.all_are_at_it, 100)
        assert len(place.gate.sessions()) == 1
        process.send_signal(how)
        assert process.wait(60) == code
    assert soon(lambda: not place.gate.sessions())
