"""What nvidia-smi says is taken apart without ever inventing a number."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from runbook.errors import ProbeError
from runbook.library.fabric.facts.nvlink import ask_links, read_links
from runbook.library.gpu.facts.smi_output import FRAME, sections
from runbook.library.gpu.facts.smi_query import (
    CORE,
    ComputeProcess,
    Gpu,
    ask_apps,
    ask_gpus,
    ask_presence,
    bus_id,
    read_apps,
    read_gpus,
    read_presence,
)
from runbook.library.gpu.facts.utilisation import idle
from runbook.shell import UPTIME
from runbook.values.command import Completed
from runbook.values.types import Unknown
from tests.support.fake_nvidia_smi import KNOWN, Pretended, calls, gpu, plant, uuid
from tests.support.probe_driver import SHELLS, Here
from tests.support.real_processes import each
from tests.support.tables import every_row
from tests.support.waiting import LIMIT, until

MARKERS = (
    "[N/A]", "N/A", "[Not Supported]", "[Unknown Error]", "[GPU requires reset]", "[GPU is lost]",
    "[Insufficient Permissions]", "ERR!", "[Not Found]", "[Requested functionality has been deprecated]", "",
)  # fmt: skip


def asked(pretended: Pretended, folder, *, apart=0.0, apps=False, shell="dash", timeout=LIMIT):
    connection = Here(path=pretended.install(folder), shell=SHELLS[shell], timeout=timeout)
    return connection.run(ask_gpus(apart, apps=apps))[0]


def answered(*rows: str, exit_code: int = 0, stderr: str = "", fields=CORE) -> Completed:
    body = "".join(f"{it}\n" for it in rows)
    head = f"{FRAME} begin gpus {','.join(fields)}\n"
    return Completed(exit_code=0, stdout=f"{head}{body}\n{FRAME} end {exit_code}\n", stderr=head + stderr)


def row(index=0, **values: str) -> str:
    return ", ".join(gpu(index, **values)[it] for it in CORE)


@pytest.mark.parametrize("shell", each(SHELLS))
def test_a_healthy_host_costs_one_query(tmp_path, shell):
    reading = read_gpus(asked(Pretended(gpus=[gpu(0, memory_used="1024"), gpu(1)]), tmp_path, shell=shell))
    assert reading.errors == ()
    assert reading.gpus[0] == Gpu(
        index=0,
        uuid=uuid(0),
        bus_id="0000:90:00.0",
        name="NVIDIA H100 80GB HBM3",
        driver="570.133.20",
        persistence=True,
        memory_used=1024.0,
        memory_total=81559.0,
        utilization=0.0,
        samples=(0.0,),
        temperature=31.0,
        pstate="P0",
        compute_mode="Default",
        mig="Disabled",
        ecc="Enabled",
        recovery_action="None",
        requires_reset=False,
        remap_pending=False,
        remap_failed=False,
        retire_pending=False,
    )
    assert len(calls(tmp_path)) == 1


@pytest.mark.parametrize("shell", each(SHELLS))
def test_an_unknown_optional_field_costs_only_itself(tmp_path, shell):
    old = Pretended(
        fields=frozenset(KNOWN) - {"gpu_recovery_action"},
        status="GPU 00000000:90:00.0\n    GPU Reset Status\n        Reset Required                : Yes\n",
    )
    (only,) = read_gpus(asked(old, tmp_path, shell=shell)).gpus
    assert isinstance(only.recovery_action, Unknown)
    assert only.remap_pending is False
    assert only.utilization == 0.0
    assert only.requires_reset is True


def test_a_driver_that_does_not_say_whether_a_reset_is_needed_leaves_that_unknown(tmp_path):
    reading = read_gpus(asked(Pretended(fields=frozenset(KNOWN) - {"gpu_recovery_action"}), tmp_path))
    assert isinstance(reading.gpus[0].requires_reset, Unknown)
    assert reading.errors == ()


@pytest.mark.parametrize("shell", each(SHELLS))
def test_a_reduced_nvidia_smi_that_refuses_the_core_is_asked_for_less(tmp_path, shell):
    reduced = Pretended(fields=frozenset(KNOWN) - {"mig.mode.current", "ecc.mode.current", "gpu_recovery_action"})
    (only,) = read_gpus(asked(reduced, tmp_path, shell=shell)).gpus
    assert isinstance(only.mig, Unknown)
    assert (only.memory_total, only.bus_id, only.compute_mode, only.persistence) == (
        81559.0,
        "0000:90:00.0",
        "Default",
        True,
    )
    assert len(calls(tmp_path)) <= 16


def test_one_that_refuses_everything_is_a_fault_in_words(tmp_path):
    with pytest.raises(ProbeError, match="rejected the query"):
        read_gpus(asked(Pretended(fields=frozenset()), tmp_path, apart=0.1, apps=True))
    assert len(calls(tmp_path)) <= 5


def test_a_second_look_is_taken_in_the_same_script(tmp_path):
    spiky = Pretended(gpus=[gpu(0, utilization_gpu="90"), gpu(1)], later=[gpu(0, utilization_gpu="3"), gpu(1)])
    reading = read_gpus(asked(spiky, tmp_path, apart=0.1, apps=True))
    assert [it.samples for it in reading.gpus] == [(90.0, 3.0), (0.0, 0.0)]
    assert reading.gpus[0].utilization == 3.0
    assert reading.apps == ()


def test_a_gpu_that_is_missing_from_the_second_look_has_no_second_sample(tmp_path):
    done = answered(row(0), row(1))
    again = f"{FRAME} begin again index,uuid,utilization.gpu\n1, {uuid(1)}, 7\n\n{FRAME} end 0\n"
    reading = read_gpus(Completed(exit_code=0, stdout=done.stdout + again))
    assert isinstance(reading.gpus[0].samples[1], Unknown)
    assert reading.gpus[1].samples == (0.0, 7.0)


def test_a_sample_that_was_asked_for_and_not_taken_is_unknown(tmp_path):
    """Mutant: ``read_gpus`` that goes by the samples that the answer has.  The answer is cut off at every line."""
    spiky = Pretended(later=[gpu(0, utilization_gpu="97")])
    done = asked(spiky, tmp_path, apart=0.1, apps=True)
    assert idle(read_gpus(done, samples=2).gpus[0], 5) is False
    lines = done.stdout.splitlines(keepends=True)
    verdicts = []
    for end in range(len(lines)):
        try:
            (only,) = read_gpus(Completed(exit_code=None, stdout="".join(lines[:end]), stderr=done.stderr), 2).gpus
        except ProbeError:
            continue
        assert len(only.samples) == 2
        verdicts.append(idle(only, 5))
    assert {type(verdict) for verdict in verdicts if verdict is not False} == {Unknown}
    assert False in verdicts


@pytest.mark.parametrize("shell", each(SHELLS))
def test_a_host_without_an_uptime_is_asked_for_every_sample_and_its_processes(tmp_path, shell):
    """Mutants: a script that ends where /proc/uptime cannot be read; one that prints a time all the same."""
    here = Here(path=Pretended(later=[gpu(0, utilization_gpu="97")]).install(tmp_path), shell=SHELLS[shell])
    asking = ask_gpus(0.1, apps=True)
    assert "/proc/uptime" in asking.script
    reading = read_gpus(here.run(replace(asking, script=asking.script.replace("/proc/uptime", "/nowhere")))[0], 2)
    assert reading.gpus[0].samples == (0.0, 97.0)
    assert (reading.apps, reading.at, reading.errors) == ((), 0, ())


@every_row(
    ("text", "hundredths"),
    [
        ("0.00 1", 0),
        ("0.09 1", 9),
        ("9.08 1", 908),
        ("12345.67 1", 1234567),
        ("", None),
        ("x.00 1", None),
        ("5 1", None),
    ],
)
@pytest.mark.parametrize("shell", each(SHELLS))
def test_the_uptime_is_a_decimal_number_or_none(tmp_path, shell, text, hundredths):
    """Mutants: 0.09 as an octal number; a text that is no time."""
    (tmp_path / "uptime").write_text(f"{text}\n")
    read = UPTIME.replace("/proc/uptime", str(tmp_path / "uptime"))
    words = [*SHELLS[shell], "-c", f'{read}uptime && echo "$((up))"']
    said = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (said.stdout.strip(), said.stderr) == ("" if hundredths is None else str(hundredths), "")


LOST = "Unable to determine the device handle for GPU0000:91:00.0: GPU is lost.  Reboot the system to recover this GPU"


@every_row("at", [0, 1, 2])
def test_good_rows_and_an_error_line_side_by_side_are_both_kept(tmp_path, at):
    reading = read_gpus(asked(Pretended(gpus=[gpu(0), gpu(2)], between={at: LOST}, exit_code=15), tmp_path, apart=0.1))
    assert [it.index for it in reading.gpus] == [0, 2]
    assert "GPU is lost. Reboot the system" in reading.errors[0]
    assert any("fallen off the bus" in it for it in reading.errors)
    assert reading.lost == ("0000:91:00.0",)


def test_an_error_on_stderr_is_kept_beside_the_rows(tmp_path):
    reading = read_gpus(
        asked(Pretended(stderr="WARNING: infoROM is corrupted at gpu 0000:90:00.0\n", exit_code=14), tmp_path)
    )
    assert len(reading.gpus) == 1
    assert any("infoROM is corrupted at gpu 0000:90:00.0" in it for it in reading.errors)


@every_row(
    ("exit_code", "said", "words"),
    [
        (9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", "driver is not loaded"),
        (
            18,
            "Failed to initialize NVML: Driver/library version mismatch",
            "versions of the driver and of its library differ",
        ),
        (4, "Failed to initialize NVML: Insufficient Permissions", "not permitted"),
        (6, "No devices were found", "No devices were found"),
        (0, "No devices were found", "No devices were found"),
        (12, "NVML: not found", "library was not found"),
        (15, LOST, "fallen off the bus"),
        (255, "Failed to initialize NVML: Unknown Error", "Unknown Error"),
        (0, "", "no row"),
        (0, "<html>garbage, and, more</html>", "its output could not be parsed"),
        (139, "", "exit code 139"),
    ],
)
def test_no_row_at_all_is_a_fault_that_says_why(tmp_path, exit_code, said, words):
    with pytest.raises(ProbeError, match=words):
        read_gpus(asked(Pretended(instead=f"{said}\n", exit_code=exit_code), tmp_path))


@every_row("call", [9, 18, 255])
def test_a_driver_that_fails_is_not_asked_again(tmp_path, call):
    with pytest.raises(ProbeError):
        read_gpus(asked(Pretended(instead="no", exit_code=call), tmp_path, apart=0.1, apps=True))
    assert len(calls(tmp_path)) == 1


@pytest.mark.parametrize("shell", each(SHELLS))
def test_one_that_hangs_is_a_fault_and_is_asked_once(tmp_path, shell):
    with pytest.raises(ProbeError, match=r"nvidia-smi did not answer within [0-9.]+ s"):
        read_gpus(asked(Pretended(hangs_at=1), tmp_path, apart=0.1, apps=True, shell=shell, timeout=5))
    assert len(calls(tmp_path)) == 1


def test_one_that_hangs_on_a_later_question_keeps_its_rows_and_says_so(tmp_path):
    reading = read_gpus(asked(Pretended(hangs_at=2), tmp_path, apart=0.1, apps=True, timeout=10))
    assert len(reading.gpus) == 1
    assert any("did not answer" in it for it in reading.errors)
    assert isinstance(reading.gpus[0].samples[-1], Unknown) or len(reading.gpus[0].samples) == 1
    assert isinstance(reading.apps, Unknown)


@every_row("size", [1, 30, 200, 250, 330])
def test_one_that_dies_in_the_middle_of_a_row_never_gives_half_a_row(tmp_path, size):
    done = asked(Pretended(gpus=[gpu(0), gpu(1, memory_used="4567")], dies_after=size), tmp_path)
    try:
        reading = read_gpus(done)
    except ProbeError:
        assert size < 250
        return
    assert all(it.memory_total == 81559.0 and it.remap_failed is False for it in reading.gpus)
    assert reading.errors


STUCK = """
import ctypes, os, time
open("/proc/self/comm", "w").write("nvidia-smi")
VFORK = 0x4000  # the parent waits in state D until the child ends
if ctypes.CDLL(None).syscall(56, VFORK | 17, 0, 0, 0, 0) == 0:
    time.sleep(60)
    os._exit(0)
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the number of the system call is that of x86-64")
@pytest.mark.parametrize("shell", each(SHELLS))
def test_a_driver_in_which_another_nvidia_smi_is_stuck_is_not_asked(tmp_path, shell):
    here = Here(path=Pretended().install(tmp_path), shell=SHELLS[shell])
    asking = ask_gpus()
    young = replace(asking, script=asking.script.replace("-gt 30", "-ge 0"))
    with subprocess.Popen([sys.executable, "-c", STUCK], start_new_session=True) as stuck:
        try:
            stat = Path(f"/proc/{stuck.pid}/stat")
            until(lambda: "(nvidia-smi) D " in stat.read_text())
            # the first that is found is named, and another test may have such a one as well
            only = replace(young, script=young.script.replace("/proc/[0-9]*/comm", f"/proc/{stuck.pid}/comm"))
            assert only != young
            for command, pid in ((young, r"\d+"), (only, stuck.pid)):
                with pytest.raises(ProbeError, match=rf"nvidia-smi \(pid {pid}\) is stuck in the driver"):
                    read_gpus(here.run(command)[0])
            assert calls(tmp_path) == []
            old = replace(asking, script=asking.script.replace("-gt 30", "-gt 9000"))  # 30 s may have passed here
            assert read_gpus(here.run(old)[0]).gpus
        finally:
            os.killpg(stuck.pid, signal.SIGKILL)


