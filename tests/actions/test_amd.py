"""AMD's GPUs behind the same states as NVIDIA's: whose processes are left over, which GPU is well, what is not told."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from runbook.errors import ProbeError
from runbook.library.gpu import gpu_health, gpu_idle, nvidia_smi
from runbook.library.gpu.facts.amd import ask_amd, read_amd
from runbook.library.gpu.facts.smi_query import ask_presence, read_presence
from runbook.library.jobs import device_holders, gpu_jobs
from runbook.library.processes.facts.protected import daemon
from runbook.protocols import Absent, Holds
from runbook.values.command import Completed
from runbook.values.types import Duration, Unknown
from tests.facts.made_up_hosts import row
from tests.support.fake_amd import AmdHost, bus_of
from tests.support.probe_driver import SHELLS, drive
from tests.support.real_processes import each
from tests.support.tables import every_row

pytestmark = pytest.mark.real("root")

HANGS = "exec sleep 600"
LISTS = yaml.safe_load((Path(__file__).parents[1] / "data/amd_smi_lists.yaml").read_text())


@contextmanager
def holder(host: AmdHost, *devices: str):
    """A process that has *devices* open, whose parent has ended long ago for all that is known of it."""
    opened = "; ".join(f"open('{host.root}/dev/{name}')" for name in devices)
    code = f"kept = [{opened.replace('; ', ', ')}]; print('ready', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stdin
        assert process.stdout.readline() == "ready\n"
        try:
            yield process.pid
        finally:
            process.stdin.close()


def jobs(host: AmdHost, **args) -> gpu_jobs.State:
    plain = {"starting": 0, "spare_owned": False, "idle_for": Duration(0.1)}
    return drive(gpu_jobs.probe(gpu_jobs.Args(**{**plain, **args})), host)


def pids(found) -> list[int]:
    return [one.pid for one in found]


def spares(found: gpu_jobs.State) -> bool:
    """Whether nothing would be ended."""
    return isinstance(found.leftover, Unknown) or found.leftover == ()


def presence(host: AmdHost):
    return read_presence(host.run(ask_presence())[0])


@pytest.mark.parametrize("shell", each(SHELLS))
def test_presence_finds_what_amds_driver_calculates_on(tmp_path, shell):
    seen = presence(AmdHost(shell=SHELLS[shell]).install(tmp_path))
    assert seen.absent
    assert seen.amd
    assert seen.amd.minors == {bus_of(0): 128, bus_of(1): 129}
    assert seen.amd.nodes == ("/dev/dri/renderD128", "/dev/dri/renderD129")
    assert [(node.card, node.gpu_id) for node in seen.amd_nodes] == [(0, 4000), (1, 4001)]
    assert seen.amd.on_bus == (bus_of(0), bus_of(1))


def test_a_card_that_only_draws_and_a_gpu_beside_nvidias_are_none(tmp_path):
    topology = "sys/class/kfd/kfd/topology/nodes"
    shown = "simd_count 0\nlocation_id {}\ndomain 0\ndrm_render_minor 12{}\n"
    units = {f"{topology}/{at}/properties": shown.format(place, at + 7) for at, place in ((1, 0x500), (2, 0x2600))}
    device = "sys/bus/pci/devices"
    drawn = {f"{device}/{bus_of(at)}/class": "0x030000\n" for at in (0, 1)}
    only_draws = presence(AmdHost(files=units | drawn).install(tmp_path / "a"))
    assert only_draws.amd is None
    assert only_draws.accelerators == ()
    nvidia = {f"{device}/0000:97:00.0/vendor": "0x10de\n", f"{device}/0000:97:00.0/class": "0x030200\n"}
    beside = presence(AmdHost(files=nvidia).install(tmp_path / "b"))
    assert beside.amd is None
    assert not beside.absent


def test_the_values_of_a_gpu_and_what_amd_does_not_tell(tmp_path):
    host = AmdHost(busy=(7, 0)).install(tmp_path)
    there = presence(host).amd
    reading = read_amd(host.run(ask_amd(there, 0.1, 1))[0], there, samples=2)
    gpu = reading.gpus[0]
    assert (gpu.index, gpu.uuid, gpu.bus_id, gpu.name) == (
        0, "GPU-deadbeef00000000", bus_of(0), "AMD Instinct MI300X OAM",
    )  # fmt: skip
    assert (gpu.samples, gpu.memory_used, gpu.memory_total, gpu.temperature) == ((7, 7), 300, 192 * 1024, 42)
    assert isinstance(gpu.requires_reset, Unknown)
    assert isinstance(gpu.compute_mode, Unknown)
    assert gpu.faults == ()
    fewer = read_amd(host.run(ask_amd(there))[0], there, samples=2)
    assert fewer.gpus[0].samples[0] == 7
    assert isinstance(fewer.gpus[0].samples[1], Unknown)


@pytest.mark.parametrize("case", LISTS, ids=[case["about"] for case in LISTS])
def test_what_amd_smi_lists_is_read_as_it_is_printed(tmp_path, case):
    (tmp_path / "printed").write_text(case["prints"])
    host = AmdHost(amd_smi=f"cat {tmp_path / 'printed'}; exit {case.get('exit_code', 0)}").install(tmp_path)
    there = presence(host).amd
    reading = read_amd(host.run(ask_amd(there))[0], there)
    found = {gpu.bus_id: gpu.index for gpu in reading.gpus}
    assert found == case.get("gpus", {bus_of(0): 0, bus_of(1): 1})
    assert [error.startswith(case.get("complaint", "?")) for error in reading.errors] == [True] * ("complaint" in case)


@every_row("said", ["echo broken; exit 1", "echo '[WARNING] x'", 'echo \'[{"gpu": 0, "bdf": "N/A"}]\'', "echo '[[['"])
def test_an_amd_smi_without_a_list_is_a_complaint_and_no_value(tmp_path, said):
    host = AmdHost(amd_smi=said).install(tmp_path)
    there = presence(host).amd
    reading = read_amd(host.run(ask_amd(there))[0], there)
    assert len(reading.gpus) == 2
    assert "amd-smi did not list the GPUs" in reading.errors[0]


@every_row("done", [Completed(exit_code=0, stdout="value x y z\n"), Completed(exit_code=75, stderr="amd-smi is stuck"),
                    Completed(exit_code=None, timed_out=True, seconds=5)])  # fmt: skip
def test_an_answer_that_is_cut_or_does_not_come_is_none(tmp_path, done):
    there = presence(AmdHost().install(tmp_path)).amd
    with pytest.raises(ProbeError):
        read_amd(done, there)


@every_row("devices", [("kfd", "dri/renderD128"), ("kfd",)])
def test_an_idle_holder_of_amds_gpus_is_left_over(tmp_path, devices):
    host = AmdHost().install(tmp_path)
    with holder(host, *devices) as pid:
        found = jobs(host)
    assert pids(found.leftover) == [pid]
    assert found.devices == ("/dev/kfd",)
    assert found.gpus == ("GPU-deadbeef00000000",) or devices == ("kfd",)


def test_the_load_of_its_own_gpu_tells_whether_a_holder_is_at_work(tmp_path):
    host = AmdHost(busy=(0, 90)).install(tmp_path)
    with holder(host, "kfd", "dri/renderD128") as idle, holder(host, "kfd", "dri/renderD129") as busy:
        found = jobs(host)
    assert pids(found.leftover) == [idle]
    assert pids(found.at_work) == [busy]


def test_a_holder_of_which_no_gpu_is_known_is_spared_by_any_busy_one(tmp_path):
    host = AmdHost(busy=(0, 90)).install(tmp_path)
    with holder(host, "kfd") as pid:
        found = jobs(host)
    assert pids(found.at_work) == [pid]
    assert found.leftover == ()


def test_memory_on_a_busy_gpu_is_work_there_whatever_is_open(tmp_path):
    host = AmdHost(busy=(0, 90)).install(tmp_path)
    with holder(host, "kfd", "dri/renderD128") as pid:
        plant(host, pid, {"vram_4001": "4096"})
        assert pids(jobs(host).at_work) == [pid]


def plant(host: AmdHost, pid: int, uses: dict[str, str | None]) -> None:
    """Write what KFD lists of process *pid*; None: there is no such folder."""
    listed = host.root / f"sys/class/kfd/kfd/proc/{pid}"
    (listed / "queues").mkdir(parents=True)
    for name, text in uses.items():
        (listed / name).parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            (listed / name).rmdir()
        else:
            (listed / name).write_text(f"{text}\n")


EVERY = ("kfd", "dri/renderD128", "dri/renderD129")
"""What a program of ROCm opens: every GPU."""


@every_row(
    ("uses", "spared"),
    [
        ({"vram_4000": "4096"}, False),
        ({"vram_4000": "4096", "vram_4001": "0"}, False),
        ({"vram_4000": "0", "queues/1/gpuid": "4000"}, False),
        ({"vram_4001": "4096"}, True),
        ({"vram_4000": "4096", "queues/1/gpuid": "4001"}, True),
        ({"vram_4000": "4096", "vram_77": "4096"}, True),
        ({"vram_4000": "0"}, True),
        ({"vram_4000": "4096", "pasid": "32770", "sdma_4001": "7", "stats_4001/cu_occupancy": "0"}, False),
        ({"vram_4000": "4096", "queues/1/gpuid": ""}, True),
        ({"vram_4000": "4096", "queues/1/gpuid": "?"}, True),
        ({"vram_4000": "4096", "queues/1/type": "2"}, True),
        ({"vram_4000": "4096", "vram_4001": ""}, True),
        ({"vram_4000": "4096", "vram_4001": "much"}, True),
        ({"vram_4000": "4096", "vram_4001": "-1"}, True),
        ({"vram_4000": "4096", "vram_4001": "4096 more"}, True),
        ({"vram_4000": "4096", "context_1/vram_4001": "4096"}, True),
        ({"vram_4000": "4096", "queues": None}, True),
        ({"vram_4000": "4096", "stats_4001/cu_occupancy": "300"}, True),
        ({"vram_4000": "4096", "stats_4001/cu_occupancy": ""}, True),
        ({"vram_4000": "4096", "queues/1/gpuid": "4000 4001"}, True),
        ({"vram_4000": "9" * 5000}, True),
    ],
)
def test_the_driver_tells_which_of_the_open_gpus_a_process_uses(tmp_path, uses, spared):
    """Mutants: every open GPU; a process without memory and queue that is on none; a GPU that nobody knows; an entry
    that cannot be read, or is of an unknown kind, counted as none.
    """
    host = AmdHost(busy=(0, 90)).install(tmp_path)
    with holder(host, *EVERY) as pid:
        plant(host, pid, uses)
        found = jobs(host)
    assert (pids(found.at_work), pids(found.leftover)) == (([pid], []) if spared else ([], [pid]))


NODES = "sys/class/kfd/kfd/topology/nodes"
UNCLEAR = {
    "a GPU that may not be read": {"files": {f"{NODES}/2/properties": ""}},
    "a number of a GPU that may not be read": {"files": {f"{NODES}/2/gpu_id": ""}},
    "all of them": {"files": {f"{NODES}/1/properties": "", f"{NODES}/2/properties": ""}},
    "the same number twice": {"files": {f"{NODES}/2/gpu_id": "4000\n"}},
    "the same device node twice": {
        "files": {f"{NODES}/2/properties": "simd_count 1216\nlocation_id 9728\ndomain 0\ndrm_render_minor 128\n"}
    },
    "another device node than the bus has": {
        "files": {f"sys/bus/pci/devices/{bus_of(1)}/drm/renderD130/.keep": ""}
    },
    "parts of GPUs": {
        "files": {
            f"{NODES}/3/properties": f"simd_count 304\nlocation_id {(1 << 28) + 1280}\ndomain 0\ndrm_render_minor 130\n",
            f"{NODES}/3/gpu_id": "4002\n",
        }
    },
    "a GPU on the bus that the driver lacks": {
        "files": {
            "sys/bus/pci/devices/0000:46:00.0/vendor": "0x1002\n", "sys/bus/pci/devices/0000:46:00.0/class": "0x120000\n",
        }
    },
}  # fmt: skip


@pytest.mark.parametrize("case", list(UNCLEAR))
def test_where_it_is_not_known_which_gpus_there_are_nobody_is_left_over(tmp_path, case):
    """On a host that shows all processes, whatever they have open."""
    host = AmdHost(busy=(0, 90), **UNCLEAR[case]).install(tmp_path)
    for devices in (("kfd", "dri/renderD128"), ("kfd",), EVERY):
        with holder(host, *devices) as pid:
            plant(host, pid, {"vram_4001": "4096", "queues/1/gpuid": "4001"})
            assert spares(jobs(host)), devices
            assert spares(jobs(host, patterns=(re.escape(f"{host.root}/dev/kfd"),))), devices
            shutil.rmtree(host.root / f"sys/class/kfd/kfd/proc/{pid}")


def test_a_process_on_a_gpu_that_is_not_known_is_not_left_over_where_the_others_are_idle(tmp_path):
    """Mutant: ``_all_idle`` without ``_unshown``."""
    host = AmdHost(busy=(0, 0)).install(tmp_path)
    with holder(host, "kfd") as pid:
        plant(host, pid, {"queues/1/gpuid": "4711"})
        assert spares(jobs(host))


def test_a_gpu_that_is_not_given_to_a_container_does_not_concern_it(tmp_path):
    """Its processes cannot open it; the bus and the driver's list are those of the machine."""
    host = AmdHost(busy=(0, 90), files={f"{NODES}/2/properties": "", ".dockerenv": ""}).install(tmp_path)
    (host.root / "dev/dri/renderD129").unlink()
    (space := host.root / "proc/self/ns/pid").unlink()
    space.symlink_to("pid:[4026532001]")
    with holder(host, "kfd", "dri/renderD128") as pid:
        assert pids(jobs(host).leftover) == [pid]


