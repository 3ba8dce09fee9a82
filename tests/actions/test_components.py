"""Components: real processes that are started, watched and ended, by every kind of shell and as a run does it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from runbook.codec import to_json
from runbook.errors import ConfigError, ProbeError
from runbook.execution.diagnosis.probe_types import ProbeAnswer
from runbook.language.arguments import build
from runbook.library.processes import components
from runbook.library.processes.components.discovery import with_found
from runbook.library.processes.components.supervision import Remains, ask_components, end_components, read_components
from runbook.library.processes.components.supervision import start_components as start
from runbook.library.processes.facts.table import Table
from runbook.protocols import Fails, Holds
from runbook.values.command import Effect
from runbook.values.plan import Blocked, Change, NoChange, Risk
from runbook.values.types import Unknown
from tests.support.probe_driver import drive
from tests.support.real_processes import NOBODY, Machine, lives, start_of
from tests.support.run_step import see, take
from tests.support.tables import every_row
from tests.support.waiting import gone, soon, until

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

    def ended() -> bool:
        there = marked(tmp_path)
        for it in there:
            with contextlib.suppress(ProcessLookupError):
                os.kill(it, signal.SIGKILL)
        return not there

    soon(ended)
    for it in tmp_path.glob("records/*/*.started"):
        watcher = int((it.read_text().split() or ["", "", "0"])[2].partition(":")[0])
        soon(partial(gone, watcher))


def kill(pid):
    """End it, for certain."""
    os.kill(pid, signal.SIGKILL)
    until(lambda: not lives(pid))


def kill_all_of(folder, name):
    """End a component with what it has started."""
    os.killpg(pid_of(folder, name), signal.SIGKILL)
    until(lambda: (folder / "records" / HOST / f"{name}.ended").exists())


def looked(args, machine):
    return drive(components.probe(args), machine)


def done(args, machine):
    """The look, what was decided and sent, and what a second probe sees."""
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
    _, answer, after, _ = done(args, machine)
    assert answer.exit_code == 0, answer.stderr
    assert (after.running, after.down, after.died) == (("first", "second"), (), ())
    assert isinstance(components.decide(args, after), NoChange)
    assert isinstance(components.holds(args, after), Holds)
    until(lambda: "--x" in (tmp_path / "first.log").read_text())
    assert (tmp_path / "first.log").read_text() == "|".join([odd, "3", str(tmp_path), odd, "@", "--x"]) + "|\n"
    began = [int(record(tmp_path, it)[4]) for it in ("first", "second")]
    assert began[1] - began[0] >= 40
    for it in after.parts:
        assert lives(it.pid)
        assert start_of(it.pid) == it.start
        assert os.getsid(it.pid) == os.getpgid(it.pid) == it.pid
        assert b"runbook_" not in Path(f"/proc/{it.pid}/environ").read_bytes()
        ignored = next(line for line in Path(f"/proc/{it.pid}/status").read_text().splitlines() if "SigIgn" in line)
        assert not int(ignored.split()[1], 16) & 0b11, "HUP and INT reach it"
        assert sorted(os.listdir(f"/proc/{it.pid}/fd"))[:3] == ["0", "1", "2"]
        assert os.readlink(f"/proc/{it.pid}/fd/0") == "/dev/null"


def test_the_first_that_dies_is_named_with_its_code_and_the_others_are_ended(machine, tmp_path):
    dies = component(tmp_path, "inference", "echo loading; echo out of memory >&2; sleep 0.3; exit 7")
    args = build(components.Args, asked(tmp_path, "broker", dies, "trainer", watch="5s"))
    _, answer, after, before = done(args, machine)
    assert answer.exit_code == 1, answer.stderr
    assert (after.running, after.first) == ((), "inference")
    assert [it.status for it in after.parts] == ["stopped", "ended", "stopped"]
    assert [it.exit_code for it in after.parts] == [143, 7, 143]
    why = components.explain(args, before, after)
    assert "died first: inference ended after " in why
    assert "with exit code 7" in why
    assert "[inference] loading | [inference] out of memory" in why
    assert why.endswith("ended because of that: broker, trainer")
    assert marked(tmp_path) == []
    assert isinstance(components.holds(args, after), Fails)


def test_all_are_ended_the_last_first_with_what_they_have_started(machine, tmp_path):
    parent = component(tmp_path, "parent", f"setsid sh -c '{FOR_EVER}' & {FOR_EVER}")
    deaf = component(tmp_path, "deaf", f"trap '' TERM; {FOR_EVER}")
    args = asked(tmp_path, parent, deaf, grace="1s")
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


def test_the_last_lines_of_each_log_have_its_name_and_none_of_an_earlier_start(machine, tmp_path):
    (tmp_path / "noisy.log").write_text("of an earlier start\n")
    says = 'printf "first\\n10%%\\r90%%\\r\\ncaf\\351\\nno newline"; ' + FOR_EVER
    args = build(components.Args, asked(tmp_path, component(tmp_path, "noisy", says), "silent", lines=9))
    done(args, machine)
    until(lambda: b"no newline" in (tmp_path / "noisy.log").read_bytes())
    after = looked(args, machine)
    assert after.said == ("[noisy] first", "[noisy] 90%", "[noisy] caf\udce9", "[noisy] no newline")
    assert (tmp_path / "noisy.log").read_text(errors="replace").startswith("of an earlier start\nfirst\n")
    assert [it.last for it in after.parts][1] == ()
    assert looked(replace(args, lines=1), machine).said == ("[noisy] no newline",)


@pytest.fixture
def host():
    """This machine."""
    return Machine()


@pytest.mark.slow
def test_what_was_begun_before_is_watched_too_and_ended_with_the_others(host, tmp_path):
    chosen = ["old", "new"]
    done(build(components.Args, asked(tmp_path, "old")), host)
    args = build(components.Args, asked(tmp_path, *chosen, component(tmp_path, "dies", "exit 3")))
    decision, answer, after, before = done(args, host)
    assert (answer.exit_code, after.running, after.first) == (1, (), "dies")
    assert "watch them for 0.3 s, and end all (also old) if one dies" in decision.summary
    assert decision.risk is Risk.KILLS_PROCESSES
    assert "ended because of that: old, new" in components.explain(args, before, after)


def test_a_long_line_of_arguments_reaches_the_program_whole(tmp_path):
    words = [f"--option-{it} {'x' * 40}'\n" for it in range(300)]
    chosen = component(tmp_path, "one", f'for it; do printf "%s|" "$it"; done; {FOR_EVER}', *words)
    taken = take("components", asked(tmp_path, chosen))
    assert taken.status == "changed", taken.why
    until(lambda: words[-1] in (tmp_path / "one.log").read_text())
    assert (tmp_path / "one.log").read_text() == "".join(f"{it}|" for it in words)


def test_what_runs_otherwise_than_is_asked_for_is_left_alone_and_said(host, tmp_path):
    done(build(components.Args, asked(tmp_path, component(tmp_path, "one", env={"A": "1"}), "two")), host)
    args = build(components.Args, asked(tmp_path, component(tmp_path, "one", env={"A": "2"}), "two"))
    state = looked(args, host)
    decision = components.decide(args, state)
    assert (state.running, state.differing) == (("one", "two"), ("one",))
    assert isinstance(decision, NoChange)
    assert "; started with other settings than given now: one" in decision.why


def test_what_would_be_ended_is_shown_as_it_runs_and_not_as_it_is_asked_for_now(machine, tmp_path):
    done(build(components.Args, asked(tmp_path, component(tmp_path, "one", FOR_EVER, "a\nb", ""))), machine)
    args = build(components.Args, asked(tmp_path, component(tmp_path, "one", "exit 3", "c"), state="absent"))
    state = looked(args, machine)
    assert state.parts[0].command == f"sh -c {FOR_EVER} one a b"
    decision = components.decide(args, state)
    assert isinstance(decision, Change)
    assert [it.command for it in decision.targets] == [f"sh -c {FOR_EVER} one a b"]


def test_others_are_left_running_where_that_is_wished(host, tmp_path):
    args = build(components.Args, asked(tmp_path, "stays", component(tmp_path, "dies", "exit 0"), end_others=False))
    decision, answer, after, before = done(args, host)
    assert (answer.exit_code, after.running, decision.risk) == (1, ("stays",), Risk.EDITS_FILES)
    why = components.explain(args, before, after)
    assert "dies ended after " in why
    assert "with exit code 0 (ended normally)" in why
    assert f"its log {tmp_path}/dies.log is empty" in why
    assert f"still running: stays (pid {pid_of(tmp_path, 'stays')})" in why


def test_the_first_that_died_is_so_by_time_and_not_by_its_place(host, tmp_path):
    late, soon = component(tmp_path, "late", "sleep 1; exit 2"), component(tmp_path, "soon", "exit 3")
    args = build(components.Args, asked(tmp_path, late, soon, end_others=False))
    done(args, host)
    until(lambda: (tmp_path / "records" / HOST / "late.ended").exists())
    state = looked(args, host)
    assert (state.first, [it.name for it in state.died]) == ("soon", ["soon", "late"])
    assert [it.exit_code for it in state.died] == [3, 2]
    assert state.failed == state.died


def test_what_dies_during_a_delay_keeps_the_rest_from_being_started(host, tmp_path):
    late = component(tmp_path, "late", delay="600s")  # more than a command may take here
    args = build(components.Args, asked(tmp_path, component(tmp_path, "dies", "sleep 0.2; kill -9 $$"), late))
    _, answer, after, before = done(args, host)
    assert (answer.exit_code, after.first) == (1, "dies")
    assert [it.status for it in after.parts] == ["ended", "never"]
    why = components.explain(args, before, after)
    assert "exit code 137 (SIGKILL: killed)" in why
    assert "not started: late" in why


@pytest.mark.slow
def test_of_two_that_saw_the_same_only_one_starts_anything(host, tmp_path):
    args = build(components.Args, asked(tmp_path, "one"))
    state = looked(args, host)
    first, second = (components.decide(args, state).commands for _ in range(2))
    assert host.run(*first)[0].exit_code == 0
    there = record(tmp_path, "one")
    (answer,) = host.run(*second)
    assert answer.exit_code == 11
    assert "nothing was done" in components.refused(second[0], answer)
    assert record(tmp_path, "one") == there
    end = build(components.Args, asked(tmp_path, "one", state="absent"))
    stale = components.decide(end, looked(end, host))
    args = build(components.Args, asked(tmp_path, "one", "two"))
    done(args, host)
    assert host.run(*stale.commands)[0].exit_code == 11
    assert host.run(*second)[0].exit_code == 11, "its turn is long over, and nobody holds that number any more"
    assert looked(args, host).running == ("one", "two")


@pytest.mark.real("lab")
def test_on_a_full_disk_they_are_ended_and_none_is_started(machine, tmp_path):
    disk = tmp_path / "records"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", disk], check=True)
    try:
        args = build(components.Args, asked(tmp_path, "one"))
        done(args, machine)
        with contextlib.suppress(OSError), (disk / "x").open("wb", 0) as full:
            while full.write(b"x" * 4096):
                pass
        both = build(components.Args, asked(tmp_path, "one", "two"))
        decision = components.decide(both, looked(both, machine))
        (answer,) = machine.run(*decision.commands)
        assert (answer.exit_code, answer.stderr.count("cannot be written to")) == (12, 1), answer.stderr
        assert not (tmp_path / "two.log").exists()
        _, answer, after, _ = done(build(components.Args, asked(tmp_path, "one", state="absent")), machine)
        assert (answer.exit_code, after.running, marked(tmp_path)) == (0, (), []), answer.stderr
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


@contextlib.contextmanager
def started_slowly(args, machine, folder):
    """A start that has started one, and waits with the next until it may go on: its answers to come, and what lets it go on."""
    (command,) = components.decide(args, looked(args, machine)).commands
    wait = f"until [ -e '{folder}/on' ]; do sleep 0.1; done"
    script = command.script.replace('watch_for "$delay"', wait)
    assert script != command.script
    with ThreadPoolExecutor() as pool:
        slow = pool.submit(machine.run, replace(command, script=script))
        try:
            until(lambda: (folder / "records" / HOST / "one.started").exists())
            yield slow, (folder / "on").touch
        finally:
            (folder / "on").touch()


def test_a_start_that_somebody_else_has_overtaken_goes_no_further(host, tmp_path):
    args = build(components.Args, asked(tmp_path, "one", component(tmp_path, "two", delay="1s")))
    with started_slowly(args, host, tmp_path) as (slow, go_on):
        (tmp_path / "records" / HOST / "turn.1").unlink()
        go_on()
        (answer,) = slow.result()
    assert (answer.exit_code, looked(args, host).running) == (11, ("one",))


def test_while_somebody_starts_them_nobody_else_does(host, tmp_path):
    args = build(components.Args, asked(tmp_path, "one", component(tmp_path, "two", delay="3s")))
    with started_slowly(args, host, tmp_path) as (slow, go_on):
        for wanted in ("present", "absent"):
            again = build(components.Args, asked(tmp_path, "one", "two", state=wanted))
            decision = components.decide(again, looked(again, host))
            assert isinstance(decision, Blocked)
            assert "is starting or ending components" in decision.why
        go_on()
        assert slow.result()[0].exit_code == 0
    assert looked(args, host).running == ("one", "two")


def rewrite(folder, name, number, word):
    """Another word in a record."""
    path = folder / "records" / HOST / f"{name}.started"
    words = path.read_text().split()
    words[number] = word
    path.write_text(f"{' '.join(words)}\n")


def test_a_pid_that_somebody_else_has_now_is_neither_ours_nor_ended(host, tmp_path, stage):
    args = build(components.Args, asked(tmp_path, component(tmp_path, "one", "sleep 0.5; exit 1"), watch=0))
    done(args, host)
    until(lambda: (tmp_path / "records" / HOST / "one.ended").exists())
    other = stage.job()
    rewrite(tmp_path, "one", 1, f"{other.pid}:{start_of(other.pid) - 1}")
    (tmp_path / "records" / HOST / "one.ended").unlink()
    state = looked(args, host)
    assert (state.running, state.parts[0].status) == ((), "lost")
    absent = build(components.Args, asked(tmp_path, "one", state="absent"))
    assert isinstance(components.decide(absent, looked(absent, host)), NoChange)
    command = end_components(
        [replace(state.parts[0], pid=other.pid, start=start_of(other.pid))], (), args.records, state.turn, grace=1
    )
    (answer,) = host.run(command)
    assert (answer.exit_code, lives(other.pid)) == (1, True), answer.stderr


@pytest.mark.parametrize("text", ["", "1 2:3 4:5 boot 6 7\n", "1 2 4:5 boot 6 7 8 abc\n", "1 2:3 4:5 boot x 7 8 abc\n"])
def test_a_damaged_record_is_named_and_so_is_what_to_do_about_it(host, tmp_path, text):
    args = build(components.Args, asked(tmp_path, "one", state="absent"))
    done(build(components.Args, asked(tmp_path, "one")), host)
    pid, path = pid_of(tmp_path, "one"), tmp_path / "records" / HOST / "one.started"
    path.write_text(text)
    with pytest.raises(ProbeError, match=rf"the record {path} is damaged.*: end .*pid {pid}.*, then remove that file"):
        looked(args, host)
    os.killpg(pid, signal.SIGKILL)
    until(lambda: not marked(tmp_path))
    with pytest.raises(ProbeError, match=r"is damaged.*; nothing of it runs: remove that file"):
        looked(args, host)
    path.unlink()
    assert isinstance(components.decide(args, looked(args, host)), NoChange)


def test_a_damaged_record_of_an_end_is_no_exit_code(host, tmp_path):
    args = build(components.Args, asked(tmp_path, component(tmp_path, "one", "exit 4")))
    done(args, host)
    path = tmp_path / "records" / HOST / "one.ended"
    path.write_text(f"{path.read_text().split()[0]} \n")
    state = looked(args, host)
    assert (state.parts[0].status, isinstance(state.parts[0].exit_code, Unknown)) == ("lost", True)


def test_after_a_reboot_nothing_of_before_runs(host, tmp_path):
    args = build(components.Args, asked(tmp_path, "one"))
    done(args, host)
    rewrite(tmp_path, "one", 3, "another-boot")
    state = looked(args, host)
    assert (state.running, state.down) == ((), ("one",))
    assert isinstance(state.parts[0].exit_code, Unknown)
    assert "the host was rebooted" in state.parts[0].exit_code.why
    assert state.left, "what bears its mark is seen all the same"


def test_whose_end_nobody_saw_has_no_exit_code(host, tmp_path):
    args = build(components.Args, asked(tmp_path, "one", "two"))
    done(args, host)
    watcher = int(record(tmp_path, "one")[2].partition(":")[0])
    os.kill(watcher, signal.SIGTERM)
    time.sleep(0.2)  # noqa: TID251 in which the TERM would end it
    assert lives(watcher), "a stray TERM does not end it"
    kill(watcher)
    assert looked(args, host).running == ("one", "two")
    kill(pid_of(tmp_path, "one"))
    state = looked(args, host)
    assert (state.parts[0].status, state.first) == ("lost", "one")
    assert isinstance(state.parts[0].exit_code, Unknown)
    assert state.failed == ()
    assert "the watcher of " in state.ends[0]
    kill(pid_of(tmp_path, "two"))
    state = looked(args, host)
    assert (state.parts[1].exit_code, len(state.died)) == (137, 2)
    assert isinstance(state.first, Unknown)


@pytest.mark.slow
def test_what_a_dead_component_leaves_behind_is_in_the_way_until_it_is_ended(host, tmp_path):
    given = asked(tmp_path, component(tmp_path, "one", f"setsid sh -c '{FOR_EVER}' & {FOR_EVER}"), "two")
    args = build(components.Args, given)
    done(args, host)
    kill(pid_of(tmp_path, "one"))
    state = looked(args, host)
    assert (state.running, state.first) == (("two",), "one")
    assert {it.component for it in state.left} == {"one"}
    decision = components.decide(args, state)
    assert isinstance(decision, Blocked)
    assert "left behind: pid " in decision.why
    decision, answer, after, _ = done(build(components.Args, {**given, "state": "absent"}), host)
    assert {pid_of(tmp_path, "two"), min(it.pid for it in state.left)} <= {it.pid for it in decision.targets}
    assert (answer.exit_code, after.running, after.left, marked(tmp_path)) == (0, (), (), [])


def test_what_is_left_in_a_session_without_the_mark_is_named_and_in_the_way_but_not_ended(machine, tmp_path):
    hides = component(tmp_path, "one", "set -m; env -i sleep 50 & env -i sleep 50 & exec sleep 50")
    args = build(components.Args, asked(tmp_path, hides))
    _, _, after, _ = done(args, machine)
    leader = after.parts[0].pid
    assert after.strays == ()

    def others():
        return {int(it.name) for it in Path("/proc").glob("[0-9]*") if session_of(it) == leader} - {leader}

    there = others()
    assert len(there) == 2
    try:
        kill(leader)
        state = looked(args, machine)
        assert (state.left, {it.pid for it in state.strays}) == ((), there)
        absent = build(components.Args, asked(tmp_path, "one", state="absent"))
        for it in (args, absent):
            decision = components.decide(it, looked(it, machine))
            assert isinstance(decision, Blocked)
            assert all(f"pid {pid} (sleep) of one" in decision.why for pid in there)
        assert isinstance(components.holds(absent, state), Fails)
        assert others() == there
    finally:
        for pid in there:
            os.kill(pid, signal.SIGKILL)
    until(lambda: not others())
    state = looked(args, machine)
    assert state.strays == ()
    assert isinstance(components.decide(args, state), Change)


def session_of(folder):
    """The session of the process in *folder* of /proc; none where it is gone."""
    line = read(folder / "stat").decode(errors="replace").rpartition(") ")[2].split()
    return int(line[3]) if line and line[0] not in "ZX" else 0


@pytest.mark.slow
def test_a_process_that_only_tells_of_the_mark_is_neither_left_behind_nor_ended(host, tmp_path):
    args = build(components.Args, asked(tmp_path, "one"))
    done(args, host)
    mark = f"RUNBOOK_COMPONENT={tmp_path}/records/{HOST}/one;"
    told = [
        {"NOTE": f"see {mark}"},
        {"NOTE": f"\n{mark}\n"},
        {"RUNBOOK_COMPONENT": f"{mark[18:]} x"},
        {"X" + mark[:17]: mark[18:]},
    ]
    with contextlib.ExitStack() as ends:
        others = [subprocess.Popen(["sleep", "60"], env={**os.environ, **it}) for it in told]
        for it in others:
            ends.callback(it.wait)
            ends.callback(it.kill)
        kill_all_of(tmp_path, "one")
        assert looked(args, host).left == ()
        done(args, host)
        done(build(components.Args, asked(tmp_path, "one", state="absent")), host)
        assert [it.poll() for it in others] == [None] * len(others)


@pytest.mark.real("root", "setpriv")
def test_another_user_s_process_with_our_mark_is_neither_left_behind_nor_in_the_way_nor_ended(machine, tmp_path, stage):
    """Mutants: probe_scripts.py without the check of the uids in ``marked``; only the first of them compared."""
    mark = {**os.environ, "RUNBOOK_COMPONENT": f"{tmp_path}/records/{HOST}/one;"}
    theirs = stage.start([*NOBODY, "sh", "-c", "echo up; exec sleep 600"], env=mark)
    half = 'import os, time; os.setresuid(65534, 0, 65534); print("up", flush=True); time.sleep(600)'
    as_sudo_waits = stage.start(["/usr/bin/python3", "-c", half], env=mark)
    args = build(components.Args, asked(tmp_path, "one"))
    _, answer, after, before = done(args, machine)
    assert (answer.exit_code, before.left, after.left, after.running) == (0, (), (), ("one",)), answer.stderr
    (tmp_path / "records" / HOST / "one.started").write_text("1 4194302:3 4194301:5 damaged\n")  # no such pids
    with pytest.raises(ProbeError, match=r"damaged.* end pid") as told:
        looked(args, machine)
    assert f"pid {theirs.pid}" not in str(told.value)
    assert lives(theirs.pid)
    assert lives(as_sudo_waits.pid)


def test_what_is_left_behind_is_ended_without_the_component_that_was_started_since(host, tmp_path):
    args = build(
        components.Args, asked(tmp_path, component(tmp_path, "one", f"setsid sh -c '{FOR_EVER}' & {FOR_EVER}"))
    )
    _, _, after, _ = done(args, host)
    leader = after.parts[0].pid
    (child,) = [it for it in marked(tmp_path) if session_of(Path(f"/proc/{it}")) == it != leader]
    left = Remains(component="one", pid=child, start=start_of(child), state="S", user="", command="sh")
    host.run(end_components((), [left], args.records, after.turn, grace=5))
    assert (lives(child), lives(leader)) == (False, True)


def test_the_first_to_die_leaves_nothing_behind_when_the_others_are_ended(host, tmp_path):
    launcher = component(tmp_path, "launcher", f"setsid sh -c '{FOR_EVER}' & sleep 0.4; exit 1")
    args = build(components.Args, asked(tmp_path, launcher, "two", watch="5s"))
    _, answer, after, _ = done(args, host)
    assert (answer.exit_code, after.first, after.left, marked(tmp_path)) == (1, "launcher", (), [])


def test_what_is_missing_is_said_and_nothing_is_started(host, tmp_path):
    (tmp_path / "here.log").mkdir()
    chosen = [
        component(tmp_path, "fine"),
        component(tmp_path, "folder", cwd=f"{tmp_path}/no-such"),
        {**component(tmp_path, "log"), "log": f"{tmp_path}/none/x.log"},
        {**component(tmp_path, "here"), "log": f"{tmp_path}/here.log"},
        {**component(tmp_path, "program"), "argv": ["surely-no-such", "x"]},
        {**component(tmp_path, "path"), "env": {"PATH": "/nowhere"}},
    ]
    args = build(components.Args, asked(tmp_path, *chosen))
    decision = components.decide(args, looked(args, host))
    assert isinstance(decision, Blocked)
    for words in (
        f"folder: there is no directory {tmp_path}/no-such",
        f"log: there is no directory {tmp_path}/none for its log",
        f"here: its log {tmp_path}/here.log is not a file",
        "program: there is no program surely-no-such",
        "path: there is no program sh (searched in /nowhere)",
    ):
        assert words in decision.why
    assert "fine:" not in decision.why
    assert not (tmp_path / "records").exists()


def test_a_host_without_setsid_is_told_so(tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    for it in ("sh", "uname", "grep", "tr", "sed", "id", "stat", "date", "wc", "tail", "readlink", "timeout"):
        (tools / it).symlink_to(shutil.which(it))
    host = Machine(shell=("env", "-i", f"PATH={tools}", str(tools / "sh")))
    args = build(components.Args, asked(tmp_path, "one"))
    decision = components.decide(args, looked(args, host))
    assert isinstance(decision, Blocked)
    assert "setsid is not installed on this host" in decision.why


@pytest.mark.real("root")
def test_root_starts_nothing_in_a_directory_that_another_user_can_put_files_in(host, tmp_path):
    """Mutants: probe_scripts.py ``obstacles``, start_stop_scripts.py ``START`` without ``fit_to_work_in``."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    args = build(components.Args, asked(tmp_path, component(tmp_path, "one", cwd=str(theirs))))
    change = components.decide(args, looked(args, host))
    assert isinstance(change, Change)
    os.chown(theirs, 65534, 65534)
    decision = components.decide(args, looked(args, host))
    assert isinstance(decision, Blocked)
    assert f"one: its directory {theirs}: {theirs} belongs to nobody" in decision.why
    assert "give the step `become: nobody`" in decision.why
    (done,) = host.run(change.commands[0])
    assert done.exit_code not in (0, None)
    assert f"{theirs} belongs to nobody" in done.stderr
    assert marked(tmp_path) == []


