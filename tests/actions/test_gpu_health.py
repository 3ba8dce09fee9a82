"""gpu_health: one verdict for each GPU, and nothing that is unknown is called healthy."""

from __future__ import annotations

import pytest

from runbook.errors import ProbeError
from runbook.language.arguments import build
from runbook.library.gpu import gpu_health
from runbook.library.gpu.facts.clock_reasons import reasons_in
from runbook.library.gpu.facts.health_query import GROUPS, OLD_REASONS, REASONS
from runbook.protocols import Absent, Fails, Holds
from runbook.values.command import Command, Completed, Effect
from runbook.values.types import Unknown
from tests.support.fake_nvidia_smi import KNOWN, Pretended, calls, gpu, plant
from tests.support.probe_driver import Here, drive
from tests.support.tables import every_row

ADDED = frozenset(column for group in GROUPS for column in group.replace("/", ",").split(","))


class Modules(Here):
    """This machine, whose kernel has the driver loaded (or not)."""

    driver = "loaded\nversion 570.1\nmodule nvidia 0\ndriver x\ninstalled 570.1\nlibrary /lib/libnvidia-ml.so.570.1\nuser 0\n"

    def _run(self, command: Command) -> Completed:
        if command.argv[1:2] == ("nvidia",):
            self.sent.append(command)
            return Completed(exit_code=0, stdout=self.driver)
        return super()._run(command)


@pytest.fixture
def host(tmp_path):
    """A function that makes a machine with GPUs on the bus, and a pretended nvidia-smi."""

    def make(pretended: Pretended | None, gpus: int = 1, **keys) -> Modules:
        root = plant(tmp_path / "root", gpus=gpus)
        for at in range(gpus):
            (root / f"sys/bus/pci/devices/0000:{0x90 + at:02x}:00.0/config").write_bytes(b"\xde\x10\x30\x23")
        path = pretended.install(tmp_path / "bin") if pretended else None
        return Modules(path=path, root=root, **keys)

    return make


def look(here: Here, **args):
    return drive(gpu_health.probe(build(gpu_health.Args, args)), here)


def queries(folder) -> list[str]:
    """What nvidia-smi was asked, but for what a virtual machine needs to know of its license."""
    return [words for words in calls(folder) if words != "-q"]


def test_a_healthy_host_is_asked_for_everything_in_two_calls(host, tmp_path):
    here = host(Pretended(gpus=[gpu(0), gpu(1)]), gpus=2)
    state = look(here, expect_gpus=2)
    assert [it.verdict for it in state.gpus] == ["healthy", "healthy"]
    assert (state.smi, state.on_bus, state.in_driver, state.listed, state.missing) == ("answers", 2, 2, 2, 0)
    assert (state.ill, state.unknown, state.not_checked, state.lost) == ((), (), (), ())
    assert len(queries(tmp_path / "bin")) == 2
    assert {it.effect for it in here.sent} == {Effect.READ}
    assert isinstance(gpu_health.holds(build(gpu_health.Args, {}), state), Holds)


def test_an_old_driver_is_asked_group_by_group_and_by_the_old_name(host, tmp_path):
    """Mutants: smi_query.sh without `grouped`, or without the name behind the slash."""
    rows = [{**gpu(0), OLD_REASONS: "0x0000000000000040"}]
    known = frozenset(KNOWN) - {REASONS, "fabric.state", "fabric.status"} | {OLD_REASONS}
    state = look(host(Pretended(gpus=rows, fields=known)))
    assert state.gpus[0].verdict == "slowed down by the hardware"
    (health,) = state.health.values()
    assert (health.link_width, health.ecc_volatile) == (16, 0)
    assert health.not_reported == ("fabric.state", "fabric.status")
    assert len(queries(tmp_path / "bin")) <= 3 + len(GROUPS) + 2


def test_what_a_driver_does_not_report_is_said(host):
    state = look(host(Pretended(fields=frozenset(KNOWN) - ADDED)))
    assert state.gpus[0].verdict == "healthy"
    assert [it.partition(":")[0] for it in state.not_checked] == [
        "uncorrected memory errors", "PCI link width", "reasons for low clocks", "pending MIG mode",
    ]  # fmt: skip


