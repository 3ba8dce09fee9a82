"""A line that is cut at any byte: what is said of the step is true, and no write is ever sent twice."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from runbook.commands.input_files import read_playbook
from runbook.commands.one_run import Run
from runbook.commands.order import Order
from runbook.errors import ConnectionLost
from runbook.execution.executor import Consent
from runbook.execution.fleet import Cancellation
from runbook.plugins import discover
from runbook.protocols import ConnectOptions
from runbook.values.event import RunFinished
from runbook.values.inventory import Address, Inventory, Selection
from runbook.values.result import HostResult, Status, Verdict
from tests.support.waiting import appears, reads
from tests.transports.commands import change, look
from tests.transports.cut_relay import Cutter
from tests.transports.ssh_login import connected

pytestmark = pytest.mark.real("sshd", "root")

PLAYBOOK = """
name: once
about: Writes one line, if there is none.
hosts: all
inputs:
  file: {about: Where., type: string, required: true}
  until: {about: The file until which the write goes on after the line., type: string, default: /}
diagnose:
  - id: uptime
    command: {argv: [cat, /proc/uptime]}
remediate:
  - id: add
    command:
      check: {script: 'test -s "$1"', params: ["{{ inputs.file }}"]}
      do: {script: 'echo x >> "$1"; until [ -e "$2" ]; do sleep 0.1; done', params: ["{{ inputs.file }}", "{{ inputs.until }}"]}
"""


@pytest.fixture(scope="module")
def playbook(tmp_path_factory):
    path = tmp_path_factory.mktemp("playbook") / "once.yaml"
    path.write_text(PLAYBOOK)
    return read_playbook(path, discover())


def ended(playbook, sshd, cutter: Cutter, file: Path, until: Path = Path("/")) -> HostResult:
    """What a whole run through *cutter* says of the host, whose write goes on until *until* is there."""
    inputs = {"file": str(file), "until": str(until)}
    host = sshd.host(addresses=(Address(host="127.0.0.1", port=cutter.port),))
    told: list[RunFinished] = []

    class Listens:
        def on(self, event) -> None:
            told.extend([event] if isinstance(event, RunFinished) else [])

    order = Order(
        playbook=playbook,
        inputs=inputs,
        parts={"": inputs},
        inventory=Inventory(hosts=(host,)),
        selection=Selection(hosts=(host,)),
        options=ConnectOptions(connect_timeout=20),
    )
    Run(order, [Listens()], Cancellation()).go(Consent.YES)
    return told[0].result.hosts[0]


def lines_in(file: Path) -> int:
    return len(file.read_text().splitlines()) if file.exists() else 0


def test_uncut_it_writes_one_line(playbook, sshd, tmp_path):
    cutter = Cutter((sshd.address, sshd.port))
    result = ended(playbook, sshd, cutter, tmp_path / "file")
    assert (result.verdict, lines_in(tmp_path / "file")) == (Verdict.RESOLVED, 1)
    cutter.close()


def places(total: int, number: int) -> list[int]:
    """Bytes after which to cut: denser towards the end, where the write and the second probe are."""
    even = [total * it // number for it in range(number)]
    late = [total * (2 * number + it) // (3 * number) for it in range(number)]
    end = [total - left for left in (*range(4000, 0, -300), 40, 1)]
    return sorted({0, 1, 25, *even, *late, *end})


@pytest.mark.soak
@pytest.mark.parametrize("direction", ["up", "down"])
def test_wherever_the_line_is_cut_the_truth_is_told_and_nothing_is_written_twice(direction, playbook, sshd, tmp_path):
    whole = Cutter((sshd.address, sshd.port))
    ended(playbook, sshd, whole, tmp_path / "whole")
    whole.close()
    seen: dict[Status, int] = {}

    def attempted(number: int, after: int) -> None:
        file = tmp_path / f"file{after}"
        manner, always = ("reset", "close")[number % 2], number % 4 < 2
        cutter = Cutter((sshd.address, sshd.port), after=after, direction=direction, manner=manner, always=always)
        began = time.monotonic()
        result = ended(playbook, sshd, cutter, file)
        spent = time.monotonic() - began
        cutter.close()
        if result.verdict is not Verdict.RESOLVED:
            time.sleep(0.7)  # noqa: TID251 a write that was sent runs on without us, and nothing tells of its end
        step = next(it for it in result.steps if it.id == "add")
        seen[step.status] = seen.get(step.status, 0) + 1
        written = lines_in(file)
        say = f"after {after} bytes {direction}: {result.verdict}, {step.status} ({step.why}), {written} lines"
        assert spent < 60, say
        assert written <= 1, say
        assert step.status in TRUE[written], say
        assert result.verdict in VERDICTS[step.status], say
        assert "\n" not in step.why, say

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(attempted, *zip(*enumerate(places(whole.passed[direction], 8)), strict=True)))
    assert {Status.UNREACHABLE, Status.CHANGED} <= set(seen) <= {*VERDICTS}


TRUE = {
    0: {Status.UNREACHABLE, Status.UNKNOWN},
    1: {Status.UNKNOWN, Status.CHANGED},
}
"""What may be said of the step, by the lines that it wrote."""

VERDICTS = {
    Status.UNREACHABLE: {Verdict.UNREACHABLE},
    Status.UNKNOWN: {Verdict.UNKNOWN},
    Status.CHANGED: {Verdict.RESOLVED},
}


@pytest.mark.parametrize("manner", ["reset", "close"])
def test_a_line_that_is_cut_for_good_in_the_middle_of_a_write_leaves_the_step_unknown(
    manner, playbook, sshd, tmp_path, relayed
):
    cutter = relayed((sshd.address, sshd.port), manner=manner)
    threading.Thread(target=lambda: (appears(tmp_path / "file"), cutter.cut())).start()
    result = ended(playbook, sshd, cutter, tmp_path / "file", until=tmp_path / "go")
    step = next(step for step in result.steps if step.id == "add")
    assert (result.verdict, step.status) == (Verdict.UNKNOWN, Status.UNKNOWN), step.why
    (tmp_path / "go").touch()
    time.sleep(1)  # noqa: TID251 that it is not written again shows with time only
    assert lines_in(tmp_path / "file") == 1


@pytest.mark.soak
def test_a_line_that_falls_silent_in_a_write_is_lost_in_time_and_the_write_is_done_once(sshd, interrupt, tmp_path):
    cutter = Cutter((sshd.address, sshd.port))
    connection = connected(sshd.host(addresses=(Address(host="127.0.0.1", port=cutter.port),)), interrupt)
    connection.run(look("true"))
    log, frozen, began = tmp_path / "log", tmp_path / "frozen", time.monotonic()
    threading.Thread(target=lambda: (appears(log), cutter.freeze(), frozen.touch())).start()
    with pytest.raises(ConnectionLost) as caught:
        connection.run(
            change(f"echo x >> {log}; until [ -e {frozen} ]; do sleep 0.1; done; echo y >> {log}", timeout=10)
        )
    assert caught.value.sent
    assert time.monotonic() - began < 60
    assert reads(tmp_path / "log", "x\ny\n")
    connection.close()
    cutter.close()