@pytest.mark.real("root")
def test_records_of_another_user_are_not_believed(host, tmp_path):
    args = build(components.Args, asked(tmp_path, "one"))
    done(args, host)
    os.chown(tmp_path / "records" / HOST, 65534, 65534)
    with pytest.raises(ProbeError, match="belongs to nobody, who could exchange what is in it"):
        looked(args, host)


def test_a_run_starts_them_once_and_they_outlive_its_connection(tmp_path):
    args = asked(tmp_path, "one", component(tmp_path, "two", delay="100ms"))
    taken = take("components", args)
    assert (taken.status, taken.result.verified) == ("changed", True), taken.why
    pids = [pid_of(tmp_path, it) for it in ("one", "two")]
    for it in pids:
        assert lives(it)
        assert b"RUNBOOK_SESSION" not in Path(f"/proc/{it}/environ").read_bytes()
        assert sorted(os.listdir(f"/proc/{it}/fd"))[:3] == ["0", "1", "2"]
    again = take("components", args)
    assert (again.status, again.writes) == ("ok", [])
    assert again.why == f"all components run: one (pid {pids[0]}), two (pid {pids[1]})"
    taken = take("components", {**args, "state": "absent"})
    assert (taken.status, taken.result.verified) == ("changed", True), taken.why
    assert {it.pid for it in taken.result.victims} == set(pids)
    again = take("components", {**args, "state": "absent"})
    assert (again.status, again.writes, again.why) == ("ok", [], "no component runs")