@pytest.mark.real("root")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the number of the system call is that of x86-64")
@pytest.mark.parametrize("shell", each(SHELLS))
def test_whatever_another_user_calls_nvidia_smi_keeps_nobody_from_asking(tmp_path, shell):
    """Mutant: smi_output.py without ``really``, or with the owner of /proc/PID, which a process may hide."""
    theirs = STUCK.replace("open(", "comm = open(").replace(".write(", "; os.setuid(65534); comm.write(")
    theirs = theirs.replace('nvidia-smi")', 'nvidia-smi"); comm.flush()')
    here = Here(path=Pretended().install(tmp_path), shell=SHELLS[shell])
    young = replace(ask_gpus(), script=ask_gpus().script.replace("-gt 30", "-ge 0"))
    with subprocess.Popen([sys.executable, "-c", theirs], start_new_session=True) as stuck:
        try:
            stat = Path(f"/proc/{stuck.pid}/stat")
            until(lambda: stuck.poll() is not None or "(nvidia-smi) D " in stat.read_text())
            assert stuck.poll() is None
            assert stat.stat().st_uid == 0  # it has changed its user, and so hides whose it is
            assert f"pid {stuck.pid}" not in here.run(young)[0].stderr  # another test may have one of root's
            only = replace(young, script=young.script.replace("/proc/[0-9]*/comm", f"/proc/{stuck.pid}/comm"))
            assert read_gpus(here.run(only)[0]).gpus
        finally:
            os.killpg(stuck.pid, signal.SIGKILL)


