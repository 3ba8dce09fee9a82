"""Expand the host patterns of Ansible inventories: ``web[01:10:2]``, ``db-[a:d]``, ``host:port``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product
from math import prod
from string import ascii_letters

MOST_HOSTS = 20_000
"""The maximum number of hosts in one file."""

_PORT = re.compile(r"((?:[^:\[\]]|\[[^\[\]]*\])+):(\d+)|\[([0-9A-Fa-f:.]+)\]:(\d+)")
_RANGE = re.compile(r"\[([^\[\]]*)\]")
_NUMBER = re.compile(r"[0-9]{1,9}")


def port_of(pattern: str) -> tuple[str, str]:
    """Return *pattern* without the port at its end, and the port; the port is empty if there is none."""
    found = _PORT.fullmatch(pattern)
    if not found:
        return pattern, ""
    return (found[1], found[2]) if found[1] else (found[3], found[4])


def expanded(pattern: str) -> list[str]:
    """Return the names in *pattern*, which has no port.  Raises ValueError for a malformed range."""
    parts = _RANGE.split(pattern)
    fixed, inside = parts[0::2], parts[1::2]
    if any(sign in "".join(fixed) for sign in "[]"):
        raise ValueError("has a bracket too many")
    if not inside:
        return [pattern]
    ranges = [_range(text) for text in inside]
    if prod(map(len, ranges)) > MOST_HOSTS:
        raise ValueError(f"stands for more than {MOST_HOSTS} hosts")
    spelled = [_spelled(text, numbers) for text, numbers in zip(inside, ranges, strict=True)]
    return [fixed[0] + "".join(map("".join, zip(each, fixed[1:], strict=True))) for each in product(*spelled)]


def _range(text: str) -> range:
    """Return the numbers of ``01:10:2`` or ``a:d``; a letter is its position in the alphabet."""
    bounds = text.split(":")
    if len(bounds) not in (2, 3):
        raise ValueError("has a range that is not [first:last] or [first:last:step]")
    first, last, step = bounds[0] or "0", bounds[1], bounds[2] if len(bounds) == 3 else "1"
    if not last:
        raise ValueError("has a range without an end")
    if not _NUMBER.fullmatch(step) or int(step) == 0:
        raise ValueError("has a range whose step is not a number from 1")
    if _is_letter(first) and _is_letter(last):
        found = range(ascii_letters.index(first), ascii_letters.index(last) + 1, int(step))
    elif _NUMBER.fullmatch(first) and _NUMBER.fullmatch(last):
        found = range(int(first), int(last) + 1, int(step))
    else:
        raise ValueError("has a range that is neither of numbers nor of single letters")
    if not found:
        raise ValueError("has a range that ends before it begins")
    if _padded(first) and len(first) != len(last):
        raise ValueError("has a range with leading zeros whose ends are not of one length")
    return found


def _spelled(text: str, numbers: Sequence[int]) -> list[str]:
    first = text.split(":")[0] or "0"
    if _is_letter(first):
        return [ascii_letters[number] for number in numbers]
    return [str(number).zfill(len(first) if _padded(first) else 0) for number in numbers]


def _is_letter(text: str) -> bool:
    return len(text) == 1 and text in ascii_letters


def _padded(first: str) -> bool:
    return first.startswith("0") and len(first) > 1