READINGS = (
    *("power.draw", "power.default_limit", "enforced.power.limit", "clocks.current.sm", "clocks.max.sm"),
    *("temperature.memory", "fan.speed"),
)
"""Columns from which no verdict follows: one alone that fails is a warning."""


@pytest.mark.parametrize("column", sorted(ADDED & {*KNOWN}))
def test_no_field_that_holds_an_error_is_taken_for_healthy(host, column):
    """Mutant: faults that looks at the core alone."""
    state = look(host(Pretended(gpus=[{**gpu(0), column: "[Unknown Error]"}])))
    assert state.gpus[0].verdict == ("one value cannot be read" if column in READINGS else "reports no values"), column


def test_two_readings_that_fail_are_no_chance(host):
    state = look(host(Pretended(gpus=[{**gpu(0), "power.draw": "ERR!", "clocks.max.sm": "ERR!"}])))
    assert state.gpus[0].verdict == "reports no values"


def test_a_hang_is_said_once_and_the_bus_tells_the_rest(host, tmp_path):
    """Mutant: a second question after a hang."""
    here = host(Pretended(hangs_at=1), gpus=2, timeout=5.0)
    (tmp_path / "root/sys/bus/pci/devices/0000:91:00.0/config").write_bytes(b"\xff" * 4)
    state = look(here)
    assert state.smi == "hung"
    assert [it.verdict for it in state.gpus] == ["unknown", "lost"]
    assert state.off_the_bus == ("0000:91:00.0",)
    assert isinstance(state.need_reset, Unknown)
    assert len(calls(tmp_path / "bin")) == 1
    with pytest.raises(ProbeError, match="did not answer"):
        gpu_health.holds(build(gpu_health.Args, {}), state)


@pytest.mark.parametrize(
    ("said", "code", "condition"),
    [
        ("Failed to initialize NVML: Driver/library version mismatch\n", 18, "mismatch"),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", 9, "no_driver"),
        ("No devices were found\n", 6, "no_devices"),
        ("Failed to initialize NVML: Unknown Error\n", 255, "failed"),
    ],
)
def test_why_nvidia_smi_gives_no_row_is_told_apart_and_no_gpu_is_healthy(host, said, code, condition):
    state = look(host(Pretended(instead=said, exit_code=code)), expect_gpus=1)
    assert state.smi == condition
    assert said.strip().rstrip(".") in state.smi_said
    assert [it.verdict for it in state.gpus] == ["unknown"]
    assert state.lost == (), "it answers on the bus"
    assert isinstance(state.memory_waits, Unknown)
    assert isinstance(gpu_health.holds(build(gpu_health.Args, {}), state), Fails)


def test_a_gpu_that_nvidia_smi_calls_lost_is_lost_also_in_a_container(host, tmp_path):
    line = (
        "Unable to determine the device handle for GPU0000:91:00.0: GPU is lost.  Reboot the system to recover this GPU"
    )
    here = host(Pretended(gpus=[gpu(0)], between={1: line}, exit_code=15), gpus=2)
    assert look(here).off_the_bus == ("0000:91:00.0",)
    (tmp_path / "root/.dockerenv").touch()
    state = look(here)
    assert (state.off_the_bus, [it.verdict for it in state.gpus]) == (("0000:91:00.0",), ["healthy", "lost"])


def test_a_gpu_without_a_row_is_not_started_and_in_a_container_it_is_somebody_elses(host, tmp_path):
    here = host(Pretended(gpus=[gpu(0)]), gpus=2)
    state = look(here)
    assert [it.verdict for it in state.gpus] == ["healthy", "not started by the driver"]
    assert "nvidia-smi does not list it" in state.not_started[0]
    (tmp_path / "root/.dockerenv").touch()
    (tmp_path / "root/dev/nvidia1").unlink()
    state = look(here)
    assert ([it.verdict for it in state.gpus], state.not_started) == (["healthy"], ())


