"""Search the kernel's messages for killed processes, GPU faults, failing disks and hung tasks.

The journal and the ring buffer are read, as far as this host allows, and shown together.  Where neither may be read, or
what is kept begins after the moment that was asked for, it is unknown whether there was anything.  Upper and lower case
are the same.  In a container the messages, if there are any, are those of the whole host, and so are the pids in them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from math import ceil, floor
from typing import TypeVar

from engine.errors import ProbeError
from engine.facts.gpu.xids import NOT_KNOWN_WHEN, GpuNeed, needs, unmended
from engine.facts.kernel.events import (
    HungTask,
    IoError,
    OomKill,
    Xid,
    hung_tasks,
    io_errors,
    oom_kills,
    sxids,
    when,
    xids,
)
from engine.facts.kernel.faults import (
    GpuFault,
    KernelFault,
    OomdKill,
    faults,
    gpu_faults,
    last_loaded,
    lost_gpus,
    oomd_kills,
    open_faults,
)
from engine.facts.kernel.messages import HostClock, Message
from engine.facts.kernel.network_faults import NetworkFault, network_faults
from engine.facts.kernel.oom_victims import sort_kills
from engine.facts.kernel.patterns import users_words
from engine.facts.kernel.query_script import ask_kernel
from engine.facts.kernel.sources import KernelLog, read_kernel, read_text, since_boot
from engine.protocols import Probe
from engine.text.regexes import fault_in_regex, found_anywhere
from engine.text.timestamps import TimeReference, time_reference, written
from engine.values.command import Completed
from engine.values.types import Duration, Json, Regex, Unknown, long_ago, plural

T = TypeVar("T")
A = TypeVar("A", GpuNeed, GpuFault)

KEPT = 200
"""Entries of each kind that are kept, the latest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    """Which part of the log, and what else to search it for."""

    since: str | float = field(
        default="", metadata={"about": "From when on: 10m (ago), 2026-01-31T12:00:00Z, or @ and seconds since 1970."}
    )
    until: str | float = field(default="", metadata={"about": "Until when, written as `since`."})
    around: str | float = field(
        default="", metadata={"about": "A moment, written as `since`; instead of `since` and `until`."}
    )
    within: Duration = field(
        default=Duration(60), metadata={"about": "How long before and after `around`.", "minimum": 1}
    )
    this_boot: bool = field(
        default=False,
        metadata={"about": "What was before the host was booted is not asked for: a log since then is complete."},
    )
    signatures: Mapping[str, Json] = field(
        default_factory=dict,
        metadata={
            "about": "Name to Python regular expression, also searched in each message; found only in words that "
            "a user may choose, such as the name of a process, it does not count."
        },
    )
    victims: tuple[Regex, ...] = field(
        default=(),
        metadata={"about": "Names of processes (15 characters) that are the job's: their kills are `oom_job`."},
    )
    optional: bool = field(
        default=False,
        metadata={
            "about": "Where the log cannot be read, nothing of it is known (but `lost_gpus`: none), and no more."
        },
    )
    text: str = field(default="", metadata={"about": "Search this text instead of the host's own log."})

    def __post_init__(self) -> None:
        if self.around != "" and (self.since != "" or self.until != ""):
            raise ValueError("give `around`, or `since` and `until`, not both")
        moments = [time_reference(it) for it in (self.since, self.until, self.around)]
        if self.text and any(it.ago is not None for it in moments):
            raise ValueError("a text has no clock: write times as 2026-01-31T12:00:00Z")
        for name, pattern in self.signatures.items():
            if not isinstance(pattern, str) or not pattern:
                raise ValueError(f"signature {name}: a regular expression is wanted")
            if fault := fault_in_regex(pattern, re.IGNORECASE):
                raise ValueError(f"signature {name}: {fault}")


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelLogMatch:
    """A message with a signature in it."""

    signature: str
    at: str | Unknown
    seconds: float | Unknown
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What the kernel reported; of each kind the latest 200, oldest first."""

    oom: tuple[OomKill, ...] | Unknown = field(
        metadata={"about": "Processes killed for memory: at, seconds, pid, name, scope (host, cgroup), container ..."}
    )
    oom_host: tuple[OomKill, ...] | Unknown = field(
        metadata={"about": "Those of `oom` that died because the host itself had no memory left."}
    )
    oom_cgroup: tuple[OomKill, ...] | Unknown = field(
        metadata={"about": "Those of `oom` that died because a container or control group had reached its limit."}
    )
    oom_job: tuple[OomKill, ...] | Unknown = field(
        metadata={"about": "Those of `oom` that `victims` names, but for those in another service's control group."}
    )
    oom_others: tuple[OomKill, ...] | Unknown = field(
        metadata={"about": "The rest of `oom`: somebody else's, or of nobody that the log names."}
    )
    xids: tuple[Xid, ...] | Unknown = field(
        metadata={"about": "Faults of GPUs: at, seconds, code, bus_id, pid, name, text."}
    )
    xid_codes: tuple[int, ...] | Unknown = field(metadata={"about": "Their codes, each once."})
    gpu_needs: tuple[GpuNeed, ...] | Unknown = field(
        metadata={
            "about": "What each GPU with a fault needs by the vendor's catalogue, the most urgent first: bus_id, need "
            "(nothing, restart the application, check the node, contact the vendor, reset the GPU, reboot the node), "
            "code, bucket, meaning, at, text, count. The newest Xid 154 of a GPU overrules what was before it."
        }
    )
    open_needs: tuple[GpuNeed, ...] | Unknown = field(
        metadata={
            "about": "Those of `gpu_needs` that still count, with `ago`: loading the driver anew mends what a reset "
            "mends, and no fault that asks for a reboot, the vendor, or a check of the node."
        }
    )
    lost_gpus: tuple[str, ...] = field(
        default=(),
        metadata={
            "about": "Bus ids of GPUs that fell off the bus, or need a reboot by the catalogue; none where not known."
        },
    )
    gpu_faults: tuple[GpuFault, ...] | Unknown = field(
        metadata={
            "about": "GPUs that fell off the bus or could not be started, reported without an Xid: kind, bus_id ..."
        }
    )
    open_faults: tuple[GpuFault, ...] | Unknown = field(
        metadata={"about": "Those of `gpu_faults` that loading the driver anew has not mended, with `ago`."}
    )
    network: tuple[NetworkFault, ...] | Unknown = field(
        metadata={
            "about": "Faults of network cards, and links that went down and are not up again: at, seconds, kind (card, "
            "link_down), device, text."
        }
    )
    lockups: tuple[KernelFault, ...] | Unknown = field(
        metadata={"about": "Processors that hung: soft and hard lockups, stalls of RCU: at, seconds, text."}
    )
    panics: tuple[KernelFault, ...] | Unknown = field(metadata={"about": "Panics and oopses of the kernel itself."})
    hardware_errors: tuple[KernelFault, ...] | Unknown = field(
        metadata={"about": "Uncorrected errors of memory, processors and PCI Express (machine checks, EDAC, AER)."}
    )
    oomd_kills: tuple[OomdKill, ...] | Unknown = field(
        metadata={"about": "Control groups that systemd-oomd ended for memory pressure: at, seconds, cgroup, text."}
    )
    no_victim: tuple[KernelFault, ...] | Unknown = field(
        metadata={"about": "Times when memory ran out and the kernel found nobody to end."}
    )
    sxids: tuple[Xid, ...] | Unknown = field(metadata={"about": "Faults of NVSwitches, with their `switch`."})
    io_errors: tuple[IoError, ...] | Unknown = field(
        metadata={"about": "Complaints about disks and file systems: at, seconds, device, text."}
    )
    hung_tasks: tuple[HungTask, ...] | Unknown = field(
        metadata={"about": "Tasks that were blocked too long: at, seconds, pid, name, waited (seconds)."}
    )
    matches: tuple[KernelLogMatch, ...] | Unknown = field(
        metadata={"about": "Messages with one of `signatures`: signature, at, seconds, text."}
    )
    counts: Mapping[str, int | Unknown] = field(metadata={"about": "How many messages have each signature."})
    found: tuple[str, ...] | Unknown = field(metadata={"about": "Names of the signatures that were found."})
    sources: tuple[str, ...] = field(metadata={"about": "What was read: journal, dmesg, a file, or text."})
    begins: str | Unknown = field(metadata={"about": "The moment from which on the log is complete (UTC)."})
    ends: str | Unknown = field(metadata={"about": "The moment of its last message (UTC)."})
    booted_ago: float | Unknown = field(metadata={"about": "Seconds since the host was booted."})
    clock_offset: float | Unknown = field(
        metadata={
            "about": "Seconds by which the journal's times are later than those reckoned from the time since boot."
        }
    )


def probe(args: Args) -> Probe[State]:
    """Read the sources in one script; they are searched here."""
    if args.text:
        return _state(args, read_text(args.text))
    done: Completed = yield ask_kernel(_beginning(args), all_lines=bool(args.signatures))
    try:
        return _state(args, _read(done))
    except ProbeError as error:
        if not args.optional:
            raise
        return _unread(args, Unknown(why=str(error)))


def _read(done: Completed) -> KernelLog:
    """What the sources gave.  Raises ProbeError where none of them could be read."""
    if done.timed_out:
        raise ProbeError("the kernel's messages could not be read in time")
    reading = read_kernel(done.stdout)
    if done.exit_code != 0:
        raise ProbeError(done.stderr.strip() or f"the kernel's messages could not be read (exit code {done.exit_code})")
    if reading.why_not:
        raise ProbeError(f"the kernel's messages cannot be read: {reading.why_not}")
    return reading


def _unread(args: Args, why: Unknown) -> State:
    """Of a log that could not be read nothing is known."""
    known = {"counts": dict.fromkeys(args.signatures, why), "lost_gpus": (), "sources": ()}
    return State(**{**dict.fromkeys((it.name for it in fields(State)), why), **known})  # type: ignore[arg-type] # the rest


def _beginning(args: Args) -> str:
    """The beginning of what is asked for, for the script."""
    wanted, before = (
        (time_reference(args.around), args.within) if args.around != "" else (time_reference(args.since), 0.0)
    )
    if wanted.at is not None:
        return f"at {max(0, floor(wanted.at - before))}"
    return "" if wanted.ago is None else f"ago {ceil(wanted.ago + before)}"


def _window(args: Args, now: float) -> tuple[float, float]:
    """From when until when, where the host's clock says *now*."""
    if args.around != "":
        middle = time_reference(args.around).on(now) or 0.0
        return middle - args.within, middle + args.within
    since, until = _on(time_reference(args.since), now), _on(time_reference(args.until), now)
    return float("-inf") if since is None else since, float("inf") if until is None else until


