"""Read a GPU's health with nvidia-smi: memory errors, link, clocks, power, fabric."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TypeVar

from runbook.dataclass import dataclass
from runbook.library.gpu.facts.clock_reasons import reasons_in
from runbook.library.gpu.facts.smi_markers import says_nothing
from runbook.library.gpu.facts.smi_output import (
    REFUSED,
    QuerySection,
    missing,
    not_answered,
    number,
    row,
    sections,
    word,
)
from runbook.library.gpu.facts.smi_parser import by_bus
from runbook.library.gpu.facts.smi_query import ask_gpus, bus_id
from runbook.values.command import Command, Completed
from runbook.values.types import Unknown

T = TypeVar("T")

REASONS, OLD_REASONS = "clocks_event_reasons.active", "clocks_throttle_reasons.active"
"""The names of one column; it was renamed in driver R535."""

GROUPS = (
    "ecc.errors.uncorrected.volatile.total,ecc.errors.uncorrected.aggregate.total",
    "ecc.errors.uncorrected.aggregate.sram.thresholdExceeded",
    "remapped_rows.correctable,remapped_rows.uncorrectable",
    "pcie.link.gen.current,pcie.link.gen.max,pcie.link.width.current,pcie.link.width.max",
    f"{REASONS}/{OLD_REASONS}",
    "power.draw,enforced.power.limit,power.default_limit,clocks.current.sm,clocks.max.sm",
    "temperature.memory",
    "fan.speed",
    "temperature.gpu.tlimit",
    "mig.mode.pending",
    "fabric.state,fabric.status",
)
"""Fields in groups that appeared in the same drivers, so that an old driver refuses as few fields as possible."""

NOT_REPORTED = Unknown(why="this driver does not report it")


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuHealth:
    """The health of one GPU; a value that nvidia-smi did not report is Unknown, with the reason."""

    ecc_volatile: float | Unknown = NOT_REPORTED
    """Uncorrected memory errors since the driver was loaded."""
    ecc_aggregate: float | Unknown = NOT_REPORTED
    """Uncorrected memory errors in the whole life of the GPU."""
    sram_threshold: bool | Unknown = NOT_REPORTED
    """Whether the GPU has had more uncorrected errors in SRAM than the vendor allows."""
    remapped_correctable: float | Unknown = NOT_REPORTED
    """Memory rows that were replaced after correctable errors."""
    remapped_uncorrectable: float | Unknown = NOT_REPORTED
    """Memory rows that were replaced after an uncorrected error."""
    link_gen: float | Unknown = NOT_REPORTED
    """The generation of PCI Express that the link uses now; an idle GPU lowers it to save power."""
    link_gen_max: float | Unknown = NOT_REPORTED
    """The highest generation of PCI Express that the GPU can use in this host."""
    link_width: float | Unknown = NOT_REPORTED
    """The number of PCI Express lanes that the link uses now."""
    link_width_max: float | Unknown = NOT_REPORTED
    """The maximum number of PCI Express lanes that the GPU can use in this host."""
    reasons: tuple[str, ...] | Unknown = NOT_REPORTED
    """The reasons why the clocks are lower than they could be: `idle`, `software power cap`, `hardware thermal
    slowdown` ..."""
    power_draw: float | Unknown = NOT_REPORTED
    """The power that the GPU draws now, in watts (`nvidia-smi --query-gpu=power.draw`)."""
    power_limit: float | Unknown = NOT_REPORTED
    """The present power limit in watts (enforced.power.limit)."""
    power_default: float | Unknown = NOT_REPORTED
    """The default power limit in watts (power.default_limit)."""
    clock: float | Unknown = NOT_REPORTED
    """The present clock of the multiprocessors in MHz (clocks.current.sm)."""
    clock_max: float | Unknown = NOT_REPORTED
    """The maximum clock of the multiprocessors in MHz (clocks.max.sm)."""
    temperature_memory: float | Unknown = NOT_REPORTED
    """The temperature of the memory in degrees Celsius."""
    headroom: float | Unknown = NOT_REPORTED
    """The degrees Celsius that are left before the GPU slows down because of heat."""
    mig_pending: str | Unknown = NOT_REPORTED
    """The MIG mode after the next reset: Enabled, Disabled."""
    fabric_state: str | Unknown = NOT_REPORTED
    """The progress of joining the NVLink fabric (fabric.state): Not Started, In Progress, Completed."""
    fabric_status: str | Unknown = NOT_REPORTED
    """The outcome of joining the NVLink fabric (fabric.status): Success, or an error."""
    license: str | Unknown = NOT_REPORTED
    """For a share of a GPU in a virtual machine (vGPU): Licensed (until when), or Unlicensed (and the effect)."""
    not_applicable: tuple[str, ...] = field(default=())
    """Columns that this product does not have, as reported by the driver."""
    not_reported: tuple[str, ...] = field(default=())
    """Columns that this driver does not support."""


def ask_health() -> Command:
    """Return the command that reads the GPUs and all fields of their health; it is one script, so that a hanging
    driver is queried only once.
    """
    return ask_gpus(groups=GROUPS)


def read_health(done: Completed) -> Mapping[str, GpuHealth]:
    """Return the health of each GPU by its index.  Raises ProbeError if nvidia-smi could not be queried at all."""
    values: dict[str, dict[str, str]] = {}
    refused: set[str] = set()
    buses: dict[str, str] = {}
    licenses: dict[str, str] = {}
    found = sections(done)
    for section in found:
        if section.name == "gpus":
            for line in section.lines:
                if cells := row(line, section.fields, "name"):
                    values.setdefault(cells[0], {})
                    buses[cells[0]] = bus_id(dict(zip(section.fields, cells, strict=True)).get("pci.bus_id", ""))
        if section.name == "status":
            licenses = by_bus(section.lines, "License Status")
        if section.name != "part":
            continue
        columns = section.fields[1:]
        if section.exit_code == REFUSED:
            refused |= {*columns} if len(columns) == 1 else set()
        for cells in (row(line, section.fields, "") for line in section.lines):
            if cells and cells[0] in values:
                values[cells[0]] |= dict(zip(columns, cells[1:], strict=True))
    if len(values) == len(licenses) == 1:  # in some guests the columns have no bus id
        licenses = dict.fromkeys(buses.values(), *licenses.values())
    for index, asked in values.items():
        asked |= {"license": licenses[buses[index]]} if buses[index] in licenses else {}
    return {index: _health(asked, refused, found) for index, asked in values.items()}


def _health(values: Mapping[str, str], refused: set[str], found: Sequence[QuerySection]) -> GpuHealth:
    def read(column: str, convert: Callable[[str], T | Unknown]) -> T | Unknown:
        if column in values:
            return convert(values[column])
        return not_answered(found, column, refused=NOT_REPORTED)

    return GpuHealth(
        ecc_volatile=read("ecc.errors.uncorrected.volatile.total", number),
        ecc_aggregate=read("ecc.errors.uncorrected.aggregate.total", number),
        sram_threshold=read("ecc.errors.uncorrected.aggregate.sram.thresholdExceeded", _yes),
        remapped_correctable=read("remapped_rows.correctable", number),
        remapped_uncorrectable=read("remapped_rows.uncorrectable", number),
        link_gen=read("pcie.link.gen.current", number),
        link_gen_max=read("pcie.link.gen.max", number),
        link_width=read("pcie.link.width.current", number),
        link_width_max=read("pcie.link.width.max", number),
        reasons=read(OLD_REASONS if REASONS in refused or OLD_REASONS in values else REASONS, reasons_in),
        power_draw=read("power.draw", number),
        power_limit=read("enforced.power.limit", number),
        power_default=read("power.default_limit", number),
        clock=read("clocks.current.sm", number),
        clock_max=read("clocks.max.sm", number),
        temperature_memory=read("temperature.memory", number),
        headroom=read("temperature.gpu.tlimit", _degrees),
        mig_pending=read("mig.mode.pending", word),
        fabric_state=read("fabric.state", word),
        fabric_status=read("fabric.status", word),
        license=word(values["license"]) if "license" in values else NOT_REPORTED,
        not_applicable=tuple(column for column, value in values.items() if value and says_nothing(value)),
        not_reported=tuple(sorted(refused - ({REASONS} if OLD_REASONS in values else set()))),
    )


def _yes(value: str) -> bool | Unknown:
    return {"yes": True, "1": True, "no": False, "0": False}.get(value.lower(), missing(value))


def _degrees(value: str) -> float | Unknown:
    """Return *value* as the distance to a limit in degrees; it is negative if the limit is exceeded."""
    below = value.startswith("-")
    found = number(value.removeprefix("-"))
    return -found if below and not isinstance(found, Unknown) else found
