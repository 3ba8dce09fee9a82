"""Describe the keys of a step, and the limits of a run, in sentences."""

from __future__ import annotations

from runbook.language.keys import LIMITS, STEP
from runbook.language.shown_steps import Around
from runbook.values.playbook import Limits, Step


def conditions(step: Step, *, found: bool, items: str = "") -> list[str]:
    """Return sentences about the conditions of *step*, and about its settings.

    *found*: the playbook has findings; *items*: the items of the step's ``each``, in words.
    """
    around = Around(found, items)
    words = [key.shown(step, around) for key in STEP.values() if key.shown]
    return [f"{word[0].upper()}{word[1:]}." for word in words if word]


def limits(given: Limits) -> str:
    """Return the limits of a run as sentences; empty if there are none."""
    return " ".join(filter(None, (key.shown(given) for key in LIMITS.values())))
