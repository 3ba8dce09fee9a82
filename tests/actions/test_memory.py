"""Memory: the host's and a control group's, and who holds it."""

from __future__ import annotations

import contextlib
import subprocess
import time
from functools import partial
from pathlib import Path

import pytest

from runbook.errors import ConfigError, ProbeError
from runbook.language.arguments import build
from runbook.library.system import memory
from runbook.library.system.facts.memory import read_memory
from runbook.protocols import Fails, Holds
from runbook.values.command import Completed, Effect
from runbook.values.types import Unknown
from tests.support.probe_driver import SHELLS, Here, broken_awk, drive
from tests.support.real_processes import each
from tests.support.tables import every_row
from tests.support.waiting import soon, until

shells = pytest.mark.parametrize("shell", each(SHELLS))


def looked(shell=SHELLS["dash"], **values):
    made, here = build(memory.Args, values), Here(shell=shell)
    state = drive(memory.probe(made), here)
    assert [it.effect for it in here.sent] == [Effect.READ]
    return made, state


def meminfo(name):
    lines = Path("/proc/meminfo").read_text().splitlines()
    return int(next(it.split()[1] for it in lines if it.startswith(f"{name}:"))) * 1024


@shells
def test_the_hosts_memory_is_what_the_system_itself_says(shell):

    def agreed() -> memory.State | None:
        """What was seen, where it is what the system says: other processes come and go between the two."""
        _, state = looked(SHELLS[shell])
        near = abs(state.host_available - meminfo("MemAvailable")) < 1 << 30
        return state if near and state.swap_used == meminfo("SwapTotal") - meminfo("SwapFree") else None

    state = until(agreed)
    assert state.host_total == meminfo("MemTotal")
    assert 0 <= state.percent <= 100
    assert len(state.top) == 5
    assert [it.resident for it in state.top] == sorted((it.resident for it in state.top), reverse=True)


@pytest.mark.slow
@shells
def test_who_holds_most_is_named(shell):
    with subprocess.Popen(["sh", "-c", "head -c 400000000 /dev/zero | tail"], stdout=subprocess.PIPE) as hog:
        try:
            until(
                lambda: any(
                    it.name == "tail" and it.resident > 200_000_000 for it in looked(SHELLS[shell], top=3)[1].top
                )
            )
        finally:
            hog.stdout.read()


def removed(group: Path) -> bool:
    """Whether a control group is gone, now."""
    with contextlib.suppress(OSError):
        group.rmdir()
    return not group.exists()


@contextlib.contextmanager
def group(limit: int):
    """A control group with a limit; the words that put a shell in it."""
    old = Path("/sys/fs/cgroup/memory")
    place = (old if old.exists() else Path("/sys/fs/cgroup")) / f"runbook-test-{time.time_ns()}"
    try:
        place.mkdir()
        (place / ("memory.limit_in_bytes" if old.exists() else "memory.max")).write_text(str(limit))
    except OSError as error:
        pytest.skip(f"this machine gives no control group: {error}")
    try:
        yield place
    finally:
        soon(partial(removed, place))


@pytest.mark.real("root")
@shells
def test_a_limit_of_our_control_group_is_what_counts(shell):
    with group(64 << 20) as place:
        (place / "inner").mkdir()
        words = ("sh", "-c", f'echo $$ >"{place}/inner/cgroup.procs"; exec {" ".join(SHELLS[shell])} "$@"', "sh")
        made, state = looked(words, below=1)
        (place / "inner").rmdir()
    assert (state.total, state.limited_by) == (64 << 20, f"/{place.name}")
    assert 0 < state.available <= 64 << 20
    assert state.host_available > state.available
    assert (state.low, state.oom_kills) == (True, 0)
    said = memory.holds(made, state)
    assert isinstance(said, Fails)
    assert f"(limit of /{place.name}); most memory: " in said.why


TEXT = "mem MemTotal:  1000 kB\nmem MemAvailable: {}\nmem SwapTotal: 0 kB\nmem SwapFree: 0 kB\ntop 10 4 a b\n"


def judged(text, **values):
    made = build(memory.Args, values)
    probe = memory.probe(made)
    next(probe)
    try:
        probe.send(Completed(exit_code=0, stdout=text))
    except StopIteration as done:
        return made, done.value
    raise AssertionError("asked again")


def test_the_tightest_limit_on_the_way_up_is_what_counts():
    groups = "group max 5 - 2 /a/b\ngroup 512000 460800 102400 9 /a\ngroup 9223372036854771712 1 0 9 \n"
    _, state = judged(TEXT.format("900 kB") + groups)
    assert (state.total, state.available, state.limited_by) == (512000, 512000 - 358400, "/a")
    assert (state.percent, state.oom_kills) == (70.0, 2)
    assert [(it.name, it.resident) for it in state.top] == [("a b", 10240)]


def test_a_generous_limit_on_a_host_without_memory_helps_nobody():
    _, state = judged(TEXT.format("1 kB") + "group 512000 0 0 0 \n")
    assert (state.available, state.total, state.limited_by) == (1024, 512000, "container")


@every_row(
    ("values", "kind"),
    [
        ({}, Holds),
        ({"below": 60}, Fails),
        ({"available_at_least": "300kB"}, Holds),
        ({"available_at_least": "500kB"}, Fails),
    ],
)
def test_enough_is_what_the_step_says(values, kind):
    made, state = judged(TEXT.format("400 kB"), **values)
    assert isinstance(memory.holds(made, state), kind)
    assert state.low is (kind is Fails)
    assert isinstance(state.limits, Unknown)


def test_an_old_kernel_that_does_not_say_what_is_left_is_unknown():
    made, state = judged(TEXT.replace("mem MemAvailable: {}\n", ""))
    assert isinstance(state.percent, Unknown)
    assert isinstance(state.low, Unknown)
    with pytest.raises(ProbeError, match="has no MemAvailable"):
        memory.holds(made, state)


@every_row(
    "done",
    [
        Completed(exit_code=None, timed_out=True),
        Completed(exit_code=3, stderr="/proc/meminfo cannot be read"),
        Completed(exit_code=0, stdout="mem Nothing: 1 kB\n"),
    ],
)
def test_a_host_that_hides_its_memory_is_unknown(done):
    with pytest.raises(ProbeError, match="/proc"):
        read_memory(done)


@pytest.mark.real("lab")
def test_a_masked_proc_is_unknown():
    words = ("unshare", "-m", "sh", "-ec", 'mount -t tmpfs none /proc; exec dash "$@"', "sh")
    with pytest.raises(ProbeError, match="/proc/meminfo cannot be read"):
        looked(words)


def test_a_process_that_ends_while_it_is_read_hides_no_other(tmp_path):
    """Mutants: memory_probe.sh without its second try."""
    made = build(memory.Args, {"top": 3})
    assert len(drive(memory.probe(made), Here(path=broken_awk(tmp_path, last=3))).top) == 3


def test_a_list_of_processes_that_broke_off_is_unknown_and_not_nobody(tmp_path):
    """Mutants: memory_probe.sh that shows what a walk that failed has printed."""
    state = drive(memory.probe(build(memory.Args, {})), Here(path=broken_awk(tmp_path)))
    assert isinstance(state.top, Unknown)
    assert state.host_total == meminfo("MemTotal")


@every_row("values", [{"below": 0}, {"top": 0}, {"available_at_least": "much"}])
def test_a_mistake_is_refused(values):
    with pytest.raises(ConfigError):
        build(memory.Args, values)
