"""What the kernel says of sick GPUs, disks and processors is seen in every form, and nothing is dropped on its way."""

from __future__ import annotations

import json
import re
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runbook.errors import ProbeError
from runbook.language.arguments import build
from runbook.library.gpu.facts.gpu_needs import needs
from runbook.library.gpu.facts.xids import Need, catalogue, meaning
from runbook.library.kernel import kernel_log
from runbook.library.kernel.facts.events import xids
from runbook.library.kernel.facts.patterns import KINDS, worth_sending
from runbook.library.kernel.facts.sources import read_kernel, read_text
from runbook.library.system.facts.kernel_messages import Message
from runbook.values.types import Unknown
from tests.support.data_cases import cases
from tests.support.probe_driver import Here, drive
from tests.support.tables import every_row


def seen(text: str, **values):
    return drive(kernel_log.probe(build(kernel_log.Args, {"text": text, **values})), Here())


FORMS = {
    "dmesg": "[12345.678901] {}",
    "dmesg -T": "[Sun Nov 22 01:02:03 2026] {}",
    "dmesg -x": "kern  :err   : [12345.678901] {}",
    "raw": "<3>[12345.678901] {}",
    "caller": "[12345.678901][ T1234] {}",
    "RFC 3164": "Nov 22 01:02:03 gpu-01 kernel: [12345.678901] {}",
    "RFC 5424": "<3>1 2026-11-22T01:02:03.123456+00:00 gpu-01 kernel - - - {}",
    "journal short-iso": "2026-11-22T01:02:03+0000 gpu-01 kernel: {}",
    "journal short-unix": "1795309323.123456 gpu-01 kernel: {}",
    "journal json": "json",
}
XID = "NVRM: Xid (PCI:0000:3b:00): {}\n"
TAILS = (
    "",
    ", pid=4711, name=python3, Ch 00000008",
    ", pid='<unknown>', name=<unknown>, some words (0x1)",
    ", pid=4711, Ch 00000008, errorString CTX SWITCH TIMEOUT",
    ", name=<unknown>, Ch 00000010",
    ", pid=4711, name=nccl::worker 1.2, Timeout after 45s",
)
PLACES = (
    "PCI:0000:3b:00",
    "0000:3b:00",
    "PCI:0000:3b:00.0",
    "PCI:0000:3B:00",
    "PCI:00000000:3B:00.0",
    "PCI:0000:3b:00 GPU-I:05",
    "PCI:0000:3b:00 GPU-I:05 GPU-CI:00",
)


def line(form: str, text: str) -> str:
    if form == "journal json":
        return json.dumps({"__REALTIME_TIMESTAMP": "1795309323123456", "MESSAGE": text, "_TRANSPORT": "kernel"})
    return FORMS[form].format(text)


JOB, NODE, VENDOR = "whoever runs the job", "whoever runs the node", "the vendor"
VENDORS_WORD = {
    ("IGNORE", "nothing", "nobody"): "14 37 38 43 44 63 66 67 92 93 106 107 108 121 137 141 152 153 157 160 161",
    ("WORKFLOW_XID_45", "nothing", "nobody"): "45",
    ("RESTART_APP", "restart the application", JOB): "8 11 13 25 31 32 39-41 60 68-72 75-77 80 82-86 88 89 94 96-105 "
    "126-135 139",
    ("CHECK_UVM", "restart the application", JOB): "159",
    ("RESET_GPU", "reset the GPU", NODE): "46 62 64 95 109 110 119 120 136 140 143 155 156 158",
    ("WORKFLOW_XID_48", "reset the GPU", NODE): "48 171 172",
    ("RESTART_BM", "reboot the node", NODE): "79",
    ("RESTART_VM", "reboot the node", NODE): "151",
    ("CHECK_MECHANICALS", "check the node", "the data centre"): "54",
    ("UPDATE_SWFW", "check the node", NODE): "78",
    ("WORKFLOW_NVLINK_ERR", "check the node", NODE): "74",
    ("WORKFLOW_NVLINK5_ERR", "check the node", NODE): "144-150",
    ("", "contact the vendor", VENDOR): "162-170 173",
    ("XID_154", "contact the vendor", NODE): "154",
    ("CONTACT_SUPPORT", "contact the vendor", VENDOR): "1-7 9 10 12 15-24 26-30 33-36 42 47 49-53 55-59 61 65 73 81 87 "
    "90 91 111-118 122-125 138 142",
}
"""The vendor's catalogue of October 2025: bucket, what it asks for and who does that, to the numbers."""


