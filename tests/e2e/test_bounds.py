"""The limits of a run over real SSH servers: never more at work than may be, and nobody is delayed by a host that hangs.

Mutants: app/run.py connecting without the host's own cancellation; scheduling.py sleeping through a pause, or giving every
worker to hosts that wait; rollout.py ignoring hosts that cannot be reached.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.program import PROGRAM, runbook
from tests.support.sshd import Sshd, start_sshd
from tests.support.waiting import soon

pytestmark = pytest.mark.real("sshd", "root")

BOOK = """\
name: bounds
inputs: {folder: {about: Where hosts leave marks., type: string, required: true}}
remediate:
  - id: change
    command:
      check: {argv: [test, -e, "{{ inputs.folder }}/{{ host.name }}"]}
      do:
        script: |
          echo "+ $1" >> "$2/log"; sleep 0.7; echo "- $1" >> "$2/log"; touch "$2/$1"
        params: ["{{ host.name }}", "{{ inputs.folder }}"]
"""


@pytest.fixture(scope="module")
def sshd(tmp_path_factory):
    server = start_sshd(tmp_path_factory.mktemp("sshd"), "0.0.0.0")
    yield server
    server.stop()


@pytest.fixture
def silent(sshd):
    """An address at which connections are accepted, and nothing is ever said."""
    with socket.socket() as server:
        server.bind(("127.77.1.1", 0))
        server.listen(50)
        yield server.getsockname()


class Scene:
    """A playbook, an inventory of hosts of one SSH server at addresses of their own, and what they left behind."""

    def __init__(self, folder: Path, sshd: Sshd, silent: tuple[str, int]) -> None:
        self.folder, self._sshd, self._silent = folder, sshd, silent
        self.marks = folder / "marks"
        self.marks.mkdir()

    def hosts(self, names: str, hung: str = "", down: str = "", rack: str = "") -> None:
        key = f"ssh_user: root, ssh_key: {self._sshd.key}, is_ephemeral: true, gpu: none"
        lines = []
        for number, name in enumerate(names.split(), start=1):
            address, port = f"127.77.0.{number}", self._sshd.port
            if name in hung.split():
                address, port = self._silent
            elif name in down.split():
                port = 1
            more = f", rack: {rack.split()[number - 1]}" if rack else ""
            lines.append(f"  {name}: {{ssh_host: {address}, ssh_port: {port}, {key}{more}}}\n")
        (self.folder / "hosts.yaml").write_text("hosts:\n" + "".join(lines))

    def argv(self, limits: str, *options: str, book: str = BOOK) -> tuple[str, ...]:
        (self.folder / "bounds.yaml").write_text(book + (f"limits: {limits}\n" if limits else ""))
        where = ("--hosts", "all", "-i", str(self.folder / "hosts.yaml"), "-e", f"folder={self.marks}")
        return ("run", str(self.folder / "bounds.yaml"), *where, *options)

    def run(self, limits: str, *options: str, book: str = BOOK):
        return runbook(*self.argv(limits, "--yes", "--output", "json", *options, book=book), cwd=self.folder)

    def log(self) -> list[str]:
        log = self.marks / "log"
        return log.read_text().split("\n")[:-1] if log.exists() else []

    def most_at_once(self, *hosts: str) -> int:
        """The most of *hosts* (none: of all) on which the change was at work at a time."""
        now = most = 0
        for line in self.log():
            if not hosts or line[2:] in hosts:
                now += 1 if line[0] == "+" else -1
                most = max(most, now)
        return most


@pytest.fixture
def scene(tmp_path, sshd, silent) -> Scene:
    return Scene(tmp_path, sshd, silent)


def ends(said) -> dict[str, str]:
    return {it["host"]: it["verdict"] for it in said.document["hosts"]}


@pytest.mark.slow
@pytest.mark.soak
def test_no_more_hosts_are_changed_at_a_time_than_the_unreachable_ones_leave_room_for(scene):
    scene.hosts("h1 h2 h3 h4 h5 h6", down="h3")
    said = scene.run("{max_unavailable: '50%'}")
    assert ends(said) == {
        it: "unreachable" if it == "h3" else "resolved" for it in ("h1", "h2", "h3", "h4", "h5", "h6")
    }
    assert said.code == 4
    assert scene.most_at_once() <= 2
    again = scene.run("{max_unavailable: '50%'}", "--max-unavailable", "1")
    assert again.document["totals"] == {"unreachable": 1, "healthy": 5}, "healthy hosts are not held up"
    (scene.marks / "h1").unlink()
    last = scene.run("{max_unavailable: '50%'}", "--max-unavailable", "1")
    assert last.code == 5
    assert ends(last)["h1"] == "not_started"
    assert last.host("h1")["error"] == "max_unavailable 1: 1 of 6 hosts is unreachable: h3"
    assert not (scene.marks / "h1").exists()


@pytest.mark.slow
def test_hosts_of_one_rack_are_changed_one_after_the_other_and_racks_side_by_side(scene):
    scene.hosts("h1 h2 h3 h4", rack="r1 r1 r2 r2")
    said = scene.run("{max_concurrent_per: {rack: 1}}")
    assert set(ends(said).values()) == {"resolved"}
    assert (scene.most_at_once("h1", "h2"), scene.most_at_once("h3", "h4")) == (1, 1)
    assert scene.most_at_once() <= 2
    wrong = scene.run("{max_concurrent_per: {rakc: 1}}")
    assert wrong.code == 2
    assert "none of the selected hosts has a variable 'rakc' (did you mean rack?)" in wrong.err


@pytest.mark.slow
def test_hosts_are_changed_in_the_order_that_is_asked_for(scene):
    scene.hosts("h2 h1 h3")
    said = scene.run("{batches: [1]}", "--order", "reverse_sorted")
    assert [it["host"] for it in said.document["hosts"]] == ["h3", "h2", "h1"]
    assert scene.log() == [f"{sign} {host}" for host in ("h3", "h2", "h1") for sign in "+-"]


@pytest.mark.slow
@pytest.mark.soak
def test_hosts_that_hang_end_at_their_own_deadline_and_delay_nobody(scene):
    """One hangs while it is connected to, one in a probe."""
    scene.hosts("h1 h2 h3 h4", hung="h2")
    book = BOOK.replace("remediate:", 'diagnose:\n  - {id: look, timeout: 250s, command: {script: "[ $1 != h3 ] || sleep 250", params: ["{{ host.name }}"]}}\nremediate:')  # fmt: skip
    said = scene.run("{host_deadline: 20s}", "--connect-timeout", "250s", book=book)
    assert ends(said) == {"h1": "resolved", "h2": "cancelled", "h3": "cancelled", "h4": "resolved"}
    assert said.code == 1
    assert said.host("h2")["error"] == "the host's deadline of 20 s has passed while the host was being connected to"
    assert said.host("h3")["error"].startswith("the host's deadline of 20 s has passed: ")
    assert all("the host's deadline of 20 s has passed" in it["why"] for it in said.host("h3")["steps"])
    assert said.host("h3")["seconds"] < 60
    assert not (scene.marks / "h3").exists()


@pytest.mark.slow
@pytest.mark.soak
def test_a_change_that_runs_at_the_deadline_of_its_host_comes_to_its_end(scene):
    scene.hosts("h1")
    book = (
        BOOK.replace("sleep 0.7", "sleep 17")
        + """\
  - id: more
    command: {check: {argv: ["false"]}, do: {argv: [touch, "{{ inputs.folder }}/more"]}}
