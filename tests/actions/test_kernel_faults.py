"""What the kernel says of sick GPUs, disks and processors is seen in every form, and nothing is dropped on its way."""

from __future__ import annotations

import json
import re
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actions.fake_nvidia_smi import Here, drive
from engine.actions.system import kernel_log
from engine.errors import ProbeError
from engine.facts.gpu.xids import Need, catalogue, needs
from engine.facts.kernel.patterns import KINDS, worth_sending
from engine.facts.kernel.sources import read_kernel
from engine.lang.arguments import build
from engine.values.types import Unknown


def seen(text: str, **values):
    return drive(kernel_log.probe(build(kernel_log.Args, {"text": text, **values})), Here())


FORMS = {
    "dmesg": "[12345.678901] {}",
    "dmesg -T": "[Sun Nov 22 01:02:03 2026] {}",
    "dmesg -x": "kern  :err   : [12345.678901] {}",
    "syslog level": "syslog:err   : [12345.678901] {}",
    "raw": "<3>[12345.678901] {}",
    "caller": "[12345.678901][ T1234] {}",
    "RFC 3164": "Nov 22 01:02:03 gpu-01 kernel: [12345.678901] {}",
    "RFC 5424": "<3>1 2026-11-22T01:02:03.123456+00:00 gpu-01 kernel - - - {}",
    "journal short-iso": "2026-11-22T01:02:03+0000 gpu-01 kernel: {}",
    "journal short-unix": "1795309323.123456 gpu-01 kernel: {}",
    "journal json": "json",
}
TAILS = ("", ", pid=4711, name=python3, Ch 00000008", ", pid='<unknown>', name=<unknown>, some words (0x1)")
PLACES = (
    "PCI:0000:3b:00",
    "0000:3b:00",
    "PCI:0000:3b:00.0",
    "PCI:0000:3b:00 GPU-I:05",
    "PCI:0000:3b:00 GPU-I:05 GPU-CI:00",
)


def line(form: str, text: str) -> str:
    if form == "journal json":
        return json.dumps({"__REALTIME_TIMESTAMP": "1795309323123456", "MESSAGE": text, "_TRANSPORT": "kernel"})
    return FORMS[form].format(text)


@pytest.mark.parametrize("form", FORMS)
def test_every_xid_of_the_catalogue_is_read_in_every_form_with_its_meaning_and_bucket(form):
    assert len(catalogue()) == 173
    for code, known in catalogue().items():
        for place, tail in zip(PLACES, (*TAILS, *TAILS), strict=False):
            (xid,) = seen(line(form, f"NVRM: Xid ({place}): {code}{tail}")).xids
            assert (xid.code, xid.bus_id, xid.meaning, xid.bucket) == (
                code,
                "0000:3b:00.0",
                known.meaning,
                known.bucket,
            )
            assert xid.instance == place.partition(" ")[2]
            assert xid.meaning


@pytest.mark.parametrize(
    ("code", "need"),
    [
        (13, "restart the application"), (31, "restart the application"), (43, "nothing"), (45, "nothing"),
        (48, "reset the GPU"), (54, "check the node"), (62, "reset the GPU"), (63, "nothing"), (64, "reset the GPU"),
        (74, "check the node"), (79, "reboot the node"), (94, "restart the application"), (95, "reset the GPU"),
        (109, "reset the GPU"), (119, "reset the GPU"), (120, "reset the GPU"), (140, "reset the GPU"),
        (145, "check the node"), (167, "contact the vendor"), (999, "contact the vendor"),
    ],
)  # fmt: skip
def test_a_fault_asks_for_what_the_vendor_says_and_an_unknown_one_for_the_vendor(code, need):
    (found,) = seen(f"NVRM: Xid (PCI:0000:3b:00): {code}, pid=1, name=x").gpu_needs
    assert (found.need, found.code, found.count) == (need, code, 1)


