"""Give each GPU one verdict: healthy, unknown, or its most urgent fault.

The PCI bus, the driver's own table, and the versions of driver and library are read first, because they answer even
while the driver hangs.  nvidia-smi is queried once, but not while an earlier nvidia-smi hangs in the driver, and not
if the driver is not loaded.  A GPU is healthy only if every value that is needed for this verdict is known:
`not_checked` names the values that this driver does not report.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import field, replace

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.gpu.facts.amd import AMD_SMI, NOT_TOLD, amd_hung, ask_amd, read_amd, read_amd_health
from runbook.library.gpu.facts.health_query import OLD_REASONS, REASONS, GpuHealth, ask_health, read_health
from runbook.library.gpu.facts.model import Gpu, GpuPresence, SmiReading
from runbook.library.gpu.facts.pci import PciDevice, PciReading, amd_device, ask_pci, read_pci
from runbook.library.gpu.facts.smi_answer import SmiAnswer, SmiCondition
from runbook.library.gpu.facts.smi_answer import condition as smi_condition
from runbook.library.gpu.facts.smi_output import SMI
from runbook.library.gpu.facts.smi_query import ask_presence, read_gpus, read_presence
from runbook.library.gpu.facts.utilisation import complaints
from runbook.library.gpu.facts.verdict import Condition, GpuVerdict, Seen, verdicts
from runbook.library.kernel.facts.modules import KernelModule, ask_module, read_module
from runbook.protocols import Absent, Fails, Holds, Probe
from runbook.values.command import Command, Completed
from runbook.values.types import Unknown, plural

LIBRARY = "libnvidia-ml.so.1"
"""The library of nvidia-smi and of every CUDA program; its version must be the version of the driver."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    expect_gpus: int = field(default=0, metadata={"minimum": 0})
    """The number of GPUs that the host should have; 0: not checked."""
    lost: tuple[str, ...] = ()
    """Bus ids of GPUs that the kernel calls lost (`lost_gpus` of kernel_log)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The GPUs, each with its verdict; lists give GPUs by index and bus id, with the reason."""

    gpus: tuple[GpuVerdict, ...] = ()
    """Each GPU: bus_id, index, uuid, name, verdict (healthy, unknown, or the most urgent condition), conditions, why,
    not_checked.
    """
    verdicts: tuple[str, ...] = ()
    """A line for each of `gpus`, with its reasons."""
    ill: tuple[str, ...] = ()
    """Bus ids of the GPUs that are not healthy."""
    off_the_bus: tuple[str, ...] = ()
    """Bus ids of the GPUs in `lost`."""
    smi: str = "answers"
    """The kind of the answer of `tool`: answers, hung, mismatch (driver and library of two versions), no_driver,
    no_devices, not_installed, failed.
    """
    smi_said: str = ""
    """The reason why nvidia-smi gave no answer; empty if it answered."""
    on_bus: int = 0
    """The number of GPUs on the PCI bus."""
    in_driver: int | Unknown = 0
    """The number of GPUs in the driver's own table."""
    listed: int | Unknown = 0
    """The number of GPUs that nvidia-smi lists."""
    missing: int | Unknown = 0
    """The number of expected GPUs (`expect_gpus`) that are missing on the bus, in the driver or in nvidia-smi."""
    healthy: int = 0
    """The number of healthy GPUs."""
    lost: tuple[str, ...] | Unknown = ()
    """GPUs that have fallen off the bus."""
    not_started: tuple[str, ...] | Unknown = ()
    """GPUs that are on the bus, or have a device node, but are missing in the driver or in nvidia-smi."""
    need_reboot: tuple[str, ...] | Unknown = ()
    """GPUs for which the driver requires more than a reset."""
    need_service: tuple[str, ...] | Unknown = ()
    """GPUs that need the vendor's service: a failed row remapping, too many SRAM errors, a corrupted infoROM."""
    need_reset: tuple[str, ...] | Unknown = ()
    """GPUs that require a reset according to the driver."""
    no_values: tuple[str, ...] | Unknown = ()
    """GPUs without a value that every healthy GPU has."""
    one_value: tuple[str, ...] | Unknown = ()
    """GPUs with exactly one value (power, a clock) that cannot be read, and no other fault."""
    memory_errors: tuple[str, ...] | Unknown = ()
    """GPUs with uncorrected memory errors since the driver was loaded."""
    memory_waits: tuple[str, ...] | Unknown = ()
    """GPUs whose memory waits for a reset (rows to be remapped, pages to be retired)."""
    narrow: tuple[str, ...] | Unknown = ()
    """GPUs whose link uses fewer PCI lanes than both device and slot support."""
    slowed: tuple[str, ...] | Unknown = ()
    """GPUs that the hardware slows down, because of heat or the power brake of the chassis."""
    warm: tuple[str, ...] | Unknown = ()
    """GPUs that the driver slows down because of heat."""
    too_hot: tuple[str, ...] | Unknown = ()
    """The GPUs in `slowed` that are slowed down because of heat."""
    braked: tuple[str, ...] | Unknown = ()
    """The GPUs in `slowed` that are slowed down by the power supply of the chassis (power brake)."""
    capped: tuple[str, ...] | Unknown = ()
    """GPUs that run at their power limit; this is normal under full load."""
    limited: tuple[str, ...] | Unknown = ()
    """GPUs whose power limit is set below the default."""
    held_back: tuple[str, ...] | Unknown = ()
    """GPUs whose power limit is more than a quarter below the default, or below that of an equal GPU; none if
    `held_alike` has them."""
    held_alike: tuple[str, ...] | Unknown = ()
    """All GPUs of the host, if the power limit of each is more than a quarter below the default, and equal GPUs have
    equal limits: most likely set on purpose."""
    waiting: tuple[str, ...] | Unknown = ()
    """GPUs that were 100 % busy in every reading, with memory in use, at less than a third of their power limit, as in
    a program that waits or hangs."""
    not_in_fabric: tuple[str, ...] | Unknown = ()
    """GPUs that have not joined the NVLink fabric completely."""
    unlicensed: tuple[str, ...] | Unknown = ()
    """Shares of a GPU (vGPU) without a license, so that the driver slows them down."""
    mig_waits: tuple[str, ...] | Unknown = ()
    """GPUs whose MIG mode will change at the next reset."""
    unknown: tuple[str, ...] = ()
    """GPUs whose health is not known."""
    no_persistence: tuple[str, ...] | Unknown = ()
    """GPUs without persistence mode, so that the driver starts again for each program."""
    not_checked: tuple[str, ...] = ()
    """Checks for which this driver reports no value, each once, with the reason."""
    complaints: tuple[str, ...] = ()
    """The error messages that nvidia-smi printed beside its rows."""
    driver: str | Unknown = ""
    """The version of the loaded driver."""
    installed: str | Unknown = ""
    """The version of the installed driver, as reported by modinfo."""
    library: str | Unknown = ""
    """The version of libnvidia-ml.so.1."""
    health: Mapping[str, GpuHealth] = field(default_factory=dict)
    """By bus id: ecc_volatile, ecc_aggregate, remapped_correctable, remapped_uncorrectable, link_width, reasons,
    power_draw, power_limit (W), clock (MHz), temperature_memory, headroom ...
    """
    temperatures: Mapping[str, float | Unknown] = field(default_factory=dict)
    """The temperature of each GPU in degrees Celsius, by bus id."""
    boot_id: str | Unknown = ""
    """The kernel's id of this boot."""
    tool: str = "nvidia-smi"
    """The vendor's program that lists the GPUs: nvidia-smi, or amd-smi on a host with AMD's GPUs."""


