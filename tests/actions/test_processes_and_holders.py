"""Finding and ending processes for real: who is left over goes, who is at work stays, and every word is true."""

from __future__ import annotations

import os
import pwd
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from runbook.codec import to_json
from runbook.errors import ConfigError, ProbeError
from runbook.language.arguments import build
from runbook.library.jobs import device_holders, fuser, gpu_jobs, pkill, processes
from runbook.library.jobs.facts import classification, leftover
from runbook.library.jobs.facts.arguments import wanted
from runbook.library.jobs.facts.by_command_line import CommandLineMatch
from runbook.library.processes.facts.table import Process, ask_processes, read_processes
from runbook.plugins import discover
from runbook.protocols import Absent, Fails, Holds
from runbook.text import regexes
from runbook.text.field_descriptions import description
from runbook.values.command import Command, Effect
from runbook.values.plan import Blocked, Change, NoChange, Risk
from runbook.values.types import Duration, Unknown
from tests.support.fake_nvidia_smi import Pretended, calls, gpu, uuid
from tests.support.probe_driver import drive
from tests.support.real_processes import NOBODY, Machine, children_in, lives, living, start_of
from tests.support.tables import every_row
from tests.support.waiting import until

GRACE = Duration(1.0)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    def read_load(presence, gpus, idle_for, above):
        return leftover.read_load(presence, gpus, idle_for / 10, above)

    monkeypatch.setattr(classification, "ask_load", lambda idle_for: leftover.ask_load(idle_for / 10))
    monkeypatch.setattr(classification, "read_load", read_load)


ANYBODYS = {"spare_owned": False, "starting": Duration(0)}
"""Whose the processes are, and how old, is not what these tests are about: they are those of whoever runs them."""


def kill(stage, **keys) -> pkill.Args:
    return pkill.Args(patterns=(stage.word,), **{"grace": GRACE, **ANYBODYS, **keys})


def carry_out(change, machine):
    assert isinstance(change, Change), change
    (command,) = change.commands
    return machine.run(command)[0]


@pytest.fixture
def gpus(stage, tmp_path):
    """A function that plants GPUs with these percentages, and the machine that has them."""

    def plant(*percents, minors=True, **keys) -> Machine:
        stage.plant(len(percents), minors=minors)
        rows = [gpu(at, utilization_gpu=str(it), memory_used="9000") for at, it in enumerate(percents)]
        path = Pretended(gpus=rows, **keys).install(tmp_path / "bin")
        return Machine(before=stage.inside, path=path)

    return plant


# --- pkill


def test_who_makes_himself_too_slow_to_search_is_left_alone_and_named_and_the_job_is_ended(machine, stage, monkeypatch):
    """Mutants: he is ended; he is not named; that he is not known to match counts as that he does not."""
    monkeypatch.setattr(regexes, "SECONDS_OF_TEXT", 0.05)
    job = stage.job()
    hostile = stage.job(name="a" * 60 + "!")
    args = pkill.Args(patterns=(stage.word, "^(a|aa)+$"), grace=GRACE, **ANYBODYS)
    before = drive(pkill.probe(args), machine)
    change = pkill.decide(args, before)
    assert isinstance(change, Change)
    assert [it.pid for it in change.targets] == [job.pid]
    assert "left alone, as it is not known whether they match" in change.summary
    assert f"pid {hostile.pid} (" in change.summary
    assert carry_out(change, machine).exit_code == 0
    after = drive(pkill.probe(args), machine)
    assert isinstance(pkill.decide(args, after), Blocked), "whether somebody is left is not known"
    assert not pkill.settled(args, before, after)
    assert "could not be searched for" in pkill.explain(args, before, after)
    assert (lives(job.pid), lives(hostile.pid)) == (False, True)


