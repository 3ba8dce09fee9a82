"""Patterns that select hosts: ``all``, names, globs, ranges, groups and ``key=value``, joined by ``, ! & ^``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import translate
from itertools import product
from math import prod

from runbook.errors import ConfigError, Problem
from runbook.inventory.entries.placeholders import is_placeholder
from runbook.inventory.groups import ambiguous, traits
from runbook.text.name_ranges import fold
from runbook.text.suggestions import nearest, suggest
from runbook.values.inventory import Host, Inventory, LeftOut, Selection
from runbook.values.types import plural

Names = frozenset[str]

OPERATORS: Mapping[str, Callable[[Names, Names], Names]] = {
    ",": Names.union,
    "!": Names.difference,
    "&": Names.intersection,
    "^": Names.symmetric_difference,
}
RANGE = re.compile(r"[0-9]{1,15}(-[0-9]{1,15}(/[0-9]{1,15})?)?")
MAX_NAMES = 10_000
"""The maximum number of names in one operand."""
SHOWN = 10
SHOWN_LONG = 80
"""The maximum number of characters of host names in a warning."""


Recorded = Callable[[str], Names]
"""A function that returns the hosts of a recorded run for ``RUN:VERDICT``.  Raises ConfigError."""


def without_records(text: str) -> Names:
    """Raise ConfigError, because hosts of a recorded run cannot be given here."""
    raise ConfigError(f"@{text} names the hosts of a recorded run, which cannot be given here: name the hosts")


def select(
    inventory: Inventory,
    pattern: str,
    include_not_ready: bool,
    *,
    may_be_none: bool = False,
    recorded: Recorded = without_records,
) -> Selection:
    """Return the hosts of *inventory* that *pattern* selects, in its order, and the hosts left out, with the reasons.

    Operators apply from left to right, as in ClusterShell.  Hosts that are not ready are left out, unless *pattern* has
    their full names, which gives a warning, or *include_not_ready* is given.  Raises ConfigError for an operand without
    a match, and if no host is left (unless *may_be_none*).  *recorded* gives the hosts of ``@RUN:VERDICT``.
    """
    choosing = _Choosing(inventory, recorded, pattern)
    chosen: Names = frozenset()
    for operator, operand in _operands(pattern):
        chosen = OPERATORS[operator](chosen, choosing.matches(operand))
    if choosing.problems:
        raise ConfigError(*dict.fromkeys(choosing.problems))
    matched = [host for host in inventory.hosts if host.name in chosen]
    if not matched:
        raise ConfigError(f"the pattern {pattern!r} selects no hosts: it excludes every host that it includes")
    reasons = {each.name: _why_not(each, include_not_ready or each.name in choosing.named) for each in matched}
    left_out = tuple(LeftOut(host=name, why=why) for name, why in reasons.items() if why)
    hosts = tuple(each for each in matched if not reasons[each.name])
    if not hosts and not may_be_none:
        raise ConfigError(_nobody(pattern, left_out, [each for each in matched if each.placeholder]))
    warnings = tuple(
        f"{host.name} is taken although its status is {host.status}, because it is named"
        for host in hosts
        if host.status != "ready" and not include_not_ready
    )
    return Selection(hosts=hosts, left_out=left_out, warnings=(*warnings, *_unread(hosts)))


def _unread(hosts: Iterable[Host]) -> Iterator[str]:
    """Yield a warning for each unread file that may have connection settings of *hosts*."""
    of_file: dict[str, list[str]] = {}
    for host in hosts:
        for file in host.unread:
            of_file.setdefault(file, []).append(host.name)
    for file, names in of_file.items():
        shown = fold(names) if len(fold(names)) <= SHOWN_LONG else plural(len(names), "host")
        yield f"{file} is encrypted by Ansible Vault and not read: a user, port or key of {shown} in it is not known"


def _why_not(host: Host, wanted: bool) -> str:
    """Return the reason why *host* is left out; empty if it is selected.  *wanted*: it was named, so it need not be
    ready.
    """
    if host.placeholder:
        unfilled = is_placeholder(host.placeholder)
        return f"address is a placeholder: {host.placeholder}" if unfilled else host.placeholder
    if wanted or host.status == "ready":
        return ""
    written = not host.container  # an engine's own word (created) is no slip
    slip = "; did you mean ready?" if written and nearest(host.status, ["ready"]) else ""
    return f"status: {host.status}{slip}"


def _nobody(pattern: str, left_out: tuple[LeftOut, ...], unfilled: list[Host]) -> Problem:
    reasons: dict[str, list[str]] = {}
    for dropped in left_out:
        reasons.setdefault(dropped.why, []).append(dropped.host)
    words = "; ".join(f"{fold(names)} ({why})" for why, names in reasons.items())
    hints = [f"write its address in {unfilled[0].where}"] if unfilled and unfilled[0].where.line else []
    if len(unfilled) < len(left_out):
        hints.insert(0, "--include-not-ready takes hosts whatever their status; so does naming a host")
    return Problem(message=f"every host of {pattern!r} is left out: {words}", hint="; ".join(hints))


def _operands(pattern: str) -> Iterator[tuple[str, str]]:
    """Yield the operands of *pattern*, each with the operator before it; ``a,!b`` means ``a!b``."""
    if not pattern.strip():
        raise ConfigError("the pattern of hosts is empty; `all` means every host")
    pairs = split_at_operators(pattern)
    if not pairs[0][1]:
        first = pairs[1][0]
        hint = f"all{pattern.strip()} takes every other host" if first == "!" else "write the first host before it"
        raise ConfigError(Problem(message=f"the pattern {pattern!r} begins with {first!r}", hint=hint))
    for (operator, operand), (following, _) in zip(pairs, [*pairs[1:], ("", "")], strict=True):
        if operand:
            yield operator, operand
        elif operator != "," or following in ("", ","):
            raise ConfigError(f"the pattern {pattern!r} has no host after {operator!r}")


def split_at_operators(pattern: str) -> list[tuple[str, str]]:
    """Return *pattern*, split at its operators except between [ and ]; operands may be empty."""
    pairs, inside = [(",", "")], False
    for sign in pattern:
        if sign in "[]":
            if inside is (sign == "["):
                raise ConfigError(f"the pattern {pattern!r} has a {sign!r} too many")
            inside = not inside
        if sign in OPERATORS and not inside:
            pairs.append((sign, ""))
        else:
            operator, operand = pairs[-1]
            pairs[-1] = (operator, operand + sign)
    if inside:
        raise ConfigError(f"the pattern {pattern!r} lacks a ']'")
    return [(operator, operand.strip()) for operator, operand in pairs]


class _Choosing:
    """Finds the hosts that the operands of one pattern match; mistakes are collected until the whole pattern
    is read.
    """

    def __init__(self, inventory: Inventory, recorded: Recorded, pattern: str = "") -> None:
        self._pattern = pattern.strip()
        self._recorded = recorded
        self._hosts = {host.name: host for host in inventory.hosts}
        self._groups = inventory.groups
        self.named: set[str] = set()
        """Hosts whose full names are in the pattern (no range, no glob); they are selected whatever their status."""
        self.problems: list[Problem] = []

    def matches(self, operand: str) -> Names:
        """Return the names of the hosts that *operand* matches."""
        if operand in self._hosts:
            self.named.add(operand)
            return frozenset({operand})
        if operand.startswith("@"):
            return self._by_record(operand)
        if operand in ("all", "*"):
            return frozenset(self._hosts)
        if "=" in operand:
            return self._by_field(operand)
        if "[" in operand:
            return self._by_range(operand)
        if set(operand) & set("*?"):
            return self._by_glob(operand, operand)
        if operand in self._groups:
            return frozenset(self._groups[operand])
        return self._nothing(operand)

    def _by_record(self, operand: str) -> Names:
        try:
            names = self._recorded(operand.removeprefix("@"))
        except ConfigError as error:
            self.problems.extend(error.problems)
            return frozenset()
        if missing := sorted(names - self._hosts.keys()):
            return self._wrong(f"{operand}: {fold(missing)} of that run is not in the inventory", self._what_there_is())
        self.named |= names
        return names

    def _by_range(self, operand: str) -> Names:
        written = self._written(operand)
        if set(operand) & set("*?"):
            return frozenset().union(*(self._by_glob(word, operand) for word in written))
        missing = [word for word in written if word not in self._hosts]
        if missing:
            said = fold(missing)
            if len(said) > 200:
                said = f"{fold(missing[:SHOWN])} and {len(missing) - SHOWN} more"
            padded = self._padded(operand)
            hint = f"did you mean {padded}?" if padded else self._what_there_is()
            return self._wrong(f"{operand}: there is no {said} in the inventory", hint)
        return frozenset(written)

    def _padded(self, operand: str) -> str:
        """Return *operand* with other leading zeros in its ranges, if all names in it then exist; empty otherwise."""
        for width in (0, 2, 3, 4, 5):
            parts = re.split(r"(\[[^\]]*\])", operand)
            other = "".join(_zero_padded(part, width) if part.startswith("[") else part for part in parts)
            written = [] if other == operand or "/" in operand else self._written(other)
            if written and all(name in self._hosts for name in written):
                return other
        return ""

    def _written(self, operand: str) -> list[str]:
        """Return the names in the ranges of *operand*; return none, and add a mistake, if a range is wrong."""
        from ClusterShell.RangeSet import AUTOSTEP_DISABLED, RangeSet, RangeSetException

        parts = re.split(r"\[([^\[\]]*)\]", operand)
        inside = parts[1::2]
        if any(not all(map(RANGE.fullmatch, word.split(","))) for word in inside):
            self._wrong(
                f"{operand}: between [ and ] there are numbers and ranges, such as gpu-[01-16] or gpu-[1-3,7]", ""
            )
            return []
        if prod(sum(map(_count, word.split(","))) for word in inside) > MAX_NAMES:
            self._wrong(f"{operand}: expands to more than {MAX_NAMES} names", self._what_there_is())
            return []
        try:
            numbers = [list(map(str, RangeSet(word, autostep=AUTOSTEP_DISABLED))) for word in inside]
        except RangeSetException as error:
            self._wrong(f"{operand}: not a range ({error})", "")
            return []
        fixed = parts[0::2]
        return [fixed[0] + "".join(map("".join, zip(item, fixed[1:], strict=True))) for item in product(*numbers)]

    def _by_glob(self, glob: str, operand: str) -> Names:
        found = frozenset(filter(_matcher(glob), self._hosts))
        return found or self._wrong(
            f"no host matches {glob!r}" + ("" if glob == operand else f" of {operand}"), self._what_there_is()
        )

    def _by_field(self, operand: str) -> Names:
        key, _, wanted = (part.strip() for part in operand.partition("="))
        values = {name: given for name, host in self._hosts.items() if (given := _values(host, key)) is not None}
        if not values:
            keys = {var for host in self._hosts.values() for var in (*host.vars, *traits(host), *OWN)}
            return self._wrong(f"{operand}: no host has a field {key!r}", suggest(key, keys, ""))
        matcher = _matcher(wanted)
        found = frozenset(name for name, given in values.items() if any(map(matcher, given)))
        there = sorted({word for given in values.values() for word in given if word})
        more = ", ..." if len(there) > SHOWN else ""
        return found or self._wrong(f"no host has {operand}", f"{key} is one of: {', '.join(there[:SHOWN])}{more}")

    def _nothing(self, operand: str) -> Names:
        if "@" in operand:
            return self._user(operand)
        kinds = ambiguous(self._hosts.values()).get(operand)
        if kinds:
            words = " or ".join(f"{kind}={operand}" for kind in kinds)
            return self._wrong(f"{operand} can mean several things; write {words}", "")
        unknown = [host.name for host in self._hosts.values() if not traits(host).get("device")]
        if operand in ("gpu", "cpu") and unknown:
            return self._wrong(f"which hosts have a GPU is not known: {_named(unknown)} has no field `gpu`", SAY_GPU)
        if operand == "gpu":
            return self._wrong(
                "no host of the inventory has a GPU of NVIDIA or AMD, by its field `gpu`", self._what_there_is()
            )
        known = {"all", *self._hosts, *self._groups}
        several = operand.split()
        if len(several) == 1 and known.issuperset(part for part in operand.split(":") if part):
            return self._wrong(
                f"no host and no group is called {operand!r}",
                f"in Ansible's words; here it is {self._pattern.replace(':', ',').replace(',&', '&')}",
            )
        if len(several) > 1:
            return self._wrong(
                f"no host and no group is called {operand!r}", f"join several by commas: {','.join(several)}"
            )
        return self._wrong(
            f"no host and no group is called {operand!r}", suggest(operand, known, self._what_there_is())
        )

    def _user(self, operand: str) -> Names:
        """Refuse ``user@host``, because the inventory gives the user."""
        name = operand.rpartition("@")[2].partition(":")[0]
        meant = f"did you mean {name}? " if name in self._hosts else ""
        hint = f"{meant}who logs in, and on which port, stands in the inventory: ssh_user, ssh_port"
        return self._wrong(f"{operand}: with an inventory, hosts are named as it names them", hint)

    def _what_there_is(self) -> str:
        names = fold(self._hosts)
        groups = ", ".join(sorted(self._groups))
        return f"hosts: {names if len(names) <= 200 else f'{names[:200]}...'}; groups: {groups or 'none'}"

    def _wrong(self, message: str, hint: str) -> Names:
        self.problems.append(Problem(message=message, hint=hint))
        return frozenset()


SAY_GPU = (
    "in Ansible's files write `gpu: 8x H100` into group_vars/GROUP.yml, or gpu='8x H100' behind a host or below "
    "[GROUP:vars]; "
    "in Slurm's Gres=gpu:8 behind NodeName=; or name the hosts or a group of yours with --hosts"
)

OWN = ("name", "user", "transport", "group")
"""The keys of ``key=value`` that every host has, besides its fields and its kinds of groups."""


def _values(host: Host, key: str) -> tuple[str, ...] | None:
    """Return the values of *host* with which ``key=value`` is compared, as texts; None if the host has no such key."""
    own = {"name": (host.name,), "user": (host.user,), "transport": (host.transport,)}
    if key == "group":  # also one whose bare name means something else, too
        return tuple(dict.fromkeys((*host.groups, *traits(host).get("group", ()))))
    if key in own:
        return own[key]
    formed = traits(host)
    known: Mapping[str, object] = {**host.vars, **formed}
    if key not in known:
        return None
    found = known[key]
    return tuple(_text(value) for value in (found if isinstance(found, list | tuple) else [found]))


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None or isinstance(value, Mapping | list) else str(value)


def _matcher(glob: str) -> Callable[[str], object]:
    """Return a function that checks whether a text matches *glob*, in which only ``*`` and ``?`` are special."""
    return re.compile(translate(glob.replace("[", "[[]"))).match


def _named(names: Iterable[str]) -> str:
    """Return *names*, folded and shortened for a message."""
    folded = fold(list(names))
    return folded if len(folded) <= SHOWN_LONG else f"{folded[:SHOWN_LONG]}..."


def _zero_padded(text: str, width: int) -> str:
    """Return *text* with every number in it padded with zeros to *width*."""
    return re.sub(r"\d+", lambda number: str(int(number[0])).zfill(width), text)


def _count(span: str) -> int:
    """Return the number of numbers in ``3``, ``1-16`` or ``0-100/5``."""
    first, _, rest = span.partition("-")
    last, _, step = rest.partition("/")
    return max(0, int(last or first) - int(first)) // max(1, int(step or 1)) + 1
