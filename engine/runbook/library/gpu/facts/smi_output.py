"""Parse the output of nvidia-smi: sections, rows, and the words for a missing value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.processes.facts.known_daemons import REALLY
from runbook.shell import UPTIME, script
from runbook.values.command import Completed
from runbook.values.types import Unknown, seconds

STUCK = 75
"""The script's own exit code if an earlier nvidia-smi still hangs in the driver, so that no new query was sent."""

FRAME = "#: runbook"
"""The beginning of the lines that the script prints around each answer, on stdout and stderr.

A random word follows it, which a process on a GPU cannot know: the name of a process may contain lines of its own.
"""

_FENCE = re.compile(r"\A#: runbook( [0-9a-f-]{36})? begin ")

SMI = "nvidia-smi"
"""The program that hangs if the driver hangs (``Command.hangs``)."""

REFUSED = 2
"""The exit code of nvidia-smi for an unknown query, such as a query for a field of newer drivers."""

USABLE = (0, REFUSED, 6, 14, 15)
"""The exit codes of a working nvidia-smi: only the query or one GPU is wrong, and further queries are possible."""

SCRIPT_HEAD = (
    REALLY
    + UPTIME
    + f"usable() {{ case $rc in {'|'.join(map(str, USABLE))}) ;; *) return 1 ;; esac; }}\n"
    + script(__package__, "smi_run")
)
"""The script: each query runs once, with nothing on stdin; the frame lines allow both streams to be separated.

``usable`` says whether the last query's exit code, in rc, is one of USABLE.
"""

_MARKER = re.compile(
    r"\[.*\]?|.*\]|n/?a|err!?|unknown|unknown error|not supported|not found|not available|gpu (requires reset|is lost)"
    r"|insufficient permissions|requested functionality has been deprecated",
    re.IGNORECASE,
)
BLANKS = " \t\r\v\f"
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?\Z")

