"""Faults of a node that kernel messages report: drivers that fail, lockups, panics, broken hardware."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Literal, get_args

from runbook.dataclass import dataclass
from runbook.library.gpu.facts.gpu_needs import NOT_KNOWN_WHEN, GpuNeed
from runbook.library.gpu.facts.model import bus_id, bus_ids
from runbook.library.gpu.facts.xids import Need
from runbook.library.kernel.facts.events import Xid, when, xids
from runbook.library.kernel.facts.patterns import KINDS
from runbook.library.system.facts.kernel_messages import Message
from runbook.values.types import Unknown

BOOTING = 120.0  # seconds after a boot in which errors are said that mean nothing

NEAR = 4
"""Messages of the driver before or after the one with the fault that may name the GPU: a sentence may have several."""


MENDED_BY_LOADING: frozenset[str] = frozenset(
    {"other_driver", "nouveau_failed", "init_failed", "firmware_hung", "needs_reset", "api_mismatch"}
)
"""Faults of GPUs that are over, or reported again, once the driver has been reloaded."""

FaultOfGpu = Literal[
    "off_the_bus",
    "bus_error",
    "other_driver",
    "nouveau_failed",
    "init_failed",
    "firmware_hung",
    "needs_reset",
    "api_mismatch",
]
_FAULTS_OF_GPU: tuple[FaultOfGpu, ...] = get_args(FaultOfGpu)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFault:
    """A fault of a GPU that the driver tells without a number."""

    at: str | Unknown
    """When the kernel wrote the message: ISO 8601, UTC; unknown if the log has no time."""
    seconds: float | Unknown
    """When the kernel wrote the message, in seconds since 1970."""
    kind: FaultOfGpu
    """off_the_bus; bus_error: its PCI link failed for good; other_driver: another driver than NVIDIA's holds it;
    nouveau_failed: the driver nouveau has it and reports errors; init_failed: the driver could not start it;
    firmware_hung: its firmware does not answer; needs_reset; api_mismatch: the driver in the kernel and that of
    programs are of two versions.
    """
    bus_id: str
    """As sysfs writes it; empty where no message nearby names it."""
    text: str
    """The message of the kernel, at most 1000 characters."""
    ago: str | Unknown = NOT_KNOWN_WHEN
    """The time since then, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelFault:
    """Something that is wrong with the machine itself."""

    at: str | Unknown
    """When the kernel wrote the message: ISO 8601, UTC; unknown if the log has no time."""
    seconds: float | Unknown
    """When the kernel wrote the message, in seconds since 1970."""
    text: str
    """The message of the kernel, at most 1000 characters."""
    device: str = ""
    """The PCI address that it names last, as sysfs writes it; empty: none."""


_PCI = re.compile(r"\b(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\b", re.IGNORECASE)


def pci_device(text: str) -> str:
    """Return the PCI address that *text* names last, with its domain; empty: none."""
    named = _PCI.findall(text)
    return f"{named[-1][0][-4:] or '0000'}:{named[-1][1]}".lower() if named else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OomdKill:
    """A process that a program (systemd-oomd, earlyoom, Talos) ended for memory pressure, before the kernel had to."""

    at: str | Unknown
    """When the program wrote the message: ISO 8601, UTC; unknown if the log has no time."""
    seconds: float | Unknown
    """When the program wrote the message, in seconds since 1970."""
    cgroup: str
    """The control group that was killed; empty where it was a process (earlyoom)."""
    text: str
    """The message of the program, at most 1000 characters."""


def gpu_faults(messages: Sequence[Message]) -> tuple[GpuFault, ...]:
    """GPUs that the driver lost, cannot start or wants reset; what has a number stands among the Xids."""
    return tuple(gpu_fault for _, gpu_fault in _numbered_faults(messages))


def _numbered_faults(messages: Sequence[Message]) -> list[tuple[int, GpuFault]]:
    """Return ``gpu_faults`` with the numbers of their messages."""
    found: list[tuple[int, GpuFault]] = []
    for number, message in enumerate(messages):
        if KINDS["xid"].find(message.text):
            continue
        kind = next((kind for kind in _FAULTS_OF_GPU if KINDS[kind].find(message.text)), None)
        if kind:
            own = pci_device(message.text) if kind in ("bus_error", "nouveau_failed") else ""
            bus = own or _bus_of(messages, number)
            text = _mismatch(messages, number) if kind == "api_mismatch" else message.text.strip()
            found.append((number, GpuFault(**when(message), kind=kind, bus_id=bus, text=text)))
    return found


_VERSION = re.compile(r"\bversion \d+\.\d")
_REQUEST = re.compile(r"\s*\bPlease\b.*")


def _mismatch(messages: Sequence[Message], number: int) -> str:
    """Return the sentence of an API mismatch up to both versions: the driver writes it over several lines."""
    text = messages[number].text.strip()
    for message in messages[number + 1 : number + 1 + NEAR]:
        line = message.text.strip()
        if len(_VERSION.findall(text)) >= 2 or not line.startswith("NVRM: "):
            break
        text += " " + line.removeprefix("NVRM: ").strip()
    return _REQUEST.sub("", text)


