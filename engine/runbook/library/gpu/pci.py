"""Read the NVIDIA GPUs and NVSwitches on the PCI bus: which answer, their driver, and how wide their links are.

Only sysfs, lspci (where it is installed), /proc/driver and /dev are read, so that it answers also while the driver
hangs. A GPU that has fallen off the bus no longer answers: lspci then shows `(rev ff)`. The link speed of an idle GPU
is reduced to save power; the link width is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.gpu.facts.pci import PciDevice, PciReading, ask_pci, read_pci
from runbook.protocols import Fails, Holds, Probe
from runbook.values.types import Unknown, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    expect_gpus: int = field(default=0, metadata={"minimum": 0})
    """The number of GPUs that should be on the bus; 0: not checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The GPUs on the bus, by bus id."""

    devices: tuple[PciDevice, ...]
    """Each GPU and NVSwitch: bus_id, kind, model, driver, gone, speed and speed_max (GT/s), width, width_max and
    width_slot (lanes), text (lspci's line).
    """
    gpus: tuple[str, ...]
    """GPUs on the bus, without those passed to a virtual machine."""
    count: int
    """The number of `gpus`."""
    missing: int
    """The number of `expect_gpus` that are not on the bus."""
    gone: tuple[str, ...] | Unknown
    """Devices on the bus that no longer answer (`rev ff`); GPUs and NVSwitches."""
    narrow: tuple[str, ...] | Unknown
    """Devices with fewer lanes than device and slot could use."""
    unbound: tuple[str, ...]
    """GPUs that no kernel driver has."""
    foreign: Mapping[str, str]
    """GPUs that another kernel driver has (vfio-pci, nouveau), each with its name."""
    known_to_driver: tuple[str, ...] | Unknown
    """GPUs in the NVIDIA driver's own table; unknown if the driver is not loaded."""
    unknown_to_driver: tuple[str, ...] | Unknown
    """`gpus` that are missing in the driver's table; empty in a container."""
    off_the_bus: tuple[str, ...] | Unknown
    """GPUs in the driver's table that are not on the bus any more."""
    nodes: tuple[str, ...]
    """Device nodes /dev/nvidia0 ..."""
    container: bool
    """Whether the host is a container, which sees GPUs of others, too."""
    boot_id: str | Unknown
    """The kernel's name for this boot; another one after each reboot."""


def probe(args: Args) -> Probe[State]:
    """Read the whole state with one script."""
    return _state(args, read_pci((yield ask_pci())))


def _state(args: Args, reading: PciReading) -> State:
    cards = [device for device in reading.devices if device.kind == "gpu"]
    gpus = tuple(device.bus_id for device in cards if device.driver in ("", "nvidia"))
    on_bus = {device.bus_id for device in reading.devices}
    known = reading.cards
    return State(
        devices=reading.devices,
        gpus=gpus,
        count=len(gpus),
        missing=max(0, args.expect_gpus - len(gpus)),
        gone=_chosen(reading.devices, lambda device: device.gone),
        narrow=_chosen(reading.devices, lambda device: device.narrow),
        unbound=tuple(device.bus_id for device in cards if not device.driver),
        foreign={device.bus_id: device.driver for device in cards if device.driver not in ("", "nvidia")},
        known_to_driver=known,
        unknown_to_driver=known
        if isinstance(known, Unknown)
        else tuple(bus for bus in gpus if bus not in known and not reading.container),
        off_the_bus=known if isinstance(known, Unknown) else tuple(bus for bus in known if bus not in on_bus),
        nodes=reading.nodes,
        container=reading.container,
        boot_id=reading.boot_id,
    )


def _chosen(devices: Iterable[PciDevice], test: Callable[[PciDevice], bool | Unknown]) -> tuple[str, ...] | Unknown:
    """The bus ids of devices that pass *test*; Unknown where none does and one is unknown."""
    answers = [(device.bus_id, test(device)) for device in devices]
    found = tuple(bus for bus, answer in answers if answer is True)
    return found or next((answer for _, answer in answers if isinstance(answer, Unknown)), ())


def holds(args: Args, state: State) -> Holds | Fails:
    """Every GPU that should be there is on the bus, and answers."""
    if isinstance(state.gone, Unknown):
        raise ProbeError(state.gone.why)
    faults = [f"{', '.join(state.gone)} does not answer on the PCI bus"] if state.gone else []
    if state.missing:
        faults.append(f"{state.count} of {plural(args.expect_gpus, 'GPU')} are on the PCI bus")
    return Fails(why="; ".join(faults)) if faults else Holds(why=f"{plural(state.count, 'GPU')} on the PCI bus")


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the commands that a person would run by hand."""
    return (
        "lspci -Dnn -d 10de:      # (rev ff): fallen off the bus",
        "ls /proc/driver/nvidia/gpus /dev/nvidia[0-9]*",
        "grep . /sys/bus/pci/devices/*/{vendor,current_link_width,max_link_width} | grep -A2 0x10de",
    )
