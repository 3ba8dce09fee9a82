"""What a GPU needs by all that its driver has said: the workflows of the vendor, switches, and what a reboot has ended."""

from __future__ import annotations

from runbook.language.arguments import build
from runbook.library.kernel import kernel_log
from runbook.library.kernel.facts.sources import read_kernel
from runbook.values.types import Unknown
from tests.support.probe_driver import Here, drive
from tests.support.tables import every_row

XID = "NVRM: Xid (PCI:{}): {}"
RECOVERY = "154, GPU recovery action changed from {} to {}"


def seen(*lines: str, **values):
    text = "\n".join(lines)
    return drive(kernel_log.probe(build(kernel_log.Args, {"text": text, **values})), Here())


def xid(text: str, bus: str = "0000:3b:00") -> str:
    return XID.format(bus, text)


@every_row(
    ("said", "need"),
    [
        ("0x0 (None)", "nothing"),
        ("0x1 (GPU Reset Required)", "reset the GPU"),
        ("0x1 (PF FLR)", "reset the GPU"),
        ("0x2 (Node Reboot Required)", "reboot the node"),
        ("0x2 (OS Reboot)", "reboot the node"),
        ("0x3 (Drain P2P)", "reset the GPU"),
        ("0x4 (Drain and Reset)", "reset the GPU"),
        ("0x5 (Recover IMEX Domain)", "reboot the node"),
        ("0x2", "reboot the node"),
        ("(Node Reboot Required)", "reboot the node"),
        ("(GPU Reset Required)", "reset the GPU"),
        ("(None)", "nothing"),
        ("0x9 (Something New)", "contact the vendor"),
    ],
)
def test_the_drivers_own_verdict_is_read_by_its_number_and_else_by_its_words(said, need):
    """Mutants: the first number instead of the one after `to`; words before the number."""
    (found,) = seen(xid("48, pid=1, name=x"), xid(RECOVERY.format("0x1 (GPU Reset Required)", said))).gpu_needs
    assert found.need == need
    assert found.serious is (need != "nothing")


def test_a_verdict_names_the_fault_that_it_speaks_of_and_that_gpu_stands_before_the_others():
    """One lost GPU makes the driver ask for a reboot at every GPU.  Mutants: `_cause` without its window; no order."""
    reboot = RECOVERY.format("0x0 (None)", "0x2 (Node Reboot Required)")
    state = seen(
        *(xid(reboot, "0000:1a:00"), xid("79, GPU has fallen off the bus.", "0000:3d:00"), xid(reboot, "0000:3d:00")),
    )
    assert [(gpu.bus_id, gpu.because) for gpu in state.sick_gpus] == [("0000:3d:00.0", 79), ("0000:1a:00.0", 0)]
    assert (
        'fallen off the PCI bus (Xid 79), and the driver itself says "Node Reboot Required"' in state.sick_gpus[0].say
    )
    over = RECOVERY.format("0x2 (x)", "0x0 (None)")
    (later,) = seen(xid("79, x"), xid(over), xid(RECOVERY.format("0x0 (None)", "0x1 (Reset)"))).sick_gpus
    assert later.because == 0, "the 79 was over before"


@every_row(
    ("lines", "need", "words"),
    [
        (("48, x",), "reset the GPU", "field diagnosis"),
        (("48, x", "63, Row Remapper"), "reset the GPU", "drain the GPU before its reset"),
        (("64, x", "48, x"), "reset the GPU", "drain the GPU before its reset"),
        (("48, x", "172, y"), "reset the GPU", "in SRAM"),
        (("48, x", "171, y"), "reset the GPU", "in DRAM"),
        (("45, pid=1",), "nothing", "restart the fabric manager"),
        (("63, x",), "nothing", "next pause"),
        (("13, x",), "restart the application", ""),
        (("31, x", "31, y"), "restart the application", "2 times"),
        (("74, x",), "check the node", "other end"),
        (("149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 01 (0x021425c6)",), "reset the GPU", ""),
        (("149, NETIR_LINK_EVT  Nonfatal   XC0 i0 Link 01 (0x021425c6)",), "nothing", ""),
        (("149, pid=1, name=a Fatal XC",), "check the node", ""),
        (("45, x, caused by previous Xid 149", "149, NETIR_LINK_EVT Fatal XC0"), "reset the GPU", ""),
    ],
)
def test_a_workflow_of_the_vendor_looks_at_what_else_this_gpu_has_reported(lines, need, words):
    """Mutants: any branch of `_note`; the severity searched in the whole line, where a process may call itself so."""
    (found,) = seen(*map(xid, lines)).gpu_needs
    assert found.need == need
    assert words in found.note
    assert words or not found.note


def test_a_kill_that_follows_from_another_fault_is_not_said_to_stand_alone():
    (found,) = seen(xid("43, y"), xid("45, x")).gpu_needs
    assert "alone" not in found.note


SXID = "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): {}"


