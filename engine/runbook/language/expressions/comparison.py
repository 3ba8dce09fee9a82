"""Compare the values that the hosts of a run give to a finding; expressions read the result as ``across``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from runbook.codec import UNKNOWN
from runbook.dataclass import dataclass
from runbook.text.printable import on_one_line
from runbook.values.types import Json, Unknown, plural

ACROSS = "across"
"""The name of the comparison's result in the expressions and texts of a finding with ``across``."""

FEWEST = 2
"""The minimum number of hosts with a known value; with fewer hosts there is no result."""


LONGEST_VALUE = 10_000
"""The maximum number of JSON characters of one host's value, because the result on every host may contain all values.
"""

LONGEST_WHY = 100
"""The maximum number of characters of the reason why a host is missing; this reason appears in the findings of all
other hosts.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The value and the group of one host in the comparison."""

    host: str
    value: Json | Unknown
    """The value to compare; None if the host takes no part."""
    group: Json | Unknown = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostValue:
    """A host and its known value."""

    host: str
    value: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingValue:
    """A host whose value is not known, and the reason."""

    host: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The value of ``across`` in expressions.  A mapping is not known if it has the key of unknown values."""

    value: Json
    """The value of this host."""
    lowest: Json
    highest: Json
    usual: Json
    """The value that more than half of the hosts have."""
    at_lowest: tuple[str, ...]
    at_highest: tuple[str, ...]
    unlike: tuple[str, ...] | Mapping[str, Json]
    """The hosts whose value differs from the usual value."""
    alike: int = 0
    """The number of hosts with the same value as this host, this host included."""
    hosts: tuple[HostValue, ...]
    """Every host whose value is known, sorted by name."""
    counted: int
    """The number of compared hosts."""
    total: int
    """The number of hosts that would have been compared if all values were known."""
    missing: tuple[MissingValue, ...]
    found: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Maps the id of each earlier finding to the compared hosts on which the finding is present."""

    often: Mapping[str, int] = field(default_factory=dict, repr=False, metadata={"private": True})
    """The number of hosts with each value; the keys are made by ``same``."""

    @property
    def words(self) -> str:
        """Return the number of compared hosts, and the names of the missing hosts, as words."""
        if not self.missing:
            return f"{self.counted} of {plural(self.total, 'host')}"
        named = ", ".join(f"{value.host} ({value.why})" for value in self.missing[:3])
        more = f" and {len(self.missing) - 3} more" if len(self.missing) > 3 else ""
        return f"{self.counted} of {plural(self.total, 'host')}, without {named}{more}"


def compare(shares: Sequence[Share]) -> Mapping[str, Compared | Unknown | None]:
    """Compare each host with the others of *shares*, and return the result for each host.

    The result is None if the host takes no part, or if no other host does.  A host whose value or group is unknown
    counts as missing in every group to which it may belong.
    """
    shares = [_bounded(each) for each in shares]
    part = sorted((each for each in shares if each.value is not None), key=lambda it: it.host)
    groups: dict[str, Compared | Unknown | None] = {}
    for share in part:
        if not isinstance(share.group, Unknown) and same(share.group) not in groups:
            groups[same(share.group)] = _group(part, same(share.group))
    return {each.host: _own(each, groups) for each in shares}


def _bounded(share: Share) -> Share:
    return replace(share, value=_not_too_large(share.value), group=_not_too_large(share.group))


def _not_too_large(value: Json | Unknown) -> Json | Unknown:
    if isinstance(value, Unknown) or (size := len(same(value))) <= LONGEST_VALUE:
        return value
    return Unknown(why=f"its value has {size} characters, over the {LONGEST_VALUE} that are compared: give a digest")


def _own(share: Share, groups: Mapping[str, Compared | Unknown | None]) -> Compared | Unknown | None:
    if share.value is None:
        return None
    if isinstance(share.value, Unknown):
        return share.value
    if isinstance(share.group, Unknown):
        return share.group
    found = groups[same(share.group)]
    if not isinstance(found, Compared):
        return found
    return replace(found, value=share.value, alike=found.often[same(share.value)])


def _group(part: Sequence[Share], group: str) -> Compared | Unknown | None:
    """Return the comparison of the hosts in *group*, without the fields that differ for each host."""
    there = [each for each in part if isinstance(each.group, Unknown) or same(each.group) == group]
    missing = tuple(value for share in there for value in _missing(share))
    counted = tuple(
        HostValue(host=each.host, value=each.value)
        for each in there
        if not isinstance(each.value, Unknown) and not isinstance(each.group, Unknown)
    )
    if len(there) < FEWEST:
        return None
    if not counted:
        return Unknown(why="no value is known")
    found = _compared(counted, missing)
    return found if len(counted) >= FEWEST else Unknown(why=f"nothing to compare with: {found.words}")


def _missing(share: Share) -> tuple[MissingValue, ...]:
    unknown = next((value for value in (share.value, share.group) if isinstance(value, Unknown)), None)
    return (MissingValue(host=share.host, why=on_one_line(unknown.why, LONGEST_WHY)),) if unknown else ()


def _compared(counted: tuple[HostValue, ...], missing: tuple[MissingValue, ...]) -> Compared:
    numbers = [
        value.value for value in counted if isinstance(value.value, int | float) and not isinstance(value.value, bool)
    ]
    ordered = len(numbers) == len(counted)
    no_order: Json = {UNKNOWN: "what the hosts bring are not all numbers, so that none is the lowest or the highest"}
    lowest, highest = (min(numbers), max(numbers)) if ordered else (no_order, no_order)
    of_value = {same(value.value): value.value for value in counted}
    often = Counter(same(value.value) for value in counted)
    most, times = min(often.items(), key=lambda it: (-it[1], it[0]))
    majority = 2 * times > len(counted)
    no_usual = {UNKNOWN: f"no value is that of more than half of {len(counted)} hosts"}
    return Compared(
        value=None,
        lowest=lowest,
        highest=highest,
        usual=of_value[most] if majority else no_usual,
        at_lowest=tuple(value.host for value in counted if ordered and value.value == lowest),
        at_highest=tuple(value.host for value in counted if ordered and value.value == highest),
        unlike=tuple(value.host for value in counted if same(value.value) != most) if majority else no_usual,
        often=often,
        hosts=counted,
        counted=len(counted),
        total=len(counted) + len(missing),
        missing=missing,
    )


def same(value: Json) -> str:
    """Return a key that is equal for equal values: for 1 and 1.0, but not for 1 and true."""
    match value:
        case bool() | None | str() | int():
            return json.dumps(value)
        case float():
            return json.dumps(int(value) if value.is_integer() else value)
        case Mapping():
            return "{" + ",".join(f"{json.dumps(key)}:{same(value[key])}" for key in sorted(value)) + "}"
    return "[" + ",".join(map(same, value)) + "]"