@pytest.mark.parametrize(
    ("text", "need"),
    [
        ("GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", "reset the GPU"),
        ("GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)", "reboot the node"),
        ("GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)", "reset the GPU"),
        ("GPU recovery action changed from 0x2 (Node Reboot Required) to 0x0 (None)", "nothing"),
        ("GPU recovery action changed from None to PF FLR", "reset the GPU"),
        ("GPU recovery action changed from None to OS Reboot", "reboot the node"),
        ("GPU recovery action changed from 0x0 (None) to 0x9 (Something New)", "contact the vendor"),
        ("", "contact the vendor"),
    ],
)
def test_the_drivers_own_verdict_is_read_from_its_words(text, need):
    (found,) = seen(f"NVRM: Xid (PCI:0000:3b:00): 154, {text}").gpu_needs
    assert found.need == need


XID = "NVRM: Xid (PCI:0000:3b:00): {}\n"


def test_the_newest_verdict_overrules_what_was_before_it_and_later_faults_count_again():
    cleared = XID.format("79, lost") + XID.format("154, GPU recovery action changed from 0x2 (x) to 0x0 (None)")
    assert seen(cleared).gpu_needs[0].need == Need.NOTHING
    assert seen(cleared + XID.format("95, pid=1")).gpu_needs[0].need == Need.RESET
    assert seen(
        XID.format("154, GPU recovery action changed from 0x0 (None) to 0x2 (y)") + XID.format("13, pid=1")
    ).gpu_needs[0].need == (Need.REBOOT)


def test_each_gpu_has_a_verdict_of_its_own_the_most_urgent_first():
    text = (
        "NVRM: Xid (PCI:0000:3b:00): 13, pid=1\nNVRM: Xid (PCI:0000:5e:00): 79, pid=1\nNVRM: Xid (PCI:0000:3b:00): 45\n"
    )
    assert [(gpu.bus_id, gpu.need, gpu.count) for gpu in seen(text).gpu_needs] == [
        ("0000:5e:00.0", "reboot the node", 1),
        ("0000:3b:00.0", "restart the application", 2),
    ]
    assert needs(()) == ()


LOST = [
    "NVRM: GPU 0000:b3:00.0: GPU has fallen off the bus.",
    "NVRM: GPU at PCI:0000:b3:00: GPU-aaaa\nNVRM: The GPU has fallen off the bus.",
    "NVRM: The NVIDIA GPU 0000:b3:00.0\nNVRM: (PCI ID: 10de:2330) installed in this system has\n"
    "NVRM: fallen off the bus and is not responding to commands.",
]


@pytest.mark.parametrize("text", LOST)
def test_a_gpu_off_the_bus_is_seen_without_a_number_and_over_several_messages(text):
    (fault,) = seen(text).gpu_faults
    assert (fault.kind, fault.bus_id) == ("off_the_bus", "0000:b3:00.0")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("init_failed", "nvidia: probe of 0000:b3:00.0 failed with error -1"),
        ("init_failed", "NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:"),
        ("init_failed", "NVRM RmInitAdapter: Cannot initialize GSP firmware RM"),
        ("init_failed", "[drm:nv_drm_load [nvidia_drm]] *ERROR* [nvidia-drm] [GPU ID 0x100] Failed to allocate NvKms"),
        ("api_mismatch", "NVRM: API mismatch: the client has the version 545.23.08, but"),
        ("firmware_hung", "NVRM: GPU6 _kgspIsHeartbeatTimedOut: Heartbeat timed out, currentTimeMs 1"),
        ("needs_reset", "NVRM: nvAssertOkFailedNoLog: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED] (0x62)"),
    ],
)
def test_other_words_of_the_driver_for_a_gpu_that_cannot_be_used_are_told_apart(kind, text):
    (fault,) = seen(text).gpu_faults
    assert fault.kind == kind


def test_an_assertion_of_the_driver_alone_is_no_fault():
    text = "NVRM: nvAssertOkFailedNoLog: Assertion failed: Invalid argument to call [NV_ERR_INVALID_ARGUMENT] (0x1F)"
    assert seen(text).gpu_faults == ()