def _on(moment: TimeReference, now: float) -> float | None:
    return moment.on(now)


def _state(args: Args, reading: KernelLog) -> State:
    low, high = _window(args, reading.clock.now or 0.0)
    bounded = (low, high) != (float("-inf"), float("inf"))
    inside = tuple(it for it in reading.messages if not bounded or (it.at is not None and low <= it.at <= high))
    blind = _blind(args, reading, low, bounded=bounded)
    kills = oom_kills(inside)
    matches = _matches(args, inside)
    counts = {name: sum(it.signature == name for it in matches) for name in args.signatures}
    gpu_faults_numbered = xids(inside)
    whose = sort_kills(kills, args.victims)
    loaded, now = last_loaded(inside), reading.clock.now
    times = {written(it.at): it.at for it in inside if it.at is not None}
    return State(
        oom=_known(kills, blind),
        oom_host=_scope(kills, "host", blind),
        oom_cgroup=_scope(kills, "cgroup", blind),
        oom_job=_known(whose.job, blind),
        oom_others=_known(whose.others, blind),
        xids=_known(gpu_faults_numbered, blind),
        xid_codes=_known(tuple(sorted({it.code for it in gpu_faults_numbered})), blind),
        gpu_needs=_known(needs(gpu_faults_numbered), blind),
        open_needs=_known(_with_age(unmended(xids(inside[:loaded]), xids(inside[loaded:])), times, now), blind),
        lost_gpus=lost_gpus(needs(gpu_faults_numbered), gpu_faults(inside)),
        gpu_faults=_known(gpu_faults(inside), blind),
        open_faults=_known(_with_age(open_faults(inside), times, now), blind),
        network=_known(network_faults(inside), blind),
        lockups=_known(faults("lockup", inside), blind),
        panics=_known(faults("panic", inside), blind),
        hardware_errors=_known(faults("hardware", inside), blind),
        oomd_kills=_known(oomd_kills(inside), blind),
        no_victim=_known(faults("oom_nobody", inside), blind),
        sxids=_known(sxids(inside), blind),
        io_errors=_known(io_errors(inside), blind),
        hung_tasks=_known(hung_tasks(inside), blind),
        matches=_known(matches, blind),
        counts={name: count or blind or 0 for name, count in counts.items()},
        found=_known(tuple(name for name, count in counts.items() if count), blind),
        sources=reading.sources,
        begins=_moment(reading.begins),
        ends=_moment(reading.ends),
        booted_ago=_booted_ago(reading.clock),
        clock_offset=Unknown(why="only where both journal and ring buffer are read can their clocks be compared")
        if reading.drift is None
        else reading.drift,
    )


