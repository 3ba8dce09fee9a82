"""End processes by pid and start time: a signal, a wait, then another signal; a process that reuses a pid is spared."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from runbook.library.processes.facts.table import Process
from runbook.shell import COMMON, UPTIME, script
from runbook.text.shortened import first_few
from runbook.values.command import Command, write_script

LAST_WAIT = 5.0
"""Seconds that the last signal is given."""


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
    return replace(command, waits=first_wait + LAST_WAIT)


_END = COMMON + UPTIME + script(__package__, "terminate")
"""``$1`` signal, ``$2`` second signal, ``$3`` and ``$4`` hundredths of a second, then ``pid:start`` ...

No pattern stands here, so that nothing can match itself.  A stopped process is woken to take its signal.
"""


_SECOND = re.compile(r"^([0-9]+) gone after (\w+)$", re.MULTILINE)


_DENIED = re.compile(r"^([0-9]+) not permitted$", re.MULTILINE)


def with_second_signal(words: str, outputs: Iterable[str]) -> str:
    """Return *words*, about a change that has ended processes, with the processes that only the second signal ended.

    A process that got no signal, because this user may not send it one, is not said to survive a signal.
    """
    outputs = tuple(outputs)
    for pid in (pid for text in outputs for pid in _DENIED.findall(text)):
        survives = rf"\bpid {pid} survives \w+ in state \w \(([^)]*)\)"
        words = re.sub(survives, rf"pid {pid} was sent no signal: it is a process of \1, and only root may", words)
    late = [found for text in outputs for found in _SECOND.findall(text)]
    if not late:
        return words
    pids = first_few((pid for pid, _ in late), 5)
    return f"{words}; {late[0][1]} was needed for pid {pids}"


def survival(left: Iterable[Process], fresh: Iterable[Process], last: str) -> str:
    """Say why a second probe disagrees: which are *left* after the signal *last*, and which *fresh* ones have come."""
    words = [_survivor(process, last) for process in left]
    started = [f"pid {process.pid} ({process.command[:60]}; {_starter(process)})" for process in fresh]
    if started:
        more = f" and {len(started) - 5} more" if len(started) > 5 else ""
        words.append(f"respawned as {', '.join(started[:5])}{more}: first stop what starts it again")
    return "; ".join(words)


def _starter(process: Process) -> str:
    """Return the starter of the process, as far as the process itself tells."""
    known = (
        f"in {process.unit}" if process.unit else "",
        f"container {process.container}" if process.container else "",
    )
    return ", ".join(filter(None, (*known, f"parent pid {process.ppid}")))


def _survivor(process: Process, last: str) -> str:
    if process.state == "D":
        return (
            f"pid {process.pid} survives {last} in state D: it hangs in the kernel and cannot be killed: "
            "only a reset of the device or a reboot ends it"
        )
    return f"pid {process.pid} survives {last} in state {process.state} ({process.user})"