def test_a_kill_of_which_only_its_end_or_its_beginning_is_kept_is_one():
    (reaped,) = seen("[1.0] oom_reaper: reaped process 71 (python3), now anon-rss:0kB, file-rss:0kB").oom
    assert (reaped.pid, reaped.name) == (71, "python3")
    assert isinstance(reaped.scope, Unknown)
    text = (
        "[1.0] java invoked oom-killer: gfp_mask=0xd0\n[2.0] oom_reaper: reaped process 71 (python3), now anon-rss:0kB"
    )
    assert [(kill.pid, kill.invoked_by) for kill in seen(text).oom] == [(71, "java")]
    (begun,) = seen("[1.0] java invoked oom-killer: gfp_mask=0xd0, order=0, oom_score_adj=0").oom
    assert isinstance(begun.pid, Unknown)
    assert begun.pid.why == "java asked for memory that was not there, and the log does not say who was killed"


def test_a_reaper_after_its_kill_tells_of_no_second_one():
    text = (
        "[1.0] Out of memory: Killed process 71 (python3) total-vm:1kB, anon-rss:1kB\n"
        "[900.0] oom_reaper: reaped process 71 (python3), now anon-rss:0kB"
    )
    assert [kill.pid for kill in seen(text).oom] == [71]


def test_where_nobody_can_be_killed_nobody_is():
    text = "[1.0] java invoked oom-killer: gfp_mask=0xd0\n[1.0] Out of memory and no killable processes..."
    state = seen(text)
    assert state.oom == ()
    assert len(state.no_victim) == 1


@pytest.mark.parametrize(
    "text",
    ["NVRM: GPU 0000:b3:00.0: RmInitAdapter failed! (0x26:0x56:1474)",
     "NVRM: GPU 0000:b3:00.0: rm_init_adapter failed, device minor number 0"],
)  # fmt: skip
def test_a_gpu_that_the_driver_cannot_start_is_seen(text):
    (fault,) = seen(text).gpu_faults
    assert (fault.kind, fault.bus_id) == ("init_failed", "0000:b3:00.0")


DISKS = [
    "md/raid1:md0: Disk failure on sda1, disabling device.",
    "md/raid:md127: read error not correctable (sector 1 on sdb1).",
    "nvme nvme0: Disabling device after reset failure: -19",
    "device-mapper: multipath: 253:3: Failing path 8:16; nvme0: failing I/O to path",
    "attempt to access beyond end of device",
    "sda1: rw=1, access beyond end of device",
    "EXT4-fs warning (device dm-0): ext4_dx_add_entry:2461: Directory (ino: 131074) index full, reach max htree level :2",
    "nfs: server 10.0.0.9 not responding, still trying",
    "nfs: server store not responding, timed out",
    "sd 0:0:0:0: rejecting I/O to offline device",
    "blk_update_request: I/O error, dev sda, sector 1",
    "EXT4-fs error (device sda1): ext4_find_entry:1455: inode #2: comm ls: reading directory lblock 0",
    "XFS (dm-1): log I/O error -5",
    "BTRFS error (device sdb): bdev /dev/sdb errs: wr 1",
    "ata1.00: failed command: READ FPDMA QUEUED",
]


@pytest.mark.parametrize("text", DISKS)
def test_a_failing_disk_is_seen(text):
    assert len(seen(f"[1.0] {text}").io_errors) == 1


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("lockups", "watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [python3:4711]"),
        ("lockups", "NMI watchdog: Watchdog detected hard LOCKUP on cpu 7"),
        ("lockups", "rcu: INFO: rcu_sched self-detected stall on CPU"),
        ("lockups", "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:"),
        ("panics", "Kernel panic - not syncing: Fatal exception"),
        ("panics", "BUG: unable to handle page fault for address: 0000000000001234"),
        ("panics", "general protection fault, probably for non-canonical address 0xdead: 0000 [#1] SMP"),
        ("panics", "Oops: 0002 [#1] SMP PTI"),
        ("hardware_errors", "pcieport 0000:40:01.1: AER: Uncorrected (Fatal) error received: 0000:41:00.0"),
        (
            "hardware_errors",
            "nvidia 0000:41:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer",
        ),
        ("hardware_errors", "mce: [Hardware Error]: CPU 3: Machine Check Exception: 5 Bank 4: be00000000800400"),
        ("hardware_errors", "EDAC MC0: 1 UE memory read error on CPU_SrcID#0"),
        ("hardware_errors", "{1}[Hardware Error]: event severity: fatal"),
        ("no_victim", "Out of memory and no killable processes..."),
        ("no_victim", "Kernel panic - not syncing: System is deadlocked on memory, no killable processes"),
    ],
)
def test_a_machine_that_is_not_well_is_seen(field, text):
    assert len(getattr(seen(f"[1.0] {text}"), field)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "pcieport 0000:40:01.1: AER: Corrected error received: 0000:41:00.0",
        "{1}[Hardware Error]: It has been corrected by h/w and requires no further action",
        "EDAC MC0: 0 UE 3 CE memory read error",
        "EXT4-fs (sda1): warning: maximal mount count reached",
        "systemd-journald[123]: Data hash table of /run/log is full",
        "NFS: nfs mount opts='hard'",
        "audit: 12 callbacks suppressed",
        "traps: python[12] general protection fault ip:1 sp:2 error:0 in libc.so",
    ],
)
def test_what_is_no_fault_of_the_machine_is_none(text):
    state = seen(f"[1.0] {text}")
    assert not any((state.io_errors, state.lockups, state.panics, state.hardware_errors, state.gpu_faults))