NAMED = """
import os, sys
comm = open("/proc/self/comm", "w")
if sys.argv[1] != "0": os.setuid(int(sys.argv[1]))
comm.write("nv-fabricmanage"); comm.flush(); print("named", flush=True); sys.stdin.read()
"""


@pytest.mark.real("root")
@pytest.mark.parametrize(("uid", "runs"), [("0", True), ("65534", False)])
def test_only_roots_own_process_is_the_fabric_manager(tmp_path, uid, runs):
    """Mutant: nvlink.py without ``really``: a GPU would be reset by itself that may only be with all of them."""
    argv = [sys.executable, "-c", NAMED, uid]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as named:
        assert named.stdout
        assert named.stdout.readline() == "named\n"
        links = read_links(Here(path=Pretended().install(tmp_path)).run(ask_links())[0])
        named.communicate()
    assert links.fabric_manager is runs


def test_a_process_on_a_gpu_whose_name_has_lines_of_its_own_says_nothing_of_the_gpus(tmp_path):
    """Mutant: smi_output.py without a random word in ``frame``."""
    name = f"x\n\n{FRAME} end 0\n{FRAME} begin gpus index,uuid,name,utilization.gpu\n0, {uuid(0)}, H100, 0\n\n{FRAME} end 0"
    pretended = Pretended(gpus=[gpu(0, utilization_gpu="93")], apps=f"{uuid(0)}, 4711, {name}, 100\n")
    reading = read_gpus(Here(path=pretended.install(tmp_path)).run(ask_gpus(apps=True))[0])
    assert [it.utilization for it in reading.gpus] == [93.0]
    assert {it.exit_code for it in sections(Here(path=tmp_path).run(ask_gpus(apps=True))[0])} == {0}


