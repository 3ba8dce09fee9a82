"""Parse and print points in time in the forms of logs, programs and people, as seconds since the epoch."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import NamedTuple

from runbook.dataclass import dataclass

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_AGO = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+|\d+(?:\.\d+)?")
_ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?\s*(Z|UTC|[+-]\d\d:?\d\d)?", re.IGNORECASE
)
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_CTIME = re.compile(r"(?:[A-Z][a-z]{2} )?([A-Z][a-z]{2}) +(\d{1,2}) (\d\d):(\d\d):(\d\d)(?: (\d{4}))?")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeReference:
    """A point in time: *ago* seconds before now, or *at* a time; if both are None, no time was given."""

    ago: float | None = None
    at: float | None = None

    def on(self, now: float) -> float | None:
        """Return the point in time on a host whose clock shows *now*; None if no time was given."""
        return self.at if self.ago is None else now - self.ago


def time_reference(value: str | float) -> TimeReference:
    """Parse ``10m``, a number of seconds (both: ago), ``@1700000000``, or a time with its zone.

    Raises ValueError with a message.
    """
    if isinstance(value, int | float):
        return TimeReference(ago=float(value))
    text = value.strip()
    if not text:
        return TimeReference()
    if text.startswith("0001-01-01"):
        raise ValueError(f"{text} is how Docker writes `never`: it is not a point in time")
    if re.fullmatch(r"@\d+(\.\d+)?", text):
        return TimeReference(at=float(text[1:]))
    if _AGO.fullmatch(text):
        parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)?", text)
        return TimeReference(ago=sum(float(number) * _SECONDS.get(unit, 1.0) for number, unit in parts))
    found = _ISO.fullmatch(text)
    if found and not found[8]:
        raise ValueError(f"{text} has no zone: write 2026-01-31T12:00:00Z, or +02:00 for the zone it is in")
    if found and (at := _iso(found, 0.0)) is not None:
        return TimeReference(at=at)
    raise ValueError(
        f"{text!r} is not a point in time: write 10m (ago), 2026-01-31T12:00:00Z, or @ and seconds since 1970"
    )


def day(text: str, now: float) -> float | None:
    """Return the beginning (UTC) of the day ``today``, ``yesterday`` or ``2026-01-31``; None for other texts.

    *now* is in seconds since the epoch.
    """
    word = text.strip()
    if word in ("today", "yesterday"):
        midnight = now - now % 86400.0
        return midnight if word == "today" else midnight - 86400.0
    return iso(f"{word}T00:00Z") if _DAY.fullmatch(word) else None


def utc(moment: datetime | float) -> str:
    """Return *moment*, a time with a zone or seconds since the epoch, in ISO 8601, UTC, to the second."""
    at = datetime.fromtimestamp(moment, UTC) if isinstance(moment, int | float) else moment.astimezone(UTC)
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")


def iso(text: str, zone: float = 0.0) -> float | None:
    """Return the time in *text* (ISO 8601), else None; *zone* (seconds east of Greenwich) is used if *text* has no
    zone.
    """
    found = _ISO.fullmatch(text.strip())
    return _iso(found, zone) if found else None


def _iso(found: re.Match[str], zone: float) -> float | None:
    year, month, day, hour, minute = (int(group) for group in found.groups()[:5])
    fraction = float(f"0.{found[7][:9]}") if found[7] else 0.0
    try:
        made = datetime(year, month, day, hour, minute, int(found[6] or 0), tzinfo=_zone(found[8], zone))
    except (ValueError, OverflowError):
        return None
    return made.timestamp() + fraction


def _zone(text: str | None, otherwise: float) -> timezone:
    if text is None:
        return timezone(timedelta(seconds=otherwise))
    return UTC if text.upper() in ("Z", "UTC") else timezone(timedelta(seconds=offset(text)))


_LINE_BEGINS = re.compile(r"^(?:\s*(?:\([^()]{0,60}\)|\[?rank\d+\]?:?|[\[(<]))*\s*", re.IGNORECASE)
"""Matches the words of loggers before the time of a line: the process, the rank, an opening bracket."""
_LEVEL = r"(?:[A-Z][A-Za-z]{2,9}[\s:|]+[\[(]?)?"
_LINE_TIMES = (
    re.compile(rf"{_LEVEL}(\d{{4}}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?\s?(?:Z|UTC|[+-]\d\d:?\d\d)?)"),
    re.compile(rf"{_LEVEL}(?P<y>\d{{4}})[/.]?(?P<m>\d\d)[/.]?(?P<d>\d\d)[-_T ](?P<t>\d\d:\d\d:\d\d)"),  # Go, compact
    re.compile(r"(?:[A-Z]+ |[IWEF])(?P<m>\d\d)-?(?P<d>\d\d) (?P<t>\d\d:\d\d:\d\d)"),  # glog, vLLM: no year
)
_LINE_SYSLOG = re.compile(r"(?:[A-Z][a-z]{2} )?[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d(?: \d{4})?")
NO_YEAR = "no year"
"""The kind of a time without a year."""
_ZONED = re.compile(r"(?:Z|UTC|[+-]\d\d:?\d\d)$", re.IGNORECASE)
_LINE_SECONDS = re.compile(r"@?(\d{9,10}(?:\.\d+)?)(?=[\s\]:,|])")


class LineTime(NamedTuple):
    """The time that a line of a log begins with."""

    at: float
    """Seconds since the epoch."""
    kind: str
    """The form of the time. Lines of one program have one kind; two kinds may be in two zones."""


def line_time(line: str, zone: float, now: float) -> float | None:
    """The time that a line of a log begins with; None where it has none.

    ISO 8601, Go's, compact, glog's, syslog's, ``ctime``, and seconds since 1970; the level, the process and brackets
    may stand before it.  *zone* (seconds east of Greenwich) where it does not say; *now* for times without a year.
    """
    found = timed_line(line, zone, now)
    return found.at if found else None


def timed_line(line: str, zone: float, now: float) -> LineTime | None:
    """The time that a line of a log begins with, and its kind; see ``line_time``."""
    text = line[:120]
    text = text[_LINE_BEGINS.match(text).end() :]  # type: ignore[union-attr] # it matches an empty text, too
    if found := _LINE_TIMES[0].match(text):
        zoned = "iso zone" if _ZONED.search(found[1]) else "iso"
        return _line_time(iso(found[1], zone), zoned)
    if found := _LINE_TIMES[1].match(text):
        return _line_time(iso(f"{found['y']}-{found['m']}-{found['d']} {found['t']}", zone), "compact")
    if found := _LINE_TIMES[2].match(text):
        month = _MONTHS[int(found["m"]) - 1] if 1 <= int(found["m"]) <= 12 else ""
        return _line_time(ctime(f"{month} {found['d']} {found['t']}", zone, now) if month else None, NO_YEAR)
    if found := _LINE_SYSLOG.match(text):
        return _line_time(ctime(found[0], zone, now), "ctime" if found[0][-5] == " " else NO_YEAR)
    found = _LINE_SECONDS.match(text)
    return LineTime(float(found[1]), "seconds") if found else None


def _line_time(at: float | None, kind: str) -> LineTime | None:
    return None if at is None else LineTime(at, kind)


def near(at: float) -> float:
    """The *now* with which a time without a year is in the year that brings it nearest to *at*."""
    return at + 182 * 86400.0


def ctime(text: str, zone: float, now: float) -> float | None:
    """Return the time of ``Sun Feb 23 16:24:18 2025``, or of ``Feb 23 16:24:18`` (syslog): the last such time before
    *now*.
    """
    found = _CTIME.fullmatch(text.strip())
    if not found or found[1] not in _MONTHS:
        return None
    month, east = _MONTHS.index(found[1]) + 1, timezone(timedelta(seconds=zone))
    years = (int(found[6]),) if found[6] else _years(now)
    for year in years:
        try:
            day, hour, minute, second = (int(group) for group in found.groups()[1:5])
            at = datetime(year, month, day, hour, minute, second, tzinfo=east).timestamp()
        except ValueError:
            continue
        if found[6] or at <= now + 86400:
            return at
    return None


def _years(now: float) -> tuple[int, ...]:
    this = datetime.fromtimestamp(now, UTC).year
    return (this + 1, this, this - 1, this - 2, this - 3, this - 4)


def offset(text: str) -> float:
    """Return the seconds east of Greenwich of ``+0200`` or ``-07:00``; 0 for anything else."""
    found = re.fullmatch(r"([+-])(\d\d):?(\d\d)", text.strip())
    if not found or int(found[2]) > 15:
        return 0.0
    return (int(found[2]) * 3600 + int(found[3]) * 60) * (-1.0 if found[1] == "-" else 1.0)


def written(at: float) -> str:
    """Return the time *at* in ISO 8601, UTC, to the second."""
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return f"@{at:g}"
