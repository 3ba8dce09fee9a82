"""The faults of NVSwitches (SXids): the meaning, the severity, and the necessary action of each.

The driver's own word in the line (``Fatal``, ``Non-fatal``) is used first.  The table ``sxids.csv``, made from the
appendix of the vendor's Fabric Manager guide, has the names, and tells which of the other faults may be ignored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from runbook.dataclass import dataclass
from runbook.library.gpu.facts.xids import Need, table

_WORD = re.compile(r"(?:^|[,\s])(non-?)?fatal\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchFault:
    """The meaning of one SXid."""

    severity: str
    """``fatal``, ``non-fatal``, ``harmless`` (may be ignored); empty if neither the driver nor the table gives it."""
    meaning: str
    need: Need
    who: str


@cache
def known_sxids() -> Mapping[int, tuple[str, str]]:
    """Return the severity and the meaning of each SXid, by number."""
    return {int(line["sxid"]): (line["severity"], line["meaning"]) for line in table("sxids")}


def switch_fault(code: int, text: str) -> SwitchFault:
    """Return the meaning of SXid *code* with the driver's *text*.

    A fatal one affects every GPU of the fabric: all are reset together with the switches.
    """
    listed, meaning = known_sxids().get(code, ("", "not in the table of the vendor's guide"))
    said = _WORD.search(text)
    severity = ("non-fatal" if said[1] else "fatal") if said else listed
    if severity == "non-fatal" and listed == "harmless":
        severity = "harmless"
    need, who = {
        "fatal": (Need.RESET, "whoever runs the node"),
        "non-fatal": (Need.CHECK, "whoever runs the node"),
        "harmless": (Need.NOTHING, "nobody"),
    }.get(severity, (Need.CONTACT_VENDOR, "the vendor"))
    return SwitchFault(severity=severity, meaning=meaning, need=need, who=who)