"""
    )
    said = scene.run("", "--host-deadline", "15s", book=book)
    assert ends(said) == {"h1": "cancelled"}
    assert (scene.marks / "h1").exists()
    assert not (scene.marks / "more").exists()
    assert said.step("h1", "change")["commands"][-1]["exit_code"] == 0 or scene.log() == ["+ h1", "- h1"]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["ctrl-c", "deadline"])
@pytest.mark.soak
def test_a_pause_between_batches_ends_at_once(scene, how):
    scene.hosts("h1 h2 h3")
    options = ("--yes", "--batches", "1,100%", "--pause-between", "10m", "--report", str(scene.folder / "report.json"))
    argv = scene.argv("", *options, *(("--deadline", "30s") if how == "deadline" else ()))
    out = scene.folder / "out"
    with out.open("w") as stream:
        process = subprocess.Popen((*PROGRAM, *argv), stdout=stream, stderr=stream, stdin=subprocess.DEVNULL)
    words = "batch 1 has ended: 1 host (h1); the next one begins in 10 min"
    assert soon(lambda: words in out.read_text(), within=60)
    began = time.monotonic()
    if how == "ctrl-c":
        process.send_signal(signal.SIGINT)
    code = process.wait(120)
    assert code == (130 if how == "ctrl-c" else 5)
    assert time.monotonic() - began < 60
    document = json.loads((scene.folder / "report.json").read_text())
    assert {it["host"]: it["verdict"] for it in document["hosts"]} == {"h1": "resolved", "h2": "not_started", "h3": "not_started"}  # fmt: skip
    assert scene.log() == ["+ h1", "- h1"]


def test_a_dry_run_says_what_the_limits_come_to(scene):
    scene.hosts("h1 h2 h3 h4 h5", down="h4")
    (scene.marks / "h2").touch()
    limits = "{batches: [1, '40%'], max_unavailable: '50%', stop_after: '50%', pause_between: 30s, order: sorted}"
    said = runbook(*scene.argv(limits, "--dry-run"), cwd=scene.folder)
    assert (
        """\
limits: batches: 3 hosts in 2 (1, 2), 30 s apart
        max_unavailable: 2 of 5 hosts
        stop_after: 3 of 5 hosts
        order: sorted
"""
        in said.out
    )
    shown = runbook(*scene.argv(limits, "--dry-run", "--output", "json"), cwd=scene.folder).document["limits"]
    assert (shown["batches"], shown["max_unavailable"], shown["stop_after"]) == ([1, 2], 2, 3)
    assert not scene.log()