def numbers(text: str) -> list[int]:
    ends = [[int(end) for end in word.split("-")] for word in text.split()]
    return [code for first, *last in ends for code in range(first, (last or [first])[0] + 1)]


def test_the_catalogue_has_every_number_of_the_vendor_with_its_bucket_and_who_acts():
    """Mutants: two rows of xids.csv exchanged; a bucket of xid_buckets.csv with another need, or somebody else's."""
    expected = {code: word for word, codes in VENDORS_WORD.items() for code in numbers(codes)}
    assert len(expected) == 173
    (driver,) = xids((Message(text=XID.format(154)),))
    assert (driver.bucket, driver.need, driver.who) == expected.pop(154), "its need stands in its text"
    assert {xid.code: (xid.bucket, xid.need, xid.who) for xid in catalogue().values() if xid.code != 154} == expected


def test_a_number_that_no_driver_is_said_to_use_asks_for_a_reset_where_a_driver_prints_it():
    """A reboot has cured Xid 16 of a current driver.  Mutants: ``_in_use`` that keeps the vendor; for numbers to ignore, too."""
    printed = {xid.code: xid for xid in xids(Message(text=XID.format(it)) for it in range(1, 174))}
    for code, entry in catalogue().items():
        if code == 154:  # its need stands in its text
            continue
        old = entry.meaning.endswith("(not in use by today's drivers)")
        asks = "reset the GPU" if old and entry.need == "contact the vendor" else entry.need
        assert (printed[code].need, "not in use" in printed[code].meaning) == (asks, False), code
    assert printed[16].who == "whoever runs the node"
    assert printed[14].need == "nothing"
    assert all(it.meaning and (it.name or it.code == 173) for it in catalogue().values())


@every_row("form", FORMS)
def test_every_xid_of_the_catalogue_is_read_in_every_form_with_its_meaning_and_bucket(form):
    told = [(code, place, tail) for code in catalogue() for place, tail in zip(PLACES, (*TAILS, ""), strict=True)]
    lines = "\n".join(line(form, f"NVRM: Xid ({place}): {code}{tail}") for code, place, tail in told)
    found = xids(read_text(lines).messages)
    assert [xid.code for xid in found] == [code for code, _, _ in told]
    for xid, (code, place, tail) in zip(found, told, strict=True):
        known = meaning(code)
        assert (xid.bus_id, xid.instance) == ("0000:3b:00.0", place.partition(" ")[2])
        assert (xid.meaning, xid.bucket) == (known.meaning, known.bucket)
        assert (xid.pid == 4711) is ("pid=4711" in tail)
        assert isinstance(xid.name, Unknown) is ("python3" not in tail and "nccl" not in tail)