def test_a_gpu_that_the_kernel_calls_lost_is_so_only_without_a_row(host):
    here = host(Pretended(gpus=[gpu(0)]), gpus=2)
    state = look(here, lost=("0000:90:00.0", "0000:91:00.0"))
    assert [it.verdict for it in state.gpus] == ["healthy", "lost"]


def test_too_few_on_the_bus_or_in_nvidia_smi_are_missing(host, tmp_path):
    here = host(Pretended(gpus=[gpu(0)]), gpus=2)
    assert (look(here, expect_gpus=2).missing, look(here, expect_gpus=4).missing) == (1, 3)
    (tmp_path / "root/.dockerenv").touch()
    assert look(here, expect_gpus=2).missing == 1


def test_a_container_that_shows_no_bus_lacks_nothing_that_nvidia_smi_lists(tmp_path):
    """Mutant: _missing that counts the bus in a container."""
    root = plant(tmp_path / "root", nodes=("nvidia0",))
    (root / ".dockerenv").touch()
    state = look(Modules(path=Pretended().install(tmp_path / "bin"), root=root), expect_gpus=1)
    assert (state.missing, state.on_bus, [it.verdict for it in state.gpus]) == (0, 0, ["healthy"])


def test_nvidia_smi_is_not_run_where_it_would_load_the_driver(tmp_path):
    """Mutant: the probe that asks nvidia-smi without a driver."""
    root = plant(tmp_path / "root", pci=[("0000:90:00.0", "0x10de", "0x030200")])
    here = Modules(path=Pretended().install(tmp_path / "bin"), root=root)
    here.driver = "driver \nabsent modinfo: not found\nuser 0\n"
    state = look(here)
    assert state.smi == "no_driver"
    assert calls(tmp_path / "bin") == []


def test_a_host_without_a_gpu_is_proven_to_have_none(tmp_path):
    here = Modules(root=plant(tmp_path / "root"))
    here.driver = "driver \nuser 0\n"
    seen = look(here, expect_gpus=2)
    assert isinstance(seen, Absent)
    assert seen.state.missing == 2


def test_a_virtual_machine_whose_bus_shows_no_gpu_is_asked_by_its_nvidia_smi(tmp_path):
    """Mutant: a host without a GPU on the bus that is taken for one without GPUs, as under WSL."""
    here = Modules(path=Pretended().install(tmp_path / "bin"), root=plant(tmp_path / "root"))
    here.driver = "driver \nuser 0\n"
    state = look(here)
    assert (state.smi, state.on_bus, [it.verdict for it in state.gpus]) == ("answers", 0, ["healthy"])


def test_heat_power_and_limits_are_named_with_their_numbers(host):
    rows = [
        gpu(0, **{"clocks_event_reasons.active": "0x00000000000000C8"}),
        gpu(1, **{"clocks_event_reasons.active": "0x0000000000000004", "enforced.power.limit": "300.00"}),
    ]
    state = look(host(Pretended(gpus=rows), gpus=2))
    assert [it.partition(":")[0] for it in (*state.too_hot, *state.braked)] == ["GPU 0 (0000"] * 2
    assert "31 degrees" in state.too_hot[0]
    assert [it.partition(")")[0] for it in (*state.capped, *state.limited)] == ["GPU 1 (0000:91:00.0"] * 2
    assert state.limited[0].endswith("300 W of 700 W")
    assert [it.verdict for it in state.gpus] == ["slowed down by the hardware", "healthy"]


@every_row(
    ("mask", "names"),
    [
        ("0x0", ()),
        ("0x0000000000000001", ("idle",)),
        ("0x60", ("software thermal slowdown", "hardware thermal slowdown")),
        ("0x200", ("reason 0x200",)),
    ],
)
def test_the_bits_of_a_mask_have_names(mask, names):
    assert reasons_in(mask) == names


@every_row("mask", ["[N/A]", "", "Active", "1", "0x", "0x1 2"])
def test_what_is_no_mask_is_unknown(mask):
    assert isinstance(reasons_in(mask), Unknown)
