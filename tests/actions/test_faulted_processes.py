"""The processes that a fault of a GPU names: found by pid, name and start, and ended by `end` as exactly these."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from runbook.codec import to_json
from runbook.errors import ProbeError
from runbook.language.arguments import build
from runbook.library.processes import end, faulted_processes
from runbook.protocols import Fails, Holds
from runbook.values.command import Completed
from runbook.values.plan import Change
from runbook.values.types import Unknown
from tests.support.probe_driver import Here, drive


def fault(pid: int, **keys) -> dict:
    return {"code": 13, "pid": pid, "name": "sleep", "seconds": time.time(), **keys}


def args(*xids: dict, **keys) -> faulted_processes.Args:
    return build(faulted_processes.Args, {"xids": list(xids), "pids": "host", **keys})


def look(*xids: dict, **keys):
    return drive(faulted_processes.probe(args(*xids, **keys)), Here())


@pytest.fixture
def job():
    with subprocess.Popen(["sleep", "1000"]) as process:
        time.sleep(0.1)  # noqa: TID251 a fault comes after the start of its process
        yield process
        process.kill()


@pytest.fixture
def other():
    """Another process of the same name."""
    with subprocess.Popen(["sleep", "1000"]) as process:
        yield process
        process.kill()


def test_a_process_that_a_fault_names_is_found_with_the_numbers_of_its_faults(job):
    state = look(fault(job.pid), fault(job.pid, code=31), fault(job.pid, code=13), fault(999999))
    assert [it.pid for it in state.alive] == [job.pid]
    assert [it.endswith(") sleep 1000: Xid 13, 31") for it in state.faults] == [True]
    assert isinstance(faulted_processes.holds(args(fault(1)), state), Fails)
    assert isinstance(faulted_processes.holds(args(fault(1)), look(fault(999999))), Holds)


@pytest.mark.parametrize(
    "keys",
    [
        {"name": "python3"},
        {"name": {"$unknown": "the kernel's log does not say"}},
        {"seconds": 0.0},
        {"seconds": {"$unknown": "no time"}},
        {"pid": {"$unknown": "the kernel's log does not say"}},
    ],
)
def test_a_process_with_another_name_or_that_was_started_later_is_not_the_one(job, keys):
    """A pid is given again.  Mutants: `_is_named` without the name; without the time; with unknown taken for a match."""
    assert look({**fault(job.pid), **keys}).alive == ()


def test_exactly_the_named_process_is_ended_and_no_other_of_its_name(job, other):
    """What is found here is what `end` takes."""
    chosen = build(end.Args, {"processes": to_json(look(fault(job.pid)).alive), "grace": 2})
    before = drive(end.probe(chosen), Here())
    change = end.decide(chosen, before)
    assert isinstance(change, Change)
    assert [it.pid for it in change.targets] == [job.pid]
    Here().run(*change.commands)
    job.wait(5)
    assert end.settled(chosen, before, drive(end.probe(chosen), Here()))
    assert look(fault(job.pid)).alive == ()
    assert other.poll() is None


def test_what_is_protected_is_named_and_is_not_among_those_to_end():
    """This test's own ancestors are our way in; PID 1 is nobody's victim."""
    name = Path("/proc/1/comm").read_text().strip()
    state = look(fault(1, name=name))
    assert state.alive == ()
    assert [it.pid for it in state.protected] == [1]
    chosen = build(end.Args, {"processes": to_json(tuple(it.process for it in state.protected))})
    assert "left alone: pid 1: " in end.decide(chosen, drive(end.probe(chosen), Here())).why


def test_in_a_container_the_numbers_are_those_of_the_machine_outside(job):
    """Mutants: any pid namespace is taken for the first; one that cannot be read is."""

    class Inside(Here):
        namespace = "pid:[4026532999]\n"

        def run(self, *commands):
            answers = super().run(*commands)
            return (answers[0], Completed(exit_code=0, stdout=self.namespace), answers[2])

    chosen = args(fault(job.pid), pids="auto")
    state = drive(faulted_processes.probe(chosen), Inside())
    assert isinstance(state.alive, Unknown)
    assert "machine outside" in state.alive.why
    unread = Inside()
    unread.namespace = ""
    assert isinstance(drive(faulted_processes.probe(chosen), unread).alive, Unknown)
    first = Inside()
    first.namespace = f"{faulted_processes.INITIAL}\n"
    assert [it.pid for it in drive(faulted_processes.probe(chosen), first).alive] == [job.pid]


def test_without_a_clock_no_process_is_taken_for_the_one(job):
    class Clockless(Here):
        def run(self, *commands):
            found = super().run(*commands)
            return (Completed(exit_code=1), *found[1:])

    with pytest.raises(ProbeError, match="what time it is"):
        drive(faulted_processes.probe(args(fault(job.pid))), Clockless())


def test_nothing_is_asked_where_no_fault_names_a_process():
    here = Here()
    assert drive(faulted_processes.probe(args({"code": 79, "seconds": 1.0})), here).alive == ()
    assert here.sent == []
