"""Read the ports of InfiniBand and RoCE cards: state, rate and the counters of their links, from sysfs.

The counters are read twice, because they count since the driver was loaded or the port was reset: what rises meanwhile
happens now. A port that is down and has lost its link before was in use; one that never had a link may have no cable.
Nothing but sysfs is read (/sys/class/infiniband, and which cards are on the PCI bus), which answers also while the
firmware of the card does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.protocols import Fails, Holds, Probe
from runbook.shell import script
from runbook.values.command import Command, Completed, read_script
from runbook.values.types import Duration, Unknown, plural

_NAMED = re.compile(r"\d+: *(\S.*)")
"""The form of a state in sysfs: ``4: ACTIVE``, ``5: LinkUp`` (Linux, Documentation/ABI/stable/sysfs-class-infiniband).
"""
_RATE = re.compile(r"(\d+(?:\.\d+)?) Gb/sec\b")
"""``400 Gb/sec (4X NDR)``."""
_NOT_SAID = Unknown(why="sysfs does not say")


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    expect: int = field(default=0, metadata={"minimum": 0})
    """Under `verify`: the number of ports that should be active; 0: all."""
    apart: Duration = field(default=Duration(1), metadata={"minimum": 0.1, "maximum": 60})
    """Time between the two readings of the counters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """One port of a card."""

    name: str
    """Card and number, ``mlx5_0/1``."""
    layer: str | Unknown
    """``InfiniBand``, or ``Ethernet`` (RoCE)."""
    state: str | Unknown
    """``ACTIVE``, ``DOWN``, ``INIT`` and ``ARMED`` (it waits for the subnet manager)."""
    phys_state: str | Unknown
    """``LinkUp``, ``Polling`` (nobody answers at the other end), ``Disabled`` ..."""
    rate: float | Unknown
    """Gb/s that the link carries."""
    link_downed: int | Unknown
    """The number of times that the link was lost."""
    link_error_recovery: int | Unknown
    """The number of times that the link has recovered from errors by retraining."""
    symbol_error: int | Unknown
    """Minor errors of the link."""
    risen: Mapping[str, int]
    """The counters that rose between the two readings, each by how much."""
    bus_id: str
    """The card's place on the PCI bus; empty where sysfs does not say."""
    interface: str
    """The card's network interface; empty: none."""
    firmware: str
    """The card's model and the version of its firmware; empty where sysfs does not say."""
    say: str
    """For people: ``mlx5_0/1: DOWN, Polling``, ``mlx5_1/1: 400 Gb/s``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The activity of a host's ports; ports are named by card and number."""

    there: bool
    """Whether the host has such a port at all."""
    on_bus: tuple[str, ...]
    """Places on the PCI bus of InfiniBand controllers; RoCE cards are Ethernet's, and not among them."""
    ports: tuple[Port, ...]
    """Each: name, layer, state, phys_state, rate (Gb/s), link_downed, link_error_recovery, symbol_error, risen, bus_id,
    interface, firmware, say.
    """
    active: tuple[str, ...]
    """Ports with a link that is in use."""
    fell: tuple[str, ...]
    """Ports that are down and had a link before, in words."""
    unused: tuple[str, ...]
    """Ports that are down or disabled, and of which no counter shows that they had a link."""
    waiting: tuple[str, ...]
    """Ports with a link that no subnet manager has taken into use, in words."""
    unclear: tuple[str, ...]
    """Ports whose state cannot be read."""
    lost_now: tuple[str, ...]
    """Ports that lost or retrained their link between the two readings, in words."""
    errors_now: tuple[str, ...]
    """Ports whose symbol errors rose between the two readings, in words."""
    total_rate: float | Unknown
    """The rate of all active ports together (Gb/s)."""
    link_downed: int | Unknown
    """The number of times that ports lost their link since the driver was loaded, over the ports that count it."""
    slow: tuple[str, ...]
    """Active ports with a lower rate than another of this host, in words."""
    firmware: tuple[str, ...]
    """Model and firmware of the cards, each once."""
    shown: tuple[str, ...]
    """Every port in words."""


def probe(args: Args) -> Probe[State]:
    """Read the whole state with one script."""
    return read_state((yield _ask(args)))


def _ask(args: Args) -> Command:
    """One script; the file system begins at its first argument."""
    return read_script(script(__package__, "infiniband_probe"), "", f"{args.apart:g}")


def read_state(done: Completed) -> State:
    """Parse the answer of the script.  Raises ProbeError where sysfs could not be inspected."""
    if done.timed_out or done.exit_code != 0:
        raise ProbeError(
            "/sys/class/infiniband could not be read in time" if done.timed_out else "/sys/class cannot be read"
        )
    rows = [line.split("\t") for line in done.stdout.splitlines() if line]
    if ["probed"] not in rows:
        raise ProbeError("the ports cannot be inspected: this host shows no /sys/class")
    counted = {(row[0], row[1]): row[2:] for row in rows if row[0] in ("before", "after") and len(row) == 5}
    found = [_port(row[1:], counted) for row in rows if row[0] == "port" and len(row) == 12]
    cards = tuple(sorted(row[1] for row in rows if row[0] == "card" and len(row) == 2))
    return _state(tuple(sorted(found, key=lambda port: _by_number(port.name))), cards)


def _by_number(name: str) -> list[tuple[int, str]]:
    """An order of names in which mlx5_10 comes after mlx5_2."""
    return [(int(part) if part.isdigit() else 0, part) for part in re.split(r"(\d+)", name)]


COUNTERS = ("link_downed", "link_error_recovery", "symbol_error")