@pytest.mark.slow
@pytest.mark.soak
def test_a_start_that_is_ended_half_way_leaves_alone_what_it_has_started(tmp_path, monkeypatch):
    at_once = partial(replace, waits=0.0)  # else its timeout begins after the delays
    monkeypatch.setattr(components, "start_components", lambda *given, **named: at_once(start(*given, **named)))
    args = asked(tmp_path, "one", component(tmp_path, "two", delay="60s"))
    taken = take("components", args, timeout=15.0)  # in which one is started, and two is not
    assert (taken.status, "timed out" in taken.why) == ("timeout", True), taken.why
    assert lives(pid_of(tmp_path, "one"))
    outcome = see("components", args)
    assert isinstance(outcome, ProbeAnswer)
    assert (outcome.state.running, outcome.state.busy) == (("one",), 0)
    watcher = int(record(tmp_path, "one")[2].partition(":")[0])
    assert lives(watcher)
    assert b"RUNBOOK_SESSION" not in Path(f"/proc/{watcher}/environ").read_bytes()
    kill_all_of(tmp_path, "one")
    outcome = see("components", args)
    assert isinstance(outcome, ProbeAnswer)
    assert outcome.state.parts[0].exit_code == 137


def on_a_command_line(word, over):
    """Whether *word* stands in the list of processes at some time until *over*."""
    while not over.is_set():
        for it in (each / "cmdline" for each in Path("/proc").glob("[0-9]*")):
            with contextlib.suppress(OSError):
                if word.encode() in it.read_bytes():
                    return True
    return False


