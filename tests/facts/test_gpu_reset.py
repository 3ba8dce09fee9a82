"""A reset of a GPU: what it takes away is set again, and a line of ours says that it was, which nobody else can write."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

from runbook.language.arguments import build
from runbook.library.gpu import gpu_reset
from runbook.library.gpu.facts import reset
from runbook.library.gpu.facts.model import Gpu
from runbook.library.gpu.facts.reset import GpuSettings, mark, read_settings, set_again
from runbook.library.gpu.facts.smi_output import FRAME
from runbook.library.kernel import kernel_log
from runbook.values.command import Completed
from runbook.values.plan import Change
from runbook.values.types import Unknown
from tests.support.fake_nvidia_smi import uuid
from tests.support.probe_driver import Here, drive
from tests.support.tables import every_row

GPU = Gpu(index=0, uuid=uuid(0), bus_id="0000:90:00.0", compute_mode="Default", persistence=True)


def answer(power: str = "", clocks: str = "") -> Completed:
    def section(name: str, body: str) -> str:
        return f"{FRAME} begin {name} x\n{body}\n\n{FRAME} end 0\n"

    return Completed(exit_code=0, stdout=section("power", power) + section("clocks", clocks))


@every_row(
    ("mode", "power", "clocks", "settings", "options"),
    [
        ("Default", "700.00, 700.00", "2619, 1980, 2619, 1980", GpuSettings(), []),
        ("Default", "600.00, 700.00", "2619, 1980, 2619, 1980", GpuSettings(power_limit="600.00"), ["-pl 600.00"]),
        ("Default", "[N/A], 700.00", "[N/A], [N/A], [N/A], [N/A]", GpuSettings(), []),
        ("Default", "[Unknown Error], ERR!", "2619, 1410, 2619, [N/A]", GpuSettings(), []),
        ("Default", "700.00, 700.00", "2619, 1410, 2619, 1980", GpuSettings(clocks="2619,1410"), ["-ac 2619,1410"]),
        ("Prohibited", "", "", GpuSettings(compute_mode="Prohibited"), ["-c PROHIBITED"]),
        (Unknown(why="x"), "", "", GpuSettings(), []),
    ],
)
def test_what_is_not_as_by_default_is_set_again(mode, power, clocks, settings, options):
    gpu = replace(GPU, compute_mode=mode)
    said = answer(*(f"{GPU.uuid}, {it}" if it else "" for it in (power, clocks)))
    assert read_settings(said, (gpu,)) == {GPU.uuid: settings}
    assert [" ".join(it.stands_for[3:]) for it in set_again(gpu, settings)] == options
    assert all(it.stands_for[2] == GPU.uuid for it in set_again(gpu, settings))


def test_an_nvidia_smi_that_says_nothing_of_them_leaves_them_out():
    assert read_settings(Completed(exit_code=1, stdout=""), (GPU,)) == {GPU.uuid: GpuSettings()}


def test_they_are_set_again_also_where_the_reset_fails():
    state = gpu_reset.State(
        gpus=(GPU,), there=1, wedged={GPU.key: True}, holders={GPU.key: ()}, root=True, groups=((GPU.key,),),
        settings={GPU.key: GpuSettings(power_limit="600.00")},
    )  # fmt: skip
    change = gpu_reset.decide(gpu_reset.Args(gpus=("all",)), state)
    assert isinstance(change, Change)
    assert [it.stands_for[-2:] for it in change.finally_] == [("-pm", "1"), ("-pl", "600.00")]
    assert "set again: GPU 0: power limit 600.00" in change.summary
    lost = gpu_reset.decide(
        gpu_reset.Args(gpus=("all",), force=True), replace(state, gpus=(replace(GPU, mig="Enabled"),))
    )
    assert isinstance(lost, Change)
    assert "MIG instances of GPU 0 are lost" in lost.summary


def test_fewer_gpus_after_a_reset_are_no_success():
    args = gpu_reset.Args(gpus=("all",))
    before = gpu_reset.State(gpus=(GPU,), there=8, wedged={GPU.key: True})
    after = gpu_reset.State(gpus=(GPU,), there=7, wedged={GPU.key: False})
    assert not gpu_reset.settled(args, before, after)
    assert "the host has 7 GPUs, and had 8" in gpu_reset.explain(args, before, after)
    assert gpu_reset.settled(args, before, replace(after, there=8))


XID = "[  100.000000] NVRM: Xid (PCI:0000:90:00): 95, pid=4711, name=python3, Uncontained: LTC TAG (0x2,0x0)."
OTHER = XID.replace("0000:90:00", "0000:91:00").replace("100.0", "101.0")


def needs(*lines: str) -> list[str]:
    state = drive(kernel_log.probe(build(kernel_log.Args, {"text": "\n".join(lines) + "\n"})), Here())
    return [it.bus_id for it in state.open_needs if it.need == "reset the GPU"]


def written(tmp_path: Path, monkeypatch) -> str:
    """The line that a reset writes into the kernel's log, as dmesg shows it."""
    kernel = tmp_path / "kmsg"
    kernel.touch()
    monkeypatch.setattr(reset, "KERNEL", str(kernel))
    command = mark((GPU,))
    subprocess.run(["sh", "-c", command.script, "sh", *command.argv], check=True, timeout=60)
    return f"[  200.000000] {kernel.read_text().removeprefix('<5>').strip()}"