def test_everybody_who_matches_is_ended_and_a_second_look_finds_nobody(machine, stage):
    jobs = [stage.job() for _ in range(2)]
    other = stage.job(name="somebody else")
    args = kill(stage, only="all")
    before = drive(pkill.probe(args), machine)
    change = pkill.decide(args, before)
    assert isinstance(change, Change)
    assert change.risk is Risk.KILLS_PROCESSES
    assert {it.key for it in change.targets} == {f"{it.pid}:{start_of(it.pid)}" for it in jobs}
    assert {it.pid for it in change.targets} == {it.pid for it in jobs}
    assert all(it.user and stage.word in it.command for it in change.targets)
    assert carry_out(change, machine).exit_code == 0
    after = drive(pkill.probe(args), machine)
    assert pkill.settled(args, before, after)
    assert isinstance(pkill.decide(args, after), NoChange)
    assert other.poll() is None
    assert [it.effect for it in machine.sent] == [Effect.READ, Effect.READ, Effect.WRITE, Effect.READ]


def test_no_pattern_ever_stands_on_the_host_s_command_line(machine, stage):
    args = kill(stage)
    state = drive(pkill.probe(args), machine)
    stage.job()
    again = drive(pkill.probe(args), machine)
    change = pkill.decide(args, again)
    assert isinstance(change, Change)
    carry_out(change, machine)
    assert state.matches == ()
    for it in machine.sent:
        assert stage.word not in str(it)


def test_a_pattern_that_our_own_line_would_contain_finds_only_others(machine, stage):
    """Whatever our own shells and their helpers look like: they are not there."""
    job = stage.job(name=f"LC_ALL=C {stage.word} awk BEGIN cmdline")
    state = drive(processes.probe(processes.Args(patterns=("awk.*BEGIN", "LC_ALL=C"), **ANYBODYS)), machine)
    assert job.pid in [it.pid for it in state.matches]
    own = {it.pid for it in state.matches} - {job.pid}
    assert all(os.getpgid(it) != os.getpid() for it in own if lives(it))
    assert not any("/proc/[0-9]" in it.command for it in state.matches if it.ppid == os.getpid())


def test_our_own_ancestors_are_protected_and_said_to_be(machine, stage):
    ours = " ".join(Path("/proc/self/cmdline").read_text().rstrip("\0").split("\0"))
    state = drive(pkill.probe(pkill.Args(patterns=(re.escape(ours),), grace=GRACE, **ANYBODYS)), machine)
    spared = {it.pid: it.why for it in state.protected}
    assert "our own connection" in spared[os.getpid()]
    assert os.getpid() not in [it.pid for it in state.matches]


def test_only_left_over_ones_go_where_there_is_no_gpu_that_is_everybody(machine, stage):
    job = stage.job()
    state = drive(pkill.probe(kill(stage, only="leftover")), machine)
    assert [it.pid for it in state.leftover] == [job.pid]
    assert state.at_work == ()


def test_who_ignores_the_signal_and_gets_no_other_is_named(machine, stage):
    hard = stage.job(ignores="TERM")
    args = kill(stage, then="nothing", grace=Duration(0.3))
    before = drive(pkill.probe(args), machine)
    done = carry_out(pkill.decide(args, before), machine)
    assert done.answers(machine.sent[-1])
    after = drive(pkill.probe(args), machine)
    assert not pkill.settled(args, before, after)
    me = pwd.getpwuid(os.geteuid()).pw_name
    assert pkill.explain(args, before, after) == f"pid {hard.pid} survives TERM in state S ({me})"


def called(name: str) -> list[int]:
    """The processes whose command line begins with *name*."""
    return [pid for pid in living(name) if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(name.encode())]


def test_who_comes_back_is_no_success_and_named_with_the_new_pid(machine, stage):
    loop = f"echo up; while :; do bash -c 'exec -a python_{stage.word} sleep 800'; done"
    keeper = stage.start(["bash", "-c", loop.replace(stage.word, "'$0'"), stage.word])
    begun = f"python_{stage.word}"
    until(lambda: called(begun))
    args = pkill.Args(patterns=(f"^python_.*{stage.word}",), grace=GRACE, **ANYBODYS)
    before = drive(pkill.probe(args), machine)
    first = [it.pid for it in before.matches]
    carry_out(pkill.decide(args, before), machine)
    until(lambda: set(called(begun)) - set(first))
    after = drive(pkill.probe(args), machine)
    assert len(first) == 1
    assert not pkill.settled(args, before, after)
    (second,) = (it.pid for it in after.matches)
    assert second != first[0]
    assert pkill.explain(args, before, after).startswith(f"respawned as pid {second} (python_")
    assert keeper.poll() is None