def test_a_plan_shows_what_would_start_but_no_value_of_a_variable(tmp_path):
    secret, over = "s3cret-of-this-test", threading.Event()
    says = f"echo $TOKEN | wc -c; {FOR_EVER}"
    chosen = component(tmp_path, "one", says, env={"TOKEN": secret, "GPUS": "0,1"}, cwd=str(tmp_path))
    shown = []
    with ThreadPoolExecutor() as pool:
        seen = pool.submit(on_a_command_line, secret, over)
        taken = take("components", asked(tmp_path, chosen), between=lambda: shown.extend(tmp_path.iterdir()))
        over.set()
    assert not seen.result()
    assert shown == [], "a plan changes nothing"
    assert taken.status == "changed", taken.why
    assert taken.planned.planned == "start one; watch them for 0.3 s, and end all if one dies"
    assert "environment: TOKEN, GPUS" in (taken.planned.diff or "")
    assert f"  in {tmp_path}; log: {tmp_path}/one.log" in (taken.planned.diff or "")
    for told in (taken.planned, taken.result):
        assert secret not in json.dumps(to_json(told))
    assert secret not in " ".join(taken.writes)
    until(lambda: (tmp_path / "one.log").read_text())
    assert (tmp_path / "one.log").read_text() == f"{len(secret) + 1}\n"
    for it in (tmp_path / "records" / HOST).iterdir():
        assert secret not in it.read_text()


