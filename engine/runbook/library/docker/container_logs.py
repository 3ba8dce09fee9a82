"""Read the last lines of a container's log, stdout and stderr, and search them for known signatures."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import field

from runbook.dataclass import dataclass
from runbook.library.docker.facts.engine import epoch
from runbook.library.docker.facts.logs import ask_log, read_log
from runbook.protocols import Absent, Probe
from runbook.text.signatures import SignatureSearch, check_signatures
from runbook.values.types import Duration, Json, Unknown

LINE = 10_000
"""Characters of a line that are inspected."""

SIGNATURES: Mapping[str, Json] = {
    "gpu_out_of_memory": "CUDA out of memory|OutOfMemoryError",
    "cuda_error": "RuntimeError: CUDA error|CUDA error:|AcceleratorError",
    "disk_full": "No space left on device",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    container: str = field(metadata={"min_length": 1})
    """Name or id; often '{{ ID.chosen.id }}' of a `containers` probe with that id."""
    tail: int = field(default=50, metadata={"minimum": 1, "maximum": 100000})
    """The number of last lines to read."""
    since: Duration = Duration(0)
    """Only lines younger than this; 0: any age."""
    signatures: Mapping[str, Json] = field(default_factory=lambda: dict(SIGNATURES))
    """Name to Python regular expression, searched in each line; by default GPU memory, CUDA, disk."""
    ignore_case: bool = False
    """Do not distinguish upper and lower case."""

    def __post_init__(self) -> None:
        check_signatures(self.signatures, re.IGNORECASE if self.ignore_case else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerLogMatch:
    """A line with a signature in it."""

    signature: str = field(metadata={"named_by": ("signatures",)})
    """The name of the signature that the line has: a key of `signatures`."""
    line: int
    """The number of the line from the end of what was read: -1 is the last line."""
    text: str
    """The line, without Docker's time before it; at most 10000 characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    container: str = ""
    """Name of the container."""
    driver: str = ""
    """The container's log driver; `none` keeps no log."""
    kept: bool = False
    """Whether there is a log to read; if not, set up logging."""
    lines: tuple[str, ...] | Unknown = ()
    """The lines, oldest first."""
    matches: tuple[ContainerLogMatch, ...] | Unknown = ()
    """Lines with a signature (signature, line, text)."""
    found: tuple[str, ...] | Unknown = field(default=(), metadata={"named_by": ("signatures",)})
    """Names of the signatures that were found."""
    counts: Mapping[str, int | Unknown] = field(default_factory=dict, metadata={"named_by": ("signatures",)})
    """The number of lines with each signature."""
    last_age: float | Unknown = field(default_factory=lambda: Unknown(why="there is no line"))
    """Seconds since the last line was written."""


def probe(args: Args) -> Probe[State]:
    """Ask for the container, then for its log, in one script."""
    log = read_log((yield ask_log(args.container, args.tail, args.since)))
    if log.absent:
        return Absent(why=log.absent, state=State())
    if log.whose is None:
        return _blind(args, State(), f"there is no container {args.container}")
    state = State(container=log.whose.name, driver=log.whose.log_driver)
    if log.refused:
        return _blind(args, state, log.refused)
    return _searched(args, state, log.lines, log.now)


def _blind(args: Args, state: State, why: str) -> State:
    blind = Unknown(why=why)
    counts = dict.fromkeys(args.signatures, blind)
    return State(
        container=state.container,
        driver=state.driver,
        lines=blind,
        matches=blind,
        found=blind,
        counts=counts,
        last_age=blind,
    )


def _searched(args: Args, state: State, stamped: Sequence[str], now: float) -> State:
    stamps, _, _ = zip(*(word.partition(" ") for word in stamped), strict=True) if stamped else ((), (), ())
    lines = [word.partition(" ")[2] for word in stamped]
    flags = re.IGNORECASE if args.ignore_case else 0
    search = SignatureSearch(args.signatures, flags)
    matches = tuple(
        ContainerLogMatch(signature=name, line=at - len(lines), text=line[:LINE].strip())
        for at, line in enumerate(lines)
        for name in args.signatures
        if search.search(name, line[:LINE])
    )
    counts: dict[str, int | Unknown] = {
        name: sum(match.signature == name for match in matches) for name in args.signatures
    }
    slow = {name: Unknown(why=why) for name, why in search.unknown({match.signature for match in matches}).items()}
    doubt = next(iter(slow.values()), None)
    last = epoch(stamps[-1]) if stamps else 0.0
    return State(
        container=state.container,
        driver=state.driver,
        kept=True,
        lines=tuple(line[:LINE] for line in lines),
        matches=doubt or matches,
        found=doubt or tuple(name for name, number in counts.items() if number),
        counts={**counts, **slow},
        last_age=round(max(0.0, now - last), 3) if last else Unknown(why="there is no line"),
    )


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the command that a person would run by hand."""
    return (f"docker logs --timestamps --tail {args.tail} {shlex.quote(args.container)}",)
