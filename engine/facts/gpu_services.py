"""Services of the GPU driver that hold every GPU: stopped for a reset, and exactly those started again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.facts.services import BOOTED, full_name
from engine.values.command import Command, Completed, read_script, write_script

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_@-]*(\.service)?")

TIMEOUT = 120.0
"""Seconds that starting a service may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A service that runs, as systemd says."""

    unit: str
    pid: int
    """Its main process."""
    pulls: tuple[str, ...] = ()
    """Units that run, and that systemd would stop with it."""


def ask_services(names: Sequence[str]) -> Command:
    """Which of the services *names* run; nothing where systemd does not run the host."""
    return read_script(_ASK, BOOTED, *map(full_name, names))


_ASK = r"""
LC_ALL=C SYSTEMD_PAGER= SYSTEMD_COLORS=0; export LC_ALL SYSTEMD_PAGER SYSTEMD_COLORS
[ -d "$1" ] || exit 0
shift
command -v systemctl >/dev/null || exit 0
for one do
    systemctl --no-pager show -p Id,ActiveState,MainPID -- "$one" || exit 3
    for other in $(systemctl --no-pager show --value -p RequiredBy,BoundBy,ConsistsOf -- "$one"); do
        state=$(systemctl --no-pager show --value -p ActiveState -- "$other")
        case $state in inactive|failed) ;; *) echo "Pulls=$other" ;; esac
    done
    echo
done
"""


def read_services(done: Completed) -> tuple[Service, ...]:
    """The answer to ``ask_services``: none where systemd did not answer, so that their processes stand in the way."""
    if done.timed_out or done.exit_code != 0:
        return ()
    found: dict[str, Service] = {}
    for block in done.stdout.split("\n\n"):
        lines = [line.partition("=")[::2] for line in block.splitlines() if "=" in line]
        told = dict(lines)
        pulls = tuple(dict.fromkeys(value for key, value in lines if key == "Pulls"))
        pid = told.get("MainPID", "")
        if told.get("ActiveState") == "active" and pid.isascii() and pid.isdigit() and int(pid) > 0 and told.get("Id"):
            found[told["Id"]] = Service(unit=told["Id"], pid=int(pid), pulls=pulls)
    return tuple(found.values())


def stop(units: Sequence[str]) -> Command:
    """Stop *units*; the first that cannot be stopped ends it."""
    return replace(write_script(_STOP, *units, called=("stop-services", *units)), timeout=TIMEOUT)


def start_again(units: Sequence[str]) -> Command:
    """Start *units* in the order in which they are given; one that runs already is left as it is."""
    return replace(write_script(_START, *units, called=("start-services", *units)), timeout=TIMEOUT)


_STOP = r"""
LC_ALL=C; export LC_ALL
for one do
    systemctl --no-ask-password --no-pager stop -- "$one" && continue
    echo "$one could not be stopped" >&2
    exit 1
done
"""

_START = r"""
LC_ALL=C; export LC_ALL
rc=0
for one do
    systemctl --no-ask-password --no-pager start -- "$one" && continue
    echo "$one was stopped for the reset, and could not be started again: systemctl start $one" >&2
    rc=1
done
exit $rc
"""
