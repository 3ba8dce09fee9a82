"""Search the kernel's messages for killed processes, GPU faults, failing disks and hung tasks.

The journal and the ring buffer are read, as far as this host allows, and merged. If neither can be read, or if the kept
messages begin after the requested time, the result is unknown. Upper and lower case are not distinguished. In a
container the messages, if there are any, are those of the whole host, and so are the pids in them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, fields, replace
from functools import partial
from math import ceil, floor
from typing import Any, TypeVar

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.gpu.facts.gpu_needs import NOT_KNOWN_WHEN, GpuNeed, needs, unmended
from runbook.library.gpu.facts.xids import Need
from runbook.library.kernel.facts.events import OomKill, hung_tasks, io_errors, oom_kills, sxids, when, xids
from runbook.library.kernel.facts.faults import (
    GpuFault,
    faults,
    gpu_faults,
    last_loaded,
    lost_gpus,
    oomd_kills,
    open_faults,
    other_errors,
    since_boot,
    xids_by_mending,
)
from runbook.library.kernel.facts.file_servers import file_servers
from runbook.library.kernel.facts.hardware import hardware_errors
from runbook.library.kernel.facts.network_faults import network_faults
from runbook.library.kernel.facts.oom_victims import sort_kills
from runbook.library.kernel.facts.patterns import KINDS, NO_FAULTS, anywhere_in_a_line
from runbook.library.kernel.facts.query_script import ask_kernel
from runbook.library.kernel.facts.sources import KernelLog, reaches_boot, read_kernel, read_text
from runbook.library.kernel.facts.state import KernelLogMatch, KernelLogState
from runbook.library.kernel.facts.users_words import kernels_words, users_words
from runbook.library.kernel.facts.xid_groups import xid_groups
from runbook.library.system.facts.kernel_messages import HostClock, Message
from runbook.protocols import Probe
from runbook.text.signatures import SignatureSearch, check_signatures
from runbook.text.timestamps import time_reference, written
from runbook.values.command import Completed
from runbook.values.playbook import Symptom, SymptomKind
from runbook.values.types import Duration, Json, Regex, Unknown, long_ago, plural

T = TypeVar("T")
A = TypeVar("A", GpuNeed, GpuFault)

KEPT = 200
"""Entries of each kind that are kept, the latest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    since: str | float = ""
    """Start of the period: 10m (ago), 2026-01-31T12:00:00Z, or @ and seconds since 1970."""
    until: str | float = ""
    """End of the period, written as `since`."""
    around: str | float = ""
    """A point in time, written as `since`; instead of `since` and `until`."""
    within: Duration = field(default=Duration(60), metadata={"minimum": 1})
    """The time before and after `around`."""
    this_boot: bool = False
    """Ignore messages before the last boot: a log that begins with that boot is complete, a later beginning is a gap.
    """
    accept_gap: bool = False
    """Treat a log that covers only a part of the period as complete: a message that is missing counts as absent, and
    `gap` says which part is not covered. For conclusions that the present state confirms.
    """
    signatures: Mapping[str, Json] = field(default_factory=dict)
    """Name to Python regular expression, also searched in each message; a match only in words that a user can choose,
    such as a process name, does not count.
    """
    victims: tuple[Regex, ...] = ()
    """Names of the job's processes (15 characters): kills of these are `oom_job`."""
    optional: bool = False
    """If the log cannot be read, all fields are unknown (`lost_gpus`, `links_down`, `file_servers`: empty), and no step
    fails.
    """
    text: str | None = None
    """Search this text, which may be empty, instead of the host's own log."""

    def __post_init__(self) -> None:
        if self.around != "" and (self.since != "" or self.until != ""):
            raise ValueError("give `around`, or `since` and `until`, not both")
        moments = [time_reference(value) for value in (self.since, self.until, self.around)]
        if self.text is not None and any(moment.ago is not None for moment in moments):
            raise ValueError("`text` has no clock to count back from: write times as 2026-01-31T12:00:00Z")
        check_signatures(self.signatures, re.IGNORECASE)


State = KernelLogState


def signs(_: Mapping[str, Any]) -> Mapping[str, Symptom]:
    """The kinds of messages that are faults."""
    return {
        name: Symptom(written=anywhere_in_a_line(kind), kind=SymptomKind.SIGN)
        for name, kind in KINDS.items()
        if name not in NO_FAULTS
    }


def probe(args: Args) -> Probe[State]:
    """Read the sources in one script; they are searched here."""
    if args.text is not None:
        return _state(args, read_text(args.text))
    done: Completed = yield ask_kernel(_beginning(args), all_lines=bool(args.signatures))
    try:
        return _state(args, _read(done))
    except ProbeError as error:
        if not args.optional:
            raise
        return _unread(args, Unknown(why=str(error)))


def _read(done: Completed) -> KernelLog:
    """Parse the answers of the sources.  Raises ProbeError where none of them could be read."""
    if done.timed_out:
        raise ProbeError("the kernel's messages could not be read in time")
    reading = read_kernel(done.stdout)
    if done.exit_code != 0:
        raise ProbeError(done.why_not("the kernel's messages could not be read"))
    if reading.why_not:
        raise ProbeError(f"the kernel's messages cannot be read: {reading.why_not}")
    return reading


