"""The catalogue of Xids, the numbered GPU faults of the NVIDIA driver: for each the meaning, the necessary action, and
who acts.

The table ``xids.csv`` has every Xid of the vendor's catalogue (https://docs.nvidia.com/deploy/xid-errors/), with the
vendor's bucket (the immediate action).  ``xid_buckets.csv`` has for each bucket the need and the person who acts.  An
Xid that is not in the catalogue is never ignored: the vendor must be asked.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from functools import cache
from importlib.resources import files

from runbook.dataclass import dataclass


class Need(StrEnum):
    """The action that a fault requires, mildest first."""

    NOTHING = "nothing"
    RESTART_APPLICATION = "restart the application"
    CHECK = "check the node"
    CONTACT_VENDOR = "contact the vendor"
    RESET = "reset the GPU"
    REBOOT = "reboot the node"


RANK: Mapping[Need, int] = {need: rank for rank, need in enumerate(Need)}

RECOVERY = 154
"""The Xid in which a driver (since R570) itself names the need of a GPU; the newest one overrules all others."""

_OBSOLETE = " (not in use by today's drivers)"
"""The vendor's remark on an Xid.  If a driver prints this Xid, it is in use after all, and a reset or a reboot comes
first.
"""
_OPERATOR = "whoever runs the node"
_SEVERITY = re.compile(r"\w+\s+(non-?)?fatal\b", re.IGNORECASE)
"""Matches the severity of an NVLink error of the fifth generation; a fatal error has ended the link."""

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
    """An entry of the catalogue."""

    code: int
    name: str
    """The name in the driver's source; empty if the Xid is not in the catalogue."""
    bucket: str
    """The vendor's word for the immediate action, such as ``RESET_GPU``; empty if the vendor gives none."""
    meaning: str
    need: Need
    who: str
    """The person who acts: nobody, the owner of the job, the operator of the node, the data centre (hands on site),
    the vendor.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bucket:
    need: Need
    who: str


@cache
def _buckets() -> Mapping[str, _Bucket]:
    return {line["bucket"]: _Bucket(need=Need(line["need"]), who=line["who"]) for line in table("xid_buckets")}


def table(name: str) -> list[dict[str, str]]:
    """Return the rows of the table *name*, a file beside this module."""
    text = (files(__package__) / f"{name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


@cache
def catalogue() -> Mapping[int, XidMeaning]:
    """Return every Xid of the vendor's catalogue, by number."""
    return {
        int(line["xid"]): XidMeaning(
            code=int(line["xid"]),
            name=line["name"],
            bucket=line["bucket"],
            meaning=line["meaning"],
            need=_buckets()[line["bucket"]].need,
            who=_buckets()[line["bucket"]].who,
        )
        for line in table("xids")
    }


def meaning(code: int) -> XidMeaning:
    """Return the catalogue's entry for Xid *code* in a log; for an unlisted code, an entry that says so."""
    listed = catalogue().get(code)
    if listed and listed.meaning.endswith(_OBSOLETE):
        return _in_use(listed)
    return listed or XidMeaning(
        code=code,
        name="",
        bucket="",
        meaning="not in the vendor's catalogue",
        need=Need.CONTACT_VENDOR,
        who=_buckets()[""].who,
    )


def _in_use(listed: XidMeaning) -> XidMeaning:
    """Return the entry *listed* for a driver that has just printed its number."""
    named = replace(listed, meaning=listed.meaning.removesuffix(_OBSOLETE))
    return replace(named, need=Need.RESET, who=_OPERATOR) if listed.need is Need.CONTACT_VENDOR else named


def need_of(code: int, text: str) -> Need:
    """Return the action that the fault *code* requires; *text* is the driver's text."""
    if code == RECOVERY:
        return _recovery(text)
    known = meaning(code)
    if known.bucket == "WORKFLOW_NVLINK5_ERR" and (found := _SEVERITY.match(text)):
        return Need.NOTHING if found[1] else Need.RESET
    return known.need


def who_acts(code: int, need: str) -> str:
    """Return who must act on the fault *code* (for example the owner of the job) if the necessary action is *need*."""
    known = meaning(code)
    if need == known.need:
        return known.who
    return "nobody" if need == Need.NOTHING else _OPERATOR


def recovery_words(text: str) -> str:
    """Return the action of an Xid 154 in the driver's own words, such as ``Node Reboot Required``; empty if it names
    none.
    """
    found = _RECOVERY.search(text)
    return (found[2] or "") if found else ""


def _recovery(text: str) -> Need:
    """Return the need in an Xid 154: from the number after ``to``, else from the words."""
    found = _RECOVERY.search(text)
    if found and found[1] and int(found[1], 16) in _RECOVERY_CODES:
        return _RECOVERY_CODES[int(found[1], 16)]
    words = (found[2] if found and found[2] else text.rpartition(" to ")[2]).lower()
    return next((need for word, need in _RECOVERY_WORDS if word in words), Need.CONTACT_VENDOR)