@every_row(
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


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_the_filter_on_the_host_drops_nothing_that_a_reader_knows(name, data):
    """Any text of a kind, made from its pattern, passes the filter: both stand in one list."""
    pattern = re.compile(KINDS[name].pattern.replace(r"(?<![a-z])", ""), re.IGNORECASE | re.ASCII)
    text = data.draw(st.from_regex(pattern, alphabet=st.characters(min_codepoint=32, max_codepoint=126)))
    assert re.search(worth_sending(), text.lower()), (name, text)


@pytest.mark.parametrize("awk", [["awk"], pytest.param(["busybox", "awk"], marks=pytest.mark.real("busybox"))])
def test_the_filter_is_one_that_awk_understands(awk):
    known = [case.text for case in cases("kernel_log") if case.concludes.keys() & {"io_errors", "gpu_faults"}]
    worth = ["NVRM: Xid (PCI:0000:3b:00): 79", *"".join(known).splitlines()]
    assert len(worth) > 25
    lines = [*worth, "a quiet line", "usb 1-1: new device"]
    program = "BEGIN { worth = ARGV[1]; ARGC = 1 } tolower($0) ~ worth"
    done = subprocess.run([*awk, program, worth_sending()], input="\n".join(lines), capture_output=True, text=True)
    assert done.stdout.splitlines() == worth
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


@every_row(
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
    assert seen("NVRM: GPU 0000:b3:00.0: GPU has fallen off the bus.").lost_gpus == ("0000:b3:00.0",)
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
    ("0000:3b:00.0", "i40e 0000:3b:00.0: TX driver issue detected, PF reset issued"),
    ("0000:01:00.0", "ixgbe 0000:01:00.0 eth0: Reset adapter"),
    ("0000:00:05.0", "ena 0000:00:05.0: Keep alive watchdog timeout."),
    ("0000:05:00.0", "tg3 0000:05:00.0 eth0: transmit timed out, resetting"),
]  # fmt: skip


@every_row(("device", "text"), CARDS)
def test_a_fault_of_a_network_card_is_seen_with_its_address(device, text):
    assert [(it.kind, it.device) for it in seen(f"[12345.678901] {text}").network] == [("card", device)]


OF_THE_MACHINE = {
    "hardware_errors": [
        "pcieport 0000:80:01.0: DPC: containment event, status:0x1f01 source:0x0000",
        "nvme 0000:01:00.0: Unable to change power state from D3cold to D0, device inaccessible",
        "vfio-pci 0000:07:00.0: not ready 65535ms after FLR; giving up",
        "NMI: IOCK error (debug interrupt?) for reason 61 on CPU 0.",
        "Uhhuh. NMI received for unknown reason 3d on CPU 12.",
        "mce: CPU3: Core temperature above threshold, cpu clock throttled (total events = 1543)",
        "thermal thermal_zone0: critical temperature reached (105 C), shutting down",
        "nvidia 0000:3b:00.0: swiotlb buffer is full (sz: 4096 bytes), total 32768 (slots), used 0 (slots)",
        "i915 0000:00:02.0: [drm] GPU HANG: ecode 12:1:85dffffb",
        "amdgpu 0000:03:00.0: amdgpu: GPU reset begin!",
    ],
    "io_errors": [
        "mpt3sas_cm0: fault_state(0x5854)!",
        "hpsa 0000:03:00.0: controller lockup detected: 0x00130000 after 30",
        "aacraid: Host adapter abort request (0,0,3,0)",
        "SQUASHFS error: Unable to read page, block 14c, size 100",
        "loop: Write error at byte offset 4096, length 4096.",
        "device-mapper: thin: 253:4: switching pool to out-of-data-space (queue IO) mode",
        "sd 2:0:0:0: Device offlined - not ready after error recovery",
    ],
    "gpu_faults": [
        "NVRM: installed in this system is not supported by the",
        "nvidia: disagrees about version of symbol module_layout",
        "nvidia: version magic '5.4.0-90-generic' should be '5.4.0-91-generic'",
    ],
    "network": [
        "nv_peer_mem: Unknown symbol ib_register_peer_memory_client (err -22)",
        "nvidia_peermem: disagrees about version of symbol nvidia_p2p_get_pages",
        "virtio_net virtio0 eth0: TX timeout on queue: 0, sq: output.0, vq: 0x1",
    ],
    "file_servers": [
        r"CIFS: VFS: \\192.0.2.9 has not responded in 180 seconds. Reconnecting...",
        "CIFS VFS: Server 192.0.2.9 has not responded in 120 seconds. Reconnecting...",
    ],
}


@every_row(("field", "text"), [(name, text) for name, texts in OF_THE_MACHINE.items() for text in texts])
def test_a_fault_of_the_machine_is_seen(field, text):
    assert len(getattr(seen(f"[12345.678901] {text}"), field)) == 1


LINKS = [
    "mlx5_core 0000:98:00.1 ens2f1np1: Link {}",
    "e1000e: eno1 NIC Link is {}",
    "e1000e 0000:00:1f.6 enp0s31f6: NIC Link is {}",
    "ixgbe 0000:04:00.0 eth2: NIC Link is {}",
    "i40e 0000:3b:00.0 eno1: NIC Link is {}",
    "bnxt_en 0000:18:00.0 eno1np0: NIC Link is {}",
    "igb 0000:01:00.0 eth0: igb: eth0 NIC Link is {}",
]


@every_row("text", LINKS)
def test_a_link_that_is_down_counts_until_it_is_up_again(text):
    """Mutants: a link that is up again still counts; the link of another card brings it up; down before up counts."""
    down, up = text.format("Down"), text.format("Up, 25 Gbps full duplex")
    other = up.replace("0000:", "0001:").replace("eno1", "eno9")
    assert [it.kind for it in seen(down).network] == ["link_down"]
    assert seen(f"{down}\n{up}").network == ()
    assert [it.text for it in seen(f"{up}\n{down}\n{other}").network] == [down]
    assert len(seen(f"{down}\n{up}\n{down}\n{down}").network) == 1


@every_row(
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


@every_row(
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
