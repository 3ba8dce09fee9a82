"""Components: real processes that are started, watched and ended, by every kind of shell and as a run does it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import pytest
from stage import Machine, drive, lives, shell, start_of

from actions.wholly import see, take
from engine.actions import components
from engine.errors import ConfigError, ProbeError
from engine.judge.looked import Blind, Seen
from engine.lang.arguments import build
from engine.ports import Fails, Holds
from engine.values.command import Effect
from engine.values.plan import Blocked, Change, NoChange, Risk
from engine.values.text import Unknown

HOST = os.uname().nodename
FOR_EVER = "while :; do sleep 0.2; done"


def component(folder, name, script=FOR_EVER, *words, **keys):
    """One that runs *script*."""
    return {"name": name, "argv": ["sh", "-c", script, name, *words], "log": f"{folder}/{name}.log", **keys}


def asked(folder, *chosen, **keys):
    """Arguments of a step, with little patience."""
    chosen = [component(folder, it) if isinstance(it, str) else it for it in chosen]
    return {"components": chosen, "records": f"{folder}/records", "watch": "300ms", "grace": "2s", **keys}


def record(folder, name, kind="started"):
    return (folder / "records" / HOST / f"{name}.{kind}").read_text().split()


def pid_of(folder, name):
    return int(record(folder, name)[1].partition(":")[0])


def marked(folder):
    """Every process that a component of *folder* is, or has started."""
    mark = f"RUNBOOK_COMPONENT={folder}/".encode()
    found = []
    for it in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (it / "environ").read_bytes() and lives(int(it.name)):
                found.append(int(it.name))
    return found


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path):
    """What a test has started ends with it."""
    yield
    for _ in range(50):
        there = marked(tmp_path)
        for it in there:
            with contextlib.suppress(ProcessLookupError):
                os.kill(it, signal.SIGKILL)
        if not there:
            break
        time.sleep(0.05)
    for it in tmp_path.glob("records/*/*.started"):
        watcher = int(it.read_text().split()[2].partition(":")[0])
        for _ in range(50):
            if not lives(watcher):
                break
            time.sleep(0.05)


def looked(args, machine):
    return drive(components.probe(args), machine)


def done(args, machine):
    """The look, what was decided and sent, and what a second look sees."""
    machine.sent.clear()
    before = looked(args, machine)
    assert all(it.effect is Effect.READ for it in machine.sent)
    decision = components.decide(args, before)
    assert isinstance(decision, Change), decision
    (answer,) = machine.run(*decision.commands)
    return decision, answer, looked(args, machine), before


def test_components_start_in_their_order_and_each_has_what_it_was_given(machine, tmp_path):
    odd = "a b'c\"d$HOME`x`{}@\n*\\ \n"
    show = 'printf "%s|" "$A" "$B" "$PWD" "$@"; echo; ' + FOR_EVER
    first = component(tmp_path, "first", show, odd, "@", "--x", env={"A": odd, "B": 3}, cwd=str(tmp_path))
    second = component(tmp_path, "second", delay="400ms")
    args = build(components.Args, asked(tmp_path, first, second))
    decision, answer, after, _ = done(args, machine)
    assert answer.exit_code == 0, answer.stderr
    assert (after.running, after.down, after.died) == (("first", "second"), (), ())
    assert isinstance(components.decide(args, after), NoChange)
    assert isinstance(components.holds(args, after), Holds)
    assert (tmp_path / "first.log").read_text() == "|".join([odd, "3", str(tmp_path), odd, "@", "--x"]) + "|\n"
    began = [int(record(tmp_path, it)[4]) for it in ("first", "second")]
    assert 40 <= began[1] - began[0] < 250
    for it in after.parts:
        assert lives(it.pid)
        assert start_of(it.pid) == it.start
        assert os.getsid(it.pid) == os.getpgid(it.pid) == it.pid
        assert b"RUNBOOK_LANE" not in Path(f"/proc/{it.pid}/environ").read_bytes()


def test_the_first_that_dies_is_named_with_its_code_and_the_others_are_ended(machine, tmp_path):
    dies = component(tmp_path, "inference", "echo loading; echo out of memory >&2; sleep 0.3; exit 7")
    args = build(components.Args, asked(tmp_path, "broker", dies, "trainer", watch="5s"))
    _, answer, after, before = done(args, machine)
    assert answer.exit_code == 1, answer.stderr
    assert (after.running, after.first) == ((), "inference")
    assert [it.status for it in after.parts] == ["stopped", "ended", "stopped"]
    assert [it.exit_code for it in after.parts] == [143, 7, 143]
    why = components.explain(args, before, after)
    assert "the first that died: inference ended after 0." in why
    assert "with exit code 7" in why
    assert "[inference] loading | [inference] out of memory" in why
    assert why.endswith("ended for that: broker, trainer")
    assert marked(tmp_path) == []
    assert isinstance(components.holds(args, after), Fails)


def test_all_are_ended_the_last_first_with_what_they_have_started(machine, tmp_path):
    parent = component(tmp_path, "parent", f"setsid sh -c '{FOR_EVER}' & {FOR_EVER}")
    deaf = component(tmp_path, "deaf", f"trap '' TERM; {FOR_EVER}")
    args = asked(tmp_path, parent, deaf, grace="400ms")
    done(build(components.Args, args), machine)
    before = marked(tmp_path)
    assert len(before) >= 3
    absent = build(components.Args, {**args, "state": "absent"})
    decision, answer, after, _ = done(absent, machine)
    assert answer.exit_code == 0, answer.stderr
    assert decision.risk is Risk.KILLS_PROCESSES
    assert {it.pid for it in decision.targets} == {pid_of(tmp_path, it) for it in ("parent", "deaf")}
    assert (after.running, after.left, after.died) == ((), (), ())
    assert [it.exit_code for it in after.parts] == [143, 137]
    assert int(record(tmp_path, "deaf", "ended")[2]) <= int(record(tmp_path, "parent", "ended")[2])
    assert marked(tmp_path) == []
    assert isinstance(components.decide(absent, after), NoChange)
