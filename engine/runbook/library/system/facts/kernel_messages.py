"""Messages of the kernel with their times, from each form in which logs keep them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace

from runbook.dataclass import dataclass
from runbook.text.timestamps import ctime, iso

_FACILITY = r"(kern|user|mail|daemon|auth|syslog|lpr|news|uucp|cron|authpriv|ftp|local[0-7])\s*:\s*\w+\s*:\s*"
_LEVEL = re.compile(rf"<(\d+)>(?:1 (?=\d{{4}}-))?|{_FACILITY}")
_TALOS = re.compile(rf"[0-9A-Fa-f.:]{{7,39}}: {_FACILITY}\[(\d{{4}}-[^\]]{{10,40}}Z)\]: ")
"""`talosctl dmesg`: the node's address, facility, level and time."""
_NOT_THE_KERNELS = re.compile(r"(?:\S+ )?(?:systemd-oomd|systemd-journald?|earlyoom|runbook)\b|\[talos\] ")
"""Messages that count although another facility than the kernel's writes them: kills for memory, lost messages, our
resets.
"""
_JSON = re.compile(r'\{.*"MESSAGE"\s*:.*\}')
_BOOT = re.compile(r"\[\s*(\d+\.\d+)\](?:\[\s*[CT]\d+\])?\s?")
_CALENDAR = re.compile(r"\[([A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ [\d:]{8} \d{4})\](?:\s*\[\s*[CT]\d+\])?\s?")
_ISO = re.compile(r"(\d{4}-\d\d-\d\d[T ][\d:]{8}(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)\s")
_UNIX = re.compile(r"(\d{9,11}\.\d+)\s")
_SYSLOG = re.compile(r"([A-Z][a-z]{2} +\d+ [\d:]{8})\s")
_TAG = re.compile(r"\S+ kernel(?:\[\d+\])?: |\S+ kernel (?:-|\d+) \S+ (?:-|(?:\[[^]]*\])+) ")  # RFC 3164, RFC 5424
_LOOSE = re.compile(r"[^\[\]'\"]{0,60}?\bkernel: |\[[^\]\d]*(?:\+\d+\.\d+)?\] ")
"""The text before a message whose time cannot be read: months of other languages, ``dmesg -d``."""
_CALLER = re.compile(r"\[\s*[CT]\d+\]\s?")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostClock:
    """The host's clock at the time when its log was read."""

    now: float | None = None
    boot: float | None = None
    """The moment that it was booted, as far as its clock knows."""
    zone: float = 0.0
    """Seconds east of Greenwich."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One line of a kernel's log."""

    text: str
    """Without time, host and level."""
    at: float | None = None
    """Seconds since the epoch; None: unknown."""
    since_boot: float | None = None
    """Seconds since boot, where the line says it."""
    facility: str = "kern"
    """The facility that wrote it (syslog(3)): what a program writes to /dev/kmsg is never ``kern``; a line without one
    is.
    """


def message(line: str, clock: HostClock) -> Message:
    """Parse *line*: its text, time and facility."""
    rest = line.strip("\r\n")
    if _JSON.fullmatch(rest) and (entry := _journal_entry(rest)):
        return entry
    if talos := _TALOS.match(rest):
        return Message(text=rest[talos.end() :], at=iso(talos[2], 0.0), facility=talos[1])
    if level := _LEVEL.match(rest):
        facility = level[2] or ("kern" if int(level[1]) < 8 else "user")
        return replace(_without_level(rest[level.end() :], clock), facility=facility)
    return _without_level(rest, clock)


def _without_level(rest: str, clock: HostClock) -> Message:
    if found := _BOOT.match(rest):
        return _since_boot(found, rest, None, clock)
    if found := _CALENDAR.match(rest):
        return Message(text=rest[found.end() :], at=ctime(found[1], clock.zone, clock.now or 0.0))
    at: float | None
    if found := _UNIX.match(rest):
        at = float(found[1])
    elif found := _ISO.match(rest):
        at = iso(found[1], clock.zone)
    elif clock.now is not None and (found := _SYSLOG.match(rest)):
        at = ctime(found[1], clock.zone, clock.now)
    elif (found := _SYSLOG.match(rest)) or (found := _LOOSE.match(rest)):
        at = None
    else:
        return Message(text=rest)
    rest = rest[found.end() :]
    if tag := _TAG.match(rest):
        rest = rest[tag.end() :]
    if inner := _BOOT.match(rest):
        return _since_boot(inner, rest, at, clock)
    if caller := _CALLER.match(rest):
        rest = rest[caller.end() :]
    return Message(text=rest, at=at)


def _journal_entry(line: str) -> Message | None:
    """Return an entry of ``journalctl -o json``; None: *line* is none."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    text, moment = entry.get("MESSAGE"), str(entry.get("__REALTIME_TIMESTAMP", ""))
    if isinstance(text, list):  # bytes, where they are no UTF-8
        text = bytes(byte for byte in text if isinstance(byte, int) and 0 <= byte < 256).decode("utf-8", "replace")
    if not isinstance(text, str):
        return None
    return Message(text=text, at=int(moment) / 1e6 if re.fullmatch(r"[0-9]{1,18}", moment) else None)


def _since_boot(found: re.Match[str], line: str, at: float | None, clock: HostClock) -> Message:
    seconds, text = float(found[1]), line[found.end() :]
    if caller := _CALLER.match(text):
        text = text[caller.end() :]
    if at is None and clock.boot is not None:
        at = clock.boot + seconds
    return Message(text=text, at=at, since_boot=seconds)


def messages(lines: Iterable[str], clock: HostClock) -> tuple[Message, ...]:
    """Parse *lines*; one without a time of its own has the time of the one before it."""
    made: list[Message] = []
    for line in lines:
        if not line.strip():
            continue
        read = message(line, clock)
        if read.facility != "kern" and not _NOT_THE_KERNELS.match(read.text):
            continue
        if read.at is None and read.since_boot is None and made:
            read = Message(text=read.text, at=made[-1].at)
        made.append(read)
    return tuple(made)