def test_the_processes_of_an_unreadable_gpu_are_not_taken_for_jobs_without_one(tmp_path):
    host = AmdHost(busy=(90, 90), files={f"{NODES}/{number}/properties": "" for number in (1, 2)}).install(tmp_path)
    assert presence(host).amd
    with pytest.raises(ProbeError, match="cannot be read here"):
        smi(host)


def test_in_a_container_the_drivers_pids_are_those_of_others(tmp_path):
    """Mutant: ``_is_listed_whole`` without the namespace."""
    host = AmdHost(busy=(0, 90)).install(tmp_path)
    space = host.root / "proc/self/ns/pid"
    space.unlink()
    space.symlink_to("pid:[4026532001]")
    with holder(host, *EVERY) as pid:
        plant(host, pid, {"vram_4000": "4096"})
        assert pids(jobs(host).at_work) == [pid]


@every_row("devices", [("dri/renderD128",), ("dri/card0", "dri/renderD129")])
def test_what_draws_is_no_holder(tmp_path, devices):
    """A display, a browser, a desktop have DRM's devices open, and not /dev/kfd."""
    host = AmdHost().install(tmp_path)
    with holder(host, *devices):
        found = jobs(host)
    assert found.all == ()
    assert found.leftover == ()


@every_row("host", [AmdHost(amd_smi=HANGS, timeout=4), AmdHost(busy=(None, None)), AmdHost(busy=("x", "x"))])
def test_where_the_load_is_not_known_nobody_is_left_over(tmp_path, host):
    host.install(tmp_path)
    for devices in (("kfd", "dri/renderD128"), ("kfd",)):
        with holder(host, *devices):
            assert isinstance(jobs(host).leftover, Unknown)