def probe(args: Args) -> Probe[State]:
    """Read first what answers without the driver, then query nvidia-smi if the driver is loaded."""
    bus, versions, present = yield ask_pci(), ask_module("nvidia", LIBRARY), ask_presence()
    pci = read_pci(bus)
    module = _module(versions)
    presence = read_presence(present)
    if presence.absent and (presence.amd_nodes or (presence.accelerators and not presence.container)):
        return (yield from _amd(args, presence, pci.boot_id))
    if presence.absent and not (isinstance(module, KernelModule) and module.loaded):
        return Absent(why="no NVIDIA GPU", state=State(missing=args.expect_gpus, boot_id=pci.boot_id))
    unloaded = isinstance(module, KernelModule) and not module.loaded and isinstance(pci.cards, Unknown)
    if unloaded and pci.devices and not pci.nodes:
        said = "the NVIDIA driver is not loaded; nvidia-smi, which would load it, was not run"
        return _state(args, pci, presence, module, SmiAnswer(condition=SmiCondition.NO_DRIVER, why=said), None, {})
    done: Completed = yield ask_health()
    try:
        reading, health = read_gpus(done), read_health(done)
        return _state(args, pci, presence, module, smi_condition(done), reading, health)
    except ProbeError as error:
        return _state(args, pci, presence, module, smi_condition(done, str(error)), None, {})


