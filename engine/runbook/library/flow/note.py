"""Show a text to the person who runs the playbook: advice, or a step that only a person can do."""

from __future__ import annotations

from dataclasses import field

from runbook.dataclass import dataclass
from runbook.protocols import Probe


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    text: str = field(metadata={"min_length": 1})
    """The text to show to the person who runs the playbook."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    text: str
    """The text that was shown."""


def probe(args: Args) -> Probe[State]:
    """Asks the host nothing."""
    yield from ()
    return State(text=args.text)


def waits(args: Args) -> str:
    """The words for it in a plan, and in a run."""
    return args.text.strip()
