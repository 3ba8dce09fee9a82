"""A host that has busybox and no other program: processes are found, distinguished and ended there too."""

from __future__ import annotations

import re
import subprocess

import pytest

from runbook.connections.transports import ssh
from runbook.execution.diagnosis.probe_types import ProbeAnswer
from runbook.language.arguments import build
from runbook.plugins import discover
from runbook.protocols import ConnectOptions
from runbook.values.plan import Change, NoChange
from runbook.values.result import Status
from tests.transports.commands import look, script
from tests.transports.direct_steps import looked, sent

pytestmark = pytest.mark.real("sshd", "busybox", "lab")


@pytest.fixture
def there(busybox, interrupt):
    made = ssh.connect(busybox.host(), ConnectOptions(), interrupt)
    yield made
    made.close()


@pytest.fixture
def holder(tmp_path, mark):
    """A process in a session of its own that holds a file."""
    (tmp_path / "held").touch()
    with (tmp_path / "held").open() as held:
        process = subprocess.Popen(["sleep", mark], stdin=held, start_new_session=True)
    yield process
    process.kill()
    process.wait()


def state_of(there, action: str, args: dict):
    outcome = looked(there, action, args).outcome
    assert isinstance(outcome, ProbeAnswer), outcome
    return outcome.state


def test_it_is_a_host_without_anything_else(there):
    (done,) = there.run(script("which python3 perl pkill; readlink /proc/$$/exe"))
    assert done.stdout == "/usr/bin/busybox\n"


def test_processes_and_holders_are_found(there, holder, tmp_path, mark):
    found = state_of(there, "processes", {"patterns": [re.escape(mark)]})
    assert [it.pid for it in found.matches] == [holder.pid]
    held = state_of(there, "device_holders", {"paths": [str(tmp_path / "held")]})
    assert [it.pid for it in held.processes] == [holder.pid]


@pytest.mark.parametrize("action", ["pkill", "fuser"])
def test_a_process_is_ended_and_nothing_is_left_to_do(action, there, holder, tmp_path, mark):
    args = {"patterns": [re.escape(mark)]} if action == "pkill" else {"paths": [str(tmp_path / "held")]}
    module = discover()[action]
    built = build(module.Args, args)
    decision = module.decide(built, state_of(there, action, args))
    assert isinstance(decision, Change)
    assert [it.pid for it in decision.targets] == [holder.pid]
    done = sent(there, *decision.commands)
    assert done.status is Status.CHANGED, done.why
    assert holder.wait(timeout=60) < 0
    assert isinstance(module.decide(built, state_of(there, action, args)), NoChange)


def test_logs_are_searched_and_waited_for(there, tmp_path):
    (tmp_path / "a log").write_text("fine\nCUDA error: out of memory\n")
    found = state_of(there, "log_scan", {"files": [f"{tmp_path}/*log"], "signatures": {"oom": "out of memory"}})
    assert "out of memory" in repr(found)
    assert there.run(look("sh", "-c", "date +%s"))[0].exit_code == 0