@every_row(
    ("text", "severity", "need"),
    [
        ("20034, Fatal, Link 30 LTSSM Fault Up", "fatal", "reset the GPU"),
        ("12028, Non-fatal, Link 32 egress non-posted PRIV error (First)", "non-fatal", "check the node"),
        ("22013, Non-fatal, Link 44 Minion Link DLREQ interrupt", "harmless", "nothing"),
        ("22013, Fatal, Link 44 as never seen", "fatal", "reset the GPU"),
        ("24007, Data {0x1}", "fatal", "reset the GPU"),
        ("99999, Fatal, Link 1", "fatal", "reset the GPU"),
        ("99999, Non-fatal, Link 1", "non-fatal", "check the node"),
        ("99999", "", "contact the vendor"),
    ],
)
def test_a_fault_of_a_switch_is_as_severe_as_the_driver_says_and_else_as_the_guide_says(text, severity, need):
    """Mutants: the table before the driver's word; an unknown number is harmless."""
    state = seen(SXID.format(text))
    (found,) = state.sxids
    assert (found.severity, found.need, bool(found.meaning), found.switch) == (severity, need, True, "nvidia-nvswitch3")
    assert bool(state.sick_switches) is (need != "nothing")
    assert (state.xids, state.sick_gpus) == ((), ())


def test_the_lines_with_details_of_a_switchs_fault_are_no_further_faults():
    lines = ("20034, Fatal, Link 30 LTSSM Fault Up", "20034, Severity 1 Engine instance 30", "20034, Data {0x1, 0x2}")
    assert len(seen(*map(SXID.format, lines)).sxids) == 1
    assert len(seen(SXID.format(lines[2])).sxids) == 1, "where the ring has lost the first line, the second one counts"


BOOT, NOW = 1795300000, 1795303600
LINUX = "Linux version 6.8.0-45-generic (buildd@lcy02) (gcc 13.2.0) #45-Ubuntu SMP"


def journal(*lines: tuple[float, str]):
    told = [f" {at:.6f} gpu-01 kernel: {text}" for at, text in lines]
    head = f"clock {NOW} {BOOT} +0000\nsource journal\nend 0\nlines {len(told)}\n"
    return read_kernel(f"{head}first {told[0].strip()}\nlast {told[-1].strip()}\n" + "\n".join(told) + "\n")


def state_of(reading, **values):
    return kernel_log._state(build(kernel_log.Args, values), reading)


def test_a_fault_from_before_the_boot_asks_for_nothing_any_more():
    """Mutants: `since_boot` gives everything; the last boot is the first one; the time alone decides."""
    lost, old = xid("79, GPU has fallen off the bus."), BOOT - 90000
    before = ((old, LINUX), (old + 60, lost), (old + 61, SXID.format("20034, Fatal, x")), (BOOT + 1, LINUX))
    state = state_of(journal(*before, (BOOT + 9, "NVRM: loading NVIDIA UNIX x")), since="30d")
    assert (state.open_needs, state.sick_gpus, state.lost_gpus, state.sick_switches) == ((), (), (), ())
    assert [it.code for it in state.gpu_needs] == [79], "what there was is still told"
    assert state.xid_groups == ()
    again = state_of(journal(*before, (BOOT + 500, lost)), since="30d")
    assert [it.code for it in again.sick_gpus] == [79]
    assert again.lost_gpus == ("0000:3b:00.0",)


def test_where_the_log_has_no_first_line_of_the_kernel_the_time_of_the_boot_decides():
    state = state_of(journal((BOOT - 90000, xid("79, x")), (BOOT + 400, xid("95, y", "0000:5e:00"))), since="30d")
    assert [it.code for it in state.sick_gpus] == [95]


def test_a_process_cannot_pass_for_the_first_line_of_the_kernel():
    """A name has 15 characters at most.  Mutant: the pattern without what stands behind the number."""
    forged = "Linux version 6[4711]: segfault at 0 ip 0 sp 0 error 4 in x[0+1]"
    assert [it.code for it in seen(xid("79, x"), forged).sick_gpus] == [79]


def test_this_boot_leaves_out_what_was_before_it_and_is_unknown_where_the_log_begins_later():
    """Mutants: `this_boot` without a beginning is believed; `this_boot` keeps older faults."""
    old, new = (BOOT - 9000, xid("31, x")), (BOOT + 1, LINUX)
    assert state_of(journal(old, new), since="1d", this_boot=True).xids == ()
    late = state_of(journal((BOOT + 3000, "usb 1-1: new device")), this_boot=True)
    assert isinstance(late.xids, Unknown)
    assert "50 min after the boot" in late.xids.why
    assert isinstance(late.sick_gpus, Unknown)
    assert isinstance(late.xid_groups, Unknown)
    assert state_of(journal(new), this_boot=True).sick_gpus == ()


def test_what_was_said_of_each_gpu_stands_in_short_the_newest_first():
    """Mutants: the groups in the order of their first line; an instance or a process is left out."""
    state = state_of(
        journal(
            (BOOT + 100, xid("31, pid=7, name=python3, Ch 8")),
            (BOOT + 200, xid("13, pid=8, name=a", "0000:3b:00 GPU-I:05")),
            (NOW - 120, xid("31, pid=9, name=python3, Ch 9")),
        )
    )
    first, second = state.xid_groups
    assert (first.code, first.count, first.ago, first.processes) == (
        31,
        2,
        "2 min ago",
        ("python3 (pid 7)", "python3 (pid 9)"),
    )
    assert (second.code, second.instances, second.who) == (13, ("GPU-I:05",), "whoever runs the job")
    assert first.say.startswith("0000:3b:00.0 Xid 31 (2 times), 2 min ago, python3 (pid 7), python3 (pid 9): ")
    assert first.say.endswith("[RESTART_APP: restart the application, whoever runs the job]")