def _port(row: Sequence[str], counted: Mapping[tuple[str, str], Sequence[str]]) -> Port:
    path, card, number, layer, state, phys, rate, bus, interface, board, firmware = row
    before = [_number(word) for word in counted.get(("before", path), ("-",) * 3)]
    after = [_number(word) for word in counted.get(("after", path), ("-",) * 3)]
    downed, recovered, symbols = (
        one if isinstance(two, Unknown) else two for one, two in zip(before, after, strict=True)
    )
    name, speed = f"{card}/{number}", _rate(rate)
    return Port(
        name=name,
        layer=_NOT_SAID if layer == "-" else layer,
        state=_state_name(state),
        phys_state=_state_name(phys),
        rate=speed,
        link_downed=downed,
        link_error_recovery=recovered,
        symbol_error=symbols,
        risen=dict(_risen(before, after)),
        bus_id=_state_text(bus),
        interface=_state_text(interface),
        firmware=" ".join(word for word in (_state_text(board), _state_text(firmware)) if word),
        say=f"{name}: {_port_in_words(_state_name(state), _state_name(phys), speed)}",
    )


def _risen(before: Iterable[int | Unknown], after: Iterable[int | Unknown]) -> Iterator[tuple[str, int]]:
    for name, one, two in zip(COUNTERS, before, after, strict=True):
        if isinstance(one, int) and isinstance(two, int) and two > one:
            yield name, two - one


def _port_in_words(state: str | Unknown, phys_state: str | Unknown, rate: float | Unknown) -> str:
    if isinstance(state, Unknown):
        return "state unknown"
    if state.startswith("ACTIVE"):
        return "rate unknown" if isinstance(rate, Unknown) else f"{rate:g} Gb/s"
    return state if isinstance(phys_state, Unknown) else f"{state}, {phys_state}"


def _state_text(text: str) -> str:
    return "" if text == "-" else text


def _state_name(text: str) -> str | Unknown:
    found = _NAMED.fullmatch(text.strip())
    return found[1] if found else Unknown(why=f"sysfs says {text[:20]}") if text != "-" else _NOT_SAID


def _rate(text: str) -> float | Unknown:
    found = _RATE.match(text)
    return float(found[1]) if found else Unknown(why=f"sysfs says {text[:20]}") if text != "-" else _NOT_SAID


def _number(text: str) -> int | Unknown:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else _NOT_SAID


def _state(ports: tuple[Port, ...], on_bus: tuple[str, ...]) -> State:
    active = [port for port in ports if port.state in ("ACTIVE", "ACTIVE_DEFER")]
    down = [port for port in ports if port.state == "DOWN"]
    fell = [port for port in down if isinstance(port.link_downed, int) and port.link_downed > 0]
    return State(
        there=bool(ports),
        on_bus=on_bus,
        ports=ports,
        active=tuple(port.name for port in active),
        fell=tuple(f"{port.say}, lost its link {plural(_count(port), 'time')}" for port in fell),
        unused=tuple(port.say for port in down if port not in fell),
        waiting=tuple(port.say for port in ports if port.state in ("INIT", "ARMED")),
        unclear=tuple(port.name for port in ports if isinstance(port.state, Unknown)),
        lost_now=tuple(_rises(ports, ("link_downed", "link_error_recovery"))),
        errors_now=tuple(_rises(ports, ("symbol_error",))),
        total_rate=_together(active),
        link_downed=_lost(ports),
        slow=tuple(_slow(active)),
        firmware=tuple(sorted({port.firmware for port in ports if port.firmware})),
        shown=tuple(port.say for port in ports),
    )


def _together(ports: Iterable[Port]) -> float | Unknown:
    """The rates of *ports* together; unknown where one of them is."""
    total = 0.0
    for port in ports:
        if isinstance(port.rate, Unknown):
            return port.rate
        total += port.rate
    return total


def _slow(ports: Sequence[Port]) -> Iterator[str]:
    """Yield those of *ports* with a lower rate than another one."""
    rates = [each.rate for each in ports if not isinstance(each.rate, Unknown)]
    for port in ports:
        if not isinstance(port.rate, Unknown) and port.rate < max(rates):
            yield port.say


def _lost(ports: Sequence[Port]) -> int | Unknown:
    counted = [port.link_downed for port in ports if isinstance(port.link_downed, int)]
    return sum(counted) if counted or not ports else Unknown(why="no port counts how often it lost its link")


def _count(port: Port) -> int:
    return port.link_downed if isinstance(port.link_downed, int) else 0


def _rises(ports: Iterable[Port], names: Sequence[str]) -> Iterator[str]:
    """The ports of which one of the counters *names* rose, and by how much."""
    for port in ports:
        words = [f"{name} +{port.risen[name]}" for name in names if name in port.risen]
        if words:
            yield f"{port.name} ({', '.join(words)})"


def holds(args: Args, state: State) -> Holds | Fails:
    """So many ports are active as should be."""
    wanted = args.expect or len(state.ports)
    words = f"{len(state.active)} of {plural(wanted, 'port')} active"
    others = [port.say for port in state.ports if port.name not in state.active]
    enough = len(state.active) >= wanted
    return Holds(why=words) if enough else Fails(why=f"{words}: {', '.join(others)}" if others else words)


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the commands that a person would run by hand."""
    return (
        "grep . /sys/class/infiniband/*/ports/*/{link_layer,state,phys_state,rate}",
        "grep . /sys/class/infiniband/*/ports/*/counters/{link_downed,link_error_recovery,symbol_error}   # twice",
    )
