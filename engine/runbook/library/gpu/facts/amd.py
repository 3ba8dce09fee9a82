"""Read AMD's GPUs from what the kernel says of them, and ask amd-smi which of them it lists.

The numbers are files of amdgpu in sysfs (the kernel's Documentation/gpu/amdgpu), which rocm-smi and amd-smi read, too;
they need no program, and do not change with its versions.  amd-smi is asked for its list only: a GPU that it lacks is
not usable, and where it hangs, nothing is known.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.gpu.facts.health_query import GpuHealth
from runbook.library.gpu.facts.model import ComputeProcess, Gpu, GpuPresence, SmiReading, bus_id
from runbook.library.gpu.facts.smi_output import STUCK
from runbook.library.gpu.facts.smi_query import VALID
from runbook.library.processes.facts.known_daemons import REALLY
from runbook.shell import script
from runbook.values.command import Command, Completed, read_script
from runbook.values.types import Unknown, seconds

AMD_SMI = "amd-smi"

NOT_TOLD = Unknown(why="AMD's driver does not report it")

_MIB = 1024.0 * 1024.0
_COLUMNS = {
    "utilization.gpu": "busy.0", "memory.used": "mem_info_vram_used", "memory.total": "mem_info_vram_total",
    "temperature.gpu": "temperature",
}  # fmt: skip
"""Columns of nvidia-smi that every healthy GPU fills, and the kernel's file for each."""

_NEVER = ("compute_mode", "mig.mode.current", "persistence_mode", "gpu_recovery_action")
"""Columns of nvidia-smi that stand for nothing on a GPU of AMD."""

_NOT_APPLICABLE = ("mig.mode.pending", "fabric.state", "fabric.status")

_ASK = REALLY + script(__package__, "amd_query")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    """The lines of the answer."""

    values: Mapping[tuple[str, str], str]
    """The text of each file, by bus id and name."""
    fails: frozenset[tuple[str, str]]
    """The files that exist and could not be read."""
    lines: tuple[tuple[str, ...], ...]

    def number(self, bus: str, name: str, *, most: float = float("inf")) -> float | Unknown:
        text = self.values.get((bus, name), "")
        if text.isascii() and text.isdigit() and len(text) < 16 and float(text) <= most:
            return float(text)
        if text or (bus, name) in self.fails:
            return Unknown(why=f"the kernel's {_called(name)} of {bus} cannot be read")
        return Unknown(why=f"the kernel has no {_called(name)} of {bus}")


def _called(name: str) -> str:
    """Return the name of the kernel's file, or of its kind."""
    return name.partition(".")[0].replace("busy", "gpu_busy_percent")


def ask_amd(presence: GpuPresence, interval: float = 0.0, times: int = 0, root: str = "") -> Command:
    """Return the command that reads the GPUs of *presence*, and their load *times* again, *interval* seconds apart."""
    command = read_script(_ASK, root, f"{interval:g}", str(times), *presence.minors)
    waits = interval * times
    return replace(command, hangs=AMD_SMI, valid_for=VALID + waits, waits=waits)


def read_amd(done: Completed, presence: GpuPresence, samples: int = 1) -> SmiReading:
    """Return the GPUs in *done*, the answer to ``ask_amd(presence)``; a sample of *samples* that it lacks is unknown.

    A GPU that amd-smi leaves out of its list is left out here, too.  Raises ProbeError if nothing can be trusted.
    """
    said = _read(done)
    if presence.doubt:
        raise ProbeError(presence.doubt)
    listed, errors = _listed(said)
    shown = {bus: number for number, bus in enumerate(sorted(presence.minors))} if listed is None else listed
    names = [said.values.get((bus, "unique_id"), "") for bus in presence.minors]
    gpus = tuple(
        _gpu(bus, shown[bus], said, samples, twice=names.count(said.values.get((bus, "unique_id"), "")) > 1)
        for bus in sorted(presence.minors)
        if bus in shown
    )
    if not gpus:
        raise ProbeError("amd-smi lists none of the GPUs that the driver has")
    unlisted = errors[0] if listed is None and errors else ""
    return SmiReading(gpus=gpus, errors=errors, apps=_apps(said, gpus, presence), tool=AMD_SMI, unlisted=unlisted)


