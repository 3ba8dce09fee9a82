"""A look that is wanted, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.values.playbook import Step
from engine.values.result import SentCommand
from engine.values.text import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A step whose state is wanted, with its rendered arguments."""

    step: Step
    args: Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The look answered."""

    args: Any
    """The action's own ``Args``."""
    state: Any
    """The action's own ``State``."""
    absent: str = ""
    """Why the thing is proven not to be there; empty where it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blind:
    """The look did not answer."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What one step's probe saw, and what was sent for it."""

    outcome: Seen | Blind
    commands: tuple[SentCommand, ...]
    seconds: float
