"""Find the times at which a rule may change hosts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from runbook.values.watch_rule import During, Window

FARTHEST = timedelta(days=400)
"""The time for which the next open window is searched."""


def closed_by(during: During, now: float) -> str:
    """Return the reason why *during* permits no change at *now* (seconds since the epoch); empty if it permits one."""
    return _closed_by(during, _local(during, now))


def opens_at(during: During, now: float) -> float:
    """Return the next time at which *during* permits a change, or *now*; infinity if there is none in 400 days."""
    moment = _local(during, now)
    last = moment + FARTHEST
    while _closed_by(during, moment):
        later = [edge for edge in _edges(during, moment) if edge > moment]
        if not later or min(later) > last:
            return float("inf")
        moment = min(later)
    return max(now, moment.replace(tzinfo=_zone(during)).timestamp())


def _zone(during: During) -> tzinfo:
    return UTC if during.zone == "UTC" else ZoneInfo(during.zone)


def _local(during: During, now: float) -> datetime:
    return datetime.fromtimestamp(now, _zone(during)).replace(tzinfo=None)


def _closed_by(during: During, moment: datetime) -> str:
    for span in during.freeze:
        if datetime.fromisoformat(span.begins) <= moment < datetime.fromisoformat(span.ends):
            return f"a freeze: {span.text}"
    if during.windows and not any(_is_in(each, moment) for each in during.windows):
        return f"changes only during {', '.join(each.text for each in during.windows)} ({during.zone})"
    return ""


def _is_in(each: Window, moment: datetime) -> bool:
    return any(begins <= moment < ends for begins, ends in _spans(each, moment))


def _spans(each: Window, moment: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Yield the beginning and the end of the window on the day before *moment*, and on the eight days from it."""
    midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    for number in range(-1, 9):
        day = midnight + timedelta(days=number)
        if day.weekday() in each.days:
            begins, ends = day + timedelta(minutes=each.begins), day + timedelta(minutes=each.ends)
            yield begins, ends if ends > begins else ends + timedelta(days=1)


def _edges(during: During, moment: datetime) -> Iterator[datetime]:
    """Yield the times at which a change may begin to be permitted."""
    for each in during.windows:
        yield from (begins for begins, _ in _spans(each, moment))
    for span in during.freeze:
        yield datetime.fromisoformat(span.ends)