def _unread(args: Args, why: Unknown) -> State:
    """Of a log that could not be read nothing is known."""
    known = {
        "counts": dict.fromkeys(args.signatures, why),
        "lost_gpus": (),
        "links_down": (),
        "file_servers": (),
        "sources": (),
    }
    return State(**{**dict.fromkeys((field_.name for field_ in fields(State)), why), **known})  # type: ignore[arg-type] # the rest


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
    since, until = time_reference(args.since).on(now), time_reference(args.until).on(now)
    return float("-inf") if since is None else since, float("inf") if until is None else until


def _state(args: Args, reading: KernelLog) -> State:
    low, high = _window(args, reading.clock.now or 0.0)
    bounded = (low, high) != (float("-inf"), float("inf"))
    inside = _in_period(reading.messages, low, high) if bounded else reading.messages
    current = since_boot(inside, reading.clock.boot)
    inside = current if args.this_boot else inside
    unusable, gap = _unusable(reading, bounded=bounded), _gap(args, reading, low, bounded=bounded)
    current_gap = _gap(replace(args, this_boot=True), reading, low, bounded=True) if bounded else gap
    blind, current_blind = (unusable or (None if args.accept_gap else each) for each in (gap, current_gap))
    kills = oom_kills(inside)
    whose = sort_kills(kills, args.victims)
    matches, counts, found = _signatures(args, inside, blind)
    gpu_faults_numbered = xids(inside)
    hardware = hardware_errors(inside, gpu_faults(inside))
    times = {written(message.at): message.at for message in inside if message.at is not None}
    loaded, now = last_loaded(current), reading.clock.now
    open_needs = _with_age(unmended(*xids_by_mending(current)), times, now)
    return State(
        oom=_known(kills, blind),
        oom_host=_scope(kills, "host", blind),
        oom_cgroup=_scope(kills, "cgroup", blind),
        oom_job=whose.job if isinstance(whose.job, Unknown) else _known(whose.job, blind),
        oom_others=whose.others if isinstance(whose.others, Unknown) else _known(whose.others, blind),
        xids=_known(gpu_faults_numbered, blind),
        xid_codes=_known(tuple(sorted({xid.code for xid in gpu_faults_numbered})), blind),
        gpu_needs=_known(needs(gpu_faults_numbered), blind),
        open_needs=_known(open_needs, current_blind),
        sick_gpus=_known(tuple(gpu for gpu in open_needs if gpu.serious), current_blind),
        xid_groups=_known(xid_groups(xids(current), now)[:KEPT], current_blind),
        sick_switches=_known(
            tuple(sxid for sxid in sxids(current[loaded:]) if sxid.need != Need.NOTHING), current_blind
        ),
        lost_gpus=lost_gpus(needs(xids(current)), gpu_faults(current)),
        gpu_faults=_known(gpu_faults(inside), blind),
        open_faults=_known(_with_age(open_faults(current), times, now), current_blind),
        network=_known(network_faults(inside), blind),
        links_down=tuple(fault for fault in network_faults(current) if fault.kind == "link_down")[-KEPT:],
        file_servers=file_servers(current)[:KEPT],
        lockups=_known(faults("lockup", inside), blind),
        panics=_known(faults("panic", inside), blind),
        hardware_errors=_known(hardware.uncorrected, blind),
        corrected_errors=_known(hardware.corrected, blind),
        other_errors=other_errors(_in_period(reading.errors, low, high)),
        oomd_kills=_known(oomd_kills(inside), blind),
        no_victim=_known(faults("oom_nobody", inside), blind),
        sxids=_known(sxids(inside), blind),
        io_errors=_known(io_errors(inside), blind),
        hung_tasks=_known(hung_tasks(inside), blind),
        matches=matches,
        counts=counts,
        found=found,
        sources=reading.sources,
        gap=gap.why if gap else "",
        complete=unusable or gap or True,
        taints=_taints(reading.taint),
        begins=_moment(reading.begins),
        ends=_moment(reading.ends),
        read_at=Unknown(why="this host does not report the time") if reading.clock.now is None else reading.clock.now,
        booted_ago=_booted_ago(reading.clock),
        clock_offset=Unknown(why="the clocks can be compared only if both journal and ring buffer are read")
        if reading.drift is None
        else reading.drift,
    )


def _in_period(messages: Iterable[Message], low: float, high: float) -> tuple[Message, ...]:
    """Return the messages that are known to be from between *low* and *high*."""
    return tuple(message for message in messages if message.at is not None and low <= message.at <= high)


