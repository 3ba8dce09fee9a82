"""Read the state of the GPUs in the NVLink fabric: NVSwitches, the fabric manager, and the registration of each GPU.

A GPU is in the fabric only if its state is `Completed` and its status `Success`. The bus, the driver's version and the
service are read without the driver's help; nvidia-smi is asked once. A host without NVSwitches whose GPUs report no
fabric needs no fabric manager, and one that fails there says `NV_WARN_NOTHING_TO_DO`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.gpu.facts.health_query import NOT_REPORTED, GpuHealth, read_health
from runbook.library.gpu.facts.pci import PciReading, ask_pci, read_pci
from runbook.library.gpu.facts.smi_answer import SmiAnswer, SmiCondition
from runbook.library.gpu.facts.smi_answer import condition as smi_condition
from runbook.library.gpu.facts.smi_output import one_line
from runbook.library.gpu.facts.smi_query import ask_gpus, ask_presence, read_gpus, read_presence
from runbook.library.gpu.facts.verdict import in_fabric
from runbook.library.kernel.facts.modules import ask_module, read_module
from runbook.library.processes.facts.known_daemons import REALLY
from runbook.library.system.facts.systemd_units import ask_unit, condition, is_up, read_unit
from runbook.protocols import Absent, Fails, Holds, Probe
from runbook.shell import script
from runbook.values.command import Command, Completed, read_script
from runbook.values.types import Unknown, plural

UNIT = "nvidia-fabricmanager"
FIELDS = "fabric.state,fabric.status"
NOTHING_TO_DO = "NV_WARN_NOTHING_TO_DO"
"""The last message of a manager that finds no NVSwitch; on Blackwell also of one without a subnet manager (NVLSM)."""

_VERSION = re.compile(r"Fabric Manager version is\s*:?\s*([0-9]+(?:\.[0-9]+)+)", re.IGNORECASE)
_TROUBLE = re.compile(
    r"error|fail|fatal|don't match|doesn't match|mismatch|nothing to do|not ready|abort", re.IGNORECASE
)
_OF_SYSTEMD = re.compile(r"\S+\.service: |Starting |Started |Stopp|Failed to start ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    """Nothing has to be said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The fabric of the host."""

    smi: str = "answers"
    """The kind of nvidia-smi's answer: answers, hung, mismatch, no_driver, no_devices, not_installed ..."""
    smi_said: str = ""
    """The reason why nvidia-smi gave no answer; empty if it answered."""
    switches: int = 0
    """NVSwitches that this host shows."""
    states: tuple[str, ...] | Unknown = ()
    """A line for each GPU that reports a fabric, with its state and status."""
    incomplete: tuple[str, ...] | Unknown = ()
    """The GPUs of `states` whose registration with the fabric is not complete."""
    complete: int | Unknown = 0
    """The number of GPUs that are registered with the fabric."""
    unlisted: tuple[str, ...] = ()
    """Bus ids of GPUs on the bus that nvidia-smi does not list; nothing else is known about them."""
    needed: bool | Unknown = False
    """Whether there is a fabric to manage: NVSwitches on this host, or GPUs in `incomplete`."""
    installed: bool = False
    """Whether there is a fabric manager on this host."""
    running: bool = False
    """Whether its process runs."""
    version: str | Unknown = ""
    """The version of the installed fabric manager."""
    driver: str | Unknown = ""
    """The version of the loaded driver."""
    agree: bool | Unknown = True
    """Whether the two versions are the same, as they must be."""
    unit: str | Unknown = ""
    """The state of the service nvidia-fabricmanager, in words."""
    at_boot: str = ""
    """Whether it starts at boot: enabled, disabled, masked ..."""
    startable: bool = False
    """Whether systemd has the service, and may start it."""
    nothing_to_do: bool = False
    """Whether it has said NV_WARN_NOTHING_TO_DO since the host was booted."""
    said: str = ""
    """The last trouble that it wrote to the journal since the boot."""
    container: bool = False
    """Whether the host is a container: the manager is outside."""