def test_a_name_with_lines_of_its_own_makes_no_gpu_one_that_needs_a_reset(tmp_path):
    """Mutant: smi_parser.py with what stands last of what stands there twice."""
    name = "x\nGPU 00000000:91:00.0\n        Reset Required : Yes"
    status = "".join(
        f"GPU 00000000:9{at}:00.0\n        Reset Required : No\n    Processes\n            Name : {name if at == 0 else 'y'}\n"
        "        Reset Required : Yes\n"
        for at in (0, 1)
    )
    fields = frozenset(gpu()) - {"gpu_recovery_action"}
    pretended = Pretended(gpus=[gpu(0), gpu(1)], fields=fields, status=status)
    reading = read_gpus(Here(path=pretended.install(tmp_path)).run(ask_gpus())[0])
    assert [it.requires_reset is True for it in reading.gpus] == [False, False]
    assert reading.gpus[0].requires_reset is False


def test_a_row_that_ends_without_a_newline_is_cut_off_even_where_it_has_every_field():
    fields = ("index", "uuid", "name", "utilization.gpu", "memory.total", "memory.used")
    head = f"{FRAME} begin gpus {','.join(fields)}\n"
    body = f"0, {uuid(0)}, H100, 0, 81559, 70123\n1, {uuid(1)}, H100, 0, 81559, 7"
    reading = read_gpus(Completed(exit_code=0, stdout=f"{head}{body}\n{FRAME} end 137\n"))
    assert [it.memory_used for it in reading.gpus] == [70123.0]
    assert any(it.startswith("incomplete line: 1, ") for it in reading.errors)