def _signatures(
    args: Args, inside: tuple[Message, ...], blind: Unknown | None
) -> tuple[tuple[KernelLogMatch, ...] | Unknown, Mapping[str, int | Unknown], tuple[str, ...] | Unknown]:
    """Return the matches of `signatures`: State's matches, counts and found."""
    search = SignatureSearch(args.signatures, re.IGNORECASE)
    matches = _matches(search, inside)
    counts = Counter(match.signature for match in matches)
    slow = {name: Unknown(why=why) for name, why in search.unknown(counts.keys()).items()}
    doubt = next(iter(slow.values()), None)
    found = tuple(name for name in args.signatures if name in counts)
    shown_counts = {name: counts[name] or slow.get(name) or blind or 0 for name in args.signatures}
    return doubt or _known(matches, blind), shown_counts, doubt or _known(found, blind)


def _with_age(found: tuple[A, ...], times: Mapping[str, float], now: float | None) -> tuple[A, ...]:
    """*found*, each with how long ago it was."""
    ages = (None if now is None or isinstance(each.at, Unknown) else now - times.get(each.at, now) for each in found)
    words = (NOT_KNOWN_WHEN if age is None else f"{long_ago(max(0.0, age))} ago" for age in ages)
    return tuple(replace(it, ago=ago) for it, ago in zip(found, words, strict=True))


def _moment(at: float | None) -> str | Unknown:
    return Unknown(why="the time of the log's lines cannot be determined") if at is None else written(at)


def _booted_ago(clock: HostClock) -> float | Unknown:
    if clock.now is None or clock.boot is None:
        return Unknown(why="this host does not report when it was booted")
    return max(0.0, clock.now - clock.boot)


_TAINTS = {4: "machine check", 5: "bad page", 7: "oops", 14: "soft lockup"}
"""Bits of /proc/sys/kernel/tainted that the kernel sets for a fault (Documentation/admin-guide/tainted-kernels.rst)."""


def _taints(bits: int | None) -> tuple[str, ...] | Unknown:
    if bits is None:
        return Unknown(why="/proc/sys/kernel/tainted cannot be read")
    return tuple(word for bit, word in _TAINTS.items() if bits >> bit & 1)


def _unusable(reading: KernelLog, *, bounded: bool) -> Unknown | None:
    """Return the reason why the log cannot be used at all for the period; None: it can."""
    if not reading.understood:
        return Unknown(why="no line of the text is in a form of the kernel's log that is known")
    if bounded and any(message.at is None for message in reading.messages):
        return Unknown(why="the time of some messages cannot be determined")
    return None


def _gap(args: Args, reading: KernelLog, low: float, *, bounded: bool) -> Unknown | None:
    """Return the reason why messages of the period may be missing; messages that are there count nevertheless."""
    if reading.missed:
        return Unknown(why=f"the journal missed {plural(reading.missed, 'message')} of the kernel")
    if not bounded:
        return _not_since_boot(reading) if args.this_boot else None
    if reading.begins is None:
        return Unknown(why="it is not known since when the log is complete")
    whole = args.this_boot and reaches_boot(reading)
    if low != float("-inf") and reading.begins > low + 1 and not whole:
        return Unknown(why=f"the log begins at {written(reading.begins)}, later than {written(low)}")
    return None


def _not_since_boot(reading: KernelLog) -> Unknown | None:
    """Return the reason why the log may lack messages since the boot."""
    if reaches_boot(reading):
        return None
    if reading.begins is None or reading.clock.boot is None:
        return Unknown(why="it is not known whether the log goes back to the last boot")
    late = long_ago(reading.begins - reading.clock.boot)
    return Unknown(why=f"the log begins at {written(reading.begins)}, {late} after the boot")


def _known(found: tuple[T, ...], blind: Unknown | None) -> tuple[T, ...] | Unknown:
    return found[-KEPT:] if found or blind is None else blind


def _scope(kills: tuple[OomKill, ...], scope: str, blind: Unknown | None) -> tuple[OomKill, ...] | Unknown:
    vague = next((kill.scope for kill in kills if isinstance(kill.scope, Unknown)), None)
    return _known(tuple(kill for kill in kills if kill.scope == scope), vague or blind)


def _matches(search: SignatureSearch, inside: tuple[Message, ...]) -> tuple[KernelLogMatch, ...]:
    return tuple(
        KernelLogMatch(signature=name, text=message.text.strip(), **when(message))
        for message in inside
        for name in search.patterns
        if search.decide(name, partial(_said_by_the_kernel, message.text))
    )


def _said_by_the_kernel(text: str, search: Callable[[str], object]) -> bool:
    """Whether *search* finds something in *text* that a user cannot have chosen, such as the name of a process."""
    if not search(text):
        return False
    return not search(users_words(text)) or bool(search(kernels_words(text)))


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the commands that a person would run by hand."""
    what = "killed process|out of memory|oom-kill:|xid|i/o error|blocked for more than|not responding"
    since = _beginning(args)
    from_ = f" --since '{since.partition(' ')[2]} seconds ago'" if since.startswith("ago") else ""
    from_ = f" --since @{since.partition(' ')[2]}" if since.startswith("at") else from_
    return (f"journalctl -k -o short-iso{from_} | grep -iE '{what}'", f"dmesg -T | grep -iE '{what}'")
