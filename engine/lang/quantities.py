"""Durations and sizes as people write them."""

from __future__ import annotations

import re

from engine.errors import ConfigError

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


def duration(value: object) -> float:
    """Seconds of ``10s``, ``5m``, ``2h``, ``500ms``, ``1d``, ``1h30m``, or a number of seconds.  Raises ConfigError."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9:
        return float(value)
    text = value.strip() if isinstance(value, str) else ""
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    if text and re.fullmatch(r"(\d+(\.\d+)?(ms|s|m|h|d))+", text):
        return sum(float(number) * SECONDS[unit] for number, _, unit in re.findall(r"(\d+(\.\d+)?)(ms|s|m|h|d)", text))
    raise ConfigError(f"{value!r} is no duration: write 10s, 5m, 2h, 500ms or a number of seconds")


def size(value: object) -> int:
    """Bytes of ``16GiB``, ``100MB``, or a number of bytes.  Raises ConfigError."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", value.strip()) if isinstance(value, str) else None
    if found and found[2] in BYTES:
        return int(float(found[1]) * BYTES[found[2]])
    raise ConfigError(f"{value!r} is no size: write 16GiB, 100MB or a number of bytes")