def test_a_percentage_beyond_a_hundred_is_no_percentage():
    (only,) = read_gpus(answered(row(0, utilization_gpu="4294967295"))).gpus
    assert isinstance(only.utilization, Unknown)


def test_the_host_without_the_tool_says_so(tmp_path):
    bare = tmp_path / "bin"
    bare.mkdir()
    done = Here(shell=("/usr/bin/env", "PATH=/nowhere", "/bin/dash")).run(ask_gpus())[0]
    with pytest.raises(ProbeError, match="no nvidia-smi"):
        read_gpus(done)


@every_row("value", MARKERS)
@every_row("field", ["memory.used", "memory.total", "utilization.gpu", "temperature.gpu", "persistence_mode"])
def test_a_marker_is_never_a_number(field, value):
    (only,) = read_gpus(answered(row(0, **{field: value}))).gpus
    attribute = {
        "persistence_mode": "persistence",
        "utilization.gpu": "utilization",
        "temperature.gpu": "temperature",
    }.get(field, field.replace(".", "_"))
    assert isinstance(getattr(only, attribute), Unknown)
    assert value in getattr(only, attribute).why


def test_a_gpu_that_asks_for_a_reset_in_any_column_is_known_by_it_though_it_shows_no_memory():
    (only,) = read_gpus(answered(row(0, temperature_gpu="[GPU requires reset]", memory_used="0"))).gpus
    assert only.requires_reset is True
    assert only.memory_used == 0.0


@every_row(
    ("action", "reset"),
    [("None", False), ("Reset", True), ("GPU Reset Required", True), ("Drain and Reset", True), ("Reboot", False),
     ("Drain P2P", False)],
)  # fmt: skip
def test_the_drivers_recovery_action_says_whether_a_reset_is_needed(tmp_path, action, reset):
    (only,) = read_gpus(asked(Pretended(gpus=[gpu(0, gpu_recovery_action=action)]), tmp_path)).gpus
    assert (only.recovery_action, only.requires_reset) == (action, reset)