def ask_manager() -> Command:
    """One script on NVSwitches, and on the fabric manager: its version, its process and its last words."""
    return read_script(_ASK, UNIT)


_ASK = REALLY + script(__package__, "fabric_manager")


def probe(args: Args) -> Probe[State]:
    """Ask the bus, the driver's module, systemd and the journal; then nvidia-smi, once."""
    bus, module, present, unit, manager = yield (
        ask_pci(),
        ask_module("nvidia"),
        ask_presence(),
        ask_unit(UNIT),
        ask_manager(),
    )
    pci = read_pci(bus)
    presence = read_presence(present)
    if presence.absent and not any(device.kind == "nvswitch" for device in pci.devices):
        return Absent(why="no NVIDIA GPU", state=State(container=pci.container))
    done: Completed = yield ask_gpus(groups=(FIELDS,))
    facts, driver, registered = facts_of(manager), _driver(module), _registered(done)
    version, service = version_of(facts), _service(unit)
    switches = _switches(pci, facts)
    missing = registered.incomplete
    return State(
        smi=str(registered.smi.condition),
        smi_said=registered.smi.why,
        switches=switches,
        states=registered.states,
        incomplete=missing,
        complete=registered.complete,
        unlisted=presence.unlisted(registered.listed) if registered.listed else (),
        needed=bool(switches) or (missing if isinstance(missing, Unknown) else bool(missing)),
        installed=("installed", "") in facts or service.known,
        running=("running", "") in facts,
        version=version,
        driver=driver,
        agree=_agree(version, driver),
        unit=service.words,
        at_boot=service.at_boot,
        startable=service.startable and not pci.container,
        nothing_to_do=nothing_to_do(facts),
        said=trouble(facts),
        container=pci.container,
    )


def _switches(pci: PciReading, facts: Sequence[tuple[str, str]]) -> int:
    """Return the number of this host's NVSwitches; a container sees those of the machine, and cannot manage them."""
    if pci.container:
        return 0
    return max(sum(device.kind == "nvswitch" for device in pci.devices), sum(fact == ("switch", "") for fact in facts))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Service:
    """The state of the service, by systemd."""

    words: str | Unknown
    known: bool = False
    at_boot: str = ""
    startable: bool = False


def _service(done: Completed) -> _Service:
    try:
        unit = read_unit(UNIT, done).unit
    except ProbeError as error:
        return _Service(words=Unknown(why=str(error)))
    if unit is None:
        return _Service(words=Unknown(why="systemd does not run this host"))
    if unit.load == "not-found":
        return _Service(words=f"there is no {UNIT}.service")
    startable = unit.load == "loaded" and not is_up(unit)
    return _Service(words=condition(unit), known=True, at_boot=unit.enabled, startable=startable)


def facts_of(done: Completed) -> tuple[tuple[str, str], ...]:
    """Name and value of each fact.  Raises ProbeError where the script did not come to its end."""
    facts = tuple(
        (name, one_line(value)) for name, _, value in (line.partition("\t") for line in done.stdout.split("\n"))
    )
    if done.timed_out or ("end", "") not in facts:
        raise ProbeError("the fabric manager could not be inspected" + (" in time" if done.timed_out else ""))
    return facts


def nothing_to_do(facts: Sequence[tuple[str, str]]) -> bool:
    """Whether it has said that it found no NVSwitch."""
    return any(name == "said" and NOTHING_TO_DO in words for name, words in facts)


def trouble(facts: Sequence[tuple[str, str]]) -> str:
    """Return the last own line of the manager in the journal that reports a fault; empty: there is none."""
    said = [words for name, words in facts if name == "said"]
    return next((word for word in reversed(said) if _TROUBLE.search(word) and not _OF_SYSTEMD.match(word)), "")