def test_more_victims_than_allowed_are_left_alone(machine, stage):
    jobs = [stage.job() for _ in range(3)]
    args = kill(stage, max_victims=2)
    decision = pkill.decide(args, drive(pkill.probe(args), machine))
    assert isinstance(decision, Blocked)
    assert "3 processes would be ended, but max_victims is 2" in decision.why
    assert all(it.poll() is None for it in jobs)


def test_zombies_are_no_victims(machine, stage):
    late = "until read -r called </proc/$PPID/comm && [ $called = sleep ]; do :; done"  # a bash would bury it
    parent = stage.start(["bash", "-c", f"bash -c '{late}; exec -a {stage.word} sleep 0.1' & echo up; exec sleep 600"])
    until(lambda: children_in(parent.pid, "Z"))
    state = drive(pkill.probe(pkill.Args(patterns=("^sleep$",), **ANYBODYS)), machine)
    assert parent.pid not in [it.ppid for it in state.matches]
    assert parent.pid in [it.ppid for it in state.zombies]


def test_a_victim_that_a_person_was_not_shown_can_be_left_out(machine, stage):
    jobs = [stage.job() for _ in range(2)]
    args = kill(stage)
    state = drive(pkill.probe(args), machine)
    less = pkill.without(state, frozenset([f"{jobs[0].pid}:{start_of(jobs[0].pid)}"]))
    decision = pkill.decide(args, less)
    assert isinstance(decision, Change)
    assert [it.pid for it in decision.targets] == [jobs[1].pid]


def test_a_process_that_was_at_work_and_is_left_over_now_does_not_unsettle_the_change():
    one, two = (Process(pid=it, start=it, ppid=1, user="u", state="S", command="x", seconds=1.0) for it in (5, 6))
    args = pkill.Args(patterns=("xx",), only="leftover", **ANYBODYS)
    before = CommandLineMatch(matches=(one, two), leftover=(one,), at_work=(two,))
    assert pkill.settled(args, before, CommandLineMatch(matches=(two,), leftover=(two,)))
    assert not pkill.settled(args, before, CommandLineMatch(matches=(one, two), leftover=(), at_work=(one, two)))
    blind = Unknown(why="nvidia-smi hung")
    assert pkill.settled(args, before, CommandLineMatch(matches=(two,), leftover=blind, at_work=blind))
    assert not pkill.settled(args, before, CommandLineMatch(matches=blind, leftover=blind, at_work=blind))
    new = Process(pid=7, start=7, ppid=1, user="u", state="D", command="x", seconds=1.0)
    assert not pkill.settled(args, before, CommandLineMatch(matches=(new,), leftover=blind, at_work=blind))
    hung = Process(pid=5, start=5, ppid=1, user="u", state="D", command="x", seconds=1.0)
    assert "survives KILL in state D: it hangs in the kernel" in pkill.explain(
        args, before, CommandLineMatch(matches=(hung,))
    )


@every_row(
    "mapping",
    [
        {"patterns": []},
        {"patterns": [""]},
        {"patterns": [".*"]},
        {"patterns": ["sshd"]},
        {"patterns": ["("]},
        {"patterns": ["torchrun"], "signal": "STOP"},
        {"patterns": ["torchrun"], "only": "some"},
        {"patterns": ["torchrun"], "grace": "-1s"},
    ],
)
def test_what_would_hit_everything_or_nothing_is_refused(mapping):
    with pytest.raises(ConfigError):
        build(pkill.Args, mapping)


# --- with GPUs

LAB = pytest.mark.real("lab", "root")


