"""Looking at GPUs, holding that they are idle, and resetting them."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from runbook.codec import to_json
from runbook.errors import ProbeError
from runbook.library.gpu import gpu_idle, gpu_reset, nvidia_smi
from runbook.library.gpu.facts import reset
from runbook.library.gpu.facts.device_users import User, Users
from runbook.library.gpu.facts.model import GpuPresence, SmiReading
from runbook.library.gpu.facts.smi_query import ask_gpus_again
from runbook.protocols import Absent, Action, Fails, Holds
from runbook.values.command import Completed, Effect, read
from runbook.values.plan import Blocked, Change, NoChange, Risk
from runbook.values.types import Duration, Unknown
from tests.support.fake_nvidia_smi import Pretended, calls, gpu, plant, uuid
from tests.support.probe_driver import Here, drive
from tests.support.tables import every_row
from tests.support.waiting import state as state_of
from tests.support.waiting import until

FAST = {"apart": Duration(0.1)}


@pytest.fixture
def host(tmp_path, monkeypatch):
    """A machine with a pretended nvidia-smi, and *holders*: (pid, name, number of the GPU's node)."""
    monkeypatch.setattr(gpu_reset, "APART", 0.1)
    monkeypatch.setattr(reset, "KERNEL", str(tmp_path / "kmsg"))
    monkeypatch.setattr(nvidia_smi, "ask_users", lambda: read("true"))
    monkeypatch.setattr(gpu_reset, "ask_users", lambda: read("true"))

    def hold(holders) -> None:
        def users(_: Completed, presence: GpuPresence) -> Users:
            numbers = {number for _, _, number in holders}
            held = {at: tuple(User(pid=pid, name=name) for pid, name, on in holders if on == at) for at in numbers}
            return Users(by_number=held, blind="", presence=presence)

        monkeypatch.setattr(nvidia_smi, "read_users", users)
        monkeypatch.setattr(gpu_reset, "read_users", users)

    def make(
        pretended: Pretended | None = None, *, gpus: int = 1, holders=(), uid="0", timeout=60.0, **planted
    ) -> Here:
        hold(holders)
        path = pretended.install(tmp_path / "bin") if pretended else None
        return Here(path=path, root=plant(tmp_path / "root", gpus=gpus, **planted), uid=uid, timeout=timeout)

    make.hold = hold
    return make


def look(here: Here, **args):
    return drive(nvidia_smi.probe(nvidia_smi.Args(**{**FAST, **args})), here)


def test_a_host_without_a_gpu_is_proven_to_have_none(host):
    seen = look(host(gpus=0), expect_gpus=4)
    assert isinstance(seen, Absent)
    assert (seen.state.count, seen.state.missing, seen.state.wedged) == (0, 4, ())


def test_a_gpu_on_the_bus_without_a_tool_is_no_healthy_host(host):
    with pytest.raises(ProbeError, match="no nvidia-smi"):
        look(host(None, gpus=1))


def test_a_healthy_host_in_one_round_and_two_questions_to_the_driver_and_one_for_processes(host, tmp_path):
    here = host(Pretended(gpus=[gpu(0), gpu(1, memory_used="1000")]), gpus=2)
    state = look(here, expect_gpus=2)
    assert (state.count, state.missing, state.names) == (2, 0, ("NVIDIA H100 80GB HBM3",))
    assert (state.busy, state.idle, state.wedged, state.requires_reset) == ((), (uuid(0), uuid(1)), (), ())
    assert (state.exclusive, state.mig, state.errors, state.listed) == ((), (), (), ())
    assert state.memory_free_mib == {uuid(0): 81559.0, uuid(1): 80559.0}
    assert len(calls(tmp_path / "bin")) == 3
    assert all(it.effect is Effect.READ for it in here.sent)


BUSY = {"utilization_gpu": "97"}


def test_a_gpu_that_is_busy_for_nobody_is_wedged(host):
    state = look(host(Pretended(gpus=[gpu(0, **BUSY), gpu(1)]), gpus=2))
    assert (state.busy, state.wedged) == ((uuid(0),), (uuid(0),))


@pytest.mark.parametrize(
    ("rows", "later", "questions", "busy", "idle", "wedged"),
    [
        ([gpu(0), gpu(1)], None, 2, (), (0, 1), ()),
        ([gpu(0, **BUSY), gpu(1)], None, 3, (0,), (1,), (0,)),
        ([gpu(0, **BUSY), gpu(1)], [gpu(0), gpu(1, **BUSY)], 3, (), (), ()),
        ([gpu(0, **BUSY), gpu(1)], [gpu(1)], 3, Unknown, (1,), Unknown),
        ([gpu(0, utilization_gpu="[Unknown Error]"), gpu(1)], None, 3, Unknown, (1,), Unknown),
    ],
)
def test_a_gpu_is_probed_again_only_where_one_was_busy(host, tmp_path, rows, later, questions, busy, idle, wedged):
    """Mutants: never probed again; always; a GPU that the second answer lacks is what it was on the first."""
    here = host(Pretended(gpus=rows, later=later), gpus=2)
    state = look(here, confirm_idle=False)
    assert len(calls(tmp_path / "bin")) == questions
    assert state.idle == tuple(map(uuid, idle))
    for seen, wanted in ((state.busy, busy), (state.wedged, wedged)):
        assert isinstance(seen, Unknown) if wanted is Unknown else seen == tuple(map(uuid, wanted))


def test_a_driver_that_hangs_on_the_second_probe_leaves_it_unknown_who_is_busy(host):
    """Mutant: `read_gpus_again` that keeps the first answer of a GPU."""
    state = look(host(Pretended(gpus=[gpu(0, **BUSY)], hangs_at=3), timeout=2.0), confirm_idle=False)
    assert isinstance(state.busy, Unknown)
    assert isinstance(state.wedged, Unknown)
    assert any("did not answer" in error or "hang" in error for error in state.errors), state.errors


@pytest.mark.parametrize(
    ("earlier", "place", "least", "most"),
    [
        (0, "/proc/uptime", 70, 100),
        (40, "/proc/uptime", 30, 60),
        (500, "/proc/uptime", None, None),
        (-9000, "/proc/uptime", 100, 100),
        (40, "/nowhere", 100, 100),
    ],
)
def test_the_second_probe_waits_for_what_is_left_of_the_time_between_both(host, tmp_path, earlier, place, least, most):
    """Mutants: the whole time again; no wait at all; a time of before the host was started that is believed; one
    that ends where the uptime cannot be read.
    """
    here = host(Pretended(gpus=[gpu(0, **BUSY)]))
    sleep = tmp_path / "bin/sleep"
    sleep.write_text(f'#!/bin/sh\necho "$1" >{tmp_path}/slept\n')
    sleep.chmod(0o755)
    up = round(float(Path("/proc/uptime").read_text().split()[0]) * 100)
    asking = ask_gpus_again(SmiReading(gpus=(), at=up - earlier * 100), 100.0)
    (done,) = here.run(replace(asking, script=asking.script.replace("/proc/uptime", place)))
    assert done.exit_code == 0
    assert uuid(0) in done.stdout
    slept = tmp_path / "slept"
    assert (least is not None) == slept.exists()
    assert least is None or least <= float(slept.read_text()) <= most


POD = {"pid_namespace": 4026532001}


def test_in_a_pod_a_gpu_at_work_for_nobody_here_is_somebodys_and_never_wedged(host):
    """Mutants: device_users.py without `all_processes`; nvidia_smi.py with `wedged` of what is used by somebody unseen."""
    pod = Pretended(gpus=[gpu(0, memory_used="9000", **BUSY), gpu(1), gpu(2, **BUSY)])
    state = look(host(pod, gpus=3, **POD))
    assert (state.busy, state.used_by_unseen) == ((uuid(0), uuid(2)), (uuid(0),))
    assert isinstance(state.wedged, Unknown)
    assert "one pid namespace" in state.wedged.why


def test_in_a_pod_no_reset_is_planned_of_what_may_be_at_work_for_another(host):
    """Mutant: device_users.py that takes an empty answer of this namespace for the whole machine's."""
    made = gpu_reset.Args(gpus=(uuid(0),))
    seen = drive(gpu_reset.probe(made), host(Pretended(gpus=[gpu(0, memory_used="9000", **BUSY)]), **POD))
    decision = gpu_reset.decide(made, seen)
    assert isinstance(decision, Blocked)
    assert "one pid namespace" in decision.why


def test_memory_that_is_taken_is_somebodys_however_idle_the_gpu_is(host):
    """Each GPU by itself.  Mutants: utilisation.py ``used_by_unseen`` without `taken`, or without `foreign`."""
    rows = [gpu(0, memory_used="9449"), gpu(1, memory_used="449"), gpu(2), gpu(3, memory_used="60000")]
    state = look(host(Pretended(gpus=rows, apps=f"{uuid(1)}, 87315, 438\n"), gpus=4), memory_free=50)
    assert state.used_by_unseen == (uuid(0), uuid(1), uuid(3))
    assert (state.wedged, state.memory_taken) == ((), (uuid(3),))


def test_a_gpu_with_a_visible_holder_is_used_by_nobody_unseen(host):
    state = look(host(Pretended(gpus=[gpu(0, memory_used="9449")]), holders=[(70, "python", 0)]))
    assert state.used_by_unseen == ()


def test_a_process_that_has_ended_and_is_still_listed_is_told(host):
    """A zombie keeps its pid and its name; what it has started keeps the memory."""
    with subprocess.Popen(["true"]) as ended:
        until(lambda: state_of(ended.pid) == "Z")
        apps = f"{uuid(0)}, {ended.pid}, Unknown Error, 5371\n{uuid(0)}, {os.getpid()}, python, 100\n"
        state = look(host(Pretended(gpus=[gpu(0, memory_used="5471")], apps=apps)))
    assert [(it.pid, it.memory_mib) for it in state.ended] == [(ended.pid, 5371)]


def test_whose_memory_it_is_is_unknown_where_nobody_knows_who_holds_the_gpu(host):
    """A process holds a node that belongs to one of the GPUs.  Mutant: utilisation.py ``used_by_unseen`` without its last line."""
    rows = [{**gpu(0, memory_used="9449"), "pci.bus_id": "00000000:77:00.0"}]
    state = look(host(Pretended(gpus=rows), holders=[(70, "python", 0)]))
    assert isinstance(state.used_by_unseen, Unknown)
    assert "which device node belongs to which GPU" in state.used_by_unseen.why


def test_a_gpu_with_a_holder_that_nvidia_smi_does_not_list_is_not_wedged(host):
    state = look(host(Pretended(gpus=[gpu(0, **BUSY)]), holders=[(70, "python", 0)]))
    assert (state.busy, state.wedged) == ((uuid(0),), ())


def test_a_gpu_with_a_listed_process_that_lives_is_not_wedged(host):
    state = look(host(Pretended(gpus=[gpu(0, **BUSY)], apps=f"{uuid(0)}, {os.getpid()}, python, 100\n")))
    assert (state.wedged, state.listed) == ((), (os.getpid(),))


def test_a_gpu_that_is_kept_busy_by_the_context_of_a_dead_process_is_wedged(host):
    """Where /proc shows the machine nobody can be hidden.  Mutant: ``listed_on`` without ``all_processes``."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    state = look(host(Pretended(gpus=[gpu(0, **BUSY)], apps=f"{uuid(0)}, {gone.pid}, python, 100\n")))
    assert (state.wedged, state.listed, state.used_by_unseen) == ((uuid(0),), (gone.pid,), ())


def test_a_gpu_that_was_busy_for_a_moment_only_is_not_wedged(host):
    state = look(host(Pretended(gpus=[gpu(0, **BUSY)], later=[gpu(0)])))
    assert (state.busy, state.idle, state.wedged) == ((), (), ())


def test_what_is_not_told_is_unknown_in_the_state_and_in_its_json(host):
    state = look(host(Pretended(gpus=[gpu(0, utilization_gpu="ERR!", compute_mode="[Unknown Error]")])))
    for value in (state.busy, state.wedged, state.exclusive):
        assert isinstance(value, Unknown)
    assert to_json(state)["gpus"][0]["utilization"] == {"$unknown": "nvidia-smi prints ERR!"}
    assert state.idle == ()


def test_compute_modes_and_mig_are_named(host):
    rows = [
        gpu(0, compute_mode="Exclusive_Process"),
        gpu(1, compute_mode="Prohibited"),
        gpu(2, mig_mode_current="Enabled"),
    ]
    state = look(host(Pretended(gpus=rows), gpus=3))
    assert state.exclusive == (uuid(0), uuid(1))
    assert state.mig == (uuid(2),)


def test_a_gpu_that_is_lost_is_an_error_beside_the_others(host):
    line = "Unable to determine the device handle for GPU 0000:91:00.0: GPU is lost.  Reboot the system"
    state = look(host(Pretended(gpus=[gpu(0)], between={1: line}, exit_code=15), gpus=2), expect_gpus=2)
    assert (state.count, state.missing, state.lost) == (1, 1, ("0000:91:00.0",))
    assert state.errors[0].startswith("Unable to determine")


def idle_holds(here: Here, **args):
    made = gpu_idle.Args(**args)
    seen = drive(gpu_idle.probe(made), here)
    return seen if isinstance(seen, Absent) else gpu_idle.holds(made, seen)


def test_idle_holds_for_idle_gpus_and_names_the_busy_one(host):
    here = host(Pretended(gpus=[gpu(0), gpu(1, **BUSY)]), gpus=2)
    assert isinstance(idle_holds(here, gpus=(uuid(0),)), Holds)
    verdict = idle_holds(here)
    assert isinstance(verdict, Fails)
    assert f"GPU 1 ({uuid(1)}) is 97 % busy" in verdict.why
    assert isinstance(idle_holds(here, below=97), Holds)


def test_unknown_is_never_idle(host):
    here = host(Pretended(gpus=[gpu(0), gpu(1, utilization_gpu="[Unknown Error]")]), gpus=2)
    with pytest.raises(ProbeError, match="not known whether this GPU is idle"):
        idle_holds(here)
    assert isinstance(idle_holds(here, gpus=("0",)), Holds)


def test_memory_counts_when_asked(host):
    here = host(Pretended(gpus=[gpu(0, memory_used="70000")]))
    assert isinstance(idle_holds(here), Holds)
    assert isinstance(idle_holds(here, memory_below_mib=1000), Fails)


def test_a_gpu_that_is_gone_is_not_idle(host):
    verdict = idle_holds(host(Pretended()), gpus=("0", uuid(7)))
    assert isinstance(verdict, Fails)
    assert uuid(7) in verdict.why


def test_no_gpu_at_all_is_absent_for_idle_too(host):
    assert isinstance(idle_holds(host(gpus=0)), Absent)


def decided(here: Here, *gpus: str, **args):
    made = gpu_reset.Args(gpus=gpus, **args)
    state = drive(gpu_reset.probe(made), here)
    return state if isinstance(state, Absent) else gpu_reset.decide(made, state)


SICK = {"gpu_recovery_action": "Reset"}


def test_no_gpu_named_is_never_every_gpu(host):
    here = host(Pretended(gpus=[gpu(0, **SICK)]))
    assert decided(here) == NoChange(why="`gpus` names no GPU")
    assert here.sent == []


def test_a_wedged_gpu_is_reset_by_uuid_with_its_persistence_off_and_on_again(host):
    change = decided(host(Pretended(gpus=[gpu(0, **SICK), gpu(1)]), gpus=2), "0", "1")
    assert isinstance(change, Change)
    assert [it.argv for it in change.commands[:3]] == [(uuid(0), "0"), (uuid(0),), (uuid(0),)]
    assert [it.argv for it in change.finally_] == [(uuid(0), "1")]
    assert "--gpu-reset" in change.commands[1].script
    assert (change.commands[1].unkillable, change.commands[1].timeout) == (True, 600.0)
    reads = [it for it in (*change.commands, *change.finally_) if it.effect is Effect.READ]
    assert [it.stands_for for it in reads] == [("nvidia-smi", "-q", "-i", uuid(0))]
    assert [(it.kind, it.key) for it in change.targets] == [("gpu", uuid(0))]
    assert change.risk is Risk.RESETS_HARDWARE


def test_persistence_that_was_off_stays_off(host):
    change = decided(host(Pretended(gpus=[gpu(0, persistence_mode="Disabled", **SICK)])), uuid(0))
    assert (["-pm" in it.script for it in change.commands], change.finally_) == ([False] * 3, ())


def test_all_means_all_and_only_where_it_is_written(host):
    change = decided(host(Pretended(gpus=[gpu(0), gpu(1)]), gpus=2), "all", only="any")
    assert [it.key for it in change.targets] == [uuid(0), uuid(1)]
    assert [it.argv for it in change.commands if it.unkillable] == [(uuid(0),), (uuid(1),)]


def test_a_gpu_in_order_is_left_alone_unless_any_is_said(host, tmp_path):
    here = host(Pretended())
    assert isinstance(decided(here, "0"), NoChange)
    assert not any("nvlink" in it for it in calls(tmp_path / "bin"))
    assert isinstance(decided(here, "0", only="any"), Change)


PEERS = f"GPU 0: X (UUID: {uuid(0)})\n\t Link 0: 25.781 GB/s\nGPU 1: X (UUID: {uuid(1)})\n\t Link 0: 25.781 GB/s\n"


@pytest.mark.parametrize(
    ("row", "parts", "args", "words"),
    [
        (SICK, {"uid": "1000"}, {}, "become: true"),
        (SICK, {"holders": [(70, "python", 0)]}, {}, r"held by pid 70 \(python\)"),
        (SICK, {"holders": [(70, "nv-hostengine", 0)]}, {}, "nv-hostengine"),
        ({**SICK, "mig_mode_current": "Enabled"}, {}, {}, "MIG"),
        ({"gpu_recovery_action": "Reboot"}, {}, {"only": "any"}, "reboot of the host"),
        ({"utilization_gpu": "ERR!"}, {}, {}, "not known whether this GPU is wedged"),
        ({**SICK, "compute_cap": "7.0"}, {}, {}, "NVLink"),
    ],
)
def test_what_stands_in_the_way_blocks_and_is_named(host, row, parts, args, words):
    here = host(Pretended(gpus=[gpu(0, **row), gpu(1)], links=PEERS), gpus=2, **parts)
    decision = decided(here, uuid(0), **args)
    assert isinstance(decision, Blocked)
    assert re.search(words, decision.why)


def test_every_obstacle_is_named_at_once(host):
    rows = [gpu(0, mig_mode_current="Enabled", **SICK)]
    decision = decided(host(Pretended(gpus=rows), uid="7", holders=[(70, "x", 0)]), "0")
    assert [word in decision.why for word in ("root", "MIG", "pid 70")] == [True] * 3


def test_force_allows_mig_and_peers_and_nothing_else(host):
    rows = [gpu(0, mig_mode_current="Enabled", compute_cap="7.0", **SICK), gpu(1)]
    here = host(Pretended(gpus=rows, links=PEERS), gpus=2)
    assert isinstance(decided(here, "0", force=True), Change)
    host.hold([(70, "x", 0)])
    assert isinstance(decided(here, "0", force=True), Blocked)


def test_old_peers_that_are_all_named_are_reset_by_one_command(host):
    rows = [gpu(0, compute_cap="7.0", **SICK), gpu(1, compute_cap="7.0", **SICK)]
    change = decided(host(Pretended(gpus=rows, links=PEERS), gpus=2), "0", "1")
    assert [it.argv for it in change.commands if it.unkillable] == [(f"{uuid(0)},{uuid(1)}",)]


LOST = "Unable to determine the device handle for GPU0000:91:00.0: GPU is lost.  Reboot the system to recover this GPU"


@pytest.mark.parametrize("name", ["0000:91:00.0", uuid(1)])
def test_a_gpu_that_fell_off_the_bus_needs_a_reboot(host, name):
    decision = decided(host(Pretended(gpus=[gpu(0)], between={1: LOST}, exit_code=15), gpus=2), name)
    assert isinstance(decision, Blocked)
    assert "only a reboot" in decision.why


def test_a_gpu_that_is_not_there_is_named(host):
    assert "this host has no GPU 9 (it has 1 GPU)" in decided(host(Pretended()), "9").why


def test_a_driver_that_hangs_is_not_asked_about_links(host, tmp_path):
    with pytest.raises(ProbeError, match="did not answer"):
        decided(host(Pretended(hangs_at=1), timeout=5), "0")
    assert len(calls(tmp_path / "bin")) == 1


def states(host, before: dict, after: dict | None, **later):
    made = gpu_reset.Args(gpus=(uuid(0),))
    here = host(Pretended(gpus=[gpu(0, **before), gpu(1)]), gpus=2)
    first = drive(gpu_reset.probe(made), here)
    rows = [gpu(0, **after)] if after is not None else []
    here.path = Pretended(gpus=[*rows, gpu(1)]).install(here.path.parent / "after")
    return made, first, drive(gpu_reset.probe(made), here)


@pytest.mark.parametrize(
    ("after", "words"),
    [
        ({}, ""),
        (None, "is no longer listed"),
        (SICK, "still requires a reset"),
        ({"persistence_mode": "Disabled"}, "persistence mode was on"),
        (BUSY, "still busy although no process holds it"),
        ({"compute_mode": "Exclusive_Process"}, "compute mode was Default before, and is Exclusive_Process now"),
    ],
)
def test_a_reset_is_settled_when_the_gpu_is_back_as_it_was(host, after, words):
    made, first, then = states(host, SICK, after)
    assert gpu_reset.settled(made, first, then) is (not words)
    assert words in gpu_reset.explain(made, first, then)


def test_without_leaves_out_a_gpu_and_reach_names_those_there(host):
    made = gpu_reset.Args(gpus=("all",), only="any")
    state = drive(gpu_reset.probe(made), host(Pretended(gpus=[gpu(0), gpu(1)]), gpus=2))
    assert [it.key for it in gpu_reset.reach(made, state)] == [uuid(0), uuid(1)]
    change = gpu_reset.decide(made, gpu_reset.without(state, frozenset({uuid(0)})))
    assert [it.key for it in change.targets] == [uuid(1)]
    assert all(uuid(0) not in it.argv for it in (*change.commands, *change.finally_))


@pytest.mark.parametrize(
    ("exit_code", "said", "words"),
    [
        (
            255,
            "The following GPUs could not be reset:\n  GPU 00000000:1B:00.0: In use by another client\n",
            "0000:1b:00.0",
        ),
        (255, "GPU 00000000:1B:00.0 is currently in use by another process.", "another client uses 0000:1b:00.0"),
        (
            3,
            "Unable to reset this GPU because it's being used by some other process (e.g. CUDA application, graphics "
            "application like X server, monitoring application like other instance of nvidia-smi). Please first kill "
            "all processes using this GPU and all compute applications running in the system.",
            "fuser -v /dev/nvidia*",
        ),
        (
            255,
            "GPU 00000000:1B:00.0 is currently in use by another process.\n\n1 device is currently being used by one or "
            "more other processes (e.g., Fabric Manager, CUDA application, graphics application such as an X server)",
            "another client uses 0000:1b:00.0",
        ),
        (4, "Unable to reset: Insufficient Permissions", "not permitted here"),
        (3, "Resetting GPU 00000000:1B:00.0 is not supported.", "not supported here"),
        (15, "GPU 0000:1B:00.0 is lost", "only a reboot"),
        (127, "", "no nvidia-smi"),
        (1, "something else", ""),
    ],
)
def test_a_refusal_is_told_in_words(host, exit_code, said, words):
    change = decided(host(Pretended(gpus=[gpu(0, **SICK)])), "0")
    told = gpu_reset.refused(change.commands[-1], Completed(exit_code=exit_code, stdout=said))
    assert words in told
    assert bool(told) is bool(words)


def test_the_commands_reach_nvidia_smi_as_they_should(host, tmp_path):
    here = host(Pretended(gpus=[gpu(0, **SICK)]))
    change = decided(here, "0")
    (tmp_path / "bin/calls").unlink()
    here.run(*change.commands, *change.finally_)
    assert calls(tmp_path / "bin") == [
        f"-i {uuid(0)} -pm 0", f"--gpu-reset -i {uuid(0)}", f"-q -i {uuid(0)}", f"-i {uuid(0)} -pm 1",
    ]  # fmt: skip


@every_row("module", [nvidia_smi, gpu_idle, gpu_reset])
def test_each_keeps_the_protocol(module):
    assert Action.of(module).summary.endswith(".")