def test_commas_in_a_name_stay_in_the_name():
    (only,) = read_gpus(answered(row(0, name="Quadro, special, edition"))).gpus
    assert only.name == "Quadro, special, edition"
    assert only.memory_total == 81559.0


def test_under_mig_nobody_knows_how_busy_a_gpu_is():
    (only,) = read_gpus(answered(row(0, utilization_gpu="[N/A]", mig_mode_current="Enabled"))).gpus
    assert isinstance(only.utilization, Unknown)
    assert only.utilization.why.startswith("MIG")


def test_a_gpu_without_a_readable_uuid_is_called_by_its_bus_id():
    (only,) = read_gpus(answered(row(0, uuid="[Unknown Error]"))).gpus
    assert (only.uuid, only.key) == ("", "0000:90:00.0")


@every_row(
    ("written", "read"),
    [("00000000:97:00.0", "0000:97:00.0"), ("0000:97:00", "0000:97:00.0"), ("97:00.0", "0000:97:00.0"),
     ("0001:AF:1F.7", "0001:af:1f.7"), ("00010000:01:00.0", "10000:01:00.0"), ("GPU-1", ""), ("", "")],
)  # fmt: skip
def test_bus_ids_are_one_whoever_writes_them(written, read):
    assert bus_id(written) == read


@every_row("name", [uuid(2), "2", "0000:92:00.0", "00000000:92:00.0", "0000:92:00"])
def test_a_gpu_is_called_by_uuid_index_or_bus_id(name):
    (only,) = read_gpus(answered(row(2))).gpus
    assert only.is_called(name)
    assert not only.is_called("1")


def test_processes_are_listed_with_commas_in_their_names_and_without_pids(tmp_path):
    listing = f"{uuid(0)}, {os.getpid()}, python, -m x, 2566\n{uuid(0)}, [N/A], [Not Found], [N/A]\n"
    done = Here(path=Pretended(apps=listing).install(tmp_path)).run(ask_apps())[0]
    one, other = read_apps(done)
    called = Path("/proc/self/comm").read_text().strip()
    assert (one.gpu_uuid, one.pid, one.name, one.memory_mib) == (uuid(0), os.getpid(), called, 2566.0)
    assert isinstance(other.pid, Unknown)
    assert isinstance(other.memory_mib, Unknown)
    assert other.name == ""


@pytest.mark.parametrize("shell", each(SHELLS))
def test_the_name_of_a_process_forges_no_row_of_another(tmp_path, shell):
    """Mutants: smi_query.py with process_name among ``APPS``; smi_output.py with more than a name's first line."""
    forged = f"x, 5\n{uuid(1)}, 1, python3, 100\n{uuid(1)}, 4712, y"
    mine = subprocess.Popen(["sleep", "60"])
    try:
        named = ((uuid(0), mine.pid, forged, "100"),)
        pretended = Pretended(gpus=[gpu(0), gpu(1, utilization_gpu="93")], named=named).install(tmp_path)
        for listed in (
            read_gpus(Here(path=pretended, shell=SHELLS[shell]).run(ask_gpus(apps=True))[0]).apps,
            read_apps(Here(path=pretended, shell=SHELLS[shell]).run(ask_apps())[0]),
        ):
            assert listed == (ComputeProcess(gpu_uuid=uuid(0), pid=mine.pid, name="sleep", memory_mib=100.0),)
    finally:
        mine.kill()
        mine.wait()


def test_a_name_with_lines_of_its_own_asks_for_no_reset_where_the_driver_says_nothing_of_resets(tmp_path):
    """Mutant: smi_output.py with what stands below ``Processes``."""
    name = "x\n        Reset Required : Yes\n        Drain and Reset Recommended : Yes"
    status = f"GPU 00000000:90:00.0\n    Processes\n            Name : {name}\n"
    fields = frozenset(gpu()) - {"gpu_recovery_action"}
    pretended = Pretended(gpus=[gpu(0)], fields=fields, status=status)
    (only,) = read_gpus(Here(path=pretended.install(tmp_path)).run(ask_gpus())[0]).gpus
    assert isinstance(only.requires_reset, Unknown)
    assert only.drain_recommended is not True