@pytest.mark.slow
def test_a_run_starts_what_its_plan_showed_or_less(tmp_path):
    args = asked(tmp_path, "one", "two")
    assert take("components", asked(tmp_path, "one")).status == "changed"

    def gone():
        kill_all_of(tmp_path, "one")

    taken = take("components", args, between=gone)
    assert taken.status == "changed", taken.why
    assert taken.why.endswith("left alone, because the plan did not show it: the component one")
    outcome = see("components", args)
    assert isinstance(outcome, ProbeAnswer)
    assert outcome.state.running == ("two",)


@pytest.mark.slow
def test_a_run_ends_what_its_plan_showed_or_less(tmp_path):
    args = asked(tmp_path, "one", "two")
    assert take("components", args).status == "changed"

    def again():
        kill_all_of(tmp_path, "one")
        assert take("components", asked(tmp_path, "one")).status == "changed"

    taken = take("components", {**args, "state": "absent"}, between=again)
    assert taken.status == "changed", taken.why
    assert "left alone, because the plan did not show it: pid " in taken.why
    outcome = see("components", args)
    assert isinstance(outcome, ProbeAnswer)
    assert outcome.state.running == ("one",)


@pytest.mark.real("root", "setpriv")
def test_a_process_of_another_user_is_no_component_and_starts_none_beside_it(host, tmp_path, stage):
    """Anybody can call a process of theirs so: mutant: no owner is asked for."""
    word = f"serve {stage.word}"
    theirs = subprocess.Popen(
        ["setpriv", "--reuid=4242", "--regid=4242", "--clear-groups", "sh", "-c", f": {word}; sleep 60"]
    )
    args = build(components.Args, asked(tmp_path, component(tmp_path, "server", pattern=word)))
    try:
        until(lambda: Path(f"/proc/{theirs.pid}/status").read_text().count("4242") > 3)
        with pytest.raises(ProbeError, match=rf"pid {theirs.pid} fits, and it is 4242's: .*`become: 4242`"):
            looked(args, host)
    finally:
        theirs.kill()
        theirs.wait()


