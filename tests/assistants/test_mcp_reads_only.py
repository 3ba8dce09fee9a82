"""No tool of ``runbook mcp`` has a connection that can write: the guard stands around each, whatever the tool does."""

from __future__ import annotations

import pytest

from runbook.commands import one_run
from runbook.commands.mcp import tools
from runbook.commands.mcp.served import Caller, McpOptions, Served
from runbook.commands.options import Choosing
from runbook.connections import transports
from runbook.errors import ReadOnlyViolation
from runbook.values.command import Command, Effect
from runbook.values.inventory import Host

ARGUMENTS = {
    "find": {"error": "CUDA-capable device(s) is/are busy or unavailable"},
    "list": {},
    "show": {"playbook": "tune"},
    "diagnose": {"hosts": "here"},
    "plan": {"playbook": "tune", "hosts": "here"},
    "history": {},
}
CONNECTS = {"diagnose", "plan"}


class Seen:
    """What was sent by the connections of a tool, and the functions that made them."""

    def __init__(self) -> None:
        self.sent: list[Command] = []
        self.connects: list = []
        self.hosts: list[str] = []


class Watched:
    """A connection that remembers what it was sent."""

    def __init__(self, inner, seen: Seen) -> None:
        self._inner, self._seen = inner, seen

    def run(self, *commands: Command):
        self._seen.sent += commands
        return self._inner.run(*commands)

    def close(self) -> None:
        self._inner.close()


@pytest.fixture
def seen(monkeypatch) -> Seen:
    """Real connections, each watched, and each run's own ways to make one."""
    found, load, fleet = Seen(), transports.load, one_run.Fleet

    class Transport:
        def connect(self, host: Host, options, interrupt):
            found.hosts.append(host.name)
            return Watched(load(host.transport).connect(host, options, interrupt), found)

    def made(**keys):
        found.connects += [keys["connect"], keys["elsewhere"]._connect]
        return fleet(**keys)

    monkeypatch.setattr(transports, "load", lambda _: Transport())
    monkeypatch.setattr(one_run, "Fleet", made)
    return found


def test_every_tool_is_tried_here():
    assert [tool.name for tool in tools.TOOLS] == list(ARGUMENTS)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(ARGUMENTS))
def test_a_tool_sends_no_write_and_its_connections_refuse_one(name, folder, seen, monkeypatch):
    """Mutants: one_run.py ``hiding`` without ReadOnly; served.py ``narrowed`` without ``reads_only``."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    served = Served(McpOptions(choosing=Choosing(inventory=("hosts.yaml",))))
    tools.called(served, name, ARGUMENTS[name], Caller())
    assert {command.effect for command in seen.sent} <= {Effect.READ}
    assert bool(seen.connects) is bool(seen.sent) is (name in CONNECTS)
    write = Command(argv=("touch", str(folder / "target" / "conf")), effect=Effect.WRITE)
    here = Host(name="here", transport="local")
    for number, connect in enumerate(seen.connects):
        connection = connect(here if number % 2 == 0 else "here")
        with pytest.raises(ReadOnlyViolation):
            connection.run(write)
        connection.close()
    assert list((folder / "target").iterdir()) == []