LIMITS = ("power limits: they are not read on AMD's GPUs",)


def _amd(args: Args, presence: GpuPresence, boot_id: str | Unknown) -> Generator[Command, Completed, State]:
    """Judge AMD's GPUs by what the kernel and amd-smi tell; what AMD's driver never reports is in `not_checked`."""
    amd = presence.amd if presence.amd_nodes else None
    rows: tuple[Gpu, ...] | Unknown = ()
    smi, said = SmiAnswer(condition=SmiCondition.ANSWERS), tuple[str, ...]()
    health: Mapping[str, GpuHealth] = {}
    unlisted = ""
    if amd:
        if amd.doubt:
            raise ProbeError(amd.doubt)
        done = yield ask_amd(amd)
        try:
            reading = read_amd(done, amd)
            rows, health, said = reading.gpus, read_amd_health(done, reading), reading.errors
            unlisted = reading.unlisted
        except ProbeError as error:
            rows = Unknown(why=str(error))
            kind = SmiCondition.HUNG if amd_hung(done) else SmiCondition.FAILED
            smi = SmiAnswer(condition=kind, why=str(error))
    in_driver = tuple(amd.minors) if amd else ()
    on_bus = amd.on_bus if amd else presence.accelerators
    devices = {bus: amd_device(bus) for bus in on_bus}
    found = verdicts(
        Seen(
            devices=devices,
            gpus=rows,
            health=health,
            lost_in_log=args.lost,
            cards=in_driver,
            presence=amd or replace(presence, on_bus=on_bus),
            tool=AMD_SMI,
            unlisted=unlisted,
        )
    )
    listed = rows if isinstance(rows, Unknown) else len(rows)
    known_rows = () if isinstance(rows, Unknown) else rows
    checks = dict.fromkeys((*(check for gpu in found for check in gpu.not_checked), *(LIMITS if listed else ()), *said))
    return State(
        gpus=found,
        verdicts=tuple(map(str, found)),
        ill=_buses(found, lambda gpu: gpu.verdict != "healthy"),
        off_the_bus=_buses(found, lambda gpu: Condition.LOST in gpu.conditions),
        smi=str(smi.condition),
        smi_said=smi.why,
        on_bus=len(on_bus),
        in_driver=len(in_driver),
        listed=listed,
        missing=_missing(args, len(on_bus), listed, container=presence.container),
        healthy=sum(gpu.verdict == "healthy" for gpu in found),
        unknown=tuple(_short(gpu) for gpu in found if gpu.verdict == "unknown"),
        not_checked=tuple(checks),
        complaints=() if unlisted else said,
        driver=rows if isinstance(rows, Unknown) else next((gpu.driver for gpu in rows), ""),
        health={gpu.bus_id: health[str(gpu.index)] for gpu in known_rows},
        temperatures={gpu.bus_id: gpu.temperature for gpu in known_rows},
        boot_id=boot_id,
        installed=NOT_TOLD,
        library=NOT_TOLD,
        tool=AMD_SMI,
        **_lists(found, (), rows),
    )


