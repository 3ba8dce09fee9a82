"""Stop the services of the GPU driver that hold every GPU for a reset, and start exactly the same services again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from math import ceil

from runbook.dataclass import dataclass
from runbook.library.system.facts.systemd_units import BOOTED, full_name
from runbook.shell import script
from runbook.values.command import Command, Completed, read_script, write_script

SERVICE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_@-]*(\.service)?")

TIMEOUT = 120.0
"""The maximum number of seconds for the start or stop of one service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A running service, as reported by systemd."""

    unit: str
    pid: int
    """The pid of the main process."""
    pulls: tuple[str, ...] = ()
    """The running units that systemd would stop together with this service."""


def ask_services(names: Sequence[str]) -> Command:
    """Return the command that asks which of the services *names* run; none run if the host does not use systemd."""
    return read_script(_ASK, BOOTED, *map(full_name, names))


_ASK = script(__package__, "driver_services_probe")


def read_services(done: Completed) -> tuple[Service, ...]:
    """Return the services from the answer to ``ask_services``.

    Returns none if systemd did not answer, so that their processes prevent a reset.
    """
    if done.timed_out or done.exit_code != 0:
        return ()
    found: dict[str, Service] = {}
    for block in done.stdout.split("\n\n"):
        lines = [line.partition("=")[::2] for line in block.splitlines() if "=" in line]
        reported = dict(lines)
        pulls = tuple(dict.fromkeys(value for key, value in lines if key == "Pulls"))
        pid = reported.get("MainPID", "")
        if (
            reported.get("ActiveState") == "active"
            and pid.isascii()
            and pid.isdigit()
            and int(pid) > 0
            and reported.get("Id")
        ):
            found[reported["Id"]] = Service(unit=reported["Id"], pid=int(pid), pulls=pulls)
    return tuple(found.values())


def stop(units: Sequence[str], again: Sequence[str], after: float) -> Command:
    """Stop *units*, up to the first that cannot be stopped.

    Before that, systemd itself is asked to start *again* after so many seconds, because our connection may be lost, or
    we may be killed.  If systemd refuses that, nothing is stopped.
    """
    argv = (_timer(again), str(ceil(after)), str(len(again)), *again, *units)
    command = write_script(_STOP, *argv, called=("stop-services", *units))
    return replace(command, timeout=TIMEOUT * len(units))


def start_again(units: Sequence[str]) -> Command:
    """Return the command that starts *units* in this order; a running unit is not touched."""
    command = write_script(_START, _timer(units), *units, called=("start-services", *units))
    return replace(command, timeout=TIMEOUT * len(units))


def _timer(units: Sequence[str]) -> str:
    """Return the name of the timer that starts *units*; other units, which an earlier run may owe, have
    another timer.
    """
    return f"runbook-start-again-{sha256(' '.join(units).encode()).hexdigest()[:12]}"


_STOP = script(__package__, "driver_services_stop")

_START = script(__package__, "driver_services_start")
