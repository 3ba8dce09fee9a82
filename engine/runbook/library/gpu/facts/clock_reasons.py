"""The reasons why a GPU's clocks are lower than possible, read from the bits that nvidia-smi prints (nvml.h,
nvmlClocksEventReason).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from runbook.library.gpu.facts.smi_output import missing
from runbook.values.types import Unknown

BITS: Mapping[int, str] = MappingProxyType(
    {
        0x1: "idle",
        0x2: "application clocks",
        0x4: "software power cap",
        0x8: "hardware slowdown",
        0x10: "sync boost",
        0x20: "software thermal slowdown",
        0x40: "hardware thermal slowdown",
        0x80: "hardware power brake",
        0x100: "display clocks",
    }
)

HARDWARE = frozenset({"hardware slowdown", "hardware thermal slowdown", "hardware power brake"})
"""The hardware itself slows the GPU down, by half or more, because of heat or because the chassis lacks power."""
WARM = frozenset({"software thermal slowdown"})
"""The driver lowers the clocks so that the GPU does not get too hot."""

_MASK = re.compile(r"0x[0-9a-fA-F]{1,16}")


def reasons_in(mask: str) -> tuple[str, ...] | Unknown:
    """Return the reasons in *mask*, a bit mask such as ``0x0000000000000044``; a bit without a name is given by its
    number.
    """
    if not _MASK.fullmatch(mask):
        return missing(mask)
    bits = int(mask, 16)
    return tuple(BITS.get(1 << at, f"reason {1 << at:#x}") for at in range(bits.bit_length()) if bits & 1 << at)