@every_row("text", ["", "No running processes found\n"])
def test_an_empty_table_is_an_empty_list(tmp_path, text):
    assert read_apps(Here(path=Pretended(apps=text).install(tmp_path)).run(ask_apps())[0]) == ()


def test_processes_that_may_not_be_listed_are_not_an_empty_list(tmp_path):
    done = Here(path=Pretended(apps="[Insufficient Permissions]\n").install(tmp_path)).run(ask_apps())[0]
    with pytest.raises(ProbeError, match="Insufficient Permissions"):
        read_apps(done)


@pytest.mark.parametrize("shell", each(SHELLS))
def test_presence_needs_no_driver(tmp_path, shell):
    root = plant(
        tmp_path,
        pci=[
            ("0000:97:00.0", "0x10de", "0x030200"),
            ("0000:97:00.1", "0x10de", "0x040300"),
            ("0000:01:00.0", "0x8086", "0x030000"),
        ],
        nodes=["nvidia0", "nvidia7", "nvidiactl", "nvidia-uvm"],
        minors=[("0000:97:00.0", 7)],
    )
    seen = read_presence(Here(shell=SHELLS[shell]).run(ask_presence(str(root)))[0])
    assert (seen.pci, seen.nodes, seen.minors) == (1, ("/dev/nvidia0", "/dev/nvidia7"), {"0000:97:00.0": 7})
    assert not seen.absent


@every_row("what", ["pci", "node", "tool", "nothing", "blind"])
def test_absence_is_proven_only_when_nothing_at_all_is_there(tmp_path, what):
    root = plant(
        tmp_path / "root",
        pci=[("0000:01:00.0", "0x10de", "0x030000")] if what == "pci" else [],
        nodes=["nvidia0"] if what == "node" else [],
    )
    path = Pretended().install(tmp_path / "bin") if what == "tool" else None
    seen = read_presence(Here(path=path).run(ask_presence("/nowhere" if what == "blind" else str(root)))[0])
    assert seen.absent is (what == "nothing")


sizes = st.one_of(st.sampled_from(MARKERS), st.text(max_size=8), st.integers(0, 10**6).map(str))
lines = st.one_of(
    st.text(max_size=60),
    st.lists(sizes, min_size=1, max_size=len(CORE) + 2).map(", ".join),
    st.tuples(st.integers(0, 9), st.lists(sizes, min_size=len(CORE) - 2, max_size=len(CORE))).map(
        lambda it: f"{it[0]}, {uuid(it[0])}, {', '.join(it[1])}"
    ),
)


@example(["0, GPU-0a1b2c3d-0000-1111-2222-000000000000" + ", [N/A]" * 7 + ", 1\xa0" + ", [N/A]" * 4], 0, False, "")
@given(st.lists(lines, max_size=5), st.integers(0, 255), st.booleans(), st.text(max_size=80))
def test_whatever_it_prints_is_read_or_refused_and_never_invented(printed, exit_code, late, stderr):
    done = answered(*printed, exit_code=exit_code, stderr=stderr)
    try:
        reading = read_gpus(Completed(exit_code=0, stdout=done.stdout, stderr=done.stderr, timed_out=late, seconds=30))
    except ProbeError:
        return
    text = " ".join(printed)
    for one in reading.gpus:
        for value in (one.memory_used, one.memory_total, one.utilization, one.temperature):
            assert isinstance(value, Unknown) or any(value == float(it) for it in numbers(text))


def numbers(text: str) -> list[str]:
    return [
        it.strip()
        for it in text.replace("\n", ",").split(",")
        if it.strip().replace(".", "", 1).isdigit() and it.isascii()
    ]


@given(st.text(max_size=400), st.text(max_size=80), st.one_of(st.none(), st.integers(0, 255)), st.booleans())
def test_any_text_at_all_raises_nothing_but_a_probe_error(stdout, stderr, exit_code, late):
    for head in (
        "",
        f"{FRAME} begin gpus {','.join(CORE)}\n",
        f"{FRAME} begin apps gpu_uuid,pid,used_gpu_memory\n",
    ):
        done = Completed(exit_code=exit_code, stdout=head + stdout, stderr=stderr, timed_out=late)
        for read in (read_gpus, read_apps, read_presence):
            try:
                read(done)
            except ProbeError:
                continue
