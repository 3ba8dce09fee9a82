"""Read GPUs and processes from the output of nvidia-smi, and separate good rows from error messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from runbook.errors import ProbeError
from runbook.library.gpu.facts.model import NOT_ASKED, UNLISTED, ComputeProcess, Gpu, SmiReading, bus_id, bus_ids
from runbook.library.gpu.facts.smi_markers import faults, lists_no_processes, says_nothing, unfilled_columns
from runbook.library.gpu.facts.smi_output import (
    USABLE,
    QuerySection,
    hung,
    marker,
    missing,
    not_answered,
    number,
    reason,
    row,
    sections,
    word,
)
from runbook.values.command import Completed
from runbook.values.types import Unknown

T = TypeVar("T")

_LOST = re.compile(r"is lost|fallen off the bus|reboot the system", re.IGNORECASE)
_INFOROM = re.compile(r"infoROM is corrupted", re.IGNORECASE)
_NEEDS_RESET = re.compile(r"requires reset", re.IGNORECASE)
_IS_GPU = re.compile(r"[0-9]{1,4} ?, ?(?:GPU-|\[|N/A|ERR!|Unknown)", re.ASCII)
_IS_PART = re.compile(r"[0-9]{1,4} ?,", re.ASCII)
_IS_APP = re.compile(r"GPU-|MIG-|\[")
_KEYS = frozenset({"index", "uuid", "name", "utilization.gpu"})
"""Columns that every query has."""
_NO_SAMPLE = Unknown(why="nvidia-smi gave no further sample of this GPU")
SILENT = Unknown(why="this driver does not report whether a reset is needed")
_NOBODY = ("no running processes found", "no running compute processes found")


def read_gpus(done: Completed, samples: int = 1) -> SmiReading:
    """Return the GPUs in *done*, the answer to ``ask_gpus``, and the error messages.

    *samples*: how many were asked for, the first included.  Each one that *done* lacks is unknown, whatever kept the
    script from taking it: a GPU is never idle, or busy, by fewer samples than were asked for.

    Raises ProbeError, in plain words, if no row can be trusted.
    """
    found = sections(done)
    rows, errors = _gpu_rows(done, found)
    for part in (section for section in found if section.name == "part"):
        rows = _joined(rows, part)
    gpus = tuple(_gpu(values, found) for values in rows)
    for section in found:
        if section.name == "status":
            gpus = _with_status(gpus, section)
        if section.name == "again" and "utilization.gpu" in section.fields:
            again, more = _rows(section, "", _IS_GPU)
            gpus, errors = tuple(_seen_again(gpu, again) for gpu in gpus), (*errors, *more)
    gpus = tuple(replace(gpu, samples=(*gpu.samples, *[_NO_SAMPLE] * (samples - len(gpu.samples)))) for gpu in gpus)
    listed, more = _listed(found, tuple(gpu.uuid for gpu in gpus if gpu.uuid and lists_no_processes(gpu.name)))
    errors = tuple(dict.fromkeys((*errors, *more)))
    return SmiReading(
        gpus=gpus,
        errors=errors,
        lost=_names_in_errors(errors, _LOST),
        bad_inforom=_bad_inforom(gpus, errors),
        apps=listed,
        at=_time_of(found),
    )


def read_gpus_again(reading: SmiReading, done: Completed) -> SmiReading:
    """Return *reading* with the values of *done*, the answer to ``ask_gpus_again``.

    Never raises: a value that is missing is unknown.
    """
    try:
        found = [section for section in sections(done) if section.name == "again"]
    except ProbeError as error:
        found, why = [], str(error)
    else:
        why = hung(done) if done.timed_out else ""
    again, errors = _rows(found[-1], "", _IS_GPU) if found else ([], ())
    return replace(
        reading,
        gpus=tuple(_seen_again(gpu, again) for gpu in reading.gpus),
        errors=tuple(dict.fromkeys((*reading.errors, *errors, *([why] if why else [])))),
    )


def _time_of(found: Iterable[QuerySection]) -> int:
    """Return the time that the script printed; 0: none that can be read."""
    said = next((section.lines[0] for section in found if section.name == "at" and section.lines), "")
    return int(said) if said.isascii() and said.isdigit() and len(said) < 16 else 0


def _gpu_rows(done: Completed, found: Iterable[QuerySection]) -> tuple[list[dict[str, str]], tuple[str, ...]]:
    """Return the rows of the query for all GPUs, and the error messages.  Raises ProbeError if no row can be
    trusted.
    """
    asked = [section for section in found if section.name == "gpus"]
    if not asked:
        raise ProbeError(reason(done.exit_code, ()))
    if not set(asked[-1].fields) >= _KEYS:
        raise ProbeError("the output from the host is truncated")
    rows, errors = _rows(asked[-1], "name", _IS_GPU)
    if done.timed_out:
        if asked[-1].exit_code is None or not rows:
            raise ProbeError(hung(done))
        errors = (*errors, hung(done))
    if not rows:
        raise ProbeError(reason(asked[-1].exit_code, errors))
    return rows, errors


def _with_status(gpus: Iterable[Gpu], section: QuerySection) -> tuple[Gpu, ...]:
    """Return *gpus* with the resets and drains that nvidia-smi reports as necessary."""
    resets, drains = by_bus(section.lines, "Reset Required"), by_bus(section.lines, "Drain and Reset Recommended")
    return tuple(
        replace(
            _told_by_status(gpu, resets),
            drain_recommended=_yes(drains[gpu.bus_id]) if gpu.bus_id in drains else NOT_ASKED,
        )
        for gpu in gpus
    )


def read_apps(done: Completed) -> tuple[ComputeProcess, ...]:
    """Return the processes in *done*, the answer to ``ask_apps``.  Raises ProbeError if it is not a list of
    processes.
    """
    found = sections(done)
    if done.timed_out:
        raise ProbeError(hung(done))
    listed, _ = _listed(found)
    if isinstance(listed, Unknown):
        raise ProbeError(listed.why)
    return listed


def _rows(section: QuerySection, free: str, is_row: re.Pattern[str]) -> tuple[list[dict[str, str]], tuple[str, ...]]:
    """Return the rows of *section*, and every other line that it printed."""
    rows: list[dict[str, str]] = []
    errors: list[str] = []
    for line in section.lines:
        values = row(line, section.fields, free)
        if values is None or not is_row.match(line):
            errors.append(line)
        else:
            rows.append(dict(zip(section.fields, values, strict=True)))
    errors.extend(section.stderr)
    if section.cut:
        errors.append(f"incomplete line: {section.cut}")
    if section.exit_code != 0 and (rows or not errors):
        errors.append(reason(section.exit_code, ()))
    return rows, tuple(dict.fromkeys(errors))


def _joined(rows: list[dict[str, str]], part: QuerySection) -> list[dict[str, str]]:
    more, _ = _rows(part, "", _IS_PART)
    by_index = {each["index"]: each for each in more}
    return [{**each, **by_index.get(each["index"], {})} for each in rows]


def _gpu(values: Mapping[str, str], found: Sequence[QuerySection]) -> Gpu:
    def maybe(column: str, read: Callable[[str], T | Unknown]) -> T | Unknown:
        return read(values[column]) if column in values else not_answered(found, column, refused=NOT_ASKED)

    uuid = values["uuid"]
    mig = maybe("mig.mode.current", word)
    busy = number(values["utilization.gpu"], most=100)
    never = unfilled_columns(values)
    if "utilization.gpu" in never:
        kind = "MIG: the driver does" if mig == "Enabled" else "drivers of such GPUs do"
        busy = Unknown(
            why=f"{kind} not say how busy {'a partitioned GPU' if mig == 'Enabled' else 'they'} "
            f"{'is' if mig == 'Enabled' else 'are'}"
        )
    return Gpu(
        index=int(values["index"]),
        uuid=uuid if uuid.startswith("GPU-") else "",
        bus_id=bus_id(values.get("pci.bus_id", "")),
        name="" if marker(values["name"]) else values["name"],
        driver=maybe("driver_version", word),
        persistence=maybe("persistence_mode", _yes),
        memory_used=maybe("memory.used", number),
        memory_total=maybe("memory.total", number),
        utilization=busy,
        samples=(busy,),
        temperature=maybe("temperature.gpu", number),
        pstate=maybe("pstate", word),
        compute_mode=maybe("compute_mode", word),
        mig=mig,
        ecc=maybe("ecc.mode.current", word),
        recovery_action=maybe("gpu_recovery_action", word),
        requires_reset=_needs_reset(values, found),
        remap_pending=maybe("remapped_rows.pending", _yes),
        remap_failed=maybe("remapped_rows.failure", _yes),
        retire_pending=maybe("retired_pages.pending", _yes),
        untold=never,
        faults=faults(values),
    )


def _yes(value: str) -> bool | Unknown:
    """Return whether *value* means yes; drivers print Enabled or Disabled, Yes or No, 1 or 0."""
    match value.lower():
        case "enabled" | "yes" | "1":
            return True
        case "disabled" | "no" | "0":
            return False
    return missing(value)


def _needs_reset(values: Mapping[str, str], found: Sequence[QuerySection]) -> bool | Unknown:
    """Return whether the driver requires a reset: it prints a marker in any column, or names a recovery action."""
    if any(_NEEDS_RESET.search(value) for value in values.values()):
        return True
    action = values.get("gpu_recovery_action")
    if action is None:
        status = [section for section in found if section.name == "status" and section.exit_code in USABLE]
        not_known = SILENT if status else Unknown(why="nvidia-smi -q was not asked, or failed")
        return not_answered(found, "gpu_recovery_action", refused=not_known)
    if marker(action):
        return SILENT
    return "reset" in action.lower()


def _seen_again(gpu: Gpu, again: list[dict[str, str]]) -> Gpu:
    """Return *gpu* with the values of the second probe added."""
    mine = [each for each in again if each["uuid"] == gpu.uuid] if gpu.uuid else []
    mine = mine or [each for each in again if each["index"] == str(gpu.index) and not each["uuid"].startswith("GPU-")]
    if not mine:
        return replace(gpu, samples=(*gpu.samples, _NO_SAMPLE))
    busy = number(mine[0]["utilization.gpu"], most=100)
    if isinstance(busy, Unknown) and isinstance(gpu.utilization, Unknown):
        busy = gpu.utilization
    marked = any(_NEEDS_RESET.search(text) for text in mine[0].values())
    later = faults({"name": gpu.name, "mig.mode.current": str(gpu.mig), **mine[0]})
    return replace(
        gpu,
        utilization=busy,
        samples=(*gpu.samples, busy),
        requires_reset=True if marked else gpu.requires_reset,
        faults=tuple(dict.fromkeys((*gpu.faults, *later))),
    )


def by_bus(lines: tuple[str, ...], label: str) -> dict[str, str]:
    """Return the values under *label* in ``nvidia-smi -q``, by bus id; a GPU that appears twice has none.

    The names of processes are also in this output, below each GPU, and may contain forged lines.
    """
    found: dict[str, str] = {}
    heads: list[str] = []
    for line in lines:
        if line.startswith("GPU ") and bus_id(line[4:]):
            heads.append(bus_id(line[4:]))
        name, _, value = line.partition(":")
        if heads and name.strip() == label:
            found.setdefault(heads[-1], value.strip())
    return {bus: value for bus, value in found.items() if heads.count(bus) == 1}


def _told_by_status(gpu: Gpu, resets: Mapping[str, str]) -> Gpu:
    reported = _yes(resets.get(gpu.bus_id, ""))
    silent = isinstance(gpu.requires_reset, Unknown) and not isinstance(reported, Unknown)
    return replace(gpu, requires_reset=reported) if silent else gpu


def _listed(
    found: tuple[QuerySection, ...], silent: tuple[str, ...] = ()
) -> tuple[tuple[ComputeProcess, ...] | Unknown, tuple[str, ...]]:
    """Return the processes, and the error messages that stand in place of some.

    For the GPUs with the UUIDs *silent* the driver lists no processes: each has one unknown entry.
    """
    asked = [query_section for query_section in found if query_section.name == "apps"]
    if not asked:
        return Unknown(why="nvidia-smi was not queried for processes"), ()
    rows, errors = _rows(asked[-1], "", _IS_APP)
    errors = tuple(error for error in errors if error.lower().rstrip(".") not in _NOBODY)
    if silent:
        rows = [values for values in rows if not says_nothing(", ".join(values.values()))]
        errors = tuple(error for error in errors if not says_nothing(error))
    if not rows and not all(map(_INFOROM.search, errors)):
        return Unknown(why=reason(asked[-1].exit_code, errors)), errors
    unlisted = (ComputeProcess(gpu_uuid=uuid, pid=UNLISTED, name="", memory_mib=UNLISTED) for uuid in silent)
    lines = [line.split(" ", 2) for section in found if section.name == "names" for line in section.lines]
    names = {line[0]: (line[1], line[2]) for line in lines if len(line) == 3}
    return (*(_app(values, names) for values in rows), *unlisted), errors


def _app(values: Mapping[str, str], names: Mapping[str, tuple[str, str]]) -> ComputeProcess:
    pid = number(values["pid"])
    state, name = names.get(values["pid"], ("", ""))
    return ComputeProcess(
        gpu_uuid="" if marker(values["gpu_uuid"]) else values["gpu_uuid"],
        pid=pid if isinstance(pid, Unknown) else int(pid),
        name=name,
        ended=state in ("Z", "X"),
        memory_mib=number(values["used_gpu_memory"]),
    )


def _names_in_errors(errors: tuple[str, ...], pattern: re.Pattern[str]) -> tuple[str, ...]:
    """Return the bus ids in the *errors* that match *pattern*."""
    return tuple(dict.fromkeys(bus for line in errors if pattern.search(line) for bus in bus_ids(line)))


def _bad_inforom(gpus: Sequence[Gpu], errors: tuple[str, ...]) -> tuple[str, ...]:
    """Return the bus ids of GPUs with a corrupted infoROM.

    A warning without a bus id counts if there is only one GPU.
    """
    only = tuple(gpu.bus_id for gpu in gpus if gpu.bus_id and len(gpus) == 1)
    return _names_in_errors(errors, _INFOROM) or (only if any(map(_INFOROM.search, errors)) else ())