@LAB
def test_the_job_at_work_is_spared_with_its_launcher_and_idle_rank_and_the_dead_job_goes(stage, gpus):
    machine = gpus(0, 90, 0)
    launcher, ranks = stage.family("/dev/nvidia1", "/dev/nvidia2")
    dead = stage.job("/dev/nvidia0", "/dev/nvidiactl")
    holds_none = stage.job()
    fresh = drive(pkill.probe(kill(stage, only="leftover", starting=Duration(300))), machine)
    assert (fresh.leftover, {it.pid for it in fresh.starting}) == ((), {dead.pid, holds_none.pid})
    args = kill(stage, only="leftover")
    state = drive(pkill.probe(args), machine)
    assert {it.pid for it in state.leftover} == {dead.pid, holds_none.pid}
    assert {it.pid for it in state.at_work} == {launcher.pid, *ranks}
    carry_out(pkill.decide(args, state), machine)
    after = drive(pkill.probe(args), machine)
    assert pkill.settled(args, state, after)
    decision = pkill.decide(args, after)
    assert isinstance(decision, NoChange)
    assert "at work" in decision.why
    assert all(map(lives, [launcher.pid, *ranks]))
    assert dead.wait() == -15


@LAB
def test_a_job_that_is_idle_now_and_then_is_at_work(stage, gpus, monkeypatch):
    """Mutants: smi_query.sh with one sample however long ``idle_for`` is; ``ask_load`` without it."""
    monkeypatch.setattr(leftover, "APART", 0.2)
    busy = [gpu(0, utilization_gpu="97")]
    machine = gpus(0, later=busy, later_from=4)
    job = stage.job("/dev/nvidia0")
    for idle_for, pids in ((4, [job.pid]), (8, [])):  # a tenth of it here: two samples after the first, and four
        args = processes.Args(patterns=(stage.word,), idle_for=Duration(idle_for), **ANYBODYS)
        state = drive(processes.probe(args), machine)
        assert [it.pid for it in state.leftover] == pids
        (machine.path / "calls").unlink()


@LAB
def test_only_the_processes_of_a_user_and_only_old_ones_are_chosen(stage, gpus):
    """Mutants: ``wanted`` without the user; without the age; with an age from which on they count."""
    machine = gpus(0)
    job = stage.job("/dev/nvidia0")
    for keys, pids in (
        ({}, [job.pid]),
        ({"user": "root"}, [job.pid]),
        ({"user": "nobody"}, []),
        ({"older_than": Duration(3600)}, []),
    ):
        found = drive(processes.probe(processes.Args(patterns=(stage.word,), **ANYBODYS, **keys)), machine)
        held = drive(device_holders.probe(device_holders.Args(paths=("/dev/nvidia0",), **keys, **ANYBODYS)), machine)
        assert ([it.pid for it in found.matches], [it.pid for it in held.processes]) == (pids, pids), keys


@pytest.mark.parametrize(("seconds", "old"), [(7.0, False), (7.1, True), (Unknown(why="no uptime"), None)])
def test_without_an_uptime_nobody_is_taken_for_old(machine, seconds, old):
    (row, *_) = read_processes(machine.run(ask_processes())[0]).rows.values()
    aged = replace(row, process=replace(row.process, seconds=seconds))
    asked = processes.Args(patterns=("x",), older_than=Duration(7), **ANYBODYS)
    if old is None:
        with pytest.raises(ProbeError, match="not known how old processes are: no uptime"):
            wanted([aged], asked)
    else:
        assert wanted([aged], asked) == [aged] * old


