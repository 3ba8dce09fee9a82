"""infiniband: what sysfs says of the ports of InfiniBand and RoCE cards."""

from __future__ import annotations

from pathlib import Path

import pytest

from runbook.errors import ProbeError
from runbook.language.arguments import build
from runbook.library.fabric import infiniband
from runbook.protocols import Fails, Holds
from runbook.values.command import Completed, Effect
from runbook.values.types import Unknown
from tests.support.probe_driver import SHELLS, Here, drive
from tests.support.real_processes import each

LINK = {"link_layer": "InfiniBand", "state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "400 Gb/sec (4X NDR)"}


def plant(root: Path, name: str, number: int = 1, *, downed: str = "0", **files: str) -> Path:
    """A card with a port, as sysfs has it."""
    card = root / "sys/class/infiniband" / name
    port = card / f"ports/{number}"
    (port / "counters").mkdir(parents=True, exist_ok=True)
    (card / "device").unlink(missing_ok=True)
    device = root / f"sys/devices/pci0000:18/0000:18:00.{number}"
    (device / "net" / f"{name}n").mkdir(parents=True, exist_ok=True)
    (card / "device").symlink_to(f"../../../devices/pci0000:18/0000:18:00.{number}")
    (card / "board_id").write_text("MT_0000000838\n")
    (card / "fw_ver").write_text("28.39.1002\n")
    for file, text in {**LINK, **files}.items():
        (port / file).write_text(f"{text}\n")
    for counter, text in {"link_downed": downed, "link_error_recovery": "0", "symbol_error": "0"}.items():
        (port / "counters" / counter).write_text(f"{text}\n")
    return port


def probed(root: Path, shell: str = "dash", **arguments):
    here = Here(root=root, shell=SHELLS[shell])
    state = drive(infiniband.probe(build(infiniband.Args, {"apart": 0.1, **arguments})), here)
    assert {it.effect for it in here.sent} == {Effect.READ}
    return state


@pytest.mark.parametrize("shell", each(SHELLS))
def test_the_ports_of_a_host(tmp_path, shell):
    for number in (10, 0, 2):
        plant(tmp_path, f"mlx5_{number}", downed=str(number))
    plant(tmp_path, "mlx5_1", state="1: DOWN", phys_state="2: Polling", rate="10 Gb/sec (4X SDR)", downed="4")
    (plant(tmp_path, "mlx5_3") / "counters/link_downed").unlink()
    state = probed(tmp_path, shell)
    assert [it.name for it in state.ports] == ["mlx5_0/1", "mlx5_1/1", "mlx5_2/1", "mlx5_3/1", "mlx5_10/1"]
    assert state.fell == ("mlx5_1/1: DOWN, Polling, lost its link 4 times",)
    assert (state.total_rate, state.link_downed, len(state.active)) == (1600.0, 16, 4)
    assert isinstance(state.ports[3].link_downed, Unknown)
    assert (state.ports[0].bus_id, state.ports[0].interface) == ("0000:18:00.1", "mlx5_0n")
    assert state.slow == ()
    plant(tmp_path, "mlx5_2", rate="200 Gb/sec (2X NDR)")
    assert probed(tmp_path, shell).slow == ("mlx5_2/1: 200 Gb/s",)
    assert state.firmware == ("MT_0000000838 28.39.1002",)


@pytest.mark.parametrize("shell", each(SHELLS))
def test_a_host_without_ports_is_read_at_once(tmp_path, shell):
    (tmp_path / "sys/class").mkdir(parents=True)
    state = probed(tmp_path, shell, apart=30)
    assert (state.there, state.ports, state.link_downed, state.total_rate) == (False, (), 0, 0.0)
    (tmp_path / "sys/class/infiniband/mlx5_0").mkdir(parents=True)
    assert not probed(tmp_path, shell, apart=30).there


def test_a_host_without_sysfs_is_not_known(tmp_path):
    with pytest.raises(ProbeError, match="shows no /sys/class"):
        probed(tmp_path)
    for done in (Completed(exit_code=1), Completed(exit_code=None, timed_out=True)):
        with pytest.raises(ProbeError):
            infiniband.read_state(done)


def test_a_port_that_does_not_let_itself_be_read_is_not_known(tmp_path):
    port = plant(tmp_path, "mlx5_0")
    (port / "state").unlink()
    (port / "state").mkdir()
    state = probed(tmp_path)
    assert (state.unclear, state.active) == (("mlx5_0/1",), ())


def test_under_verify_so_many_ports_are_active(tmp_path):
    plant(tmp_path, "mlx5_0")
    plant(tmp_path, "mlx5_1", state="1: DOWN", phys_state="3: Disabled")
    state = probed(tmp_path)
    assert infiniband.holds(infiniband.Args(expect=1), state) == Holds(why="1 of 1 port active")
    assert infiniband.holds(infiniband.Args(), state) == Fails(why="1 of 2 ports active: mlx5_1/1: DOWN, Disabled")
    assert isinstance(infiniband.holds(infiniband.Args(expect=8), state), Fails)


def test_names_and_values_that_are_no_rows_break_nothing():
    rows = "probed\nport\t/x\tmlx5_0\nbefore\t/x\nport\t" + "\t".join(["-"] * 11)
    state = infiniband.read_state(Completed(exit_code=0, stdout=rows))
    assert [it.say for it in state.ports] == ["-/-: state unknown"]


@pytest.mark.parametrize("shell", each(SHELLS))
def test_a_card_that_no_driver_has_is_seen_on_the_bus(tmp_path, shell):
    for place, kind in {"0000:18:00.0": "0x020700", "0000:19:00.0": "0x020000", "0000:1a:00.0": "0x030200"}.items():
        device = tmp_path / "sys/bus/pci/devices" / place
        device.mkdir(parents=True)
        (device / "class").write_text(f"{kind}\n")
    (tmp_path / "sys/class").mkdir()
    state = probed(tmp_path, shell)
    assert (state.there, state.on_bus) == (False, ("0000:18:00.0",))