def _module(done: Completed) -> KernelModule | Unknown:
    try:
        return read_module("nvidia", done)
    except ProbeError as error:
        return Unknown(why=str(error))


def _versions(module: KernelModule | Unknown) -> Sequence[str | Unknown]:
    """Return the versions of the loaded driver, the installed one, and the library."""
    return [module] * 3 if isinstance(module, Unknown) else (module.version, module.installed, module.library)


def _buses(verdicts: Iterable[GpuVerdict], counts: Callable[[GpuVerdict], bool]) -> tuple[str, ...]:
    return tuple(gpu.bus_id for gpu in verdicts if counts(gpu))


def _state(
    args: Args,
    pci: PciReading,
    presence: GpuPresence,
    module: KernelModule | Unknown,
    smi: SmiAnswer,
    reading: SmiReading | None,
    health: Mapping[str, GpuHealth],
) -> State:
    rows: tuple[Gpu, ...] | Unknown = reading.gpus if reading else Unknown(why=smi.why)
    known_rows = () if isinstance(rows, Unknown) else rows
    devices = {
        device.bus_id: device for device in pci.devices if device.kind == "gpu" and device.driver in ("", "nvidia")
    }
    found = verdicts(
        Seen(
            devices=devices,
            gpus=rows,
            health=health,
            lost=reading.lost if reading else (),
            lost_in_log=args.lost,
            bad_inforom=reading.bad_inforom if reading else (),
            cards=pci.cards,
            other_drivers=sum(device.kind == "gpu" for device in pci.devices) - len(devices),
            presence=presence,
        )
    )
    listed = rows if isinstance(rows, Unknown) else len(rows)
    held_back = _held_back(rows, health)
    alike = _all_alike(known_rows, health, held_back)
    bus_of = {str(gpu.index): gpu.bus_id or gpu.key for gpu in known_rows}
    version, installed, library = _versions(module)
    return State(
        gpus=found,
        verdicts=tuple(map(str, found)),
        ill=_buses(found, lambda gpu: gpu.verdict != "healthy"),
        off_the_bus=_buses(found, lambda gpu: Condition.LOST in gpu.conditions),
        smi=str(smi.condition),
        smi_said=smi.why,
        on_bus=len(devices),
        in_driver=pci.cards if isinstance(pci.cards, Unknown) else len(pci.cards),
        listed=listed,
        missing=_missing(args, len(devices), listed, container=pci.container),
        healthy=sum(gpu.verdict == "healthy" for gpu in found),
        unknown=tuple(_short(gpu) for gpu in found if gpu.verdict == "unknown"),
        no_persistence=_without_persistence(rows),
        not_checked=tuple(dict.fromkeys(check for gpu in found for check in gpu.not_checked)),
        complaints=complaints(reading) if reading else (),
        driver=version,
        installed=installed,
        library=library,
        health={bus_of[index]: it for index, it in health.items() if index in bus_of},
        temperatures={gpu.bus_id: gpu.temperature for gpu in known_rows},
        boot_id=pci.boot_id,
        too_hot=_slow(rows, health, "hardware thermal slowdown"),
        braked=_slow(rows, health, "hardware power brake"),
        capped=_slow(rows, health, "software power cap"),
        limited=_limited(rows, health),
        held_back=() if alike else held_back,
        held_alike=held_back if alike else (),
        waiting=_waiting(rows, health),
        tool=SMI,
        **_lists(found, pci.devices, rows),
    )


_LISTS = {
    "lost": Condition.LOST,
    "not_started": Condition.NOT_STARTED,
    "need_reboot": Condition.REBOOT,
    "need_service": Condition.BROKEN,
    "need_reset": Condition.RESET,
    "no_values": Condition.NO_VALUES,
    "one_value": Condition.ONE_VALUE,
    "memory_errors": Condition.ERRORS,
    "memory_waits": Condition.WAITS,
    "narrow": Condition.NARROW,
    "slowed": Condition.SLOWED,
    "warm": Condition.WARM,
    "not_in_fabric": Condition.FABRIC,
    "unlicensed": Condition.UNLICENSED,
    "mig_waits": Condition.MIG_WAITS,
}


