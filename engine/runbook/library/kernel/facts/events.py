"""Events that kernel messages report: processes killed for memory, GPU faults, failing disks, hung tasks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile, zip_longest
from typing import Any, Literal, NamedTuple

from runbook.dataclass import dataclass
from runbook.library.gpu.facts.model import bus_id
from runbook.library.gpu.facts.sxids import switch_fault
from runbook.library.gpu.facts.xids import meaning, need_of, who_acts
from runbook.library.kernel.facts.patterns import KINDS
from runbook.library.processes.facts.kernel_waits import AwaitedPart, awaited_part
from runbook.library.system.facts.kernel_messages import Message
from runbook.text.timestamps import written
from runbook.values.types import Unknown

SHORTAGE = 120.0
"""Seconds within which messages about a lack of memory belong together."""

TRACE = 2.0
"""Seconds within which the kernel prints the trace of a hung task."""

_NO_TIME = Unknown(why="the time of the log line cannot be determined")
_NOT_SAID = Unknown(why="the kernel's log does not say")

_CONTAINER = re.compile(r"(?<![0-9a-f])([0-9a-f]{64})(?![0-9a-f])")
_A_USERS = re.compile(r"/user\.slice/|/user@\d+\.service/")
"""In the name of a control group that a user has made, and called as he likes."""
_PID = re.compile(r"""\bpid=['"]?(\d+)""")
_NAME = re.compile(r"\bname=(.+?)(?:, |,?$)")
_DETAILS = re.compile(r"(?:Severity \d|Data \{)")
"""The beginning of the lines that follow the one with an SXid."""
_DEVICE = re.compile(
    r"\bdev(?:ice)?:? (?:\[)?([a-z][\w-]*)|\((?:device )?([a-z][\w-]*)\)|\b(nvme\d+(?:n\d+)?|sd[a-z]+\d*|ata[\d.]+)\b"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OomKill:
    """A process that the kernel ended for want of memory."""

    at: str | Unknown
    """When the kernel wrote the message: ISO 8601, UTC; unknown if the log has no time."""
    seconds: float | Unknown
    """When the kernel wrote the message, in seconds since 1970."""
    pid: int | Unknown
    """The number of the process that was killed; unknown where the log does not say who died."""
    name: str | Unknown
    """The name of that process, at most 15 characters, as the kernel keeps it."""
    scope: Literal["host", "cgroup", "nodes"] | Unknown
    """Whether the host was out of memory, a control group had reached its own limit, or the memory nodes that the
    process may use (by a cpuset or a policy) were full."""
    cgroup: str | Unknown
    """The control group of the process."""
    container: str | Unknown
    """The id in that group's name, 64 characters; empty where it is not a container's."""
    limit: str | Unknown
    """The control group whose limit was reached; empty on a host's own want."""
    invoked_by: str
    """The process that asked for the missing memory: not the one that died."""
    resident_kb: int | Unknown
    """KiB of memory that it held and that is not a file's (anon-rss)."""
    uid: int | Unknown = _NOT_SAID
    """The user of the process, by number: anybody may give a process any name.  Kernels before 5.4 do not say it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Xid:
    """A fault that the NVIDIA driver reports, of a GPU or of an NVSwitch."""

    at: str | Unknown
    """When the kernel wrote the message: ISO 8601, UTC; unknown if the log has no time."""
    seconds: float | Unknown
    """When the kernel wrote the message, in seconds since 1970."""
    code: int
    """The number of the fault: the Xid, or the SXid of an NVSwitch."""
    bus_id: str
    """The PCI address of the GPU or switch, as sysfs writes it; empty where the line has none."""
    pid: int | Unknown
    """The process that the driver names: often a victim, or one that inspected the GPU; unknown: it names none."""
    name: str | Unknown
    """The name of that process, as the driver has it; unknown where the driver does not say."""
    switch: str
    """``nvidia-nvswitch0`` of an SXid; empty of an Xid."""
    instance: str = ""
    """The MIG instance, as the driver names it: ``GPU-I:05``, ``GPU-I:05 GPU-CI:00``; empty: the whole GPU."""
    meaning: str = ""
    """The meaning of the code in the vendor's catalogue, in short."""
    bucket: str = ""
    """The vendor's word for the immediate action: ``RESET_GPU``, ``RESTART_APP`` ...; empty for an SXid."""
    need: str = ""
    """The same in words, where an Xid 154 tells by its own text: ``reset the GPU``, ``reboot the node`` ..."""
    who: str = ""
    """The person who has to act: nobody, the owner of the job, the operator of the node, the data centre, the
    vendor.
    """
    severity: str = ""
    """Of an SXid: ``fatal``, ``non-fatal``, ``harmless``; empty where nobody says it, and of an Xid."""
    names_process: bool = False
    """Whether ``pid`` and ``name`` are known."""
    text: str
    """The driver's text behind the number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IoError:
    """A complaint about a disk or a file system."""

    at: str | Unknown
    """When the kernel wrote the message: ISO 8601, UTC; unknown if the log has no time."""
    seconds: float | Unknown
    """When the kernel wrote the message, in seconds since 1970."""
    device: str
    """The disk or file system that the line names, such as sda or nvme0n1; empty where it names none."""
    text: str
    """The message of the kernel, at most 1000 characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HungTask:
    """A task that the kernel saw waiting for too long."""

    at: str | Unknown
    """When the kernel wrote the message: ISO 8601, UTC; unknown if the log has no time."""
    seconds: float | Unknown
    """When the kernel wrote the message, in seconds since 1970."""
    pid: int
    """The number of the task: the pid of a process, or the number of one of its threads."""
    name: str
    """The name of the task, at most 15 characters, as the kernel keeps it."""
    waited: int
    """Seconds that it had been blocked by then, or more."""
    owner: str = ""
    """The likely holder of the lock that it waits for, by name; empty where the kernel (before 6.16) does not say."""
    owner_pid: int = 0
    """The number of that task; 0: the kernel does not say."""
    waits_for: AwaitedPart | Literal[""] = ""
    """The part that it waits for, as its trace shows: GPU driver, network file system, FUSE, disk; empty: not shown."""
    waits_in: str = ""
    """The innermost of these functions, and whose it is: ``fuse_lock_inode of FUSE``."""


def io_errors(messages: Iterable[Message]) -> tuple[IoError, ...]:
    """Complaints about disks and file systems."""
    return tuple(
        IoError(**when(message), device=_device(message.text), text=message.text.strip())
        for message in messages
        if KINDS["disk"].find(message.text)
    )


def _device(text: str) -> str:
    found = _DEVICE.search(text)
    return next((group for group in found.groups() if group), "") if found else ""


def hung_tasks(messages: Iterable[Message]) -> tuple[HungTask, ...]:
    """Tasks that were blocked for too long."""
    read = tuple(messages)
    owners = {one.group(1, 2): one.group(3, 4) for each in read if (one := KINDS["lock_owner"].find(each.text))}
    found = ((number, KINDS["hung_task"].find(message.text)) for number, message in enumerate(read))
    return tuple(replace(_hung(read[number], one, owners), **_waits(read, number)) for number, one in found if one)


def _hung(message: Message, task: re.Match[str], owners: Mapping[tuple[str, ...], tuple[str, ...]]) -> HungTask:
    owner, owner_pid = owners.get(task.group(1, 2), ("", "0"))
    return HungTask(
        **when(message), name=task[1], pid=int(task[2]), waited=int(task[3]), owner=owner, owner_pid=int(owner_pid)
    )


def _waits(messages: Sequence[Message], number: int) -> dict[str, Any]:
    """Return what the task of this message waits for, by the trace that the kernel prints behind it."""
    own = messages[number]
    behind = takewhile(
        lambda later: _same_moment(own, later) and not KINDS["hung_task"].find(later.text), messages[number + 1 :]
    )
    frames = [
        (one["function"] or one["called"], one["module"] or one["of"] or "")
        for each in behind
        if (one := _frame(each.text))
    ]
    awaited = awaited_part(frames)
    return {"waits_for": awaited.part, "waits_in": awaited.place} if awaited else {}


def _frame(text: str) -> re.Match[str] | None:
    return KINDS["hung_frame"].find(text)


def _same_moment(one: Message, later: Message) -> bool:
    """Whether both may be of one trace, which the kernel prints at once; without times nothing speaks against it."""
    if one.since_boot is not None and later.since_boot is not None:
        return abs(later.since_boot - one.since_boot) <= TRACE
    return one.at is None or later.at is None or abs(later.at - one.at) <= TRACE


def xids(messages: Iterable[Message]) -> tuple[Xid, ...]:
    """Faults of GPUs; those of switches are not among them."""
    found = ((message, KINDS["xid"].find(message.text)) for message in messages)
    return tuple(_with_meaning(_xid(it, "", one[1], one[3], one[4] or ""), one[2]) for it, one in found if one)


def _with_meaning(xid: Xid, instance: str) -> Xid:
    known = meaning(xid.code)
    need = need_of(xid.code, xid.text)
    return replace(
        xid,
        instance=instance.strip(" ,"),
        meaning=known.meaning,
        bucket=known.bucket,
        need=need,
        who=who_acts(xid.code, need),
    )


def sxids(messages: Iterable[Message]) -> tuple[Xid, ...]:
    """Faults of NVSwitches; the lines with details that follow one count only where the log has nothing else of it."""
    kept: set[tuple[str, int]] = set()
    made: list[Xid] = []
    for message in messages:
        if not (one := KINDS["sxid"].find(message.text)):
            continue
        found = _xid(message, one[1], one[2], one[3], one[4] or "")
        details = bool(_DETAILS.match(found.text))
        if not details or (found.switch, found.code) not in kept:
            made.append(_with_switch(found))
        kept.add((found.switch, found.code))
    return tuple(made)


def _with_switch(sxid: Xid) -> Xid:
    known = switch_fault(sxid.code, sxid.text)
    return replace(sxid, meaning=known.meaning, need=known.need, who=known.who, severity=known.severity)


def _xid(message: Message, switch: str, bus: str, code: str, text: str) -> Xid:
    pid, name = _PID.search(text), _NAME.search(text)
    named = name if name and "<unknown>" not in name[1] else None
    return Xid(
        **when(message),
        code=int(code),
        bus_id=bus_id(bus) or bus.strip("."),
        pid=int(pid[1]) if pid else _NOT_SAID,
        name=named[1].strip("'\"") if named else _NOT_SAID,
        names_process=bool(pid and named),
        switch=switch,
        text=text.strip(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    """The lines of one out-of-memory event so far."""

    by: str = ""
    scope: Literal["host", "cgroup", "nodes"] | None = None
    cgroup: str | None = None
    limit: str | None = None
    pid: int | None = None
    """The victim, as the summary names it."""
    name: str | None = None
    chosen: str = ""
    """The process that an old kernel chose; it may have killed a child of it instead."""
    died: bool = False
    group: bool = False
    """Everything in the control group is killed."""
    message: Message


def oom_kills(messages: Iterable[Message]) -> tuple[OomKill, ...]:
    """Return the processes that were killed, in order; a kill that is reported twice counts once.

    A shortage whose victim is not in the log counts only if none is named soon after it: the kernel asks again and
    again until one has died, and its reaper may be the first that names it.
    """
    found: list[_Reported] = []
    seen: dict[int, float | None] = {}
    for each in _reported_kills(messages):
        before = seen.get(each.pid, -1e9) if each.pid else -1e9
        if before is not None and (each.at is None or each.at - before > 2):
            found.append(each)
        if each.pid:
            seen[each.pid] = each.at
    return tuple(each.kill for each, later in zip_longest(found, found[1:]) if not _is_named_by(each, later))


class _Reported(NamedTuple):
    kill: OomKill
    pid: int
    """0: nobody is named."""
    at: float | None
    asked_only: bool = False
    """Whether only the request for memory is in the log."""


def _is_named_by(asked: _Reported, later: _Reported | None) -> bool:
    """Whether *later* names the victim of *asked*."""
    if later is None or not asked.asked_only or not later.pid:
        return False
    return asked.at is None or later.at is None or later.at - asked.at <= SHORTAGE


def _reported_kills(messages: Iterable[Message]) -> Iterator[_Reported]:
    event: _Event | None = None
    reported: set[int] = set()  # who was killed: a reaper takes their memory some time later
    for message in messages:
        text = message.text
        if found := KINDS["oom_invoked"].find(text):
            yield from _unfinished(event)
            event = _Event(by=found[1].rpartition("] ")[2].strip(), message=message)
        elif found := KINDS["oom_constraint"].find(text):
            event = _summary(found, event, message)
        elif found := KINDS["oom_limit"].find(text):
            event = replace(
                _event_with(event, message), scope="cgroup", cgroup=found[1], limit=found[2], message=message
            )
        elif found := KINDS["oom_stats"].find(text):  # of the group at its limit first, then of those below it
            event = _event_with(event, message)
            event = replace(event, scope="cgroup", limit=event.limit or found[1], message=message)
        elif found := KINDS["oom_group"].find(text):
            by = event.by if event else ""
            event = _Event(by=by, scope="cgroup", limit=found[1], group=True, died=True, message=message)
        elif found := KINDS["oom_chosen"].find(text):
            event = replace(
                _scoped(_event_with(event, message), text), chosen=f"{found[1]} ({found[2]})", message=message
            )
        elif found := KINDS["oom_reaped"].find(text):
            if int(found[1]) not in reported:  # its other lines are not kept
                reported.add(int(found[1]))
                event = (
                    event
                    if event and not event.died and event.pid in (None, int(found[1]))
                    else _Event(message=message)
                )
                yield _Reported(_kill(event, message, int(found[1]), found[2], ""), int(found[1]), message.at)
                event = replace(event, died=True, pid=None)
        elif KINDS["oom_nobody"].find(text):
            event = None
        elif found := KINDS["oom_killed"].find(text):
            reported.add(int(found[1]))
            event = _scoped(_event_with(event, message), text)
            yield _Reported(_kill(event, message, int(found[1]), found[2], found[3] or ""), int(found[1]), message.at)
            event = replace(event, died=True, pid=None)
    yield from _unfinished(event)


def _event_with(event: _Event | None, message: Message) -> _Event:
    """The event that *message* belongs to: a kernel says one after the other, within moments."""
    if event is None or (event.died and not event.group):
        return _Event(message=message)
    late = message.at is not None and event.message.at is not None and message.at - event.message.at > SHORTAGE
    return _Event(message=message) if late else event


def _scoped(event: _Event, text: str) -> _Event:
    lower = text.lower()
    if "memory cgroup out of memory" in lower:
        return replace(event, scope="cgroup")
    if "out of memory" in lower and event.scope != "nodes":
        return replace(event, scope="host", limit="")
    return event


def _summary(found: re.Match[str], event: _Event | None, message: Message) -> _Event:
    reported: Mapping[str, str] = dict(part.partition("=")[::2] for part in found[2].split(",") if "=" in part)
    constraint = found[1].upper()
    own = constraint == "CONSTRAINT_MEMCG"
    narrow = constraint in ("CONSTRAINT_CPUSET", "CONSTRAINT_MEMORY_POLICY")
    before = _event_with(event, message)
    return replace(
        _Event(message=message) if before.died else before,
        scope="cgroup" if own else "nodes" if narrow else "host",
        cgroup=reported.get("task_memcg"),
        limit=reported.get("oom_memcg") if own else "",
        pid=int(reported["pid"]) if reported.get("pid", "").isdigit() else None,
        name=reported.get("task"),
        message=message,
    )


def _unfinished(event: _Event | None) -> Iterator[_Reported]:
    """A kill whose last line is not in the log any more."""
    if event is None or event.died or not (event.pid or event.chosen or event.by):
        return
    if event.pid:
        yield _Reported(_kill(event, event.message, event.pid, event.name or "", ""), event.pid, event.message.at)
        return
    why = Unknown(why=f"the kernel chose {event.chosen}, and the log does not say whether a child of it died instead")
    if not event.chosen:
        why = Unknown(why=f"{event.by} requested memory that was not there, and the log does not say who was killed")
    kill = replace(_kill(event, event.message, 0, "", ""), pid=why, name=why)
    yield _Reported(kill, 0, event.message.at, asked_only=not event.chosen)


def _kill(event: _Event, message: Message, pid: int, name: str, rest: str) -> OomKill:
    resident = re.search(r"anon-rss:(\d+)kB", rest)
    uid = re.search(r"\bUID:(\d+)\b", rest) or re.search(r"\bUID (\d+), ", message.text)
    container: list[str | Unknown] = list(_CONTAINER.findall(event.cgroup or ""))
    if container and _A_USERS.search(event.cgroup or ""):
        container = [Unknown(why="a user created the control group, and may have named it after any container")]
    return OomKill(
        **when(message),
        pid=pid,
        name=name,
        scope=event.scope or _NOT_SAID,
        cgroup=event.cgroup or _NOT_SAID,
        container=_NOT_SAID if event.cgroup is None else container[-1] if container else "",
        limit=_NOT_SAID if event.limit is None else event.limit,
        invoked_by=event.by,
        resident_kb=int(resident[1]) if resident else _NOT_SAID,
        uid=int(uid[1]) if uid else _NOT_SAID,
    )


def when(message: Message) -> dict[str, Any]:
    """The fields that say when *message* was written."""
    if message.at is None:
        return {"at": _NO_TIME, "seconds": _NO_TIME}
    return {"at": written(message.at), "seconds": round(message.at, 3)}
