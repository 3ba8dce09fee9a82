"""Read the NVIDIA GPUs and NVSwitches on the PCI bus of a host from sysfs and lspci, without the driver."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Literal

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.gpu.facts.model import bus_id
from runbook.shell import script
from runbook.values.command import Command, Completed, read_script
from runbook.values.types import Unknown

GONE_WIDTH = 63
"""The number of lanes in a link register of all ones, which means that the device does not answer any more."""
MOST_LANES = 32

_SPEED = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?GT/s")
_LSPCI = re.compile(
    r"(?P<bus>[0-9A-Fa-f:.]+) (?P<kind>[^\[]+?) \[[0-9a-f]{4}\]: "
    r"(?P<model>.*?)(?: \(rev (?P<rev>[0-9a-f]{2})\))?(?: \(prog-if [^)]*\))?\Z"
)
_NOT_SAID = Unknown(why="sysfs does not say")


@dataclass(frozen=True, slots=True, kw_only=True)
class PciDevice:
    """One GPU or NVSwitch on the bus."""

    bus_id: str
    """The address in the form of sysfs, ``0000:97:00.0``."""
    kind: Literal["gpu", "nvswitch"]
    """Whether it is a GPU or an NVSwitch."""
    model: str
    """The name in lspci; the device number if lspci is not installed."""
    driver: str
    """The kernel driver of the device; empty if it has none."""
    gone: bool | Unknown
    """Whether the device no longer answers: its configuration space is all ones, which lspci shows as ``(rev ff)``."""
    speed: float | Unknown
    """The present speed of each lane in GT/s; an idle GPU lowers it to save power."""
    speed_max: float | Unknown
    """The maximum speed of each lane in GT/s."""
    width: int | Unknown
    """The number of lanes that the link uses now."""
    width_max: int | Unknown
    """The maximum number of lanes of the device."""
    width_slot: int | Unknown
    """The number of lanes of the port into which the device is plugged."""
    text: str
    """The line of lspci; empty if lspci is not installed."""

    @property
    def narrow(self) -> bool | Unknown:
        """Whether the link uses fewer lanes than both the device and the slot support."""
        if self.gone is True:
            return False
        if isinstance(self.width, Unknown):
            return self.width
        if isinstance(self.width_max, Unknown):
            return self.width_max
        slot = self.width_max if isinstance(self.width_slot, Unknown) else self.width_slot
        return self.width < min(self.width_max, slot)


@dataclass(frozen=True, slots=True, kw_only=True)
class PciReading:
    """The devices according to the bus, the driver's table and /dev."""

    devices: tuple[PciDevice, ...] = ()
    cards: tuple[str, ...] | Unknown = field(default=_NOT_SAID)
    """The bus ids of the GPUs in the driver's own table; unknown if the driver has no table."""
    nodes: tuple[str, ...] = ()
    """The device nodes ``/dev/nvidia0`` ..."""
    container: bool = False
    """Whether the host is a container: it sees the whole bus, but may have only a part of the GPUs."""
    boot_id: str | Unknown = field(default=_NOT_SAID)
    """The kernel's id of this boot."""


def amd_device(bus: str) -> PciDevice:
    """Return AMD's GPU with the bus id *bus*; its driver has the values of its link."""
    elsewhere = Unknown(why="AMD's driver reports it")
    return PciDevice(
        bus_id=bus, kind="gpu", model="", driver="amdgpu", gone=elsewhere, speed=elsewhere, speed_max=elsewhere,
        width=elsewhere, width_max=elsewhere, width_slot=elsewhere, text="",
    )  # fmt: skip


def ask_pci(root: str = "") -> Command:
    """Return the command that reads sysfs, lspci, the driver's table and /dev; *root* is the root of the file
    system.
    """
    return read_script(script(__package__, "pci_probe"), root)


def read_pci(done: Completed) -> PciReading:
    """Return the devices in *done*, the answer to ``ask_pci``.  Raises ProbeError if the bus could not be read."""
    if done.timed_out or done.exit_code != 0:
        raise ProbeError(
            "the PCI bus could not be inspected in time" if done.timed_out else "the PCI bus could not be inspected"
        )
    rows = [line.split("\t") for line in done.stdout.splitlines() if line]
    if ["probed"] not in rows:
        raise ProbeError("the PCI bus cannot be inspected: this host shows no /sys/bus/pci/devices")
    listed = {bus_id(match["bus"]): match for match in _listed(rows)}
    devices = (_device(row[1:], listed) for row in rows if row[0] == "device" and len(row) == 12)
    no_driver = Unknown(why="the NVIDIA driver is not loaded: there is no /proc/driver/nvidia/gpus")
    return PciReading(
        devices=tuple(device for device in devices if device.bus_id),
        cards=tuple(filter(None, map(bus_id, _values(rows, "card")))) if ["driver"] in rows else no_driver,
        nodes=_values(rows, "node"),
        container=["container"] in rows,
        boot_id=next((boot for boot in _values(rows, "boot") if boot != "-"), _NOT_SAID),
    )


def _values(rows: Sequence[Sequence[str]], kind: str) -> tuple[str, ...]:
    """Return the values of the rows of *kind* that have exactly one value."""
    return tuple(row[1] for row in rows if row[0] == kind and len(row) == 2)


def _listed(rows: Sequence[Sequence[str]]) -> Iterator[re.Match[str]]:
    """Yield the lines of lspci, each split into its parts."""
    for row in rows:
        if row[0] == "lspci" and len(row) == 2 and (match := _LSPCI.fullmatch(row[1].strip())) and bus_id(match["bus"]):
            yield match


def _device(row: Sequence[str], listed: Mapping[str, re.Match[str]]) -> PciDevice:
    bus, kind, number, driver, speed, speed_max, width, width_max, slot, power, config = row
    line = listed.get(bus_id(bus))
    return PciDevice(
        bus_id=bus_id(bus),
        kind="nvswitch" if kind.startswith("0x0680") else "gpu",
        model=line["model"] if line else f"NVIDIA device {number}",
        driver="" if driver == "-" else driver,
        gone=_gone(config, "" if line is None else line["rev"] or "", speed, width, power),
        speed=_speed(speed),
        speed_max=_speed(speed_max),
        width=_lanes(width),
        width_max=_lanes(width_max),
        width_slot=_lanes(slot),
        text=line[0] if line else "",
    )


def _gone(config: str, revision: str, speed: str, width: str, power: str) -> bool | Unknown:
    """Return whether the device does not answer any more.  A device without power (D3cold) shows all ones, too, so it
    is unknown.
    """
    if power == "D3cold":
        return Unknown(why="the device is switched off to save power (D3cold)")
    if config.startswith("ffff") or revision == "ff":
        return True
    if len(config) == 8 or revision:
        return False
    if width == str(GONE_WIDTH) and speed.startswith("Unknown"):
        return True
    return False if _SPEED.match(speed) else Unknown(why="its configuration space cannot be read")


def _speed(text: str) -> float | Unknown:
    found = _SPEED.match(text)
    return float(found[1]) if found else Unknown(why=f"sysfs says {text}" if text != "-" else _NOT_SAID.why)


def _lanes(text: str) -> int | Unknown:
    if text.isascii() and text.isdigit() and 0 < int(text[:4]) <= MOST_LANES:
        return int(text)
    return Unknown(why=f"sysfs says {text[:20]}" if text != "-" else _NOT_SAID.why)