def test_a_group_that_systemd_oomd_ended_is_seen():
    (kill,) = seen(
        "1795309323.1 host systemd-oomd[612]: Killed /user.slice/app.service due to memory pressure for /user.slice"
    ).oomd_kills
    assert kill.cgroup == "/user.slice/app.service"


@pytest.mark.parametrize(
    ("constraint", "scope"),
    [("NONE", "host"), ("MEMCG", "cgroup"), ("CPUSET", "nodes"), ("MEMORY_POLICY", "nodes")],
)
def test_what_had_run_out_of_memory_is_told_by_the_constraint(constraint, scope):
    (kill,) = seen(
        f"[1.0] oom-kill:constraint=CONSTRAINT_{constraint},nodemask=0,cpuset=x,mems_allowed=0,task_memcg=/a,task=py,pid=7,uid=0\n"
        f"[1.0] {'Memory cgroup out' if constraint == 'MEMCG' else 'Out'} of memory: Killed process 7 (py) total-vm:1kB, anon-rss:1kB\n"
    ).oom
    assert kill.scope == scope


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_the_filter_on_the_host_drops_nothing_that_a_reader_knows(name, data):
    """Any text of a kind, made from its pattern, passes the filter: both stand in one list."""
    pattern = re.compile(KINDS[name].pattern.pattern.replace(r"(?<![a-z])", ""), re.IGNORECASE | re.ASCII)
    text = data.draw(st.from_regex(pattern, alphabet=st.characters(min_codepoint=32, max_codepoint=126)))
    assert re.search(worth_sending(), text.lower()), (name, text)


@pytest.mark.parametrize("awk", [["awk"], pytest.param(["busybox", "awk"], marks=pytest.mark.real("busybox"))])
def test_the_filter_is_one_that_awk_understands(awk):
    lines = [
        *DISKS,
        *"\n".join(LOST).split("\n"),
        "NVRM: Xid (PCI:0000:3b:00): 79",
        "a quiet line",
        "usb 1-1: new device",
    ]
    program = "BEGIN { worth = ARGV[1]; ARGC = 1 } tolower($0) ~ worth"
    done = subprocess.run([*awk, program, worth_sending()], input="\n".join(lines), capture_output=True, text=True)
    assert done.stdout.splitlines() == lines[:-2]
    assert not done.stderr


def answer(journal: list[str], ring: list[str]) -> str:
    def source(name: str, lines: list[str]) -> str:
        if not lines:
            return f"source {name}\nend 127\n"
        body = "".join(f" {one}\n" for one in lines)
        return f"source {name}\nend 0\nlines {len(lines)}\nfirst {lines[0]}\nlast {lines[-1]}\n{body}"

    return "clock 1795310000 1795300000 +0000\n" + source("journal", journal) + source("dmesg", ring)


MISSED = "1795309000.0 h systemd-journald[1]: Missed 17 kernel messages"


def test_a_journal_that_missed_messages_is_no_quiet_one():
    reading = read_kernel(answer(["1795300000.0 h kernel: Linux version", MISSED], []))
    assert reading.missed == 17
    state = kernel_log._state(kernel_log.Args(), reading)
    assert isinstance(state.xids, Unknown)
    assert "missed 17 messages" in state.xids.why


