"""The kernel's messages about each GPU in short: its Xids by number, the newest first."""

from __future__ import annotations

from collections.abc import Iterable

from runbook.dataclass import dataclass
from runbook.library.gpu.facts.gpu_needs import NOT_KNOWN_WHEN
from runbook.library.gpu.facts.xids import recovery_words
from runbook.library.kernel.facts.events import Xid
from runbook.values.types import Unknown, long_ago


@dataclass(frozen=True, slots=True, kw_only=True)
class XidGroup:
    """All Xids of one number of one GPU."""

    bus_id: str
    """The PCI address of the GPU, as sysfs writes it; empty where the line has none."""
    code: int
    """The Xid that they have in common."""
    count: int
    """The number of them in the log."""
    at: str | Unknown
    """When the kernel wrote the last one: ISO 8601, UTC; unknown where the log does not say."""
    ago: str | Unknown
    """The time since then, in words."""
    meaning: str
    """The meaning of the Xid in the vendor's catalogue, in short."""
    bucket: str
    """The vendor's word for the immediate action: ``RESET_GPU``, ``RESTART_APP`` ...; empty: there is none."""
    need: str
    """The need after the last one, in words: ``reset the GPU``, ``reboot the node`` ..."""
    who: str
    """The person who has to act: nobody, the owner of the job, the operator of the node, the data centre, the
    vendor.
    """
    instances: tuple[str, ...]
    """The MIG instances that they name."""
    processes: tuple[str, ...]
    """The processes that they name, as ``python3 (pid 4711)``: often victims, or anybody who asked."""
    text: str
    """The driver's text behind the number of the last one."""
    say: str
    """A summary in one line: the GPU, the Xid, number, times, processes, meaning and required action."""


def xid_groups(xids: Iterable[Xid], now: float | None) -> tuple[XidGroup, ...]:
    """*xids*, given oldest first, by GPU and number, the newest first."""
    groups: dict[tuple[str, int], list[Xid]] = {}
    for xid in xids:
        key = (xid.bus_id, xid.code)
        groups[key] = [*groups.pop(key, []), xid]  # moved to the end: the newest is last
    return tuple(_group(found, now) for found in reversed(groups.values()))


def _group(found: list[Xid], now: float | None) -> XidGroup:
    last = found[-1]
    ago = NOT_KNOWN_WHEN if now is None or isinstance(last.seconds, Unknown) else long_ago(max(0.0, now - last.seconds))
    processes = tuple(dict.fromkeys(_process(xid) for xid in found if not isinstance(xid.pid, Unknown)))
    when = "" if isinstance(ago, Unknown) else f", {ago} ago"
    times = f" ({len(found)} times)" if len(found) > 1 else ""
    asks = f"{last.bucket or 'no bucket'}: {last.need}" + ("" if last.who in _PLAIN else f", {last.who}")
    whose = f", {', '.join(processes[:2])}" if processes else ""
    means = f'the driver says "{words}"' if (words := recovery_words(last.text)) else last.meaning
    return XidGroup(
        bus_id=last.bus_id,
        code=last.code,
        count=len(found),
        at=last.at,
        ago=ago if isinstance(ago, Unknown) else f"{ago} ago",
        meaning=last.meaning,
        bucket=last.bucket,
        need=last.need,
        who=last.who,
        instances=tuple(dict.fromkeys(xid.instance for xid in found if xid.instance)),
        processes=processes,
        text=last.text,
        say=f"{last.bus_id} Xid {last.code}{times}{when}{whose}: {means} [{asks}]",
    )


_PLAIN = ("nobody", "whoever runs the node", "the vendor")
"""The actors that the need itself names."""


def _process(xid: Xid) -> str:
    return f"pid {xid.pid}" if isinstance(xid.name, Unknown) else f"{xid.name} (pid {xid.pid})"
