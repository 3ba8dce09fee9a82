"""Parse durations, sizes and shares of the hosts."""

from __future__ import annotations

import re

from runbook.errors import ConfigError
from runbook.values.playbook import Share

SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
BYTES = {
    "": 1,
    "B": 1,
    "kB": 10**3,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}


MAX_DURATION = 366 * SECONDS["d"]
"""The maximum number of seconds of a duration; a longer duration is assumed to be a mistake."""

DURATION = r"\s*(\d+(\.\d+)?|(\d+(\.\d+)?(ms|s|m|h|d))+)\s*"
"""The form of a duration as text."""


def duration(value: object) -> float:
    """Return the seconds of *value*: ``10s``, ``5m``, ``2h``, ``500ms``, ``1d``, ``1h30m``, or a number.  Raises
    ConfigError.
    """
    seconds = _seconds(value)
    if seconds is None:
        raise ConfigError(f"{_short(value)} is not a duration: write 500ms, 10s, 5m, 2h, 7d or a number of seconds")
    if not seconds <= MAX_DURATION:
        raise ConfigError(f"{_short(value)} is longer than a year: write 500ms, 10s, 5m, 2h, 7d or a number of seconds")
    return seconds


def time_span(value: object) -> float:
    """Return the seconds of *value* like ``duration``, but refuse a time that is too short.  Raises ConfigError."""
    if (seconds := duration(value)) < SHORTEST:
        raise ConfigError(f"{_short(value)} is too short: {SHORTEST:g} s is the least")
    return seconds


def share(value: object) -> Share:
    """Return the share in *value*: a number of hosts (``3``), or a percentage of hosts (``"10%"``).  Raises
    ConfigError.
    """
    text = str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""
    found = re.fullmatch(SHARE, text)
    if found:
        made = Share(number=float(found[1]), percent=bool(found[3]))
        if 0 < made.number <= (100 if made.percent else 1e6) and (made.percent or found[2] is None):
            return made
    raise ConfigError(f"{_short(value)} is not a share of the hosts: write a whole number from 1, or 1% to 100%")


SHARE = r"(\d{1,7}(\.\d{1,3})?)\s*(%?)"
"""The form of a share of the hosts as text."""

SHORTEST = 0.01
"""The minimum number of seconds of a time limit or an interval."""


def _seconds(value: object) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(min(value, MAX_DURATION * 2)) if value >= 0 else None
    if not isinstance(value, str) or len(value) > 100 or not re.fullmatch(DURATION, value):
        return None
    parts = re.findall(r"(\d+(\.\d+)?)(ms|s|m|h|d)", value)
    return sum(float(number) * SECONDS[unit] for number, _, unit in parts) if parts else float(value)


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


SIZE = r"\s*(\d+(?:\.\d+)?)\s*(B|[kKMGT]B|[KMGT]iB|)\s*"
"""The form of a size as text."""


def size(value: object) -> int:
    """Return the bytes of *value*: ``16GiB``, ``100MB``, or a number of bytes.  Raises ConfigError."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    found = re.fullmatch(SIZE, value) if isinstance(value, str) and len(value) <= 100 else None
    if found and found[2] in BYTES:
        return int(float(found[1]) * BYTES[found[2]])
    raise ConfigError(f"{_short(value)} is not a size: write 16GiB, 100MB or a number of bytes")