@pytest.mark.slow
def test_what_something_else_started_is_found_and_neither_started_twice_nor_ended(host, tmp_path, stage):
    other = stage.job(name=f"vllm serve {stage.word}")
    chosen = component(tmp_path, "server", pattern=f"serve {stage.word}")
    only_found = {"name": "none", "pattern": f"nobody {stage.word}", "log": f"{tmp_path}/none.log"}
    args = build(components.Args, asked(tmp_path, chosen, "trainer"))
    before = looked(args, host)
    assert [(it.status, it.pid) for it in before.parts] == [("found", other.pid), ("never", 0)]
    assert isinstance(before.parts[0].exit_code, Unknown)
    decision, answer, after, _ = done(args, host)
    assert decision.summary.startswith("start trainer; ")
    assert (answer.exit_code, after.running) == (0, ("server", "trainer"))
    absent = build(components.Args, asked(tmp_path, chosen, "trainer", state="absent"))
    _, _, after, before = done(absent, host)
    assert lives(other.pid)
    words = f"another program has started server (pid {other.pid})"
    assert components.explain(absent, before, after) == f"done, but still running: {words}"
    assert isinstance(components.holds(absent, after), Fails)
    decision = components.decide(absent, after)
    assert isinstance(decision, Blocked)
    assert words in decision.why
    args = build(components.Args, asked(tmp_path, only_found))
    decision = components.decide(args, looked(args, host))
    assert isinstance(decision, Blocked)
    assert "it has no `argv` to start" in decision.why