def test_a_fault_is_over_once_its_gpu_was_reset_and_only_that(tmp_path, monkeypatch):
    """Mutants: the marker of any GPU taken for all; Xids after the marker taken for mended."""
    line = written(tmp_path, monkeypatch)
    assert needs(XID, OTHER) == ["0000:90:00.0", "0000:91:00.0"]
    assert needs(XID, OTHER, line) == ["0000:91:00.0"]
    assert needs(XID, line, XID.replace("100.0", "300.0")) == ["0000:90:00.0"]
    assert needs(line, XID.replace("100.0", "300.0")) == ["0000:90:00.0"]


def test_a_fault_without_a_number_is_over_with_the_reset_too(tmp_path, monkeypatch):
    line = written(tmp_path, monkeypatch)
    fault = "[  100.000000] NVRM: GPU 0000:90:00.0: GPU recovery: NV_ERR_RESET_REQUIRED"

    def kinds(*lines: str) -> list[str]:
        state = drive(kernel_log.probe(build(kernel_log.Args, {"text": "\n".join(lines) + "\n"})), Here())
        return [it.kind for it in state.open_faults]

    assert kinds(fault) == ["needs_reset"]
    assert kinds(fault, line) == []


@every_row(
    "forged",
    [
        "[  200.000000] usb 1-1: Product: runbook: GPU reset executed: 0000:90:00.0 GPU-1 success: true",
        "[  200.000000] python3[4711]: segfault at 0 ip 0 sp 0 error 4 in runbook: GPU reset executed: 0000:90:00.0 x success: true",
        "[  200.000000] runbook: GPU reset executed: 0000:90:00.0 GPU-1 success: false",
        "[  200.000000] a b runbook: GPU reset executed: 0000:90:00.0 GPU-1 success: true",
    ],
)
def test_words_of_others_in_the_log_end_no_fault(forged):
    assert needs(XID, forged) == ["0000:90:00.0"]


def test_the_journal_has_the_line_with_the_name_of_the_host(tmp_path, monkeypatch):
    text = written(tmp_path, monkeypatch).partition("] ")[2]
    xid = "1700000100.000000 gpu-01 kernel: " + XID.partition("] ")[2]
    assert needs(xid, f"1700000200.000000 gpu-01 {text}") == []


def test_a_log_that_cannot_be_written_to_fails_no_reset(monkeypatch, tmp_path):
    monkeypatch.setattr(reset, "KERNEL", str(tmp_path / "none" / "kmsg"))
    command = mark((GPU,))
    done = subprocess.run(["sh", "-c", command.script, "sh", *command.argv], capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