def test_what_the_journal_missed_is_taken_from_the_ring_buffer_where_that_has_it():
    ring = ["[    0.000000] Linux version", "[ 8999.500000] NVRM: Xid (PCI:0000:3b:00): 79, pid=1"]
    reading = read_kernel(answer(["1795300000.0 h kernel: Linux version", MISSED], ring))
    assert reading.missed == 0
    assert len(kernel_log._state(kernel_log.Args(), reading).xids) == 1


def test_equal_messages_where_the_journal_stopped_and_the_ring_went_on_are_two():
    text = "NVRM: Xid (PCI:0000:3b:00): 13, pid=1"
    ring = ["[    0.000000] Linux version", f"[  100.000000] {text}", f"[ 5000.000000] {text}"]
    reading = read_kernel(answer(["1795300000.0 h kernel: Linux version", f"1795300100.0 h kernel: {text}"], ring))
    assert [round(xid.seconds) for xid in kernel_log._state(kernel_log.Args(), reading).xids] == [
        1795300100,
        1795305000,
    ]


KILL = (
    "[{at}] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=0,task_memcg={group},task={name},pid=7,uid=0\n"
    "[{at}] Memory cgroup out of memory: Killed process 7 ({name}) total-vm:1kB, anon-rss:1kB\n"
)


@pytest.mark.parametrize(
    ("name", "group", "whose"),
    [
        ("python3", "/docker/" + "ab" * 32, "job"),
        ("python3", "/system.slice/docker-" + "ab" * 32 + ".scope", "job"),
        ("ray::worker", "/system.slice/slurmstepd.scope/job_1/step_0", "job"),
        ("python3", "/system.slice/slurmd.service", "job"),
        ("python3", "/system.slice/ssh.service", "job"),
        ("python3", "/user.slice/user-1000.slice/session-3.scope", "job"),
        ("python3", "/system.slice/python-train.service", "job"),
        ("python3", "/system.slice/backup.service", "others"),
        ("python3", "/system.slice/system-backup.slice/backup@1.service/sub", "others"),
        ("backup-agent", "/docker/" + "ab" * 32, "others"),
        ("mypython", "/", "others"),
    ],
)
def test_a_kill_is_the_jobs_by_name_and_by_its_control_group(name, group, whose):
    state = seen(KILL.format(at="1.0", name=name, group=group), victims=["^python", "^ray"])
    assert (len(state.oom_job), len(state.oom_others)) == ((1, 0) if whose == "job" else (0, 1))


def test_a_kill_of_nobody_that_is_named_is_nobodys_of_the_job():
    state = seen("[1.0] Out of memory: Kill process 71 (python3) score 246 or sacrifice child\n", victims=["^python"])
    assert (len(state.oom), state.oom_job, len(state.oom_others)) == (1, (), 1)
    assert seen(KILL.format(at="1.0", name="python3", group="/")).oom_job == ()


def since(reading, **values):
    return kernel_log._state(build(kernel_log.Args, {"since": "1h", **values}), reading)


def test_a_log_since_boot_is_complete_where_what_was_before_it_is_not_asked_for():
    """Mutants: `this_boot` for a ring buffer that has lost its beginning."""
    young = read_kernel("clock 1795300600 1795300000 +0000\n" + answer([], ["[    0.000000] Linux version"])[34:])
    assert isinstance(since(young).oom, Unknown)
    assert since(young, this_boot=True).oom == ()
    assert since(young, this_boot=True).booted_ago == 600
    wrapped = read_kernel("clock 1795300600 1795300000 +0000\n" + answer([], ["[  400.000000] usb 1-1: new"])[34:])
    assert isinstance(since(wrapped, this_boot=True).oom, Unknown)
    journal = read_kernel(
        "clock 1795300600 1795300000 +0000\n" + answer(["1795300001.0 h kernel: Linux version"], [])[34:]
    )
    assert since(journal, this_boot=True).oom == ()
    no_boot = read_kernel("clock 1795300600 - +0000\n" + answer([], ["[    0.000000] Linux version"])[34:])
    assert isinstance(since(no_boot, this_boot=True).oom, Unknown)


