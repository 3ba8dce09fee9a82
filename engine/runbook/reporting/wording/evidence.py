"""Print evidence as lines for people: containers, processes, GPUs, disks and log lines."""

from __future__ import annotations

import re
from collections.abc import Mapping

from runbook.text.sizes import bytes_of
from runbook.values.types import Json, seconds

SHOWN_EVIDENCE = 8
"""The maximum number of elements of a list that are shown."""

MOST = 150
"""The maximum number of letters of one object; a container may have more."""

ONE_LINE = 110
"""The maximum number of letters of a list on one line; a longer list has a line for each element."""

NAMED = 60
"""The maximum number of letters of a process's command line."""

_NODE_OF_GPU = re.compile(r"/dev/nvidia(\d+|ctl|-uvm|-uvm-tools)")
"""Matches the files that every process with a GPU has open; they are no news if the GPU is named."""

_NOT_TAKEN = re.compile(r"unknown: \w+: when: ")
"""Matches the text of a probe that was not needed; it is not shown."""


def evidence_lines(name: str, value: Json, shown: set[str] | None = None) -> list[str]:
    """Return the lines of one item of evidence: known kinds of objects in words, other values as they are.

    An empty value has no line.  A process in *shown* was described before, and is only named; others are added to it.
    """
    if isinstance(value, str) and _NOT_TAKEN.match(value):
        return []
    if isinstance(value, str | int | float | bool) or value is None:
        return [f"  {name}: {short(inside(value))}"] if value != "" else []
    if isinstance(value, Mapping):
        return [f"  {name}: {thing(value)}"]
    things = [_once(each, set() if shown is None else shown) for each in value[:SHOWN_EVIDENCE]]
    things += [f"... {len(value) - SHOWN_EVIDENCE} more: see --output json"] if len(value) > SHOWN_EVIDENCE else []
    line = f"  {name}: {'; '.join(things)}"
    if len(things) < 2 or len(line) <= ONE_LINE:
        return [line] if value else []
    return [f"  {name}:", *(f"    {word}" for word in things)]


def _once(value: Json, shown: set[str]) -> str:
    """Return *value* as text; a process that was described before is given only by its pid."""
    said = thing(value)
    if not isinstance(value, Mapping) or "pid" not in value or not value.get("command"):
        return said
    if said in shown:
        return f"pid {value['pid']}"
    shown.add(said)
    return said


def thing(value: Json) -> str:
    """Return *value*, an object in evidence, as one line."""
    if not isinstance(value, Mapping):
        return inside(value)
    has = value.keys()
    if {"exit_code", "oom_killed", "image"} <= has:
        return _container(value)
    if "uuid" in has:
        load = f"{value.get('utilization')} %, {value.get('memory_used')} MiB used"
        return f"GPU {value.get('index')} ({value['uuid']}) {load}"
    if {"pid", "wchan", "waits_for"} <= has:
        where = value.get("waits_in") or value["wchan"]
        subject = "waits in the kernel" if value["waits_for"] == "unknown" else f"waits for the {value['waits_for']}"
        return f"pid {value['pid']} ({value.get('name')}, {value.get('user')}) {subject}" + (
            f", in {where}" if where else ""
        )
    if "pid" in has:
        return _process(value)
    if {"path", "percent", "avail"} <= has:
        return f"{value['path']} {value['percent']} % full, {_bytes(value['avail'])} free"
    if {"path", "used_percent", "available"} <= has:
        return f"{value['path']} {value['used_percent']} % full, {_bytes(value['available'])} free"
    if {"kind", "id", "bytes"} <= has:
        note = f", {value['note']}" if value.get("note") else ""
        return f"{value['kind']} {value.get('name') or ''} ({_id(str(value['id']))}), {_bytes(value['bytes'])}{note}"
    if {"write", "read", "slow"} <= has:
        return _speed(value)
    if {"total", "available", "percent"} <= has:
        limit = f" (limit of {value['limited_by']})" if value.get("limited_by") else ""
        return f"{value['percent']} % of {_bytes(value['total'])} in use{limit}"
    if "text" in has and {"file", "line", "at"} & has:
        return _line(value)
    return short(", ".join(f"{key} {inside(it)}" for key, it in value.items()))


