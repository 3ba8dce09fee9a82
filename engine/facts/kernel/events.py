"""What a kernel's messages tell of: processes killed for memory, GPU faults, failing disks, hung tasks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from engine.facts.gpu.model import bus_id
from engine.facts.gpu.xids import meaning, need_of
from engine.facts.kernel.messages import Message
from engine.facts.kernel.patterns import KINDS
from engine.text.timestamps import written
from engine.values.types import Unknown

_NO_TIME = Unknown(why="the line carries no time that can be determined")
_NOT_SAID = Unknown(why="the kernel's log does not say")

_CONTAINER = re.compile(r"(?<![0-9a-f])([0-9a-f]{64})(?![0-9a-f])")
_A_USERS = re.compile(r"/user\.slice/|/user@\d+\.service/")
"""In the name of a control group that a user has made, and called as he likes."""
_PID = re.compile(r"""\bpid=['"]?(\d+)""")
_NAME = re.compile(r"\bname=(.+?)(?:, |,?$)")
_DEVICE = re.compile(
    r"\bdev(?:ice)?:? (?:\[)?([a-z][\w-]*)|\((?:device )?([a-z][\w-]*)\)|\b(nvme\d+(?:n\d+)?|sd[a-z]+\d*|ata[\d.]+)\b"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OomKill:
    """A process that the kernel ended for want of memory."""

    at: str | Unknown
    """ISO 8601, UTC."""
    seconds: float | Unknown
    """The same, since 1970."""
    pid: int | Unknown
    name: str | Unknown
    """At most 15 characters, as the kernel keeps it."""
    scope: Literal["host", "cgroup", "nodes"] | Unknown
    """Whether the host was out of memory, a control group had reached its own limit, or the memory nodes that the
    process may use (by a cpuset or a policy) were full."""
    cgroup: str | Unknown
    """The control group of the process."""
    container: str | Unknown
    """The id in that group's name, 64 characters; empty where it is no container's."""
    limit: str | Unknown
    """The control group whose limit was reached; empty on a host's own want."""
    invoked_by: str
    """Who asked for the memory that was not there: not who died."""
    resident_kb: int | Unknown
    """What it held of memory that is no file's."""
    uid: int | Unknown = _NOT_SAID
    """Whose process it was, by number: anybody may give a process any name.  Kernels before 5.4 do not say it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Xid:
    """A fault that the NVIDIA driver reports, of a GPU or of an NVSwitch."""

    at: str | Unknown
    seconds: float | Unknown
    code: int
    bus_id: str
    """As sysfs writes it."""
    pid: int | Unknown
    """Whom the driver names: often a victim, or the process that inspected it."""
    name: str | Unknown
    switch: str
    """``nvidia-nvswitch0`` of an SXid; empty of an Xid."""
    instance: str = ""
    """The MIG instance, as the driver names it: ``GPU-I:05``, ``GPU-I:05 GPU-CI:00``; empty: the whole GPU."""
    meaning: str = ""
    """What the vendor's catalogue says of the code, in short; empty of an SXid."""
    bucket: str = ""
    """The vendor's word for what to do at once: ``RESET_GPU``, ``RESTART_APP`` ..."""
    need: str = ""
    """The same in words, where an Xid 154 tells by its own text: ``reset the GPU``, ``reboot the node`` ..."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IoError:
    """A complaint about a disk or a file system."""

    at: str | Unknown
    seconds: float | Unknown
    device: str
    """Empty where the line names none."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HungTask:
    """A task that the kernel saw waiting for too long."""

    at: str | Unknown
    seconds: float | Unknown
    pid: int
    name: str
    waited: int
    """Seconds."""


def io_errors(messages: Iterable[Message]) -> tuple[IoError, ...]:
    """Complaints about disks and file systems."""
    return tuple(
        IoError(**when(it), device=_device(it.text), text=it.text.strip())
        for it in messages
        if KINDS["disk"].find(it.text)
    )


def _device(text: str) -> str:
    found = _DEVICE.search(text)
    return next((it for it in found.groups() if it), "") if found else ""


def hung_tasks(messages: Iterable[Message]) -> tuple[HungTask, ...]:
    """Tasks that were blocked for too long."""
    found = ((it, KINDS["hung_task"].find(it.text)) for it in messages)
    return tuple(HungTask(**when(it), name=one[1], pid=int(one[2]), waited=int(one[3])) for it, one in found if one)


def xids(messages: Iterable[Message]) -> tuple[Xid, ...]:
    """Faults of GPUs; those of switches are not among them."""
    found = ((it, KINDS["xid"].find(it.text)) for it in messages)
    return tuple(_with_meaning(_xid(it, "", one[1], one[3], one[4] or ""), one[2]) for it, one in found if one)


def _with_meaning(xid: Xid, instance: str) -> Xid:
    known = meaning(xid.code)
    need = need_of(xid.code, xid.text)
    return replace(xid, instance=instance.strip(" ,"), meaning=known.meaning, bucket=known.bucket, need=need)


def sxids(messages: Iterable[Message]) -> tuple[Xid, ...]:
    """Faults of NVSwitches."""
    found = ((it, KINDS["sxid"].find(it.text)) for it in messages)
    return tuple(_xid(it, one[1], one[2], one[3], one[4] or "") for it, one in found if one)


def _xid(it: Message, switch: str, bus: str, code: str, text: str) -> Xid:
    pid, name = _PID.search(text), _NAME.search(text)
    return Xid(
        **when(it),
        code=int(code),
        bus_id=bus_id(bus) or bus,
        pid=int(pid[1]) if pid else _NOT_SAID,
        name=_NOT_SAID if not name or "<unknown>" in name[1] else name[1].strip("'\""),
        switch=switch,
        text=text.strip(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Event:
    """What has been said so far of one want of memory."""

    by: str = ""
    scope: Literal["host", "cgroup", "nodes"] | None = None
    cgroup: str | None = None
    limit: str | None = None
    pid: int | None = None
    """The victim, as the summary names it."""
    name: str | None = None
    chosen: str = ""
    """Whom an old kernel chose; it may have killed a child of it instead."""
    died: bool = False
    group: bool = False
    """Everything in the control group is killed."""
    message: Message


def oom_kills(messages: Iterable[Message]) -> tuple[OomKill, ...]:
    """Who was killed, in order; a kill that is reported twice counts once."""
    kills: list[OomKill] = []
    seen: dict[int, float | None] = {}
    for kill, pid, at in _kills(messages):
        before = seen.get(pid, -1e9) if pid else -1e9
        if before is not None and (at is None or at - before > 2):
            kills.append(kill)
        if pid:
            seen[pid] = at
    return tuple(kills)


def _kills(messages: Iterable[Message]) -> Iterator[tuple[OomKill, int, float | None]]:
    event: _Event | None = None
    reported: set[int] = set()  # who was killed: a reaper takes their memory some time later
    for it in messages:
        text = it.text
        if found := KINDS["oom_invoked"].find(text):
            yield from _unfinished(event)
            event = _Event(by=found[1].rpartition("] ")[2].strip(), message=it)
        elif found := KINDS["oom_constraint"].find(text):
            event = _summary(found, event, it)
        elif found := KINDS["oom_limit"].find(text):
            event = replace(_of(event, it), scope="cgroup", cgroup=found[1], limit=found[2], message=it)
        elif found := KINDS["oom_group"].find(text):
            by = event.by if event else ""
            event = _Event(by=by, scope="cgroup", limit=found[1], group=True, died=True, message=it)
        elif found := KINDS["oom_chosen"].find(text):
            event = replace(_scoped(_of(event, it), text), chosen=f"{found[1]} ({found[2]})", message=it)
        elif found := KINDS["oom_reaped"].find(text):
            if int(found[1]) not in reported:  # its other lines are not kept
                reported.add(int(found[1]))
                event = event if event and not event.died and event.pid in (None, int(found[1])) else _Event(message=it)
                yield _kill(event, it, int(found[1]), found[2], ""), int(found[1]), it.at
                event = replace(event, died=True, pid=None)
        elif KINDS["oom_nobody"].find(text):
            event = None
        elif found := KINDS["oom_killed"].find(text):
            reported.add(int(found[1]))
            event = _scoped(_of(event, it), text)
            yield _kill(event, it, int(found[1]), found[2], found[3] or ""), int(found[1]), it.at
            event = replace(event, died=True, pid=None)
    yield from _unfinished(event)


def _of(event: _Event | None, it: Message) -> _Event:
    """The event that *it* belongs to: a kernel tells one after the other, within moments."""
    if event is None or (event.died and not event.group):
        return _Event(message=it)
    late = it.at is not None and event.message.at is not None and it.at - event.message.at > 120
    return _Event(message=it) if late else event


def _scoped(event: _Event, text: str) -> _Event:
    lower = text.lower()
    if "memory cgroup out of memory" in lower:
        return replace(event, scope="cgroup")
    if "out of memory" in lower and event.scope != "nodes":
        return replace(event, scope="host", limit="")
    return event


def _summary(found: re.Match[str], event: _Event | None, it: Message) -> _Event:
    reported: Mapping[str, str] = dict(part.partition("=")[::2] for part in found[2].split(",") if "=" in part)
    constraint = found[1].upper()
    own = constraint == "CONSTRAINT_MEMCG"
    narrow = constraint in ("CONSTRAINT_CPUSET", "CONSTRAINT_MEMORY_POLICY")
    before = _of(event, it)
    return replace(
        _Event(message=it) if before.died else before,
        scope="cgroup" if own else "nodes" if narrow else "host",
        cgroup=reported.get("task_memcg"),
        limit=reported.get("oom_memcg") if own else "",
        pid=int(reported["pid"]) if reported.get("pid", "").isdigit() else None,
        name=reported.get("task"),
        message=it,
    )


def _unfinished(event: _Event | None) -> Iterator[tuple[OomKill, int, float | None]]:
    """A kill whose last line is not in the log any more."""
    if event is None or event.died or not (event.pid or event.chosen or event.by):
        return
    if event.pid:
        yield _kill(event, event.message, event.pid, event.name or "", ""), event.pid, event.message.at
        return
    why = Unknown(why=f"the kernel chose {event.chosen}, and the log does not say whether a child of it died instead")
    if not event.chosen:
        why = Unknown(why=f"{event.by} asked for memory that was not there, and the log does not say who was killed")
    yield replace(_kill(event, event.message, 0, "", ""), pid=why, name=why), 0, event.message.at


def _kill(event: _Event, it: Message, pid: int, name: str, rest: str) -> OomKill:
    resident = re.search(r"anon-rss:(\d+)kB", rest)
    uid = re.search(r"\bUID:(\d+)\b", rest) or re.search(r"process \d+, UID (\d+), \(", it.text)
    container: list[str | Unknown] = list(_CONTAINER.findall(event.cgroup or ""))
    if container and _A_USERS.search(event.cgroup or ""):
        container = [Unknown(why="the control group is one of a user's own, who may name it after any container")]
    return OomKill(
        **when(it),
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


def when(it: Message) -> dict[str, Any]:
    """The fields that say when *it* was said."""
    if it.at is None:
        return {"at": _NO_TIME, "seconds": _NO_TIME}
    return {"at": written(it.at), "seconds": round(it.at, 3)}