def test_a_gpu_that_amd_smi_does_not_list_leaves_its_holders_unknown(tmp_path):
    host = AmdHost()
    host.amd_smi = host.lists(0)
    host.install(tmp_path)
    with holder(host, "kfd", "dri/renderD129"):
        assert isinstance(jobs(host).leftover, Unknown)


def test_a_job_that_matches_by_its_command_is_judged_by_amds_gpus_too(tmp_path):
    host = AmdHost(busy=(90, 0)).install(tmp_path)
    with holder(host, "kfd", "dri/renderD128") as pid:
        found = jobs(host, patterns=(re.escape(str(host.root)),), devices=("/dev/nvidia*",))
    assert pids(found.at_work) == [pid]


def test_device_holders_finds_the_same(tmp_path):
    host = AmdHost(busy=(0, 90)).install(tmp_path)
    args = device_holders.Args(starting=0, spare_owned=False, idle_for=Duration(0.1))
    with holder(host, "kfd", "dri/renderD128") as pid:
        found = drive(device_holders.probe(args), host)
    assert pids(found.leftover) == [pid]


@every_row("name", ["Xorg", "gnome-shell", "amd-smi", "rocm-smi"])
def test_displays_and_monitors_are_protected(name):
    assert daemon(row(10, argv=(f"/usr/bin/{name}",), name=name))