@LAB
def test_the_processes_of_jobs_are_those_that_match_and_those_that_hold_each_once(stage, gpus):
    """Mutants: `gpu_jobs` without either of the two; with a process twice; without ``why``, ``starters``, ``summary``."""
    machine = gpus(0, 97)
    both, matching = stage.job("/dev/nvidia0"), stage.job()
    holding, busy = stage.job("/dev/nvidia0", name="exporter"), stage.job("/dev/nvidia1", name="python other.py")
    state = drive(gpu_jobs.probe(gpu_jobs.Args(patterns=(stage.word,), **ANYBODYS)), machine)
    assert {it.pid: it.why for it in state.all} == {
        both.pid: "matches the patterns, holds /dev/nvidia0",
        matching.pid: "matches the patterns",
        holding.pid: "holds /dev/nvidia0",
        busy.pid: "holds /dev/nvidia1",
    }
    assert {it.pid for it in state.leftover} == {both.pid, matching.pid, holding.pid}
    assert [it.pid for it in state.at_work] == [busy.pid]
    assert state.summary == "2 leftover processes hold /dev/nvidia0, and 1 more of the job holds none"
    assert (state.devices, state.gpus) == (("/dev/nvidia0",), (uuid(0),))
    assert {it.pid for it in state.unlisted} == {both.pid, holding.pid, busy.pid}
    assert isinstance(gpu_jobs.holds(gpu_jobs.Args(**ANYBODYS), state), Fails)
    alone = drive(gpu_jobs.probe(gpu_jobs.Args(devices=("/dev/nvidia1",), **ANYBODYS)), machine)
    assert ([it.pid for it in alone.all], alone.leftover, alone.summary) == ([busy.pid], (), "no process is left over")
    assert isinstance(gpu_jobs.holds(gpu_jobs.Args(**ANYBODYS), alone), Holds)


def test_without_a_gpu_the_processes_of_jobs_are_those_that_match(machine, stage):
    job = stage.job()
    state = drive(gpu_jobs.probe(gpu_jobs.Args(patterns=(stage.word,), **ANYBODYS)), machine)
    assert ([it.pid for it in state.leftover], state.summary) == (
        [job.pid],
        "1 process of the job is left over, without a GPU",
    )
    assert all("pid" in it or "service" in it or "container" in it for it in state.starters)


@LAB
def test_a_job_that_holds_no_gpu_is_left_alone_for_a_while_after_its_start(stage, gpus):
    """Mutants: ``_young`` that takes jobs with a GPU, or without one, for old."""
    machine = gpus(0)
    fresh, (launcher, (rank,)) = stage.job(), stage.family("/dev/nvidia0")
    long = {**ANYBODYS, "starting": Duration(86400)}
    state = drive(gpu_jobs.probe(gpu_jobs.Args(patterns=(stage.word,), **long)), machine)
    assert ({it.pid for it in state.starting}, state.leftover) == ({fresh.pid, launcher.pid, rank}, ())
    state = drive(gpu_jobs.probe(gpu_jobs.Args(patterns=(stage.word,), **ANYBODYS)), machine)
    assert {it.pid for it in state.leftover} == {fresh.pid, launcher.pid, rank}
    assert state.summary == "1 leftover process holds /dev/nvidia0, and 2 more of the job hold none"
    alone = drive(
        gpu_jobs.probe(
            gpu_jobs.Args(patterns=(f"train_{stage.word}",), devices=("/dev/nvidiactl",), spare_owned=False)
        ),
        machine,
    )
    assert (alone.leftover, alone.summary) == ((), "no process is left over")


@LAB
def test_of_jobs_whose_gpus_are_not_known_nothing_is_left_over(stage, gpus, tmp_path):
    """A hung driver; and device nodes that a GPU should have."""
    machine = gpus(0, exit_code=9, instead="driver")
    job = stage.job("/dev/nvidia0")
    state = drive(gpu_jobs.probe(gpu_jobs.Args(**ANYBODYS)), machine)
    assert isinstance(state.leftover, Unknown)
    assert isinstance(state.summary, Unknown)
    assert [it.pid for it in state.all] == [job.pid]
    bare = Machine(path=Pretended().install(tmp_path / "smi"))
    with pytest.raises(ProbeError, match="an NVIDIA GPU seems to be present"):
        drive(
            gpu_jobs.probe(gpu_jobs.Args(patterns=("nobody_at_all",), devices=("/dev/nvidia-none*",), **ANYBODYS)), bare
        )


