"""End processes by pid and start time: a signal, a wait, then another signal; a process that reuses a pid is spared."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from engine.facts.processes.table import Process
from engine.shell import COMMON, script
from engine.values.command import Command, write_script

LAST_WAIT = 5.0
"""Seconds that the last signal is given."""

USUAL = 600.0
"""Seconds that a write may take if it does not say otherwise."""


def end_processes(victims: Iterable[Process], signal: str, grace: float, then: str) -> Command:
    """Send *signal*, wait up to *grace* seconds, send *then* (or ``nothing``) to the rest, wait up to 5 s.

    Exit code 0: all of them are gone; 1: some survive, or were refused, which a second probe shows.
    """
    first_wait = max(grace, LAST_WAIT) if signal == "KILL" else grace
    second = "nothing" if signal == "KILL" else then
    waits = (str(round(number * 100)) for number in (first_wait, LAST_WAIT))
    keys = tuple(victim.key for victim in sorted(victims, key=lambda victim: victim.start))
    called = ("end-processes", signal, second, *(key.partition(":")[0] for key in keys))
    command = write_script(_END, signal, second, *waits, *keys, called=called, accepts=(0, 1))
    needs = first_wait + LAST_WAIT + 60
    if needs <= USUAL:
        return command
    return replace(command, timeout=needs)


_END = COMMON + script(__package__, "terminate")
"""``$1`` signal, ``$2`` second signal, ``$3`` and ``$4`` hundredths of a second, then ``pid:start`` ...

No pattern stands here, so that nothing can match itself.  A stopped process is woken to take its signal.
"""


def survival(left: Iterable[Process], fresh: Iterable[Process], last: str) -> str:
    """Why a second probe disagrees: who is *left* after the signal *last*, and which *fresh* ones have come."""
    words = [_survivor(process, last) for process in left]
    started = [f"pid {process.pid} ({process.command[:60]})" for process in fresh]
    if started:
        more = f" and {len(started) - 5} more" if len(started) > 5 else ""
        words.append(f"respawned as {', '.join(started[:5])}{more}: first stop what starts it again")
    return "; ".join(words)


def _survivor(process: Process, last: str) -> str:
    if process.state == "D":
        return (
            f"pid {process.pid} survives {last} in state D: it hangs in the kernel and cannot be killed: "
            "only a reset of the device or a reboot ends it"
        )
    return f"pid {process.pid} survives {last} in state {process.state} ({process.user})"
