"""Find the times at which a rule may change hosts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from runbook.values.watch_rule import During, Window

FARTHEST = 400 * 86400.0
"""Seconds for which the next open window is searched."""
HALF_HOUR = 1800.0
"""Seconds: clocks are put forward and back by multiples of it."""


def closed_by(during: During, now: float) -> str:
    """Return the reason why *during* permits no change at *now* (seconds since the epoch); empty if it permits one."""
    return _closed_by(during, _local(during, now))


def opens_at(during: During, now: float) -> float:
    """Return the next time at which *during* permits a change, or *now*; infinity if there is none in 400 days."""
    moment = now
    while closed_by(during, moment):
        later = [at for edge in _edges(during, _local(during, moment)) for at in _instants(during, edge) if at > moment]
        if not later or min(later) > now + FARTHEST:
            return float("inf")
        moment = min(later)
    return moment


def _instants(during: During, edge: datetime) -> Iterator[float]:
    """Yield the times that the local time *edge* may mean: more than one where the clock is put back or forward."""
    zone = _zone(during)
    first, last = sorted(edge.replace(tzinfo=zone, fold=fold).timestamp() for fold in (0, 1))
    while first < last:
        yield first
        first += HALF_HOUR
    yield last


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