@LAB
def test_holders_are_joined_with_what_nvidia_smi_lists(stage, gpus):
    machine = gpus(0, 0, apps=f"{uuid(0)}, 999999, python, 100\n")
    one, two = stage.job("/dev/nvidia0", "/dev/nvidiactl"), stage.job("/dev/nvidia-uvm")
    stage.job()
    state = drive(device_holders.probe(device_holders.Args(**ANYBODYS)), machine)
    assert {it.pid for it in state.processes} == {one.pid, two.pid}
    assert {it.pid for it in state.leftover} == {one.pid, two.pid}
    assert [it.pid for it in state.unlisted] == [one.pid]
    assert state.foreign == (999999,)
    assert state.devices == ("/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidiactl")
    assert state.gpus == (uuid(0),)
    assert state.present == ("/dev/nvidia-uvm", "/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl")
    assert state.unseen == 0
    assert isinstance(device_holders.holds(device_holders.Args(**ANYBODYS), state), Fails)
    assert to_json(state)["processes"][0]["devices"]


@LAB
def test_a_listed_holder_is_not_unlisted(stage, gpus, tmp_path):
    machine = gpus(0)
    one = stage.job("/dev/nvidia0")
    Pretended(gpus=[gpu(0)], apps=f"{uuid(0)}, {one.pid}, python, 100\n").install(tmp_path / "bin")
    state = drive(device_holders.probe(device_holders.Args(**ANYBODYS)), machine)
    assert state.unlisted == ()
    assert state.foreign == ()
    assert state.processes[0].listed is True


@LAB
def test_beside_a_job_at_work_one_who_cannot_be_searched_may_be_left_over(stage, gpus, monkeypatch):
    """Mutant: with nobody known to be left over, nobody is."""
    monkeypatch.setattr(regexes, "SECONDS_OF_TEXT", 0.05)
    machine = gpus(90)
    at_work = stage.job("/dev/nvidia0")
    hostile = stage.job(name="a" * 60 + "!")
    args = pkill.Args(patterns=(stage.word, "^(a|aa)+$"), grace=GRACE, only="leftover", **ANYBODYS)
    state = drive(pkill.probe(args), machine)
    assert [it.pid for it in state.at_work] == [at_work.pid]
    assert isinstance(state.leftover, Unknown)
    assert f"pid {hostile.pid}: its command line could not be searched for" in state.leftover.why
    assert isinstance(pkill.decide(args, state), Blocked)


@LAB
def test_holders_are_ended_without_fuser_and_the_one_at_work_is_not(stage, gpus):
    machine = gpus(0, 90)
    dead, busy = stage.job("/dev/nvidia0"), stage.job("/dev/nvidia1")
    args = fuser.Args(paths=("/dev/nvidia*",), grace=GRACE, **ANYBODYS)
    before = drive(fuser.probe(args), machine)
    change = fuser.decide(args, before)
    assert isinstance(change, Change)
    assert [it.pid for it in change.targets] == [dead.pid]
    carry_out(change, machine)
    assert dead.wait() == -9
    assert busy.poll() is None
    assert fuser.settled(args, before, drive(fuser.probe(args), machine))
    everybody = fuser.Args(paths=("/dev/nvidia*",), only="all", grace=GRACE, **ANYBODYS)
    asked = len(machine.sent)
    state = drive(fuser.probe(everybody), machine)
    assert len(machine.sent) == asked + 2, "who is at work does not matter, so the GPUs are not asked"
    assert [it.pid for it in state.processes] == [busy.pid]
    carry_out(fuser.decide(everybody, state), machine)
    assert busy.wait() == -9


@LAB
def test_a_driver_that_hangs_makes_holders_unknown_and_nobody_is_ended(stage, gpus, tmp_path):
    machine = gpus(0, 0, hangs_at=1)
    machine.timeout = 10
    job, plain = stage.job("/dev/nvidia0"), stage.job()
    args = kill(stage, only="leftover")
    state = drive(pkill.probe(args), machine)
    assert {it.pid for it in state.matches} == {job.pid, plain.pid}
    assert isinstance(state.leftover, Unknown)
    assert "did not answer" in state.leftover.why
    assert isinstance(pkill.decide(args, state), Blocked)
    assert len(calls(tmp_path / "bin")) == 1
    assert isinstance(pkill.decide(kill(stage), drive(pkill.probe(kill(stage)), machine)), Change)