def _lists(
    found: Sequence[GpuVerdict], devices: Iterable[PciDevice], rows: tuple[Gpu, ...] | Unknown
) -> Mapping[str, tuple[str, ...] | Unknown]:
    """Return the GPUs with each condition; Unknown if there are none and a source gave no answer."""
    silent = next((device.gone for device in devices if isinstance(device.gone, Unknown)), ())
    made: dict[str, tuple[str, ...] | Unknown] = {}
    for name, wanted in _LISTS.items():
        those = tuple(f"{_short(gpu)}: {gpu.reason(wanted)}" for gpu in found if wanted in gpu.conditions)
        none: tuple[str, ...] | Unknown = ()
        if isinstance(rows, Unknown):
            none = silent if wanted is Condition.LOST else rows
        made[name] = those or none
    return made


def _slow(rows: tuple[Gpu, ...] | Unknown, health: Mapping[str, GpuHealth], reason: str) -> tuple[str, ...] | Unknown:
    """Return the GPUs whose clocks are low because of *reason*, with temperature and power."""
    if isinstance(rows, Unknown):
        return rows
    found = []
    silent: tuple[str, ...] | Unknown = ()
    for gpu in rows:
        one = health.get(str(gpu.index), GpuHealth())
        if isinstance(one.reasons, Unknown):
            silent = silent if REASONS in one.not_applicable or OLD_REASONS in one.not_applicable else one.reasons
        elif reason in one.reasons:
            found.append(f"GPU {gpu.index} ({gpu.bus_id}): {_conditions(gpu, one)}")
    return tuple(found) or silent


def _conditions(gpu: Gpu, health: GpuHealth) -> str:
    """Return the known temperature, power and clock of a GPU as text."""
    values = (
        (gpu.temperature, "{:.0f} degrees"),
        (health.power_draw, "{:.0f} W"),
        (health.power_limit, "limit {:.0f} W"),
        (health.clock, "{:.0f} MHz"),
        (health.clock_max, "of {:.0f} MHz"),
    )
    return ", ".join(form.format(value) for value, form in values if not isinstance(value, Unknown))


def _limited(rows: tuple[Gpu, ...] | Unknown, health: Mapping[str, GpuHealth]) -> tuple[str, ...] | Unknown:
    if isinstance(rows, Unknown):
        return rows
    found = []
    for gpu in rows:
        one = health.get(str(gpu.index), GpuHealth())
        limit, usual = one.power_limit, one.power_default
        if isinstance(limit, float) and isinstance(usual, float) and limit < usual:
            found.append(f"GPU {gpu.index} ({gpu.bus_id}): {limit:.0f} W of {usual:.0f} W")
    return tuple(found)


HELD_BACK = 0.75
"""The fraction of the usual power limit below which a GPU is reported; a job on several GPUs waits for the slowest."""


def _held_back(rows: tuple[Gpu, ...] | Unknown, health: Mapping[str, GpuHealth]) -> tuple[str, ...] | Unknown:
    if isinstance(rows, Unknown):
        return rows
    limits = {gpu.index: health.get(str(gpu.index), GpuHealth()).power_limit for gpu in rows}
    found = []
    for gpu in rows:
        equals = [limits[other.index] for other in rows if gpu.name and other.name == gpu.name]
        usual = [health.get(str(gpu.index), GpuHealth()).power_default, *equals]
        most = max((watts for watts in usual if isinstance(watts, float)), default=0.0)
        limit = limits[gpu.index]
        if isinstance(limit, float) and limit < HELD_BACK * most:
            found.append(f"GPU {gpu.index} ({gpu.bus_id}): {limit:.0f} W of {most:.0f} W")
    return tuple(found)