def test_a_protected_program_is_no_component_and_what_cannot_be_seen_is_not_down(host, tmp_path, stage):
    stage.job(name=f"tmux serve {stage.word}")
    args = build(components.Args, asked(tmp_path, component(tmp_path, "server", pattern=f"serve {stage.word}")))
    assert looked(args, host).down == ("server",)
    seen = read_components(args.placed, host.run(ask_components(args.placed, args.records, 1))[0])
    with pytest.raises(ProbeError, match="not known whether server runs: hidepid"):
        with_found(seen, args.placed, Table(rows={}, way_in=(), uid=1, hidden="hidepid"))


def test_a_pattern_finds_the_component_and_not_what_waits_for_it(host, tmp_path, stage):
    name = f"trainer-{stage.word}"
    chosen = component(tmp_path, name, pattern=stage.word)
    args = build(components.Args, asked(tmp_path, chosen))
    done(args, host)
    found = [it for it in Path("/proc").glob("[0-9]*") if stage.word.encode() in read(it / "cmdline")]
    assert [int(it.name) for it in found] == [pid_of(tmp_path, name)]
    other = build(components.Args, {**asked(tmp_path, chosen), "records": f"{tmp_path}/others"})
    assert looked(other, host).parts[0].status == "found"


def test_what_a_dead_component_leaves_behind_is_not_taken_for_one_that_something_else_started(host, tmp_path, stage):
    script = f"setsid sh -c '{FOR_EVER}' {stage.word} & {FOR_EVER}"
    args = build(components.Args, asked(tmp_path, component(tmp_path, "one", script, pattern=f" {stage.word}$")))
    done(args, host)
    kill(pid_of(tmp_path, "one"))
    state = looked(args, host)
    assert (state.parts[0].status, state.running, bool(state.left)) == ("ended", (), True)


