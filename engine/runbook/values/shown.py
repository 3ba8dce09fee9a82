"""A shown plan in a form that can be compared with a later one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from hashlib import sha256

from runbook.dataclass import dataclass
from runbook.values.plan import Change, Risk, Target
from runbook.values.result import StepResult
from runbook.values.types import Json

DIGEST_CHARACTERS = 16
"""The number of characters of a short digest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterChange:
    """A change that a step may make later in the run, and that the plan itself does not make yet."""

    summary: str
    risk: Risk
    commands: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownStep:
    """A remediate step as the plan showed it, in a form that can be compared with a new plan."""

    id: str
    decision: str
    """The decision: ``change``, ``no_change``, ``skip`` or ``blocked``."""
    summary: str
    """The change that the step would make, or the reason why it would make none."""
    risk: Risk | None = None
    condition: str | None = None
    targets: tuple[Target, ...] = ()
    """Everything that the step may touch, now or later in the run."""
    diff: str = ""
    commands: str = ""
    """A digest of the commands that the step would send."""
    lines: str = ""
    """A digest of the commands as they are shown, for now or for later in the run."""
    args: Mapping[str, str] = field(default_factory=dict)
    """Digests of the arguments, except lists: the selected things are in *targets*."""
    then: LaterChange | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownHost:
    """The plan of one host; its findings and the words about its steps are in the plan's ``result``."""

    host: str
    steps: tuple[ShownStep, ...]


def shown_lines(result: StepResult) -> str:
    """Return a digest of the commands that would be sent according to *result*."""
    return short_digest(
        [
            [command.line, command.script, command.shown, command.effect]
            for command in result.commands
            if command.exit_code is None
        ]
    )


def short_digest(value: Json) -> str:
    """Return a short digest of *value*, by which equal values can be recognised."""
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:DIGEST_CHARACTERS]


def described_later(later: Change | LaterChange | None) -> str:
    """Return words for the change *later*, for the end of a sentence; empty if there is none."""
    return f", then: {later.summary} ({later.risk})" if later else ""


def described_rest(why: str, condition: str | None, later: Change | LaterChange | None) -> str:
    """Return *why* nothing has to be done, and what the step may do later in the run."""
    return f"{why}; {condition}{described_later(later)}" if condition and later else why