def test_gpus_that_only_a_reboot_brings_back_are_named():
    assert seen(XID.format("79, pid=1")).lost_gpus == ("0000:3b:00.0",)
    assert seen(XID.format("95, pid=1")).lost_gpus == ()
    assert seen(XID.format("154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)")).lost_gpus
    assert seen(XID.format("79, x") + XID.format("154, changed from 0x2 (x) to 0x0 (None)")).lost_gpus == ()
    assert seen(LOST[0]).lost_gpus == ("0000:b3:00.0",)
    assert seen("[1.0] NVRM: GPU 0000:b3:00.0: RmInitAdapter failed! (0x26:0x56:1474)").lost_gpus == ()


def test_a_log_that_need_not_be_read_leaves_everything_unknown_but_names_no_lost_gpu(tmp_path):
    for name in ("dmesg", "journalctl"):
        (tmp_path / name).write_text("#!/bin/sh\necho 'Operation not permitted' >&2; exit 1\n")
        (tmp_path / name).chmod(0o755)
    state = drive(
        kernel_log.probe(build(kernel_log.Args, {"optional": True, "signatures": {"a": "b"}})), Here(tmp_path)
    )
    assert state.lost_gpus == ()
    assert isinstance(state.xids, Unknown)
    assert isinstance(state.counts["a"], Unknown)
    with pytest.raises(ProbeError):
        drive(kernel_log.probe(build(kernel_log.Args, {})), Here(tmp_path))


CARDS = [
    ("0000:5c:00.0", "mlx5_core 0000:5c:00.0: mlx5_pcie_event:299:(pid 268269): Detected insufficient power on the PCIe slot (27W)."),
    ("0000:04:00.1", "mlx5_core 0000:04:00.1: poll_health:834:(pid 0): device's health compromised - reached miss count"),
    ("0000:04:00.1", "mlx5_core 0000:04:00.1: print_health_info:380:(pid 0): synd 0x1: firmware internal error"),
    ("0000:04:00.1", "mlx5_core 0000:04:00.1: print_health_info:431:(pid 0): Health issue observed, firmware internal error, severity(3) ERROR:"),
    ("0000:04:00.0", "mlx5_core 0000:04:00.0: mlx5_health_try_recover:335:(pid 9): health recovery flow aborted, PCI reads still not working"),
    ("0000:04:00.0", "mlx5_core 0000:04:00.0: wait_func:1151:(pid 21): QUERY_VPORT_COUNTER(0x770) timeout. Will cause a leak of a command resource"),
    ("0000:86:00.0", "mlx5_core 0000:86:00.0: mlx5_cmd_out_err:835:(pid 7): CREATE_QP(0x500) op_mod(0x0) failed, status internal error(0x1), syndrome (0x0), err(-5)"),
    ("0000:86:00.0", "mlx5_core 0000:86:00.0: Port module event[error]: module 0, Cable error, Bus stuck (I2C or data shorted)"),
    ("0000:86:00.0", "mlx5_core 0000:86:00.0: temp_warn:176:(pid 0): High temperature on sensors with bit set 0 1"),
    ("0000:00:19.0", "e1000e 0000:00:19.0 eth0: Detected Hardware Unit Hang:"),
]  # fmt: skip


@pytest.mark.parametrize(("device", "text"), CARDS)
def test_a_fault_of_a_network_card_is_seen_with_its_address(device, text):
    assert [(it.kind, it.device) for it in seen(f"[12345.678901] {text}").network] == [("card", device)]


LINKS = [
    "mlx5_core 0000:98:00.1 ens2f1np1: Link {}",
    "e1000e: eno1 NIC Link is {}",
    "e1000e 0000:00:1f.6 enp0s31f6: NIC Link is {}",
    "ixgbe 0000:04:00.0 eth2: NIC Link is {}",
    "i40e 0000:3b:00.0 eno1: NIC Link is {}",
    "bnxt_en 0000:18:00.0 eno1np0: NIC Link is {}",
    "igb 0000:01:00.0 eth0: igb: eth0 NIC Link is {}",
]


