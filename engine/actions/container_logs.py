"""Read the end of a container's log, both its outputs, and search it for known signatures."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.facts.containers import FORMAT, Container, container
from engine.facts.docker import ask_docker, epoch, read_docker
from engine.ports import Absent, Probe
from engine.values.text import Duration, Json, Unknown

LINE = 10_000
"""Characters of a line that are looked at."""

BYTES = 4 << 20
"""What is read at most, from the end."""

SIGNATURES: Mapping[str, Json] = {
    "gpu_out_of_memory": "CUDA out of memory|OutOfMemoryError",
    "cuda_error": "RuntimeError: CUDA error|CUDA error:|AcceleratorError",
    "disk_full": "No space left on device",
}

_LOOK = r"""
name=$1 lines=$2 since=$3 most=$4
ask container inspect --format "$5" -- "$name" || { vanished && { echo 'missing ""'; exit 0; }; fail; }
ask info --format 'clock {{json .SystemTime}}' || fail
echo 'log ""'
if [ "$since" -gt 0 ]; then set -- --since "${since}s"; else set --; fi
{ code=$({ { docker logs --timestamps --tail "$lines" "$@" -- "$name" 2>&1 </dev/null; echo $? >&4; } |
    tail -c "$most" | sed 's/^/ /' >&3; } 4>&1); } 3>&1
echo
printf 'code %s\n' "$code"
"""
"""Lines of the log are indented by one space, so that none of them can pass for one of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    """Whose log, how much of it, and what for."""

    container: str = field(
        metadata={"about": "Name or id; often '{{ look.chosen.id }}' of a `containers` look.", "min_length": 1}
    )
    tail: int = field(default=50, metadata={"about": "How many of the last lines.", "minimum": 1, "maximum": 100000})
    since: Duration = field(default=Duration(0), metadata={"about": "Only lines younger than this; 0: any age."})
    signatures: Mapping[str, Json] = field(
        default_factory=lambda: dict(SIGNATURES),
        metadata={
            "about": "Name to Python regular expression, searched in each line; by default GPU memory, CUDA, disk."
        },
    )
    ignore_case: bool = field(default=False, metadata={"about": "Upper and lower case are the same."})

    def __post_init__(self) -> None:
        for name, pattern in self.signatures.items():
            if not isinstance(pattern, str) or not pattern:
                raise ValueError(f"signature {name}: a regular expression is wanted")
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"signature {name}: not a regular expression: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A line with a signature in it."""

    signature: str
    line: int
    """From the end: -1 is the last line."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What was read, and what was in it."""

    container: str = field(default="", metadata={"about": "Name of the container."})
    driver: str = field(default="", metadata={"about": "Its log driver; `none` keeps nothing."})
    kept: bool = field(default=False, metadata={"about": "Whether there is a log to read: else set up logging."})
    lines: tuple[str, ...] | Unknown = field(default=(), metadata={"about": "The lines, oldest first."})
    matches: tuple[Match, ...] | Unknown = field(
        default=(), metadata={"about": "Lines with a signature (signature, line, text)."}
    )
    found: tuple[str, ...] | Unknown = field(default=(), metadata={"about": "Names of the signatures that were found."})
    counts: Mapping[str, int | Unknown] = field(
        default_factory=dict, metadata={"about": "How many lines have each signature."}
    )
    last_age: float | Unknown = field(
        default_factory=lambda: Unknown(why="there is no line"),
        metadata={"about": "Seconds since the last line was written."},
    )


def probe(args: Args) -> Probe[State]:
    """Ask for the container, then for its log, in one script."""
    numbers = (str(args.tail), f"{args.since:.0f}", str(BYTES))
    done = yield ask_docker(_LOOK, args.container, *numbers, FORMAT)
    answer = read_docker(done)
    if answer.absent:
        return Absent(why=answer.absent, state=State())
    if answer.all("missing"):
        return _blind(args, State(), f"there is no container {args.container}")
    whose = container(answer.one("container"))
    state = State(container=whose.name, driver=whose.log_driver)
    text = [it[1:].removesuffix("\r") for it in done.stdout.split("\n") if it.startswith(" ")]
    if answer.one("code") != 0:
        return _blind(args, state, _refusal(whose, text))
    return _searched(args, state, text, epoch(answer.one("clock")))


def _refusal(whose: Container, text: list[str]) -> str:
    if whose.log_driver == "none":
        return f"{whose.name} keeps no log: its log driver is none; create it anew with json-file, local or journald"
    said = text[-1].removeprefix("Error response from daemon: ") if text else "docker said nothing"
    return f"the log of {whose.name} (driver {whose.log_driver}) cannot be read here: {said}"


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


def _searched(args: Args, state: State, stamped: list[str], now: float) -> State:
    stamps, _, _ = zip(*(it.partition(" ") for it in stamped), strict=True) if stamped else ((), (), ())
    lines = [it.partition(" ")[2] for it in stamped]
    flags = re.IGNORECASE if args.ignore_case else 0
    patterns = {name: re.compile(str(it), flags) for name, it in args.signatures.items()}
    matches = tuple(
        Match(signature=name, line=at - len(lines), text=line[:LINE].strip())
        for at, line in enumerate(lines)
        for name, pattern in patterns.items()
        if pattern.search(line[:LINE])
    )
    counts: dict[str, int | Unknown] = {name: sum(it.signature == name for it in matches) for name in patterns}
    last = epoch(stamps[-1]) if stamps else 0.0
    return State(
        container=state.container,
        driver=state.driver,
        kept=True,
        lines=tuple(it[:LINE] for it in lines),
        matches=matches,
        found=tuple(name for name, number in counts.items() if number),
        counts=counts,
        last_age=round(max(0.0, now - last), 3) if last else Unknown(why="there is no line"),
    )


def by_hand(args: Args) -> tuple[str, ...]:
    """The line that a person would paste."""
    return (f"docker logs --timestamps --tail {args.tail} {shlex.quote(args.container)}",)
