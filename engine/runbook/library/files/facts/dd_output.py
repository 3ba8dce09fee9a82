"""Read the throughput from the output of dd."""

from __future__ import annotations

import re

from runbook.text.host_json import finite

_UNITS = {"B": 1.0, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
_BINARY = {"B": 1.0, "KB": 2.0**10, "MB": 2.0**20, "GB": 2.0**30, "TB": 2.0**40}
_LINE = re.compile(
    r"(\d+) bytes .*?copied, ([\d.,]+(?:e[+-]?\d+)?) (seconds?|s)(?:, ([\d.,]+) ?([kKMGT]?B)/s)?", re.IGNORECASE
)


def rate(text: str) -> float | None:
    """Return the bytes a second from the last line of dd; None: it has no such line.

    They are computed from its bytes and seconds.  If these do not give a rate, its own, rounded, figure is taken (GNU:
    decimal units, busybox: binary ones).
    """
    found = _LINE.findall(text)
    if not found:
        return None
    size, took, word, figure, unit = found[-1]
    seconds = finite(took.replace(",", "."))
    if seconds > 0:
        return int(size) / seconds
    if not figure:
        return None
    units = _BINARY if word.lower().startswith("sec") else _UNITS
    return finite(figure.replace(",", ".")) * units.get(unit if word == "s" else unit.upper(), 1.0)