def health(host: AmdHost, **args) -> gpu_health.State:
    return drive(gpu_health.probe(gpu_health.Args(**args)), host)


def test_a_healthy_host_says_what_was_not_checked(tmp_path):
    state = health(AmdHost().install(tmp_path))
    assert (state.tool, state.smi, state.healthy, state.on_bus, state.in_driver, state.listed) == (
        "amd-smi", "answers", 2, 2, 2, 2,
    )  # fmt: skip
    assert any("whether a reset is needed" in check for check in state.not_checked)
    assert any("reasons for low clocks" in check for check in state.not_checked)
    assert state.need_reset == ()
    assert isinstance(gpu_health.holds(gpu_health.Args(), state), Holds)


def test_uncorrected_errors_a_narrow_link_and_a_missing_value_are_conditions(tmp_path):
    state = health(AmdHost(ue=(2, 0)).install(tmp_path / "a"))
    assert "2 uncorrected memory errors" in state.memory_errors[0]
    link = {f"sys/bus/pci/devices/{bus_of(1)}/current_link_width": "8\n"}
    assert "8 lanes of 16" in health(AmdHost(files=link).install(tmp_path / "b")).narrow[0]
    state = health(AmdHost(busy=("x", 0)).install(tmp_path / "c"))
    assert bus_of(0) in state.no_values[0]
    assert state.healthy == 1


