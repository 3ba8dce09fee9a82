"""Growth of memory: real processes that leak, that rest, and that come and go."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from runbook.errors import ConfigError, ProbeError
from runbook.language.arguments import build
from runbook.library.gpu import growth
from runbook.library.gpu.growth import read_samples
from runbook.protocols import Fails, Holds
from runbook.values.command import Completed, Effect
from runbook.values.types import Unknown
from tests.support.fake_nvidia_smi import Pretended, gpu, uuid
from tests.support.probe_driver import SHELLS, Here, broken_awk, drive
from tests.support.real_processes import each
from tests.support.waiting import state, until

shells = pytest.mark.parametrize("shell", each(SHELLS))
MIB = 1 << 20

LEAK = r"""c=$(head -c 1000000 /dev/zero | tr '\0' x); n=0; while [ $n -lt 400 ]; do
n=$((n + 1)); eval "x$n=\$c"; [ $n != 9 ] || echo grown; sleep 0.05; done; sleep 60"""


def looked(shell="dash", path=None, **values):
    made = build(growth.Args, {"samples": 4, "every": "300ms", "at_least": "2MiB", **values})
    here = Here(shell=SHELLS[shell], path=path)
    state = drive(growth.probe(made), here)
    assert {it.effect for it in here.sent} == {Effect.READ}
    return made, state


@pytest.fixture
def leaking():
    with subprocess.Popen(["dash", "-c", LEAK], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        yield process
        process.kill()


@shells
def test_what_leaks_is_named_and_what_rests_is_not(shell, leaking):
    with subprocess.Popen(["sleep", "60"]) as resting:
        made, state = looked(shell, gpus=False)
        resting.kill()
    mine = {it.pid: it for it in state.processes}
    assert leaking.pid in mine, state
    assert resting.pid not in mine
    it = mine[leaking.pid]
    assert it.name == "dash"
    assert it.after - it.before == it.grown >= 2 * MIB
    assert it.per_minute == pytest.approx(it.grown * 60 / state.seconds, rel=0.01)
    assert state.samples == 4
    assert state.seconds > 0.8
    assert isinstance(growth.holds(made, state), Fails)


def test_the_size_of_a_process_is_what_the_system_says(leaking):
    leaking.send_signal(19)
    until(lambda: state(leaking.pid) == "T")
    done = Here().run(growth.ask_samples(1, 1))[0]
    (sample,) = read_samples(done)
    (held,) = [it for it in sample.held.values() if it.pid == leaking.pid]
    status = Path(f"/proc/{leaking.pid}/status").read_text()
    kib = int(next(it.split()[1] for it in status.splitlines() if it.startswith("VmRSS:")))
    assert abs(held.resident - kib * 1024) < 2 * MIB
    assert held.start == Path(f"/proc/{leaking.pid}/stat").read_text().rpartition(")")[2].split()[19]


def test_growth_below_the_limit_is_none(leaking):
    _, state = looked(gpus=False, at_least="100GiB")
    assert state.processes == ()
    made, state = looked(gpus=False, samples=3, at_least="100GiB")
    assert isinstance(growth.holds(made, state), Holds)


def sampled(*sizes: int, gone: int = -1) -> Completed:
    """Samples of one process with such MiB; in the sample number *gone* it is not there."""
    lines = []
    for at, size in enumerate(sizes):
        lines += [f"sample {100 + 2 * at}.00", f"mem MemTotal {1 << 20}", f"mem MemAvailable {(1 << 20) - size * 1024}"]
        lines += [] if at == gone else [f"held {size * 1024} 77 4242 odd name) (x"]
    return Completed(exit_code=0, stdout="\n".join(lines) + "\n")


def decided(done: Completed, **values):
    args = build(growth.Args, {"samples": 4, "gpus": False, "at_least": "10MiB", **values})
    probe = growth.probe(args)
    next(probe)
    with pytest.raises(StopIteration) as ended:
        probe.send(done)
    return ended.value.value


def test_only_what_grows_in_every_sample_grows_on():
    grown = decided(sampled(10, 20, 30, 40))
    assert [(it.name, it.pid, it.before, it.after) for it in grown.processes] == [
        ("odd name) (x", 77, 10 * MIB, 40 * MIB)
    ]
    assert grown.processes[0].per_minute == 300 * MIB
    assert grown.used_growing is True
    assert decided(sampled(10, 20, 20, 40)).processes == ()
    assert decided(sampled(10, 20, 15, 40)).processes == ()
    assert decided(sampled(10, 11, 12, 13)).processes == ()


def test_steps_may_be_asked_for_instead_of_a_slope():
    assert decided(sampled(10, 10, 10, 40), rises=1).processes
    assert decided(sampled(10, 10, 10, 40), rises=2).processes == ()
    assert decided(sampled(20, 10, 30, 40), rises=1).processes == (), "it fell once"


def test_a_process_that_misses_a_sample_says_nothing():
    assert decided(sampled(10, 20, 30, 40, gone=1)).processes == ()


def test_a_sample_that_never_came_makes_all_unknown():
    cut = Completed(exit_code=None, timed_out=True, stdout=sampled(10, 20, 30, 40).stdout)
    state = decided(cut)
    assert isinstance(state.processes, Unknown)
    assert "3 samples of 4" in state.processes.why
    assert isinstance(state.used_growing, Unknown)
    with pytest.raises(ProbeError, match="in time"):
        decided(Completed(exit_code=None, timed_out=True, stdout="sample 1.0"))
    with pytest.raises(ProbeError, match="cannot be read"):
        decided(Completed(exit_code=3, stderr="/proc/meminfo cannot be read"))


def test_gpus_are_sampled_too(tmp_path):
    path = Pretended(gpus=[gpu(0, memory_used="5000"), gpu(1, memory_used="[N/A]")]).install(tmp_path / "bin")
    _, state = looked(path=path, samples=3)
    assert state.gpu_used[uuid(0)] == (5000 * MIB,) * 3
    assert isinstance(state.gpus, Unknown), "one GPU does not say"
    assert "[N/A]" in state.gpus.why
    assert len((path / "calls").read_text().splitlines()) == 3


def test_a_gpu_that_grows_is_named(tmp_path):
    path = tmp_path / "bin"
    path.mkdir()
    (path / "nvidia-smi").write_text(
        f'#!/bin/sh\necho x >>{path}/n\necho "0, {uuid(0)}, $((1000 * $(wc -l <{path}/n)))"\necho "1, {uuid(1)}, 7"\n'
    )
    (path / "nvidia-smi").chmod(0o755)
    made, state = looked(path=path, samples=3)
    assert [(it.name, it.before, it.after) for it in state.gpus] == [(uuid(0), 1000 * MIB, 3000 * MIB)]
    many = tuple(growth.Grown(name="job", pid=it, before=0, after=1, grown=1, per_minute=1) for it in range(1, 8))
    assert growth.holds(made, replace(state, processes=many)).why.startswith(f"growing: {uuid(0)} by ")


def test_a_silent_nvidia_smi_leaves_the_processes_known(tmp_path, leaking):
    path = Pretended(instead="broken", exit_code=9).install(tmp_path / "bin")
    made, state = looked(path=path)
    assert leaking.pid in [it.pid for it in state.processes]
    assert isinstance(state.gpus, Unknown)
    with pytest.raises(ProbeError):
        growth.holds(made, state)


def test_more_rises_than_steps_are_refused():
    with pytest.raises(ConfigError, match="only 2 rises"):
        build(growth.Args, {"samples": 3, "rises": 3})


def test_a_process_that_ends_while_it_is_read_hides_no_other(tmp_path, leaking):
    """Mutants: growth_sample.sh without its second try."""
    _, state = looked(path=broken_awk(tmp_path, last=3), gpus=False)
    assert leaking.pid in [it.pid for it in state.processes]


@pytest.mark.parametrize(("first", "why"), [(1, "read error"), (3, "only 1 sample of 4")])
def test_a_list_of_processes_that_broke_off_is_unknown_and_not_nobody(tmp_path, leaking, first, why):
    """Mutants: growth_sample.sh that ignores its last try; samples.py that takes the sample in which it failed."""
    path = broken_awk(tmp_path, first=first)
    if first == 1:
        with pytest.raises(ProbeError, match=why):
            looked(path=path, gpus=False)
        return
    made, state = looked(path=path, gpus=False)
    assert isinstance(state.processes, Unknown)
    assert why in state.processes.why
    with pytest.raises(ProbeError, match=why):
        growth.holds(made, state)