def read_amd_health(done: Completed, reading: SmiReading) -> Mapping[str, GpuHealth]:
    """Return the health of each GPU of *reading*, by its index as text."""
    said = _read(done)
    found = {}
    for gpu in reading.gpus:
        counts = [words[3] for words in said.lines if words[:3] == ("value", gpu.bus_id, "ue")]
        known = [float(text) for text in counts if text.isascii() and text.isdigit() and len(text) < 16]
        unread = len(known) < len(counts) or (gpu.bus_id, "ue") in said.fails
        whole: float | Unknown = sum(known) if known and (not unread or sum(known)) else NOT_TOLD
        if unread and isinstance(whole, Unknown):
            whole = Unknown(why="the kernel's counts of memory errors cannot be read")
        found[str(gpu.index)] = GpuHealth(
            ecc_volatile=whole,
            link_width=_lanes(said, gpu.bus_id, "current_link_width"),
            link_width_max=_lanes(said, gpu.bus_id, "max_link_width"),
            not_applicable=_NOT_APPLICABLE,
        )
    return found


def _lanes(said: _Said, bus: str, name: str) -> float | Unknown:
    lanes = said.number(bus, name, most=32)
    if isinstance(lanes, Unknown):
        return NOT_TOLD if lanes.why.startswith("the kernel has no") else lanes
    return lanes or NOT_TOLD  # 0: what a virtual function has


def amd_hung(done: Completed) -> str:
    """Return the reason why nothing is known because amd-smi or the driver hangs; empty: neither does."""
    if done.timed_out:
        return f"amd-smi, or AMD's driver, did not answer within {seconds(done.seconds)}: a driver call may hang"
    if done.exit_code == STUCK:
        return f"{done.stderr.strip()[:200]}; amd-smi is not run again while that process hangs"
    return ""


def _read(done: Completed) -> _Said:
    if why := amd_hung(done):
        raise ProbeError(why)
    lines = tuple(tuple(line.split(" ", 3)) for line in done.stdout.split("\n"))
    if ("complete",) not in lines:
        raise ProbeError(f"AMD's GPUs could not be read (exit code {done.exit_code}): {done.stderr.strip()[:200]}")
    values: dict[tuple[str, str], str] = {}
    for words in lines:
        if words[0] == "value" and len(words) == 4:
            values.setdefault((words[1], words[2]), words[3].strip())
    fails = frozenset((words[1], words[2]) for words in lines if words[0] == "fails" and len(words) == 3)
    return _Said(values=values, fails=fails, lines=lines)


def _gpu(bus: str, index: int, said: _Said, samples: int, *, twice: bool) -> Gpu:
    busy = tuple(said.number(bus, f"busy.{number}", most=100) for number in range(samples))
    temperature = _temperature(bus, said)
    used, total = said.number(bus, "mem_info_vram_used"), said.number(bus, "mem_info_vram_total")
    columns = dict(zip(_COLUMNS, (busy[0], used, total, temperature), strict=True))
    missing = {column: value for column, value in columns.items() if isinstance(value, Unknown)}
    others = {name for (other, name) in said.values if other != bus}
    untold = tuple(
        column
        for column, value in missing.items()
        if value.why.startswith("the kernel has no")
        and not column.startswith("memory.")
        and not any(name.startswith(_COLUMNS[column]) for name in others)  # then this GPU has it, too, when it is well
    )
    if isinstance(used, float) and isinstance(total, float) and not 0 <= used <= total > 0:
        missing["memory.total"] = Unknown(
            why=f"the kernel's mem_info_vram_total of {bus} is {total:.0f}, and {used:.0f} are in use"
        )
    later = [load for load in busy[1:] if isinstance(load, Unknown) and "utilization.gpu" not in missing]
    unique = said.values.get((bus, "unique_id"), "").lower()
    return Gpu(
        index=index,
        uuid=f"GPU-{unique}" if unique and not twice and unique.strip("0x") and unique.isalnum() else "",
        bus_id=bus,
        name=said.values.get((bus, "product_name"), ""),
        driver=said.values.get((bus, "driver")) or NOT_TOLD,
        persistence=NOT_TOLD,
        memory_used=used if isinstance(used, Unknown) else used / _MIB,
        memory_total=total if isinstance(total, Unknown) else total / _MIB,
        utilization=busy[-1],
        samples=busy,
        temperature=temperature,
        pstate=NOT_TOLD,
        compute_mode=NOT_TOLD,
        mig=NOT_TOLD,
        ecc=NOT_TOLD,
        recovery_action=NOT_TOLD,
        requires_reset=NOT_TOLD,
        remap_pending=NOT_TOLD,
        remap_failed=NOT_TOLD,
        retire_pending=NOT_TOLD,
        drain_recommended=NOT_TOLD,
        untold=(*untold, *_NEVER),
        faults=(
            *(f"{column}: {value.why}" for column, value in missing.items() if column not in untold),
            *(f"utilization.gpu: {load.why}" for load in later[:1]),
        ),
    )