@pytest.mark.parametrize("text", LINKS)
def test_a_link_that_is_down_counts_until_it_is_up_again(text):
    """Mutants: a link that is up again still counts; the link of another card brings it up; down before up counts."""
    down, up = text.format("Down"), text.format("Up, 25 Gbps full duplex")
    other = up.replace("0000:", "0001:").replace("eno1", "eno9")
    assert [it.kind for it in seen(down).network] == ["link_down"]
    assert seen(f"{down}\n{up}").network == ()
    assert [it.text for it in seen(f"{up}\n{down}\n{other}").network] == [down]
    assert len(seen(f"{down}\n{up}\n{down}\n{down}").network) == 1


@pytest.mark.parametrize(
    "text",
    [
        "mlx5_core 0000:04:00.0: firmware version: 16.31.1014",
        "mlx5_core 0000:13:00.0: mlx5_pcie_event:297:(pid 11): PCIe slot power capability was not advertised.",
        "mlx5_core 0000:04:00.0: mlx5_cmd_check:782:(pid 1): ACCESS_REG(0x805) op_mod(0x1) failed, status bad operation(0x2), syndrome (0x305684)",
        "mlx5_core 0000:04:00.0: Port module event: module 0, Cable plugged",
        "mlx5_core[4711]: segfault at 0 ip 0 sp 0 error 4 in mlx5_core 0000:04:00.0: Link down",
        "bond0: (slave eth0): link status definitely down, disabling slave",
        "e1000e: renamed from eth0",
    ],
)  # fmt: skip
def test_what_is_no_fault_of_a_network_card_is_none(text):
    assert seen(text).network == ()


LOADED = "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.86.15  Thu Jan 16 09:59:48 UTC 2026"


@pytest.mark.parametrize(
    ("code", "counts"),
    [("95, pid=1", False), ("31, pid=1", False), ("79, GPU has fallen off the bus.", True), ("62, pid=1", None)],
)
def test_loading_the_driver_anew_mends_what_a_reset_mends_and_no_more(code, counts):
    """Mutants: everything before the driver was loaded is forgotten; what came after it is; nothing is."""
    fault = XID.format(code)
    need = seen(fault).gpu_needs[0].need
    counts = need in (Need.REBOOT, Need.CONTACT_VENDOR, Need.CHECK) if counts is None else counts
    assert [it.need for it in seen(f"{fault}\n{LOADED}").open_needs] == ([need] if counts else [])
    assert [it.need for it in seen(f"{LOADED}\n{fault}").open_needs] == [need]
    assert [it.need for it in seen(f"{fault}\n{LOADED}").gpu_needs] == [need], "what there was is still told"


def test_a_verdict_of_the_driver_before_it_was_loaded_is_over_and_brings_nothing_back():
    """Mutant: the faults that a later Xid 154 overruled count again because that 154 itself is over."""
    text = "\n".join(
        [XID.format("79, x"), XID.format("154, GPU recovery action changed from 0x0 (None) to 0x1 (Reset)")]
    )
    assert seen(f"{text}\n{LOADED}").open_needs == ()


def test_a_gpu_that_could_not_be_started_before_the_driver_was_loaded_anew_is_no_fault_any_more_but_a_lost_one_is():
    start, lost = (
        "NVRM: RmInitAdapter failed! (0x26:0xffff:1474)",
        "NVRM: GPU at PCI:0000:3b:00: has fallen off the bus.",
    )
    assert seen(f"{start}\n{LOADED}").open_faults == ()
    assert [it.kind for it in seen(f"{LOADED}\n{start}").open_faults] == ["init_failed"]
    assert [it.kind for it in seen(f"{lost}\n{LOADED}").open_faults] == ["off_the_bus"]


def test_how_long_ago_a_fault_was_is_said_where_the_host_has_a_clock():
    now = 1795300000 + 40 * 86400
    journal = f"1795300000.000000 gpu-01 kernel: {XID.format('95, pid=1')}"
    read = read_kernel(f"clock {now} 1795200000 +0000\n" + answer([journal], []).split("\n", 1)[1])
    state = kernel_log._state(build(kernel_log.Args, {}), read)
    assert state.open_needs[0].ago == "40 days ago"
    assert isinstance(seen(XID.format("95, pid=1")).open_needs[0].ago, Unknown)
