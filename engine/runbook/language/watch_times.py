"""Read the times of a rule: windows, freezes, and the five fields of cron."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from runbook.errors import ConfigError
from runbook.text.suggestions import suggest
from runbook.values.watch_rule import Freeze, Window

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WINDOW = re.compile(r"(?:([a-z]{3})(?:-([a-z]{3}))? )?(\d\d):(\d\d)-(\d\d):(\d\d)")
_DATE = r"\d{4}-\d\d-\d\d(?: \d\d:\d\d)?"
_FREEZE = re.compile(rf"({_DATE})(?: to ({_DATE}))?")


def window(text: str) -> Window:
    """Return the window in *text*: ``mon-fri 08:00-18:00``, ``sat 22:00-04:00`` or ``08:00-18:00``.

    Raises ConfigError.
    """
    found = _WINDOW.fullmatch(text.strip().lower())
    if not found:
        raise ConfigError(f"{text!r} is not a window: write mon-fri 08:00-18:00, sat 22:00-04:00 or 08:00-18:00")
    for day in filter(None, found.group(1, 2)):
        if day not in DAYS:
            raise ConfigError(f"{text!r}: there is no day {day!r} ({suggest(day, DAYS)})")
    first = DAYS.index(found[1]) if found[1] else 0
    last = DAYS.index(found[2]) if found[2] else first if found[1] else 6
    days = tuple((first + number) % 7 for number in range((last - first) % 7 + 1))
    begins, ends = _minutes(text, found[3], found[4]), _minutes(text, found[5], found[6])
    if begins == 24 * 60:
        raise ConfigError(f"{text!r} begins at the end of the day; write 00:00 of the next one")
    if begins == ends:
        raise ConfigError(f"{text!r} begins and ends at the same time; for whole days write 00:00-24:00")
    return Window(days=days, begins=begins, ends=ends, text=text)


def _minutes(text: str, hours: str, minutes: str) -> int:
    made = int(hours) * 60 + int(minutes)
    if int(minutes) > 59 or made > 24 * 60:
        raise ConfigError(f"{text!r}: there is no time {hours}:{minutes}")
    return made


def freeze(text: str) -> Freeze:
    """Return the span in *text*: ``2026-12-20 to 2027-01-03``, ``2026-12-24`` or ``2026-12-24 12:00 to 2026-12-27``.

    A date without a time at the end is the end of that day.  Raises ConfigError.
    """
    found = _FREEZE.fullmatch(text.strip())
    if not found:
        raise ConfigError(f"{text!r} is not a freeze: write 2026-12-20 to 2027-01-03, or one date; times as 12:00")
    last = found[2] or found[1]
    try:
        begins, ends = datetime.fromisoformat(found[1]), datetime.fromisoformat(last)
        if ":" not in last:
            ends += timedelta(days=1)
    except (ValueError, OverflowError) as error:
        raise ConfigError(f"{text!r}: {error}") from error
    if ends <= begins:
        raise ConfigError(f"{text!r} ends before it begins")
    return Freeze(begins=begins.isoformat(timespec="minutes"), ends=ends.isoformat(timespec="minutes"), text=text)


MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("day of the week", 0, 6))
"""The fields of cron, each with its least and its greatest number."""
_LONGEST = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
"""The most days of each month."""
_PART = re.compile(r"(\*|\w+)(?:-(\w+))?(?:/(\d{1,2}))?")


def cron(text: str) -> str:
    """Return *text*, if it has the five fields of crontab; days of the week by their names.  Raises ConfigError.

    A number is no day of the week: for some programs 0 is Sunday, for others Monday.
    """
    words = text.lower().split()
    if len(words) != len(FIELDS):
        raise ConfigError(f"{text!r} has {len(words)} fields, and cron has 5: minute hour day month weekday")
    for word, (field, least, most) in zip(words, FIELDS, strict=True):
        for part in word.split(","):
            _check_part(text, part, field, least, most)
    days, months = (_numbers(word, *FIELDS[place][1:]) for place, word in ((2, words[2]), (3, words[3])))
    if min(days) > max(_LONGEST[month - 1] for month in months):
        raise ConfigError(f"{text!r} never comes: no such month has a day {min(days)}")
    return " ".join(words)


def _numbers(word: str, least: int, most: int) -> set[int]:
    """Return the numbers of a field of cron, a day or a month, that was checked."""
    found: set[int] = set()
    for part in word.split(","):
        match = _PART.fullmatch(part)
        assert match
        first = least if match[1] == "*" else _number(match[1], MONTHS)
        last = most if match[1] == "*" or (match[3] and not match[2]) else _number(match[2] or match[1], MONTHS)
        found |= {*range(first, last + 1, int(match[3] or 1))}
    return found


def _check_part(text: str, part: str, field: str, least: int, most: int) -> None:
    names = MONTHS if field == "month" else DAYS if field == "day of the week" else ()
    found = _PART.fullmatch(part)
    if not found or not part.isascii() or (found[1] == "*" and found[2]):
        raise ConfigError(f"{text!r}: {part!r} is no {field}")
    ends = [each for each in found.group(1, 2) if each and each != "*"]
    for each in ends:
        if each in names:
            continue
        if field == "day of the week":
            raise ConfigError(f"{text!r}: {each!r} is no {field}: write its name ({suggest(each, DAYS)})")
        if not each.isdecimal() or not least <= int(each) <= most:
            raise ConfigError(f"{text!r}: {each!r} is no {field} ({least} to {most})")
    if len(ends) == 2 and _number(ends[0], names) > _number(ends[1], names):
        raise ConfigError(f"{text!r}: {part!r} ends before it begins")
    if found[3] is not None and not int(found[3]):
        raise ConfigError(f"{text!r}: {part!r} has a step of 0")


def _number(word: str, names: tuple[str, ...]) -> int:
    return names.index(word) + 1 if word in names else int(word)
