"""pci: what sysfs, lspci and the driver's table say of the GPUs of a host."""

from __future__ import annotations

from pathlib import Path

import pytest

from runbook.errors import ProbeError
from runbook.language.arguments import build
from runbook.library.gpu import pci
from runbook.protocols import Fails, Holds
from runbook.values.command import Completed, Effect
from runbook.values.types import Unknown
from tests.support.fake_nvidia_smi import plant
from tests.support.probe_driver import SHELLS, Here, drive
from tests.support.real_processes import each
from tests.support.tables import every_row


def probed(root: Path, shell: str = "dash", **arguments):
    here = Here(root=root, shell=SHELLS[shell])
    state = drive(pci.probe(build(pci.Args, arguments)), here)
    assert {it.effect for it in here.sent} == {Effect.READ}
    return state


def device(root: Path, bus: str, **files: str) -> None:
    place = root / "sys/bus/pci/devices" / bus
    place.mkdir(exist_ok=True)
    for name, text in {
        "vendor": "0x10de",
        "class": "0x030200",
        "config": "\xde\x10\x30\x23" + "\0" * 60,
        **files,
    }.items():
        (place / name).write_bytes(text.encode("latin-1") + (b"" if name == "config" else b"\n"))


@pytest.mark.parametrize("shell", each(SHELLS))
def test_what_is_on_the_bus_in_the_driver_and_in_dev(tmp_path, shell):
    """Mutants: pci_probe.sh without the loop over cards, or that takes audio functions for GPUs."""
    root = plant(tmp_path, gpus=2, pci=[("0000:90:00.1", "0x10de", "0x040300"), ("0000:02:00.0", "0x8086", "0x030000")])
    device(root, "0000:90:00.0", current_link_width="8", max_link_width="16", current_link_speed="16.0 GT/s PCIe")
    device(root, "0000:91:00.0", config="\xff" * 64)
    device(root, "0000:92:00.0")
    (root / "sys/bus/pci/devices/0000:92:00.0/driver").symlink_to("../../../bus/pci/drivers/vfio-pci")
    state = probed(root, shell, expect_gpus=3)
    assert (state.gpus, state.count, state.missing) == (("0000:90:00.0", "0000:91:00.0"), 2, 1)
    assert (state.gone, state.narrow) == (("0000:91:00.0",), ("0000:90:00.0",))
    assert (state.known_to_driver, state.unknown_to_driver, state.off_the_bus) == (state.gpus, (), ())
    assert (state.unbound, dict(state.foreign)) == (state.gpus, {"0000:92:00.0": "vfio-pci"})
    assert state.nodes == ("/dev/nvidia0", "/dev/nvidia1")
    assert state.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def test_a_gpu_that_left_the_bus_and_one_that_the_driver_does_not_have(tmp_path):
    root = plant(tmp_path, gpus=1, pci=[("0000:a0:00.0", "0x10de", "0x030200")], minors=[("0000:b0:00.0", 1)])
    state = probed(root)
    assert (state.unknown_to_driver, state.off_the_bus) == (("0000:a0:00.0",), ("0000:b0:00.0",))
    (root / ".dockerenv").touch()
    assert (probed(root).container, probed(root).unknown_to_driver) == (True, ())


def test_without_the_driver_its_table_is_unknown_not_empty(tmp_path):
    root = plant(tmp_path, pci=[("0000:a0:00.0", "0x10de", "0x030200")])
    state = probed(root)
    for field in (state.known_to_driver, state.unknown_to_driver, state.off_the_bus):
        assert isinstance(field, Unknown)
    assert isinstance(state.gone, Unknown), "its configuration space cannot be read"
    with pytest.raises(ProbeError, match="configuration space"):
        pci.holds(build(pci.Args, {}), state)


@every_row(
    "answer",
    [Completed(exit_code=0, stdout="boot\tx\n"), Completed(exit_code=1), Completed(exit_code=None, timed_out=True)],
)
def test_a_bus_that_cannot_be_inspected_is_unknown(answer):
    """Mutant: read_pci that does not ask for `probed`."""

    class Answering:
        def run(self, *commands):
            return (answer,) * len(commands)

    with pytest.raises(ProbeError, match="PCI bus"):
        drive(pci.probe(build(pci.Args, {})), Answering())


def test_all_there_holds_and_one_too_few_or_one_that_is_gone_fails(tmp_path):
    root = plant(tmp_path)
    device(root, "0000:90:00.0")
    held = {
        count: pci.holds(build(pci.Args, {"expect_gpus": count}), probed(root, expect_gpus=count)) for count in (1, 2)
    }
    assert isinstance(held[1], Holds)
    assert isinstance(held[2], Fails)
    device(root, "0000:90:00.0", config="\xff" * 64)
    assert "does not answer" in pci.holds(build(pci.Args, {}), probed(root)).why
