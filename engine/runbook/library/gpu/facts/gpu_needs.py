"""Determine what each GPU of a host needs, from all the faults that its driver has reported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from runbook.dataclass import dataclass
from runbook.library.gpu.facts.xids import RANK, RECOVERY, Need, meaning, need_of, recovery_words, who_acts
from runbook.values.types import Unknown


class XidError(Protocol):
    """An Xid in the kernel's log; a sequence of them has the oldest first."""

    @property
    def code(self) -> int: ...
    @property
    def bus_id(self) -> str: ...
    @property
    def at(self) -> str | Unknown: ...
    @property
    def seconds(self) -> float | Unknown: ...
    @property
    def text(self) -> str: ...


NOT_KNOWN_WHEN = Unknown(why="the log, or the host, does not give the time")


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuNeed:
    """The action that one GPU needs because of its faults."""

    bus_id: str
    """The PCI address of the GPU in the form of sysfs; empty if the log line has none."""
    need: str
    """The need: nothing, restart the application, check the node, contact the vendor, reset the GPU, reboot the
    node.
    """
    code: int
    """The Xid that requires this action."""
    bucket: str
    """The vendor's word for the action after that Xid: ``RESET_GPU``, ``RESTART_APP`` ...; empty if there is none."""
    meaning: str
    """The short meaning of that Xid in the vendor's catalogue."""
    at: str | Unknown
    """When the kernel logged that Xid: ISO 8601, UTC; unknown if the log has no time."""
    seconds: float | Unknown
    """When the kernel logged that Xid, in seconds since 1970."""
    text: str
    """The driver's text after the number of that Xid."""
    count: int
    """The total number of Xids of this GPU."""
    ago: str | Unknown = NOT_KNOWN_WHEN
    """The time since that Xid, in words."""
    who: str = ""
    """The person who has to act: nobody, the owner of the job, the operator of the node, the data centre, the
    vendor.
    """
    serious: bool = False
    """Whether the need is more than a restart of the application."""
    because: int = 0
    """For an Xid 154: the earlier Xid of this GPU that caused it, if it is in the log; otherwise 0."""
    note: str = ""
    """The remark on this Xid in the vendor's workflow; empty if there is none."""
    say: str = ""
    """All of this in one sentence."""


SERIOUS = frozenset({Need.CHECK, Need.CONTACT_VENDOR, Need.RESET, Need.REBOOT})
"""The needs that are more than a restart of the application."""

LASTING = frozenset({Need.CHECK, Need.CONTACT_VENDOR, Need.REBOOT})
"""The needs that remain after a reload of the driver (which resets the GPU and ends every job)."""


def needs(faults: Iterable[XidError]) -> tuple[GpuNeed, ...]:
    """Return the need of each GPU with a fault: first those whose cause is not in the log, then the most urgent first.

    The newest 154 of a GPU overrules what was before it; later faults count again.
    """
    log = tuple(faults)
    found = [_need(bus, of_gpu, log) for bus, of_gpu in _by_gpu(log).items()]
    return tuple(sorted(found, key=lambda gpu: (-RANK[Need(gpu.need)], gpu.code == RECOVERY and not gpu.because)))


def unmended(before: Iterable[XidError], since: Iterable[XidError]) -> tuple[GpuNeed, ...]:
    """Return the need of each GPU by the faults *before* the last load of the driver and by the faults *since*.

    A GPU that was reset without such a load reports this by an Xid 154; before R570, nothing in the kernel's log does.
    """
    lasting = [
        fault
        for of_gpu in _by_gpu(before).values()
        for fault in _counting(of_gpu)
        if need_of(fault.code, fault.text) in LASTING
    ]
    return needs((*lasting, *since))


def _by_gpu(faults: Iterable[XidError]) -> Mapping[str, list[XidError]]:
    by_gpu: dict[str, list[XidError]] = {}
    for fault in faults:
        by_gpu.setdefault(fault.bus_id, []).append(fault)
    return by_gpu


def _counting(faults: list[XidError]) -> list[XidError]:
    """Return the faults of one GPU that count: those since the newest Xid 154 of the driver, this Xid included."""
    return faults[max((number for number, fault in enumerate(faults) if fault.code == RECOVERY), default=0) :]


NVLINK5 = range(144, 151)
"""The Xids of NVLink since Blackwell; each line itself says whether the error is fatal."""
TOGETHER = 60.0
"""Xids within this number of seconds belong to one event."""


_LINK_NOTE = (
    "each is non-fatal by itself; programs ended with it, or several GPUs had one: collectives over that link may hang "
    "until the GPUs are reset together"
)