_CLOCKS = 300.0
"""Seconds by which the time of a message may differ from the boot's: a clock is set again after a boot."""


def since_boot(messages: Sequence[Message], boot: float | None) -> tuple[Message, ...]:
    """Return the messages from the last boot on.

    The kernel's own first line says where that is; where the log does not hold it, the time of the *boot* does.
    """
    begun = [number for number, message in enumerate(messages) if KINDS["booted"].find(message.text)]
    if begun or boot is None:
        return tuple(messages[begun[-1] if begun else 0 :])
    return tuple(
        each for each in messages if each.since_boot is not None or each.at is None or each.at >= boot - _CLOCKS
    )


def last_loaded(messages: Sequence[Message]) -> int:
    """Return the number of the message about the last load of the driver; 0: there is none."""
    return max(
        (number for number, message in enumerate(messages) if KINDS["driver_loaded"].find(message.text)), default=0
    )


def last_resets(messages: Sequence[Message]) -> Mapping[str, int]:
    """The number of the message by which each GPU was reset last, by its bus id; the kernel itself does not say it.

    These are lines of ours, which root alone can write.
    """
    found = ((number, KINDS["gpu_reset"].find(message.text)) for number, message in enumerate(messages))
    return {bus_id(one[1]): number for number, one in found if one and bus_id(one[1])}


def xids_by_mending(messages: Sequence[Message]) -> tuple[tuple[Xid, ...], tuple[Xid, ...]]:
    """Xids from before the driver was loaded last, or the GPU was reset last; and those since."""
    loaded, resets = last_loaded(messages), last_resets(messages)
    found = [(number, xid) for number, message in enumerate(messages) for xid in xids((message,))]
    since = [number >= max(loaded, resets.get(xid.bus_id, 0)) for number, xid in found]
    return (
        tuple(xid for (_, xid), later in zip(found, since, strict=True) if not later),
        tuple(xid for (_, xid), later in zip(found, since, strict=True) if later),
    )


def open_faults(messages: Sequence[Message]) -> tuple[GpuFault, ...]:
    """Return the faults that neither reloading the driver nor a reset of the GPU has repaired."""
    loaded, resets = last_loaded(messages), last_resets(messages)
    return tuple(
        gpu_fault
        for number, gpu_fault in _numbered_faults(messages)
        if gpu_fault.kind not in MENDED_BY_LOADING or number >= max(loaded, resets.get(gpu_fault.bus_id, 0))
    )


def lost_gpus(needs: Iterable[GpuNeed], faults: Iterable[GpuFault]) -> tuple[str, ...]:
    """The bus ids of GPUs that only a reboot brings back: by the catalogue, or as they fell off the bus."""
    wanted = (gpu.bus_id for gpu in needs if gpu.need == Need.REBOOT and gpu.bus_id)
    fallen = (fault.bus_id for fault in faults if fault.kind == "off_the_bus" and fault.bus_id)
    return tuple(dict.fromkeys((*wanted, *fallen)))


def _bus_of(messages: Sequence[Message], number: int) -> str:
    """Return the GPU that this message of the driver names, or the nearest one named around it.

    An Xid begins a new sentence.  One that follows may be about the same GPU.  One before counts only if nothing else
    names a GPU.
    """
    before = messages[max(0, number - NEAR) : number][::-1]
    own = list(takewhile(lambda message: not KINDS["xid"].find(message.text), before))
    for message in (messages[number], *own, *messages[number + 1 : number + 1 + NEAR], *before):
        if "nvrm" in message.text.lower() and (named := bus_ids(message.text)):
            return named[0]
    return ""


def oomd_kills(messages: Iterable[Message]) -> tuple[OomdKill, ...]:
    """Return the processes that programs have ended for memory pressure."""
    found = ((message, KINDS["oomd"].find(message.text)) for message in messages)
    return tuple(
        OomdKill(**when(message), cgroup=match["oomd"] or match["talos"] or "", text=message.text.strip())
        for message, match in found
        if match
    )


def faults(kind: str, messages: Iterable[Message]) -> tuple[KernelFault, ...]:
    """The messages of *kind*: one of ``KINDS``, such as ``lockup`` or ``hardware``."""
    return tuple(
        KernelFault(**when(message), text=message.text.strip(), device=pci_device(message.text))
        for message in messages
        if KINDS[kind].find(message.text)
    )


def other_errors(messages: Iterable[Message]) -> tuple[KernelFault, ...]:
    """Return the errors of no known kind, except those during boot, such as errors of devices that are not there."""
    return tuple(
        KernelFault(**when(message), text=message.text.strip())
        for message in messages
        if (message.since_boot or 0) > BOOTING and not any(kind.find(message.text) for kind in KINDS.values())
    )


def missed(messages: Iterable[Message]) -> tuple[float | None, int]:
    """Return the time when the journal first lost kernel messages, and the number of all lost ones, by its own
    messages.
    """
    found = [(message, match) for message in messages if (match := KINDS["missed"].find(message.text))]
    return (found[0][0].at if found else None), sum(int(match[1]) for _, match in found)