def _temperature(bus: str, said: _Said) -> float | Unknown:
    """Return the temperature in degrees Celsius; accelerators have only that of the hottest place (junction)."""
    for name in ("temperature.edge", "temperature.junction"):
        if (bus, name) in said.values or (bus, name) in said.fails:
            thousandths = said.number(bus, name, most=200_000)
            return thousandths if isinstance(thousandths, Unknown) else thousandths / 1000
    return said.number(bus, "temperature")


def _apps(said: _Said, gpus: Sequence[Gpu], presence: GpuPresence) -> tuple[ComputeProcess, ...] | Unknown:
    """Return the processes on each GPU: those with memory or a queue there.

    An entry that cannot be read stands for any GPU.
    """
    if ("listed",) not in said.lines:
        return Unknown(why="this kernel does not list the processes on AMD's GPUs")
    uuids = {gpu.bus_id: gpu.uuid for gpu in gpus}
    by_id = {str(node.gpu_id): uuids.get(node.bus_id, "") for node in presence.amd_nodes}
    names = {words[1]: (words[2], words[3]) for words in said.lines if words[0] == "name" and len(words) == 4}
    memory: dict[tuple[str, str], float] = {}
    for kind, pid, *rest in (words for words in said.lines if words[0] in ("uses", "queue", "unread")):
        gpu_id, text = (*rest, "", "")[:2]
        is_number = text.isascii() and text.isdigit() and len(text) < 20
        read = is_number if kind == "uses" else kind == "queue" and not text
        used = float(text) if kind == "uses" and read else 0.0
        if pid.isascii() and pid.isdigit() and len(pid) < 10 and (kind != "uses" or not read or used):
            key = (pid, gpu_id if read else "")
            memory[key] = max(memory.get(key, 0.0), used)
    return tuple(
        ComputeProcess(
            gpu_uuid=by_id.get(gpu_id, ""),
            pid=int(pid),
            name=names.get(pid, ("", ""))[1],
            ended=names.get(pid, ("", ""))[0] in ("Z", "X"),
            memory_mib=used / _MIB,
        )
        for (pid, gpu_id), used in memory.items()
    )


def _listed(said: _Said) -> tuple[Mapping[str, int] | None, tuple[str, ...]]:
    """Return the index of each GPU in amd-smi, by bus id, and its complaint; None: it does not say which it lists."""
    ended = next((words[1] for words in said.lines if words[0] == "answered" and len(words) > 1), "")
    if not ended:
        return None, ()
    text = "\n".join(" ".join(words[1:]) for words in said.lines if words[0] == "smi")
    last = next((line.strip() for line in reversed(text.split("\n")) if line.strip()), "it printed nothing")[:200]
    value = _json_in(text)
    rows = tuple(_rows(value))
    found = {bus_id(str(row["bdf"])): str(row.get("gpu")) for row in rows}
    complaint = () if ended == "0" else (f"amd-smi ended with exit code {ended}: {last}",)
    if value == [] and not complaint:
        return {}, ()
    if not found or "" in found:
        return None, (f"amd-smi did not list the GPUs (exit code {ended}): {last}",)
    numbers = {bus: int(number) for bus, number in found.items() if _INDEX.fullmatch(number)}
    if len({*numbers.values()}) < len(found):
        return {bus: number for number, bus in enumerate(sorted(found))}, complaint
    return numbers, complaint


_INDEX = re.compile("[0-9]{1,4}")


def _json_in(text: str) -> object:
    """Return the first list or mapping in *text* that has GPUs, or that stands alone; None if there is none."""
    decoder = json.JSONDecoder()
    for at, sign in enumerate(text):
        if sign not in "[{":
            continue
        try:
            value, end = decoder.raw_decode(text[at:])
        except (ValueError, RecursionError):
            continue
        if any(_rows(value)) or not text[:at].strip() + text[at + end :].strip():
            return value
    return None


def _rows(value: object) -> Iterator[Mapping[str, object]]:
    """Yield the GPUs in amd-smi's answer; versions differ in what stands around them."""
    if isinstance(value, Mapping):
        if "bdf" in value:
            yield value
            return
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from _rows(one)
