"""Hardware errors in the kernel's log: a record of several lines counts as a whole, by its headline."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import field

from runbook.dataclass import dataclass
from runbook.library.kernel.facts.events import when
from runbook.library.kernel.facts.faults import GpuFault, KernelFault, faults, pci_device
from runbook.library.system.facts.kernel_messages import Message

_LINE = re.compile(r"^(?:mce: )?(?:\{(\d+)\})?\[Hardware Error\]:\s*(.*)", re.IGNORECASE)
"""A line of a record: of APEI with a number in braces, of the decoder of machine checks without one."""
_PREFACE = re.compile(r"Machine check events? logged", re.IGNORECASE)
_HEADLINE = re.compile(
    r"(?:event severity|^error \d+, type): (?P<severity>\w+)"  # drivers/acpi/apei, drivers/firmware/efi/cper.c
    r"|^(?P<decoded>corrected|deferred|uncorrected|fatal|system fatal)\b[^:]*error"  # drivers/edac/mce_amd.c
    r"|has been (?P<healed>corrected) by h/w",
    re.IGNORECASE,
)
_COUNTED = re.compile(r"\bEDAC .*\b[1-9]\d* (?P<kind>CE|UE)\b")
"""A line of EDAC with the errors of a memory module: corrected (CE), or not (UE)."""
_HARMLESS = frozenset({"corrected", "deferred", "info", "informational"})
"""Deferred: wrong data was found and marked, and no program has used it."""
_TELLING = ("device_id: ", "STATUS[", "physical_address: ", "section_type: ")
"""Words in the lines of a record that name the part, the best first."""
_REFUSED = re.compile(r"(?P<driver>[\w-]+) [0-9a-f:.]{7,12}: AMD-Vi: Event logged \[IO_PAGE_FAULT")
_USED_BY_JOBS = re.compile(
    r"nvidia|nouveau|nova\w*|amdgpu|xe|i915|vfio-pci|pcieport|nvme|ahci|m[ep][gt]\w*|hpsa|smartpqi|virtio\w*"
    r"|mlx\w*|irdma|ice|i40e|iavf|ixgbe\w*|igb|e1000e|bnxt\w*|tg3|efa|ena|hfi1|qed\w*|cxgb4|gve|atlantic|r81\w*"
)
"""The drivers of GPUs, network cards and disks."""
_HOT = re.compile(r"\b(Core|Package) temperature (?:is )?above threshold")
_COOLED = re.compile(r"\b(Core|Package) temperature/speed normal")
TOGETHER = 5.0
"""Seconds within which a machine check is announced, and described by EDAC."""
BOOTING = 10.0
"""Seconds since boot in which a device that has no driver yet may still read memory that the firmware gave it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareErrors:
    """The hardware errors of a log, oldest first."""

    uncorrected: tuple[KernelFault, ...]
    corrected: tuple[KernelFault, ...]


@dataclass(slots=True)
class _Record:
    number: str
    lines: list[Message] = field(default_factory=list)
    severity: str = ""
    others: list[Message] = field(default_factory=list)
    """Lines of other parts of the kernel that came in between, or after it."""

    def add(self, line: Message, text: str) -> None:
        self.lines.append(line)
        if not self.severity and (found := _HEADLINE.search(text)):
            self.severity = (found["severity"] or found["decoded"] or found["healed"]).lower()

    def is_in_edac(self) -> bool:
        """Whether EDAC reports the same error right after it, in a line that counts: it names the memory module."""
        near = (line for line in self.others if _together(self.lines[0], line))
        kinds = {found["kind"] for line in near if (found := _COUNTED.search(line.text))}
        if all(_PREFACE.search(line.text) for line in self.lines):  # it only announces that something was logged
            return bool(kinds)
        return kinds == {"CE"} and self.severity in _HARMLESS

    def fault(self) -> KernelFault:
        """The record in one line: its headline, and the line that names the part."""
        texts = [line.text.strip() for line in self.lines]
        head = next((text for text in texts if _HEADLINE.search(_text_of(text))), texts[0])
        named = (text for words in _TELLING for text in texts if words in text and text != head)
        part = next(named, "")
        words = f"{head}; {_text_of(part)}" if part else head
        return KernelFault(**when(self.lines[0]), text=words[:1000], device=pci_device(words))


def hardware_errors(messages: Sequence[Message], of_gpus: Sequence[GpuFault]) -> HardwareErrors:
    """Return the hardware errors in *messages*, without those of a GPU's own bus that *of_gpus* has already."""
    uncorrected: list[KernelFault] = []
    corrected: list[KernelFault] = []
    for unit in _units(_without_cooled(messages)):
        if isinstance(unit, _Record) and unit.is_in_edac():
            continue
        if isinstance(unit, _Record) and unit.severity:
            (corrected if unit.severity in _HARMLESS else uncorrected).append(unit.fault())
            continue
        # a line of its own, or a record whose headline is not in the log: each line for itself
        lines = unit.lines if isinstance(unit, _Record) else [unit]
        uncorrected += faults("hardware", [line for line in lines if not (_at_boot(line) or _of_another_device(line))])
        corrected += faults("corrected", lines)
    slots = {fault.bus_id.rpartition(".")[0] for fault in of_gpus if fault.kind == "bus_error" and fault.bus_id}
    others = [fault for fault in uncorrected if not fault.device or fault.device.rpartition(".")[0] not in slots]
    return HardwareErrors(uncorrected=tuple(others), corrected=tuple(corrected))


def _at_boot(line: Message) -> bool:
    """Whether an IOMMU reports a device that reads the firmware's memory before its driver is loaded."""
    return line.since_boot is not None and line.since_boot < BOOTING and "DMAR: [DMA" in line.text


def _of_another_device(line: Message) -> bool:
    """Whether the IOMMU names the driver of a device that no job uses, such as a sound card."""
    found = _REFUSED.match(line.text)
    return found is not None and not _USED_BY_JOBS.fullmatch(found["driver"])


def _without_cooled(messages: Sequence[Message]) -> Sequence[Message]:
    """Return *messages* without the processors that were too hot, and are not any more."""
    cooled = {found[1]: number for number, line in enumerate(messages) if (found := _COOLED.search(line.text))}

    def gone(number: int, line: Message) -> bool:
        hot = _HOT.search(line.text)
        return hot is not None and number < cooled.get(hot[1], 0)

    return [line for number, line in enumerate(messages) if not gone(number, line)]


def _units(messages: Sequence[Message]) -> Iterator[Message | _Record]:
    """Yield the records, and the lines that belong to none, each where it begins."""
    current: _Record | None = None
    for message in messages:
        found = _LINE.match(message.text.strip())
        if found is None:
            if current is None:
                yield message
            else:
                current.others.append(message)
            continue
        number, text = found[1] or "", found[2]
        follows = current is not None and current.number == number and not _PREFACE.search(text)
        if follows and not number and current and current.severity and _HEADLINE.search(text):
            follows = False
        if not follows:
            if current:
                yield current
                yield from current.others
            current = _Record(number)
        assert current is not None
        current.add(message, text)
    if current:
        yield current
        yield from current.others


def _together(one: Message, other: Message) -> bool:
    if one.since_boot is not None and other.since_boot is not None:
        return abs(one.since_boot - other.since_boot) <= TOGETHER
    return one.at is not None and other.at is not None and abs(one.at - other.at) <= TOGETHER


def _text_of(line: str) -> str:
    found = _LINE.match(line)
    return found[2] if found else line