@every_row(
    ("files", "lacking", "where"),
    [
        (
            {},
            ("gpu_busy_percent", "mem_info_vram_used", "mem_info_vram_total", "hwmon/hwmon3/temp2_input"),
            "no_values",
        ),
        ({}, ("gpu_busy_percent",), "no_values"),
        ({}, ("mem_info_vram_total",), "no_values"),
        ({"mem_info_vram_total": "0\n"}, (), "no_values"),
        ({"mem_info_vram_used": f"{900 << 30}\n"}, (), "no_values"),
        ({"hwmon/hwmon3/temp2_input": "999999\n"}, (), "no_values"),
        ({"ras/umc_err_count": "ue: 0\nue: 7\n"}, (), "memory_errors"),
        ({"current_link_width": "63\n"}, (), "unknown"),
        ({"current_link_width": "x\n"}, (), "unknown"),
        ({"current_link_width": ""}, (), "unknown"),
        ({"ras/umc_err_count": "odd\n"}, (), "unknown"),
        ({"current_link_width": "0\n"}, (), ""),
        ({}, ("current_link_width",), ""),
        ({}, ("ras/umc_err_count",), ""),
    ],
)
def test_a_gpu_without_a_value_that_its_equal_has_or_with_an_odd_one_is_not_healthy(tmp_path, files, lacking, where):
    device = f"sys/bus/pci/devices/{bus_of(1)}"
    host = AmdHost(files={f"{device}/{name}": text for name, text in files.items()}).install(tmp_path)
    for name in lacking:
        (host.root / device / name).unlink()
    state = health(host)
    assert state.healthy == (1 if where else 2)
    assert not where or any(bus_of(1) in words for words in getattr(state, where))


@every_row(
    ("said", "healthy", "unknown"),
    [
        ("echo '[]'", 0, 2),
        ("echo '[WARNING] old'; LIST", 1, 0),
        ("echo '{\"a\": 1}'; LIST", 1, 0),
        ("LIST; exit 3", 1, 0),
        ("echo '[WARNING] old'", 0, 2),
        ("echo '[WARNING] old'; exit 3", 0, 2),
    ],
)
def test_the_list_of_amd_smi_counts_whatever_stands_around_it(tmp_path, said, healthy, unknown):
    """And where there is none, nobody knows which GPUs can be used; that is no fault of theirs."""
    host = AmdHost()
    host.amd_smi = said.replace("LIST", host.lists(0))
    state = health(host.install(tmp_path))
    assert (state.healthy, len(state.unknown)) == (healthy, unknown)