def read(path):
    """Its bytes; none where it is gone."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


ONE = {"name": "x", "argv": ["true"], "log": "/x.log"}


@every_row(
    ("components_", "words"),
    [
        ([], "at least 1"),
        ([ONE, ONE], "the same name is used twice: x"),
        ([{**ONE, "name": "a b"}], "is not a valid name"),
        ([{**ONE, "name": "../x"}], "is not a valid name"),
        ([{**ONE, "argv": []}], "or `pattern` to find it"),
        ([{**ONE, "argv": [""]}], "is not the name of a program"),
        ([{**ONE, "argv": ["-x"]}], "is not the name of a program"),
        ([{**ONE, "log": "x.log"}], "must be absolute"),
        ([{**ONE, "cwd": "x"}], "must be absolute"),
        ([{**ONE, "env": {"a-b": "1"}}], "as the name of a variable"),
        ([{**ONE, "env": {"RUNBOOK_COMPONENT": "1"}}], "as the name of a variable"),
        ([{**ONE, "env": {"UID": "1"}}], "as the name of a variable"),
        ([{**ONE, "env": {"A": True}}], "text or a number"),
        ([{**ONE, "env": {"A": None}}], "text or a number"),
        ([{**ONE, "delay": -1}], "not a duration"),
    ],
)
def test_a_mistake_in_the_arguments_is_refused(components_, words):
    with pytest.raises(ConfigError, match=words):
        build(components.Args, {"components": components_})


def test_by_hand_no_value_of_a_variable_is_told():
    args = build(components.Args, {"components": [{**ONE, "env": {"TOKEN": "abc"}, "delay": 3, "argv": ["a b", "@"]}]})
    assert components.by_hand(args) == ("sleep 3", "cd / && TOKEN=... setsid 'a b' @ >>/x.log 2>&1 </dev/null &")