def _with_age(found: tuple[A, ...], times: Mapping[str, float], now: float | None) -> tuple[A, ...]:
    """*found*, each with how long ago it was."""
    ages = (None if now is None or isinstance(it.at, Unknown) else now - times.get(it.at, now) for it in found)
    words = (NOT_KNOWN_WHEN if age is None else f"{long_ago(max(0.0, age))} ago" for age in ages)
    return tuple(replace(it, ago=ago) for it, ago in zip(found, words, strict=True))


def _moment(at: float | None) -> str | Unknown:
    return Unknown(why="the log's lines carry no time that can be determined") if at is None else written(at)


def _booted_ago(clock: HostClock) -> float | Unknown:
    if clock.now is None or clock.boot is None:
        return Unknown(why="this host does not say when it was booted")
    return max(0.0, clock.now - clock.boot)


def _blind(args: Args, reading: KernelLog, low: float, *, bounded: bool) -> Unknown | None:
    """Why finding nothing would not mean that there was nothing."""
    if reading.missed:
        return Unknown(why=f"the journal missed {plural(reading.missed, 'message')} of the kernel")
    if not bounded:
        return None
    if any(it.at is None for it in reading.messages):
        return Unknown(why="some messages carry no time that can be determined")
    if reading.begins is None:
        return Unknown(why="the log does not say from when on it is complete")
    whole = args.this_boot and since_boot(reading)
    if low != float("-inf") and reading.begins > low + 1 and not whole:
        return Unknown(why=f"the log begins only at {written(reading.begins)}, after {written(low)}")
    return None


