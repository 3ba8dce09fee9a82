"""The end of a call and of the server: what runs on a host is ended there, and stdout has the protocol alone."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import anyio
import pytest

from tests.support.mcp_client import conversation, raw_server, value
from tests.support.waiting import LIMIT, soon

pytestmark = pytest.mark.slow

SLOW = """\
name: slow
diagnose:
  - {id: waits, timeout: 10m, command: {argv: [sleep, "%s"]}}
remediate:
  - {id: write, file: {path: "%s", content: "x\\n"}}
"""


@pytest.fixture
def number(folder) -> str:
    """The argument of a sleep that only this test starts."""
    made = f"6{os.getpid()}"
    (folder / "playbooks" / "slow.yaml").write_text(SLOW % (made, folder / "target" / "conf"))
    return made


def sleeps(number: str) -> bool:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes() == b"sleep\0%s\0" % number.encode():
                return True
        except OSError:
            continue
    return False


def line(identity: int, method: str, **params: object) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": identity, "method": method, "params": params}) + "\n"


HELLO = (
    line(1, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "test", "version": "1"})
    + '{"jsonrpc": "2.0", "method": "notifications/initialized"}\n'
)
CALL = line(2, "tools/call", name="plan", arguments={"playbook": "slow", "hosts": "here"})


def begun(process, number: str) -> None:
    """Let the server begin a call that waits on its host."""
    process.stdin.write(HELLO + CALL)
    process.stdin.flush()
    assert soon(lambda: sleeps(number))


def test_a_call_that_the_client_cancels_is_ended_on_the_host_and_the_next_one_is_answered(folder, number):
    """Mutants: server.py ``_in_turn`` without ``_end_with_request``; ``Caller.end`` that asks nobody."""

    async def talk(session):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.call_tool, "plan", {"playbook": "slow", "hosts": "here"})
            while not await anyio.to_thread.run_sync(sleeps, number):
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        return await session.call_tool("list", {})

    assert value(conversation(folder, talk))["playbooks"]
    assert soon(lambda: not sleeps(number))
    assert not list((folder / "state").rglob("agent-plans/*.json"))


def test_the_end_of_stdin_ends_the_server_and_what_runs_on_the_host(folder, number):
    """Mutants: a call that goes on to its end after its client is gone."""
    with raw_server(folder) as process:
        begun(process, number)
        process.stdin.close()
        assert process.wait(LIMIT) == 0
        assert not sleeps(number)
        for text in process.stdout.read().splitlines():
            assert json.loads(text)["jsonrpc"] == "2.0"
        process.stdin = None


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_ends_the_server_and_what_runs_on_the_host(name, folder, number):
    """Mutants: server.py without ``end_on_signal``; one that does not end the call."""
    with raw_server(folder) as process:
        begun(process, number)
        process.send_signal(signal.Signals[name])
        assert process.wait(LIMIT) == 128 + signal.Signals[name]
        assert soon(lambda: not sleeps(number))


def test_an_idle_server_ends_by_a_signal_too(folder):
    """Mutants: ``end_on_signal`` that waits for a line on stdin."""
    with raw_server(folder) as process:
        process.stdin.write(HELLO)
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 1
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT) == 128 + signal.SIGTERM


def test_stdout_has_one_line_of_the_protocol_for_each_answer_and_nothing_else(folder):
    """Mutants: proposals.py that gives the report of a plan no stream of its own, in place of stdout."""
    call = line(2, "tools/call", name="plan", arguments={"playbook": "tune", "hosts": "here"})
    with raw_server(folder) as process:
        process.stdin.write(HELLO + "this is no message\n" + call)
        process.stdin.flush()
        seen = [json.loads(process.stdout.readline()) for _ in range(2)]
        while 2 not in {each.get("id") for each in seen}:
            seen.append(json.loads(process.stdout.readline()))
        process.stdin.close()
        assert process.stdout.read() == ""
        assert process.wait(LIMIT) == 0
        process.stdin = None
    assert all(each["jsonrpc"] == "2.0" for each in seen)


def test_a_host_that_hangs_is_bounded_by_the_deadline_of_the_call(folder, number):
    """Mutants: cli/mcp.py without --deadline."""

    async def talk(session):
        return await session.call_tool("plan", {"playbook": "slow", "hosts": "here"})

    result = conversation(folder, talk, "--deadline", "2s")
    assert result.is_error or value(result)["hosts"][0]["verdict"] in ("cancelled", "unknown", "not_started")
    assert soon(lambda: not sleeps(number))
