"""A shown plan in a form that can be compared with a later one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from runbook.values.plan import Change, Risk, Target
from runbook.values.result import StepResult
from runbook.values.types import Json

DIGEST_CHARACTERS = 16
"""Characters of a short digest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterChange:
    """The change that a step may come to make at its turn, and that the plan itself does not make yet."""

    summary: str
    risk: Risk
    commands: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownStep:
    """A remediate step as the plan showed it, by what can be compared with a fresh plan."""

    id: str
    decision: str
    """``change``, ``no_change``, ``skip`` or ``blocked``."""
    summary: str
    """The change that the step would make, or the reason why it would make none."""
    risk: Risk | None = None
    condition: str | None = None
    targets: tuple[Target, ...] = ()
    """The most that it may touch, now or at its turn."""
    diff: str = ""
    commands: str = ""
    """A digest of the commands that it would send."""
    lines: str = ""
    """A digest of the same as they are shown, now or for its turn."""
    args: Mapping[str, str] = field(default_factory=dict)
    """Digests of its arguments, but of lists: what these select stands in the targets."""
    then: LaterChange | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownHost:
    """The plan of one host; its findings and the words for its steps stand in the plan's ``result``."""

    host: str
    steps: tuple[ShownStep, ...]


def shown_lines(result: StepResult) -> str:
    """A digest of the commands that *result* says would be sent."""
    return short_digest(
        [
            [command.line, command.script, command.shown, command.effect]
            for command in result.commands
            if command.exit_code is None
        ]
    )


def short_digest(value: Json) -> str:
    """A short digest of a value, which only says whether two things are the same."""
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:DIGEST_CHARACTERS]


def described_later(later: Change | LaterChange | None) -> str:
    """Describe the change of a step at its turn, as the end of a sentence."""
    return f", then: {later.summary} ({later.risk})" if later else ""


def described_rest(why: str, condition: str | None, later: Change | LaterChange | None) -> str:
    """*why* a step finds all in order, and what it may come to do at its turn."""
    return f"{why}; {condition}{described_later(later)}" if condition and later else why