def _known(found: tuple[T, ...], blind: Unknown | None) -> tuple[T, ...] | Unknown:
    return found[-KEPT:] if found or blind is None else blind


def _scope(kills: tuple[OomKill, ...], scope: str, blind: Unknown | None) -> tuple[OomKill, ...] | Unknown:
    vague = next((it.scope for it in kills if isinstance(it.scope, Unknown)), None)
    return _known(tuple(it for it in kills if it.scope == scope), vague or blind)


def _matches(args: Args, inside: tuple[Message, ...]) -> tuple[KernelLogMatch, ...]:
    patterns = {name: re.compile(str(it), re.IGNORECASE) for name, it in args.signatures.items()}
    return tuple(
        KernelLogMatch(signature=name, text=it.text.strip(), **when(it))
        for it in inside
        for name, pattern in patterns.items()
        if found_anywhere(pattern, it.text) and _said_by_the_kernel(pattern, it.text)
    )


def _said_by_the_kernel(pattern: re.Pattern[str], text: str) -> bool:
    """Whether *pattern* is not only in words of *text* that a user may have chosen, such as a process's name."""
    users = users_words(text)
    if not found_anywhere(pattern, users):
        return True
    return found_anywhere(
        pattern, "".join("\0" if user != "\0" else own for own, user in zip(text, users, strict=True))
    )


def by_hand(args: Args) -> tuple[str, ...]:
    """Lines that a person would paste."""
    what = "killed process|out of memory|oom-kill:|xid|i/o error|blocked for more than"
    since = _beginning(args)
    from_ = f" --since '{since.partition(' ')[2]} seconds ago'" if since.startswith("ago") else ""
    from_ = f" --since @{since.partition(' ')[2]}" if since.startswith("at") else from_
    return (f"journalctl -k -o short-iso{from_} | grep -iE '{what}'", f"dmesg -T | grep -iE '{what}'")