@LAB
def test_a_daemon_of_the_driver_is_protected_unless_asked_for_by_name(stage, gpus):
    machine = gpus(0)
    keeper = stage.job("/dev/nvidia0", name="nvidia-persistenced")
    state = drive(device_holders.probe(device_holders.Args(**ANYBODYS)), machine)
    assert state.processes == ()
    assert [(it.pid, it.why) for it in state.protected] == [
        (keeper.pid, "nvidia-persistenced is a daemon of the GPU driver")
    ]
    assert isinstance(device_holders.holds(device_holders.Args(**ANYBODYS), state), Holds)
    args = fuser.Args(paths=("/dev/nvidia0",), grace=GRACE, **ANYBODYS)
    decision = fuser.decide(args, drive(fuser.probe(args), machine))
    assert isinstance(decision, NoChange)
    assert f"pid {keeper.pid}: nvidia-persistenced is a daemon of the GPU driver" in decision.why
    named = fuser.Args(paths=("/dev/nvidia0",), allow=("nvidia-persistenced",), grace=GRACE, **ANYBODYS)
    assert isinstance(fuser.decide(named, drive(fuser.probe(named), machine)), Change)


@LAB
def test_without_root_nobody_seen_is_not_nobody(stage, gpus):
    machine = gpus(0)
    machine.before = (*machine.before, *NOBODY)
    stage.job("/dev/nvidia0")
    state = drive(device_holders.probe(device_holders.Args(**ANYBODYS)), machine)
    assert isinstance(state.processes, Unknown)
    assert isinstance(state.leftover, Unknown)
    assert state.unseen > 0
    args = fuser.Args(paths=("/dev/nvidia*",), **ANYBODYS)
    assert isinstance(fuser.decide(args, drive(fuser.probe(args), machine)), Blocked)
    with pytest.raises(ProbeError, match="become"):
        device_holders.holds(device_holders.Args(**ANYBODYS), state)


@LAB
def test_no_match_asks_nvidia_smi_nothing(stage, gpus, tmp_path):
    machine = gpus(0)
    assert drive(processes.probe(processes.Args(patterns=(stage.word,), **ANYBODYS)), machine) == CommandLineMatch()
    assert calls(tmp_path / "bin") == []
    assert len(machine.sent) == 1


# --- what is not there


def test_no_gpu_is_an_answer(machine):
    state = drive(device_holders.probe(device_holders.Args(**ANYBODYS)), machine)
    assert isinstance(state, Absent)
    assert state.why == "no NVIDIA GPU"


def test_a_gpu_without_its_nodes_is_no_answer(machine, tmp_path):
    path = Pretended().install(tmp_path / "bin")
    with pytest.raises(ProbeError, match="driver is not loaded"):
        drive(device_holders.probe(device_holders.Args(**ANYBODYS)), Machine(path=path))


def test_a_file_that_is_not_there_has_no_holders(machine, tmp_path):
    assert isinstance(drive(fuser.probe(fuser.Args(paths=(f"{tmp_path}/none",), **ANYBODYS)), machine), Absent)


def test_a_plain_file_s_holders_are_ended(machine, stage, tmp_path):
    (tmp_path / "lock").write_text("x")
    holder = stage.job(f"{tmp_path}/lock")
    args = fuser.Args(paths=(f"{tmp_path}/lo*",), signal="TERM", grace=GRACE, **ANYBODYS)
    assert carry_out(fuser.decide(args, drive(fuser.probe(args), machine)), machine).exit_code == 0
    assert holder.wait() == -15


@every_row("path", ["dev/nvidia0", "/dev/*", "/dev/null", "/dev/n*", "/*/sh", "/proc/1/fd/0", "/dev/pts/*"])
def test_paths_that_everybody_holds_are_refused(path):
    assert fuser.objection(fuser.Args(paths=(path,), **ANYBODYS))
    assert not fuser.objection(fuser.Args(paths=("/dev/nvidia*", "/data/run.lock"), **ANYBODYS))