def inside(value: Json) -> str:
    """Return *value*, a value within an object, in the form that people use."""
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case str() | int() | float():
            return str(value)
        case Mapping():
            return "(" + ", ".join(f"{key} {inside(it)}" for key, it in value.items()) + ")" if value else "none"
    return ", ".join(map(inside, value)) if value else "none"


def _id(text: str) -> str:
    """Return the first letters of an id, as Docker shows it."""
    return text.removeprefix("sha256:")[:12]


def _speed(value: Mapping[str, Json]) -> str:
    """Return a text about a disk: the speeds of writing and reading."""
    rates = {way: it for way in ("write", "read") if isinstance(it := value[way], int | float)}
    said = ", ".join(f"{way} {rate / 1_000_000:.1f} MB/s" for way, rate in rates.items()) or "not measured"
    return f"{value['item']}: {said}" if value.get("item") else said


def _container(value: Mapping[str, Json]) -> str:
    """Return a text about a container: how it ended, and its limits."""
    said = [f"{value.get('name')} ({value.get('image')}): {value.get('status')}"]
    if value.get("status") not in ("running", "paused", "created"):
        meaning = str(value.get("meaning") or "")
        code = str(value.get("exit_code"))
        said.append(f"exit code {meaning if meaning.startswith(code) else f'{code} {meaning}'.strip()}")
        said.append(f"OOMKilled {'yes' if value['oom_killed'] is True else 'no'}")
    if (signals := value.get("signals")) and isinstance(signals, list):
        said.append(f"Docker was asked to send it signal {', '.join(map(str, signals))}")
    said += [f"Docker says: {value['error']}"] if value.get("error") else []
    said.append(f"started {_time(value.get('started_at'))}, ended {_time(value.get('finished_at'))}")
    said += [f"ran {seconds(ran)}"] if isinstance(ran := value.get("ran"), int | float) else []
    memory, cpus = value.get("memory"), value.get("cpus")
    said.append(f"memory limit {_bytes(memory) if memory else 'none'}, CPU limit {cpus or 'none'}")
    said.append(f"restarts {value.get('restart_count')} (policy {value.get('restart_policy') or 'no'})")
    return short("; ".join(said), 600)


def _process(value: Mapping[str, Json]) -> str:
    """Return a text about a process: its command line and user, then the devices that it holds."""
    named = value.get("command") or value.get("name")
    name = f" {short(str(named), NAMED)}" if value.get("command") else f" ({named})" if named else ""
    user = f" ({value['user']})" if value.get("user") else ""
    size = f" {_bytes(value['resident'])}" if isinstance(value.get("resident"), int) else ""
    gpus, devices = (it if isinstance(it := value.get(key), list) else [] for key in ("gpus", "devices"))
    held = [*gpus, *(device for device in devices if not gpus or not _NODE_OF_GPU.fullmatch(str(device)))]
    holds = f" holds {', '.join(map(str, held))}" if held else ""
    when = f" at {value['at']}" if value.get("at") else ""
    owner = f"; owner: {value['owner']}" if value.get("owner") else ""
    return f"pid {value['pid']}{name}{user}{size}{holds}{when}{owner}"


def _line(value: Mapping[str, Json]) -> str:
    """Return a text about a line of a log: its place or its time, and its text."""
    place = value.get("file") or value.get("at") or ""
    number = f":{value['line']}" if value.get("file") and value.get("line") is not None else ""
    age = f" ({seconds(age)} ago)" if isinstance(age := value.get("age"), int | float) else ""
    where = f"{place}{number}{age}: " if place else ""
    return f"{where}{short(str(value['text']))}"


def _time(value: Json) -> str:
    """Return a time without its fraction of a second."""
    return re.sub(r"\.\d+(?=Z|[+-]|$)", "", str(value)) if value else "never"


def _bytes(value: Json) -> str:
    return bytes_of(value) if isinstance(value, int | float) else str(value)


def short(line: str, most: int = MOST) -> str:
    """Return *line* without line ends, shortened to at most *most* letters."""
    line = " ".join(line.split())
    return line if len(line) <= most else line[: most - 1] + "…"
