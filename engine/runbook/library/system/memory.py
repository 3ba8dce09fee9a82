"""Report how much memory is left: the host's, or the container's if that is less."""

from __future__ import annotations

from dataclasses import field

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.system.facts.memory import Hungry, Limit, Memory, ask_memory, read_memory
from runbook.protocols import Fails, Holds, Probe
from runbook.text.sizes import bytes_of
from runbook.values.types import Size, Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    below: float = field(default=90, metadata={"minimum": 1, "maximum": 100})
    """Memory is low if this much (percent) or more is used."""
    available_at_least: Size = Size(0)
    """Memory is also low if less than this is left; 0: not checked."""
    top: int = field(default=5, metadata={"minimum": 1, "maximum": 100})
    """The number of the largest processes to name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The memory that is there and that is left, in bytes."""

    total: int
    """Bytes of usable memory: the host's memory, or the lowest limit."""
    available: int | Unknown
    """Bytes of it that programs can still get without swapping."""
    percent: float | Unknown
    """Memory in use, in percent of `total`."""
    low: bool | Unknown
    """Whether memory is low."""
    host_total: int
    """Bytes of memory that the host has (MemTotal)."""
    host_available: int | Unknown
    """Bytes of the host's memory that programs can still get (MemAvailable)."""
    limited_by: str = ""
    """The control group with the least memory left (`container`: the top one); empty: there is none."""
    limits: tuple[Limit, ...] | Unknown
    """Our control groups with a limit below the host's memory: group, bytes, used."""
    swap_total: int | Unknown
    """Bytes of the host's swap space (SwapTotal)."""
    swap_used: int | Unknown
    """Bytes of swap space in use."""
    top: tuple[Hungry, ...] | Unknown
    """The processes with the most memory: pid, name, resident (bytes)."""
    oom_kills: int | Unknown
    """The number of kills by the kernel at the limit of our own control group."""


def probe(args: Args) -> Probe[State]:
    """Read /proc and the control groups in one script."""
    seen = read_memory((yield ask_memory(args.top)))
    total, available, group = _least(seen)
    percent = available if isinstance(available, Unknown) else round(100 * (1 - available / total), 1)
    return State(
        total=total,
        available=available,
        percent=percent,
        low=_low(args, percent, available),
        host_total=seen.total,
        host_available=seen.available,
        limited_by=group,
        limits=seen.limits,
        swap_total=seen.swap_total,
        swap_used=_difference(seen.swap_total, seen.swap_free),
        top=seen.top,
        oom_kills=seen.oom_kills,
    )


def _low(args: Args, percent: float | Unknown, available: int | Unknown) -> bool | Unknown:
    if isinstance(percent, Unknown):
        return percent
    return available if isinstance(available, Unknown) else bool(_troubles(args, percent, available))


def _least(seen: Memory) -> tuple[int, int | Unknown, str]:
    """Return the memory that can be used, what is left of it, and the control group that limits it: wherever least is
    left."""
    if isinstance(seen.limits, Unknown) or isinstance(seen.available, Unknown) or not seen.limits:
        return seen.total, seen.available, ""
    tight = min(seen.limits, key=lambda limit: limit.bytes - limit.used)
    left = max(0, tight.bytes - tight.used)
    if left > seen.available:
        return tight.bytes, seen.available, tight.group or "container"
    return tight.bytes, left, tight.group or "container"


def _difference(whole: int | Unknown, rest: int | Unknown) -> int | Unknown:
    if isinstance(whole, Unknown):
        return whole
    return rest if isinstance(rest, Unknown) else max(0, whole - rest)


def _troubles(args: Args, percent: float, available: int) -> list[str]:
    said: list[str] = []
    if percent >= args.below:
        said.append(f"{percent:g} % of the memory is used")
    if args.available_at_least and available < args.available_at_least:
        said.append(f"only {bytes_of(available)} of memory are left")
    return said


def holds(args: Args, state: State) -> Holds | Fails:
    """Enough memory is left."""
    if isinstance(state.percent, Unknown):
        raise ProbeError(state.percent.why)
    assert not isinstance(state.available, Unknown)
    where = f" (limit of {state.limited_by})" if state.limited_by else ""
    if said := _troubles(args, state.percent, state.available):
        return Fails(why="; ".join(said) + where + _names_of(state.top))
    return Holds(why=f"{state.percent:g} % of the memory is used, {bytes_of(state.available)} are left{where}")


def _names_of(top: tuple[Hungry, ...] | Unknown) -> str:
    if isinstance(top, Unknown):
        return ""
    return "; most memory: " + ", ".join(
        f"{hungry.name} ({hungry.pid}, {bytes_of(hungry.resident)})" for hungry in top[:3]
    )


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the commands that a person would run by hand."""
    return (
        "free -h",
        f"ps -eo pid,rss,comm --sort=-rss | head -n {args.top + 1}",
        "cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory.current      # in a container",
    )
