"""Read the clock of the host: what it shows, whether it is synchronized, by whom, and how far it is off.

chronyd is asked first, then systemd-timesyncd and the kernel (timedatectl, adjtimex). Where none of them answers, as in
many containers, whether it is synchronized is unknown. Nothing is sent to a time server.
"""

from __future__ import annotations

from dataclasses import field

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.system.facts.clock import ask_clock, read_clock
from runbook.protocols import Fails, Holds, Probe
from runbook.values.types import Duration, Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    at_most: Duration = field(default=Duration(1), metadata={"minimum": 0.001})
    """The largest offset, as reported by the program that measures it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The clock."""

    now: int
    """The time that it shows: seconds since 1970."""
    synchronized: bool | Unknown
    """Whether somebody sets it by a source, and has done so."""
    by: str = ""
    """The program that reports it: chronyd, systemd-timesyncd, the kernel."""
    source: str = ""
    """The server or clock that it is set by; empty: none is named."""
    offset: float | Unknown
    """Seconds by which it is ahead of its source (below 0: behind), by the word of `by`."""
    too_far: bool = False
    """Whether it is synchronized, and yet known to be further off than `at_most`."""
    daemons: tuple[str, ...] = ()
    """Programs that run here and set clocks."""


def probe(args: Args) -> Probe[State]:
    """Ask everybody in one script."""
    clock = read_clock((yield ask_clock()))
    offset = 0.0 if isinstance(clock.offset, Unknown) else abs(clock.offset)
    too_far = clock.synchronized is True and offset > args.at_most
    return State(
        now=clock.now,
        synchronized=clock.synchronized,
        by=clock.by,
        source=clock.source,
        offset=clock.offset,
        too_far=too_far,
        daemons=clock.daemons,
    )


def holds(args: Args, state: State) -> Holds | Fails:
    """It is synchronized, and not far off."""
    if isinstance(state.synchronized, Unknown):
        raise ProbeError(state.synchronized.why)
    if not state.synchronized:
        return Fails(why=f"the clock is not synchronized ({', '.join(state.daemons) or 'no program'} sets it)")
    if not isinstance(state.offset, Unknown) and abs(state.offset) > args.at_most:
        return Fails(why=f"the clock is {state.offset:+.3g} s off, wanted {args.at_most:g} s at most")
    return Holds(why=f"the clock is synchronized ({state.by})")


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the commands that a person would run by hand."""
    return (
        "date -u",
        "timedatectl show -p NTPSynchronized --value",
        "chronyc -n tracking",
        "timedatectl timesync-status",
    )
