"""The clock of a host: its time, the program that sets it, and the offset that this program reports."""

from __future__ import annotations

import re
from dataclasses import field, replace

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.shell import script
from runbook.values.command import Command, Completed, read_script
from runbook.values.types import Unknown

_ASK = script(__package__, "clock_probe")

_NAMES = {"systemd-timesyn": "systemd-timesyncd"}
"""The kernel keeps 15 characters of a name."""
_UNSYNC = 0x40
"""STA_UNSYNC of adjtimex(2)."""
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """The clock of a host."""

    now: int
    """The time that it shows: seconds since 1970."""
    synchronized: bool | Unknown
    by: str = ""
    """The program that reports it: chronyd, systemd-timesyncd, the kernel; empty: no program does."""
    source: str = ""
    """The server, or the clock, that it is set by; empty where none is named."""
    offset: float | Unknown = field(default_factory=lambda: Unknown(why="nobody on this host says how far it is off"))
    """Seconds by which it is ahead of its source (below 0: behind), by the word of the program that sets it."""
    daemons: tuple[str, ...] = ()
    """Programs that run here and set clocks."""


def ask_clock() -> Command:
    """The time, who sets it, and what they say."""
    return read_script(_ASK)


def read_clock(done: Completed) -> Clock:
    """The answer to ``ask_clock``.  Raises ProbeError."""
    lines = done.stdout.splitlines()
    if done.timed_out or done.exit_code != 0 or "end" not in lines:
        raise ProbeError(f"the clock could not be read: {done.why_not()}")
    answers: dict[str, list[str]] = {}
    for line in lines:
        word, _, rest = line.partition(" ")
        answers.setdefault(word, []).append(rest)
    now = answers.get("time", [""])[0]
    if not re.fullmatch(r"\d{1,12}", now):
        raise ProbeError(f"the host's time is not known: date printed {now[:40]!r}")
    daemons = tuple(dict.fromkeys(_NAMES.get(text, text) for text in answers.get("daemon", ())))
    if chrony := _chrony(answers.get("chrony", [])):
        return replace(chrony, now=int(now), daemons=daemons)
    synchronized, by = _by_the_kernel(answers, daemons)
    clock = Clock(now=int(now), synchronized=synchronized, by=by, daemons=daemons)
    if "systemd-timesyncd" not in daemons or not by:
        return clock
    status = _pairs(answers.get("timesync", []))
    server = status.get("Server", "").removesuffix("(null)").strip()
    return replace(
        clock,
        by="systemd-timesyncd",
        source="" if server == "n/a" else server,
        offset=_seconds(status.get("Offset", "")),
    )


def _chrony(lines: list[str]) -> Clock | None:
    """Parse the answer of chronyd; None: there is no answer.

    Fields of ``chronyc -c tracking``: reference (as a number, as a name), stratum, time, offset of the system clock
    (positive: slow) ... state of the leap second.  chronyd is asked before the kernel, because without `rtcsync` it
    does not set the kernel's flag.
    """
    words = lines[0].split(",") if len(lines) == 1 else []
    if len(words) != 14:
        return None
    try:
        stratum, slow = int(words[2]), float(words[4])
    except ValueError:
        return None
    synchronized = stratum > 0 and words[13] != "Not synchronised" and words[0] != "7F7F0101"
    return Clock(
        now=0,
        synchronized=synchronized,
        by="chronyd",
        source=words[1] or words[0],
        offset=-slow if synchronized else Unknown(why="chronyd has no source to compare the clock with"),
    )


def _by_the_kernel(answers: dict[str, list[str]], daemons: tuple[str, ...]) -> tuple[bool | Unknown, str]:
    """Whether the kernel takes its clock for synchronized, and by whose word that is known."""
    flag = _pairs(answers.get("timedatectl", [])).get("NTPSynchronized", "")
    status = re.search(r"\bstatus:\s*(?:0x)?(\d+)", "\n".join(answers.get("adjtimex", [])))
    if not flag and status:
        flag = "no" if int(status[1]) & _UNSYNC else "yes"
    precise = [daemon for daemon in daemons if daemon in ("ptp4l", "phc2sys")]
    if flag == "no" and precise:
        return Unknown(
            why=f"{' and '.join(precise)} may set it without telling the kernel: ask `pmc -u -b 0 'GET TIME_STATUS_NP'`"
        ), ""
    if flag in ("yes", "no"):
        return flag == "yes", "the kernel"
    if "synchronized" in answers.get("timesyncd", ()):
        return True, "systemd-timesyncd"
    said = next((word for name in ("timedatectl", "adjtimex", "chrony") for word in answers.get(name, ())), "")
    return Unknown(why=f"no program here says it (timedatectl, chronyc, adjtimex){f': {said}' if said else ''}"), ""


def _pairs(lines: list[str]) -> dict[str, str]:
    """``Name=value`` and ``Name: value``."""
    found = (re.fullmatch(r"\s*([\w ]+?)\s*[=:]\s*(.*)", line) for line in lines)
    return {match_[1]: match_[2].strip() for match_ in found if match_}


def _seconds(text: str) -> float | Unknown:
    """``+1.204ms``, ``-3min 2.5s`` in seconds."""
    parts = re.findall(r"([\d.]+)(us|ms|min|s|h)", text)
    if not parts:
        return Unknown(why="systemd-timesyncd does not say how far it is off")
    return (-1 if text.startswith("-") else 1) * sum(float(number) * _UNITS[unit] for number, unit in parts)