_REASONS = {
    2: "it rejected the query (exit code 2)",
    3: "the query is not available on this device (exit code 3)",
    4: "not permitted (exit code 4)",
    6: "a GPU could not be queried, or no GPU is usable (exit code 6)",
    8: "a GPU has no external power (exit code 8)",
    9: "the NVIDIA driver is not loaded or does not answer (exit code 9)",
    10: "the kernel reports a problem with a GPU's interrupts (exit code 10)",
    12: "the NVML library was not found (exit code 12)",
    13: "the NVML library lacks a function: its version does not match this nvidia-smi (exit code 13)",
    14: "a GPU's infoROM is corrupted (exit code 14)",
    15: "a GPU has fallen off the bus or cannot be reached (exit code 15)",
    18: "the versions of the driver and of its library differ (exit code 18)",
    126: "nvidia-smi cannot be executed (exit code 126)",
    127: "this host has no nvidia-smi on PATH",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySection:
    """The answer to one query."""

    name: str
    fields: tuple[str, ...]
    lines: tuple[str, ...]
    """The lines of stdout, without blank lines and without an incomplete last line."""
    cut: str = ""
    """The last line, if it had no newline."""
    stderr: tuple[str, ...] = ()
    exit_code: int | None = None
    """The exit code; None if the query did not finish."""

    @property
    def answered(self) -> bool:
        """Whether the query was accepted and its rows are valid, even if a GPU has no row or a warning."""
        return self.exit_code in USABLE and self.exit_code != REFUSED


def sections(done: Completed) -> tuple[QuerySection, ...]:
    """Return the answers in *done*, in their order.  Raises ProbeError if no answer was begun."""
    fence = _FENCE.match(done.stdout)
    frame = FRAME + (fence[1] or "" if fence else "")
    complaints = dict(_framed(done.stderr, frame))
    found = [_section(head, body, complaints.get(head, ""), frame) for head, body in _framed(done.stdout, frame)]
    if not found:
        raise ProbeError(_why_nothing(done))
    return tuple(found)


def _framed(text: str, frame: str) -> Iterator[tuple[str, str]]:
    for part in text.split(f"{frame} begin ")[1:]:
        head, _, body = part.partition("\n")
        yield head.strip(), body


def _section(head: str, body: str, complaints: str, frame: str) -> QuerySection:
    name, _, fields = head.partition(" ")
    text, ended, code = body.rpartition(f"\n{frame} end ")
    if not ended:
        text, code = body, ""
    whole, _, cut = text.rpartition("\n")
    digits = code.split("\n", 1)[0].strip()
    return QuerySection(
        name=name,
        fields=tuple(part for part in fields.split(",") if part),
        lines=tuple(line for line in map(one_line, whole.split("\n")) if line),
        cut=one_line(cut),
        stderr=tuple(line for line in map(one_line, complaints.split("\n")) if line),
        exit_code=int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 5 else None,
    )


def _why_nothing(done: Completed) -> str:
    if done.timed_out:
        return hung(done)
    said = next((line for line in map(one_line, (done.stderr + "\n" + done.stdout).split("\n")) if line), "")
    if done.exit_code == STUCK:
        return f"{said}; nvidia-smi is not run again while that process hangs"
    if done.exit_code == 127:
        return _REASONS[127]
    if done.exit_code is None:
        return "the output of nvidia-smi is incomplete: the host returned no exit code"
    return f"nvidia-smi could not be queried (exit code {done.exit_code})" + (f": {said}" if said else "")


def hung(done: Completed) -> str:
    """Return the message about an nvidia-smi that gave no answer in time."""
    return f"nvidia-smi did not answer within {seconds(done.seconds)}: a driver call may hang"


def reason(exit_code: int | None, said: Sequence[str]) -> str:
    """Return the reason why nvidia-smi printed no row, as text; *said* is its other output."""
    plain = "it was terminated before it finished" if exit_code is None else _REASONS.get(exit_code, "")
    if exit_code == 0:
        plain = "it printed no row" if not said else "its output could not be parsed"
    elif not plain:
        plain = f"exit code {exit_code}"
    return f"nvidia-smi: {plain}" + (f": {'; '.join(said[:3])}" if said else "")


def not_answered(found: Sequence[QuerySection], column: str, *, refused: Unknown) -> Unknown:
    """Return the reason why *column* has no value: *refused* if nvidia-smi does not know it.

    Otherwise a query failed, or the column was not asked for.
    """
    asked = [section for section in found if column in section.fields]
    if any(section.exit_code == REFUSED and len(section.fields) <= 2 for section in asked):  # the index, and itself
        return refused
    if failed := [section for section in asked if section.exit_code != REFUSED]:
        return Unknown(why=reason(failed[-1].exit_code, ()))
    broken = [reason(section.exit_code, ()) for section in found if section.exit_code not in USABLE]
    return Unknown(why="nvidia-smi was not asked for it" + (f", as a query failed ({broken[0]})" if broken else ""))


def row(line: str, fields: Sequence[str], free: str) -> tuple[str, ...] | None:
    """Return the values of *line* in the order of *fields*; None: it is no such row.

    Values are not quoted, so that surplus commas are part of *free*, the only field with free text.
    """
    parts = [part.strip(BLANKS) for part in line.split(",")]
    extra = len(parts) - len(fields)
    if extra and (extra < 0 or free not in fields):
        return None
    at = fields.index(free) if free in fields else 0
    return (*parts[:at], ", ".join(parts[at : at + extra + 1]), *parts[at + extra + 1 :]) if extra else tuple(parts)


def marker(value: str) -> bool:
    """Whether *value* is one of the words that nvidia-smi prints instead of a value."""
    return not value or _MARKER.fullmatch(value) is not None


def number(value: str, *, most: float = float("inf")) -> float | Unknown:
    """Return *value* as a number that is not negative; Unknown for a marker or any other text."""
    if not _NUMBER.match(value) or not value.isascii() or len(value) > 15 or float(value) > most:
        return missing(value)
    return float(value)


def word(value: str) -> str | Unknown:
    """Return *value*, or Unknown if it is a word for a missing value."""
    return missing(value) if marker(value) else value


def missing(value: str) -> Unknown:
    """Return the Unknown for *value*, a word for a missing value."""
    return Unknown(why=f"nvidia-smi prints {value[:60]}" if value else "nvidia-smi prints no value")


def one_line(line: str) -> str:
    """Return *line* with each run of blanks reduced to one space; other white space is kept, because nvidia-smi does
    not print it.
    """
    return re.sub(f"[{BLANKS}]+", " ", line).strip(BLANKS)