def test_the_same_unique_id_twice_names_no_gpu(tmp_path):
    host = AmdHost(files={f"sys/bus/pci/devices/{bus_of(1)}/unique_id": "deadbeef00000000\n"}).install(tmp_path)
    there = presence(host).amd
    assert [gpu.uuid for gpu in read_amd(host.run(ask_amd(there))[0], there).gpus] == ["", ""]


def test_a_gpu_that_amd_smi_or_the_driver_lacks_is_not_started(tmp_path):
    host = AmdHost()
    host.amd_smi = host.lists(0)
    state = health(host.install(tmp_path / "a"))
    assert "amd-smi does not list it" in state.not_started[0]
    assert (state.healthy, state.listed) == (1, 1)
    nodes = {f"sys/class/kfd/kfd/topology/nodes/{at}/properties": "simd_count 0\n" for at in (1, 2)}
    state = health(AmdHost(files=nodes).install(tmp_path / "b"), expect_gpus=2)
    assert "the driver does not have it" in state.not_started[0]
    assert (state.healthy, state.missing) == (0, 2)


def test_an_amd_smi_that_hangs_makes_all_unknown(tmp_path):
    state = health(AmdHost(amd_smi=HANGS, timeout=4).install(tmp_path))
    assert state.smi == "hung"
    assert isinstance(state.need_reset, Unknown)
    assert state.healthy == 0


def test_an_amd_smi_that_is_missing_is_no_fault_and_a_broken_one_is_named(tmp_path):
    assert health(AmdHost(amd_smi="-").install(tmp_path / "a")).healthy == 2
    state = health(AmdHost(amd_smi="echo 'No module named amdsmi'; exit 1").install(tmp_path / "b"))
    assert (state.healthy, len(state.unknown), state.complaints) == (0, 2, ())
    assert any("No module named amdsmi" in check for check in state.not_checked)


def smi(host: AmdHost) -> nvidia_smi.State:
    return drive(nvidia_smi.probe(nvidia_smi.Args(apart=Duration(0.1))), host)


def test_busy_without_a_holder_is_wedged_and_with_a_display_it_is_not(tmp_path):
    host = AmdHost(busy=(90, 0)).install(tmp_path)
    state = smi(host)
    assert (state.tool, state.count, state.busy, state.wedged) == (
        "amd-smi", 2, ("GPU-deadbeef00000000",), ("GPU-deadbeef00000000",),
    )  # fmt: skip
    assert state.exclusive == ()
    assert isinstance(state.requires_reset, Unknown)
    for devices in (("dri/card0",), ("dri/renderD128",), ("kfd",)):
        with holder(host, *devices):
            assert smi(host).wedged == ()


def test_idle_is_what_the_kernel_says(tmp_path):
    host = AmdHost(busy=(90, 0)).install(tmp_path)
    state = drive(gpu_idle.probe(gpu_idle.Args(gpus=("GPU-deadbeef00000001",))), host)
    assert state.idle == ("GPU-deadbeef00000001",)
    with pytest.raises(ProbeError, match="not known whether this GPU is idle"):
        drive(gpu_idle.probe(gpu_idle.Args()), AmdHost(busy=(None, 0)).install(tmp_path / "x"))


def test_a_host_without_any_gpu_has_none_as_before(tmp_path):
    nodes = {f"sys/class/kfd/kfd/topology/nodes/{at}/properties": "simd_count 0\n" for at in (1, 2)}
    drawn = {f"sys/bus/pci/devices/{bus_of(at)}/class": "0x030000\n" for at in (0, 1)}
    host = AmdHost(files=nodes | drawn).install(tmp_path)
    assert isinstance(drive(nvidia_smi.probe(nvidia_smi.Args()), host), Absent)
    assert isinstance(drive(gpu_health.probe(gpu_health.Args()), host), Absent)
