"""Classify nvidia-smi's answer as a whole: it works, hangs, or fails for a reason with a known remedy."""

from __future__ import annotations

import re
from enum import StrEnum

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.gpu.facts.smi_output import STUCK, hung, sections
from runbook.values.command import Completed


class SmiCondition(StrEnum):
    """The kind of nvidia-smi's answer."""

    ANSWERS = "answers"
    HUNG = "hung"
    MISMATCH = "mismatch"
    NO_DRIVER = "no_driver"
    NO_DEVICES = "no_devices"
    NOT_INSTALLED = "not_installed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SmiAnswer:
    """The kind of the answer, and the reason why it has no rows."""

    condition: SmiCondition
    why: str = ""


_BY_CODE = {18: SmiCondition.MISMATCH, 9: SmiCondition.NO_DRIVER, 127: SmiCondition.NOT_INSTALLED}
_MISMATCH = re.compile(r"driver/library version mismatch", re.IGNORECASE)
_NO_DRIVER = re.compile(r"couldn't communicate with the NVIDIA driver", re.IGNORECASE)
_NO_DEVICES = re.compile(r"no devices were found", re.IGNORECASE)


def condition(done: Completed, why: str = "") -> SmiAnswer:
    """Return the kind of the answer *done*; *why* is the reason why it has no rows, empty if it has rows."""
    if done.timed_out:
        return SmiAnswer(condition=SmiCondition.HUNG, why=hung(done))
    if done.exit_code == STUCK:
        return SmiAnswer(condition=SmiCondition.HUNG, why=why)
    if not why:
        return SmiAnswer(condition=SmiCondition.ANSWERS)
    try:
        asked = [section for section in sections(done) if section.name == "gpus"]
    except ProbeError:
        return SmiAnswer(condition=_BY_CODE.get(done.exit_code or 0, SmiCondition.FAILED), why=why)
    said = " ".join((*asked[-1].lines, *asked[-1].stderr)) if asked else ""
    code = asked[-1].exit_code if asked else None
    for pattern, found in (
        (_MISMATCH, SmiCondition.MISMATCH),
        (_NO_DRIVER, SmiCondition.NO_DRIVER),
        (_NO_DEVICES, SmiCondition.NO_DEVICES),
    ):
        if pattern.search(said):
            return SmiAnswer(condition=found, why=why)
    return SmiAnswer(condition=_BY_CODE.get(code or 0, SmiCondition.FAILED), why=why)
