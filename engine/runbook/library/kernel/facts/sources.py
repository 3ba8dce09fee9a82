"""Merge the sources of kernel messages (journal, dmesg, kern.log), and determine how far back they go."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import field, replace

from runbook.dataclass import dataclass
from runbook.library.kernel.facts.faults import missed
from runbook.library.kernel.facts.patterns import KINDS
from runbook.library.system.facts.kernel_messages import HostClock, Message, message, messages
from runbook.text.host_json import finite
from runbook.text.timestamps import offset

LINE = 1000
"""Characters of a line that are inspected."""

_BOOTED = 120.0
"""A log whose first line is from so soon after boot goes back to the boot."""

_SUBSYSTEM = re.compile(r"\s*[\w.-]{2,30}(?: ?[\[(]?[\w:.-]{1,30}[\])]?)?: \S")
"""The beginning of a kernel message whose time was left out: ``nvme nvme0: ``, ``XFS (sda1): ``."""

_OVERLAP = 10.0
"""Seconds by which the clocks behind two sources may differ for what is merged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One place that keeps the kernel's messages."""

    name: str
    why_not: str = ""
    """The reason why it cannot be relied on; empty: it was read."""
    found: tuple[Message, ...] = ()
    """The lines that may matter."""
    lines: int = 0
    """The number of its lines."""
    first: Message | None = None
    last: Message | None = None
    start: float | None = None
    """The moment of the first message that it keeps at all, also where less was asked for."""
    dropped: int = 0
    """Lines that may matter and were too many to be sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelLog:
    """The messages of a host's kernel, as far as they are kept."""

    messages: tuple[Message, ...] = ()
    sources: tuple[str, ...] = ()
    why_not: str = ""
    """The reason why nothing could be read; empty: something was."""
    begins: float | None = None
    """The time from which on the log is complete; None: unknown."""
    ends: float | None = None
    """The moment of the last message."""
    lines: int = 0
    missed: int = 0
    """Messages that the journal says it has missed, and that no other source has either."""
    drift: float | None = None
    """By how many seconds the journal's times are later than those reckoned from the time since boot."""
    clock: HostClock = field(default_factory=HostClock)
    errors: tuple[Message, ...] = ()
    """The last ones that the kernel calls errors, or worse (``dmesg -x``)."""
    understood: bool = True
    """Whether at least one line is of a form that is known: else nothing can be said of the log."""
    taint: int | None = None
    """The bits that the kernel has set itself since the boot (/proc/sys/kernel/tainted)."""


@dataclass(slots=True)
class _Told:
    name: str
    facts: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)


def read_kernel(output: str) -> KernelLog:
    """Parse the output of the script of ``ask_kernel``."""
    clock, taint, reported, errors = HostClock(), "", list[_Told](), list[str]()
    for line in output.split("\n"):
        word, _, rest = line.partition(" ")
        if line.startswith(" ") and reported:
            reported[-1].lines.append(line[1:])
        elif word == "clock":
            clock = _clock(rest)
        elif word == "taint":
            taint = rest
        elif word == "error":
            errors.append(rest)
        elif word == "source":
            reported.append(_Told(name=rest))
        elif reported and line:
            reported[-1].facts.setdefault(word, rest)
    merged = _merged([_source(answer, clock) for answer in reported], clock)
    bits = int(taint) if taint.isascii() and taint.isdigit() and len(taint) < 20 else None
    return replace(merged, errors=messages(errors, clock), taint=bits)


def read_text(text: str) -> KernelLog:
    """Parse a log that was handed to us; no clock goes with it."""
    found = messages((line[:LINE] for line in text.split("\n")), HostClock())
    times = [each.at for each in found if each.at is not None]
    return KernelLog(
        messages=found,
        sources=("text",) if found else (),
        why_not="" if found else "the text is empty",
        begins=min(times, default=None),
        ends=max(times, default=None),
        lines=len(found),
        understood=not found or any(_is_understood(line) for line in text.split("\n")),
    )


def _is_understood(line: str) -> bool:
    """Whether *line* has a beginning of a known form, or is about something that messages are known of."""
    begun = message(line, HostClock()).text != line.strip("\r\n") or _SUBSYSTEM.match(line)
    return bool(begun) or any(hint in line.lower() for kind in KINDS.values() for hint in kind.hints)


def _clock(text: str) -> HostClock:
    now, boot, zone = (*text.split(" "), "", "", "")[:3]
    if not now.isdigit():
        return HostClock()
    return HostClock(now=finite(now), boot=finite(boot) if boot.isdigit() else None, zone=offset(zone))


def _source(reported: _Told, clock: HostClock) -> Source:
    facts, end = reported.facts, reported.facts.get("end", "")
    first, last = (message(facts[word], clock) if word in facts else None for word in ("first", "last"))
    start = message(facts["start"], clock).at if "start" in facts else None
    made = Source(
        name=reported.name,
        found=messages(reported.lines, clock),
        lines=int(facts.get("lines", "0")),
        first=first,
        last=last,
        start=start if start is not None else first.at if first else None,
        dropped=int(facts.get("dropped", "0")),
    )
    return replace(made, why_not=_why_not(made, end, facts.get("note", "")))