def test_processes_say_whether_somebody_matches(machine, stage):
    args = processes.Args(patterns=(stage.word,), **ANYBODYS)
    assert isinstance(processes.holds(args, drive(processes.probe(args), machine)), Holds)
    job = stage.job()
    answer = processes.holds(args, drive(processes.probe(args), machine))
    assert isinstance(answer, Fails)
    assert f"pid {job.pid}" in answer.why
    with pytest.raises(ProbeError):
        processes.holds(args, CommandLineMatch(matches=Unknown(why="hidden")))


def test_each_is_an_action_whose_words_are_there():
    known = discover()
    for name in ("processes", "pkill", "device_holders", "fuser"):
        assert known[name].summary.endswith(".")
        assert all(description(known[name].State, it) for it in known[name].State.__dataclass_fields__.values())
        assert all(description(known[name].Args, it) for it in known[name].Args.__dataclass_fields__.values())
    assert known["pkill"].decide
    assert known["processes"].decide is None
    assert known["processes"].holds


def test_by_hand_is_what_a_person_would_paste(stage):
    lines = pkill.by_hand(pkill.Args(patterns=("a b", "it's"), only="all", **ANYBODYS))
    assert lines[:2] == ("pgrep -af -- 'a b'", "pgrep -af -- 'it'\"'\"'s'")
    assert lines[2:] == ("kill -s TERM PID...", "sleep 10; kill -s KILL PID...")
    assert pkill.by_hand(pkill.Args(patterns=("a",), signal="KILL", only="all", **ANYBODYS))[1:] == (
        "kill -s KILL PID...",
    ), "nothing is worse"
    subprocess.run(["sh", "-n", "-c", "\n".join(lines)], check=True)
    assert isinstance(Command(argv=lines, effect=Effect.READ), Command)


@pytest.mark.real("root", "setpriv")
@pytest.mark.parametrize(
    "target",
    [
        "/dev/nvidia0",
        *(pytest.param(it, marks=pytest.mark.soak) for it in ("/dev/null", "/dev/urandom", "/etc/hostname")),
    ],
)
def test_a_link_that_another_user_has_put_there_ends_nobody(machine, stage, tmp_path, target):
    """Mutants: open_files_script.py without ``forged``; with the owner of the link instead of that of its directory."""
    for it in (tmp_path, *tmp_path.parents):
        if str(it).startswith("/tmp/"):
            it.chmod(0o755)
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    os.chown(theirs, 65534, 65534)
    stage.start([*NOBODY, "ln", "-s", target, f"{theirs}/job.lock"], up=False).wait()
    stage.start([*NOBODY, "ln", "-s", "/dev", f"{theirs}/folder"], up=False).wait()
    for path in (f"{theirs}/job.lock", f"{theirs}/job*", f"{theirs}/folder/null"):
        with pytest.raises(ProbeError, match="become: OWNER"):
            drive(fuser.probe(fuser.Args(paths=(path,), **ANYBODYS)), machine)


@pytest.mark.real("root")
def test_a_device_that_everybody_holds_is_refused_under_any_name(machine, tmp_path):
    """Mutants: by_open_files.py without the check of ``everybodys``."""
    (tmp_path / "job.lock").symlink_to("/dev/null")
    for number, name in (("3", "a"), ("9", "b")):
        subprocess.run(["mknod", str(tmp_path / name), "c", "1", number], check=True)
    for path in ("job.lock", "a", "b"):
        with pytest.raises(ProbeError, match="any process has open"):
            drive(fuser.probe(fuser.Args(paths=(f"{tmp_path}/{path}",), **ANYBODYS)), machine)


@pytest.mark.real("root")
def test_a_link_of_our_own_is_followed(machine, stage, tmp_path):
    (tmp_path / "real").write_text("x")
    (tmp_path / "lock").symlink_to("real")
    holder = stage.job(f"{tmp_path}/real")
    state = drive(fuser.probe(fuser.Args(paths=(f"{tmp_path}/lock",), **ANYBODYS)), machine)
    assert [it.pid for it in state.processes] == [holder.pid]
