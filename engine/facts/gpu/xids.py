"""What a fault of a GPU means that the NVIDIA driver reports by a number (an Xid), and what it asks for.

The table ``xids.csv`` has every Xid of the vendor's catalogue (https://docs.nvidia.com/deploy/xid-errors/), with the
vendor's bucket: what to do at once. A number that is not in it asks for the vendor: it is never ignored.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Protocol

from engine.values.types import Unknown


class Need(StrEnum):
    """What has to be done about a fault, the least first."""

    NOTHING = "nothing"
    RESTART_APPLICATION = "restart the application"
    CHECK = "check the node"
    CONTACT_VENDOR = "contact the vendor"
    RESET = "reset the GPU"
    REBOOT = "reboot the node"


RANK: Mapping[Need, int] = {need: rank for rank, need in enumerate(Need)}

_BUCKETS: Mapping[str, Need] = {
    "IGNORE": Need.NOTHING,
    "WORKFLOW_XID_45": Need.NOTHING,  # a consequence of another fault, of a kill or of Ctrl-C
    "XID_154": Need.NOTHING,  # its text says what is needed
    "RESTART_APP": Need.RESTART_APPLICATION,
    "CHECK_UVM": Need.RESTART_APPLICATION,
    "CHECK_MECHANICALS": Need.CHECK,
    "UPDATE_SWFW": Need.CHECK,
    "WORKFLOW_NVLINK_ERR": Need.CHECK,
    "WORKFLOW_NVLINK5_ERR": Need.CHECK,
    "CONTACT_SUPPORT": Need.CONTACT_VENDOR,
    "": Need.CONTACT_VENDOR,
    "RESET_GPU": Need.RESET,
    "WORKFLOW_XID_48": Need.RESET,
    "RESTART_BM": Need.REBOOT,
    "RESTART_VM": Need.REBOOT,
}

RECOVERY = 154
"""The Xid by which a driver (from R570 on) says itself what a GPU needs; the newest one overrules every other."""

_RECOVERY = re.compile(r"changed from .*? to (?:0x([0-9a-f]+)\b)?\s*(?:\(([^)]*)\))?", re.IGNORECASE)
_RECOVERY_CODES: Mapping[int, Need] = {
    0: Need.NOTHING,
    1: Need.RESET,
    2: Need.REBOOT,
    3: Need.RESET,  # drain what talks to it over P2P, then reset
    4: Need.RESET,  # drain, then reset
    5: Need.REBOOT,  # recover the IMEX domain: the nodes that share memory over NVLink
}
_RECOVERY_WORDS = (
    ("reboot", Need.REBOOT),
    ("imex", Need.REBOOT),
    ("reset", Need.RESET),
    ("drain", Need.RESET),
    ("flr", Need.RESET),
    ("none", Need.NOTHING),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class XidMeaning:
    """A row of the catalogue."""

    code: int
    name: str
    """As the driver's source has it; empty of a number that is not in the catalogue."""
    bucket: str
    """The vendor's word for what to do at once, such as ``RESET_GPU``; empty where the vendor says nothing."""
    meaning: str
    need: Need


@cache
def catalogue() -> Mapping[int, XidMeaning]:
    """Every Xid that the vendor has a number for."""
    text = (files(__package__) / "xids.csv").read_text(encoding="utf-8")
    return {
        int(line["xid"]): XidMeaning(
            code=int(line["xid"]),
            name=line["name"],
            bucket=line["bucket"],
            meaning=line["meaning"],
            need=_BUCKETS[line["bucket"]],
        )
        for line in csv.DictReader(text.splitlines())
    }


def meaning(code: int) -> XidMeaning:
    """What Xid *code* means; of one that the catalogue does not have, that it does not."""
    return catalogue().get(code) or XidMeaning(
        code=code, name="", bucket="", meaning="not in the vendor's catalogue", need=Need.CONTACT_VENDOR
    )


def need_of(code: int, text: str) -> Need:
    """What the fault *code* asks for, where the driver said *text* with it."""
    return _recovery(text) if code == RECOVERY else meaning(code).need


def _recovery(text: str) -> Need:
    """What an Xid 154 says: the number after ``to``, else its words."""
    found = _RECOVERY.search(text)
    if found and found[1] and int(found[1], 16) in _RECOVERY_CODES:
        return _RECOVERY_CODES[int(found[1], 16)]
    words = (found[2] if found and found[2] else text.rpartition(" to ")[2]).lower()
    return next((need for word, need in _RECOVERY_WORDS if word in words), Need.CONTACT_VENDOR)


class XidError(Protocol):
    """An Xid as the kernel's log has it, oldest first in a sequence of them."""

    @property
    def code(self) -> int: ...
    @property
    def bus_id(self) -> str: ...
    @property
    def at(self) -> str | Unknown: ...
    @property
    def text(self) -> str: ...


NOT_KNOWN_WHEN = Unknown(why="the log, or the host, does not say when")


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuNeed:
    """What one GPU needs by the faults that it has had."""

    bus_id: str
    need: str
    """One of the texts of ``Need``."""
    code: int
    """The Xid that asks for it."""
    bucket: str
    meaning: str
    at: str | Unknown
    text: str
    count: int
    """How many Xids this GPU has had in all."""
    ago: str | Unknown = NOT_KNOWN_WHEN
    """How long ago that was, in words."""


LASTING = frozenset({Need.CHECK, Need.CONTACT_VENDOR, Need.REBOOT})
"""What loading the driver anew does not settle; that does what a reset of the GPU does, and no job outlives it."""


def needs(faults: Iterable[XidError]) -> tuple[GpuNeed, ...]:
    """What each GPU with a fault needs, the most urgent first.

    The newest 154 of a GPU overrules what was before it; later faults count again.
    """
    found = [_need(bus, of_gpu) for bus, of_gpu in _by_gpu(faults).items()]
    return tuple(sorted(found, key=lambda gpu: -RANK[Need(gpu.need)]))


def unmended(before: Iterable[XidError], since: Iterable[XidError]) -> tuple[GpuNeed, ...]:
    """What each GPU still needs by its faults *before* the driver was loaded last, and by those *since*.

    A GPU that was reset without that says so itself by an Xid 154, or (before R570) nowhere in the kernel's log.
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
    """Those of one GPU that count: from the driver's newest own verdict on."""
    return faults[max((number for number, fault in enumerate(faults) if fault.code == RECOVERY), default=0) :]


def _need(bus: str, faults: list[XidError]) -> GpuNeed:
    worst = max(_counting(faults), key=lambda fault: RANK[need_of(fault.code, fault.text)])
    known = meaning(worst.code)
    return GpuNeed(
        bus_id=bus,
        need=need_of(worst.code, worst.text),
        code=worst.code,
        bucket=known.bucket,
        meaning=known.meaning,
        at=worst.at,
        text=worst.text,
        count=len(faults),
    )