def _why_not(source: Source, end: str, note: str) -> str:
    if end == "127":
        return "not on this host"
    if end == "13":
        return "no permission to read it"
    if end != "0":
        said = (source.last.text if source.last else note).strip() or "failed"
        hint = "; kernel.dmesg_restrict may limit it to root" if said.endswith("not permitted") else ""
        return f"{said} (exit code {end or 'unknown'}{hint})"
    if source.name == "journal" and note.startswith("Hint:"):
        return "the journal shows this user only their own messages"
    if not source.lines and not (source.name == "journal" and source.start is not None):
        return note.strip("- ") or "it is empty"
    if source.first and "gVisor" in source.first.text:
        return "it is the log of a gVisor sandbox, not of the kernel"
    return ""


def _merged(sources: list[Source], clock: HostClock) -> KernelLog:
    read = [source for source in sources if not source.why_not]
    if not read:
        why = "; ".join(f"{source.name}: {source.why_not}" for source in sources)
        return KernelLog(why_not=why or "neither journalctl nor dmesg was found", clock=clock)
    first, *others = read
    drift = _drift(first, others[0]) if others else None
    others = [_shifted(other, drift or 0.0) for other in others]
    found, lost = _combined(first, others)
    begins = (_begins(source, clock) for source in (first, *others[:1]))
    ends = (source.last.at for source in read if source.last)
    return KernelLog(
        messages=found,
        sources=tuple(source.name for source in read),
        begins=min((moment for moment in begins if moment is not None), default=None),
        ends=max((moment for moment in ends if moment is not None), default=None),
        lines=max(source.lines for source in read),
        missed=lost,
        drift=drift,
        clock=clock,
    )


def _combined(first: Source, others: Iterable[Source]) -> tuple[tuple[Message, ...], int]:
    """The messages of *first* with what only *others* have, and how many are missing in all of them."""
    lost_at, lost = missed(first.found)
    found = list(first.found)
    for other in others:
        found += _later(other, found, first, everything=lost > 0)
        if lost_at is not None and other.first and other.first.at is not None and other.first.at < lost_at:
            lost = 0  # what the journal missed is in the ring buffer
    if len(found) > len(first.found):
        found.sort(key=lambda one: float("-inf") if one.at is None else one.at)
    return tuple(found), lost


def reaches_boot(reading: KernelLog) -> bool:
    """Whether everything is there that the kernel has said since the host was booted."""
    boot = reading.clock.boot
    return boot is not None and reading.begins is not None and reading.begins <= boot + _BOOTED


def _shifted(source: Source, seconds: float) -> Source:
    """*source* by a clock that is so much ahead: that of the journal, which was set by the time of day."""

    def moved(one: Message) -> Message:
        return one if one.at is None else replace(one, at=one.at + seconds)

    found = tuple(map(moved, source.found))
    return replace(source, found=found, last=moved(source.last) if source.last else None)


def _later(other: Source, found: Iterable[Message], first: Source, *, everything: bool) -> list[Message]:
    """Return the messages of *other* from before and after *first*, or *everything* that *first* lacks.

    The same text is the same message only where its time is the same, too: faults repeat themselves word for word.
    """
    known: dict[str, list[float | None]] = {}
    for one in found:
        known.setdefault(one.text.strip(), []).append(one.at)
    begin = first.first.at if first.first and first.first.at is not None else float("inf")
    end = first.last.at if first.last and first.last.at is not None else float("-inf")
    outside = (
        candidate
        for candidate in other.found
        if everything
        or candidate.at is None
        or candidate.at > end - _OVERLAP
        or candidate.at < min(begin, end) + _OVERLAP
    )
    return [each for each in outside if not _is_known(each, known.get(each.text.strip(), ()))]


def _is_known(message: Message, times: Iterable[float | None]) -> bool:
    return any(at is None or message.at is None or abs(at - message.at) <= _OVERLAP for at in times)


def _begins(source: Source, clock: HostClock) -> float | None:
    """The moment from which on nothing is missing: that of the first line, or the boot where that was the first."""
    if source.dropped:
        return next((each.at for each in source.found if each.at is not None), None)
    if source.first and source.first.since_boot is not None and source.first.since_boot < _BOOTED:
        return clock.boot
    return source.start


def _drift(journal: Source, ring: Source) -> float | None:
    """The offset between the two clocks, by the last messages that both have."""
    if journal.name != "journal":
        return None
    both = [each for each in (journal.last, *journal.found[-50:]) if each and each.at is not None]
    times: dict[str, list[float]] = {}
    for journal_message in both:
        times.setdefault(journal_message.text.strip(), []).append(journal_message.at or 0.0)
    clock_offset: list[float] = [
        other - ring_message.at
        for ring_message in (ring.last, *reversed(ring.found[-50:]))
        if ring_message and ring_message.at is not None
        for other in times.get(ring_message.text.strip(), ())
    ]  # a message that came again and again has several partners: the nearest is the same one
    return round(sorted(clock_offset, key=lambda seconds: seconds * seconds)[0], 1) if clock_offset else None