def version_of(facts: Sequence[tuple[str, str]]) -> str | Unknown:
    """Return the version in the answer of `nv-fabricmanager --version`."""
    lines = [words for name, words in facts if name == "version"]
    found = next((found[1] for line in lines if (found := _VERSION.search(line))), "")
    if found:
        return found
    why = "nv-fabricmanager does not say its version" if ("installed", "") in facts else "there is no nv-fabricmanager"
    return Unknown(why=why)


def _driver(done: Completed) -> str | Unknown:
    try:
        return read_module("nvidia", done).version
    except ProbeError as error:
        return Unknown(why=str(error))


def _agree(version: str | Unknown, driver: str | Unknown) -> bool | Unknown:
    if isinstance(version, Unknown):
        return version
    return driver if isinstance(driver, Unknown) else version == driver


@dataclass(frozen=True, slots=True, kw_only=True)
class _Registered:
    """The registration of GPUs with the fabric, by nvidia-smi."""

    smi: SmiAnswer
    states: tuple[str, ...] | Unknown
    incomplete: tuple[str, ...] | Unknown
    complete: int | Unknown
    listed: tuple[str, ...] = ()
    """Bus ids of the GPUs that it lists."""


def _registered(done: Completed) -> _Registered:
    try:
        rows, health = read_gpus(done).gpus, read_health(done)
    except ProbeError as error:
        smi = smi_condition(done, str(error))
        blind = Unknown(why=smi.why)
        return _Registered(smi=smi, states=blind, incomplete=blind, complete=blind)
    lines, missing, silent = [], [], None
    for gpu in rows:
        one = health.get(str(gpu.index), GpuHealth())
        answer = in_fabric(one)
        if one.fabric_state == NOT_REPORTED or (answer is True and one.fabric_state != "Completed"):
            continue  # a GPU that has no fabric; a driver that does not know the column has no GPU with one
        if isinstance(answer, Unknown):
            silent = Unknown(why=f"GPU {gpu.index} ({gpu.key}) does not say how it stands in the fabric: {answer.why}")
            continue
        status = "no status" if isinstance(one.fabric_status, Unknown) else one.fabric_status
        lines.append(f"GPU {gpu.index} ({gpu.bus_id or gpu.uuid}): {one.fabric_state}, {status}")
        missing += [] if answer else [lines[-1]]
    return _Registered(
        smi=smi_condition(done),
        states=tuple(lines) or silent or (),
        incomplete=tuple(missing) or silent or (),
        complete=silent or len(lines) - len(missing),
        listed=tuple(gpu.bus_id for gpu in rows),
    )


def holds(args: Args, state: State) -> Holds | Fails:
    """Every GPU that has a fabric is registered with it, and where this host needs a fabric manager, it runs."""
    if state.smi != SmiCondition.ANSWERS:
        raise ProbeError(state.smi_said)
    if isinstance(state.incomplete, Unknown):
        raise ProbeError(state.incomplete.why)
    if state.incomplete:
        return Fails(why=f"not in the NVLink fabric: {'; '.join(state.incomplete)}")
    if isinstance(state.complete, Unknown):
        raise ProbeError(state.complete.why)
    if state.unlisted:
        raise ProbeError(f"nvidia-smi does not list {', '.join(state.unlisted)}")
    if state.needed and not state.running:
        return Fails(why=f"{plural(state.switches, 'NVSwitch', 'NVSwitches')}, and no fabric manager runs")
    return Holds(why=f"{plural(state.complete, 'GPU')} registered with the fabric")


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the commands that a person would run by hand."""
    return (
        "ls /proc/driver/nvidia-nvswitch/devices; lspci -Dnn -d 10de: | grep '\\[0680\\]'      # NVSwitches",
        "nv-fabricmanager --version; cat /sys/module/nvidia/version      # must be the same",
        f"systemctl status {UNIT}; journalctl -b -u {UNIT} -n 40",
        f"timeout -k 5 60 nvidia-smi --query-gpu=index,pci.bus_id,{FIELDS} --format=csv",
    )