def _need_in_log(fault: XidError, log: Sequence[XidError]) -> Need:
    """Return the need of *fault* among the others of *log*.

    A non-fatal NVLink error alone is nothing; where a program was ended with it (45), or other GPUs had one, too,
    collectives hang on that link.
    """
    need = need_of(fault.code, fault.text)
    if need is not Need.NOTHING or fault.code not in NVLINK5:
        return need
    others = [other for other in log if other is not fault and _together(fault, other)]
    ended = any(other.code == 45 and other.bus_id == fault.bus_id for other in others)
    several = any(other.code in NVLINK5 and other.bus_id != fault.bus_id for other in others)
    return Need.CHECK if ended or several else need


def _together(one: XidError, other: XidError) -> bool:
    if isinstance(one.seconds, Unknown) or isinstance(other.seconds, Unknown):
        return True  # a log without times: it is read as a whole
    return abs(one.seconds - other.seconds) <= TOGETHER


def _need(bus: str, faults: list[XidError], log: Sequence[XidError]) -> GpuNeed:
    counting = _counting(faults)
    worst = max(reversed(counting), key=lambda fault: RANK[_need_in_log(fault, log)])
    need, known = _need_in_log(worst, log), meaning(worst.code)
    cause = _cause(faults) if worst.code == RECOVERY else None
    return GpuNeed(
        bus_id=bus,
        need=need,
        code=worst.code,
        bucket=known.bucket,
        meaning=known.meaning,
        at=worst.at,
        seconds=worst.seconds,
        text=worst.text,
        count=len(faults),
        who=who_acts(worst.code, need),
        serious=need in SERIOUS,
        because=cause.code if cause else 0,
        note=_LINK_NOTE if need is not need_of(worst.code, worst.text) else _note((cause or worst).code, faults),
        say=_sentence(bus, worst, cause),
    )


def _cause(faults: Sequence[XidError]) -> XidError | None:
    """Return the cause of the newest Xid 154: the worst fault after the Xid 154 before it; of equal faults, the
    newest.
    """
    *earlier, last = (number for number, fault in enumerate(faults) if fault.code == RECOVERY)
    between = faults[(earlier[-1] + 1 if earlier else 0) : last]
    serious = [fault for fault in between if need_of(fault.code, fault.text) in SERIOUS]
    return max(reversed(serious), key=lambda fault: RANK[need_of(fault.code, fault.text)], default=None)


def _sentence(bus: str, worst: XidError, cause: XidError | None) -> str:
    when = "" if isinstance(worst.at, Unknown) else f" at {worst.at}"
    bus = bus or "without a bus id"
    if worst.code != RECOVERY:
        return f"GPU {bus}: {meaning(worst.code).meaning} (Xid {worst.code}{when})"
    words = recovery_words(worst.text) or need_of(worst.code, worst.text)
    verdict = f'the driver itself says "{words}" (Xid 154{when})'
    return (
        f"GPU {bus}: {meaning(cause.code).meaning} (Xid {cause.code}), and {verdict}"
        if cause
        else f"GPU {bus}: {verdict}"
    )


def _note(code: int, faults: Sequence[XidError]) -> str:
    """Return the remark of the vendor's workflow on Xid *code*, given the other *faults* of the same GPU."""
    codes = [fault.code for fault in faults]
    match code:
        case 48 | 171 | 172:
            where = "in DRAM" if 171 in codes else "in SRAM" if 172 in codes else ""
            kept = (
                "it was noted for repair (63 or 64), so drain the GPU before its reset" if {63, 64} & {*codes} else ""
            )
            words = [f"the error was {where}" if where else "", kept, "then a field diagnosis by the vendor's tool"]
            return "; ".join(word for word in words if word)
        case 45 if {*codes} == {45}:
            return (
                "alone, a kill or Ctrl-C does that; without one, on a host with NVSwitches, restart the fabric manager"
            )
        case 63:
            return "plan a reset for the next pause: the repair takes effect then"
        case 13 | 31 if codes.count(code) > 1:
            times = f"it came {codes.count(code)} times"
            return f"{times}: from one application, its own fault; from several, the GPU wants the vendor's diagnosis"
        case _ if meaning(code).need is Need.RESET and meaning(code).bucket == "CONTACT_SUPPORT":
            return "a reset or a reboot comes first; the vendor if it comes again"
        case 79:
            return "a GPU that `lspci -d 10de:` shows with `rev ff`, or not at all, comes back with a reboot only"
        case 74:
            return "look at the link that its line names, and at the same link of the GPU or switch at its other end"
        case 163 if 162 in codes[codes.index(163) :]:
            return "power smoothing has come back since (162)"
        case _:
            return ""