def _all_alike(rows: Sequence[Gpu], health: Mapping[str, GpuHealth], held_back: tuple[str, ...] | Unknown) -> bool:
    """Whether all GPUs are held back, and equal ones to equal limits: no GPU is slower than its equals."""
    if isinstance(held_back, Unknown) or not rows or len(held_back) < len(rows):
        return False
    limits = {(gpu.name, str(health.get(str(gpu.index), GpuHealth()).power_limit)) for gpu in rows}
    return len(limits) == len({gpu.name for gpu in rows})


FULLY_BUSY = 99.0
"""The utilization in percent from which a GPU counts as always busy: a kernel was running all the time."""
WORKING = 1 / 3
"""The fraction of its power limit that a GPU draws at least while it computes; one that waits in a collective of NCCL
has a kernel running that does nothing."""
CONTEXT = 256.0
"""The memory in MiB that a program needs at least on a GPU (its CUDA context)."""


def _waiting(rows: tuple[Gpu, ...] | Unknown, health: Mapping[str, GpuHealth]) -> tuple[str, ...] | Unknown:
    if isinstance(rows, Unknown):
        return rows
    found = []
    for gpu in rows:
        one = health.get(str(gpu.index), GpuHealth())
        readings = gpu.samples or (gpu.utilization,)
        known = [percent for percent in readings if isinstance(percent, float) and percent >= FULLY_BUSY]
        draw, limit, memory = one.power_draw, one.power_limit, gpu.memory_used
        if len(known) < len(readings) or not isinstance(memory, float) or memory < CONTEXT:
            continue
        if isinstance(draw, float) and isinstance(limit, float) and draw < WORKING * limit:
            often = f"in {len(known)} readings" if len(known) > 1 else "now"
            found.append(
                f"GPU {gpu.index} ({gpu.bus_id}): {min(known):.0f} % {often}, {draw:.0f} W of {limit:.0f} W,"
                f" {memory:.0f} MiB in use"
            )
    return tuple(found)


def _short(gpu: GpuVerdict) -> str:
    return (
        f"GPU {gpu.index} ({gpu.bus_id})"
        if not isinstance(gpu.index, Unknown)
        else f"GPU {gpu.bus_id or gpu.uuid or gpu.name}"
    )


def _missing(args: Args, on_bus: int, listed: int | Unknown, *, container: bool) -> int | Unknown:
    """Return how many of the expected GPUs are missing on the bus or in nvidia-smi, whichever number is higher."""
    if not args.expect_gpus:
        return 0
    lacking_on_bus = 0 if container else max(0, args.expect_gpus - on_bus)
    if isinstance(listed, Unknown):
        return lacking_on_bus or listed
    return max(lacking_on_bus, args.expect_gpus - listed, 0)


def _without_persistence(rows: tuple[Gpu, ...] | Unknown) -> tuple[str, ...] | Unknown:
    if isinstance(rows, Unknown):
        return rows
    return tuple(f"GPU {gpu.index} ({gpu.bus_id})" for gpu in rows if gpu.persistence is False)


def holds(args: Args, state: State) -> Holds | Fails:
    """Check that every GPU is healthy, and that there are as many as expected."""
    if state.smi == SmiCondition.HUNG:
        raise ProbeError(state.smi_said)
    ill = [str(gpu) for gpu in state.gpus if gpu.verdict != "healthy"]
    if isinstance(state.missing, Unknown) or state.missing:
        words = state.missing.why if isinstance(state.missing, Unknown) else f"{plural(state.missing, 'GPU')} missing"
        ill.append(words)
    return Fails(why="; ".join(ill)) if ill else Holds(why=f"{plural(state.healthy, 'GPU')} healthy")


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the commands that a person would run, first those that answer without the driver."""
    fields = "index,pci.bus_id,gpu_recovery_action,ecc.errors.uncorrected.volatile.total,remapped_rows.pending"
    return (
        "lspci -Dnn -d 10de:; ls /proc/driver/nvidia/gpus; cat /proc/driver/nvidia/version",
        "ps -eo pid,stat,wchan:32,etime,args | grep '[n]vidia-smi'      # in state D: do not run another one",
        f"timeout -k 5 60 nvidia-smi --query-gpu={fields} --format=csv",
    )
