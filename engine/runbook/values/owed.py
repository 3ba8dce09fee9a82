"""Clean-ups that are owed to hosts: what `always` steps have not done yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from runbook.values.types import Json


class NotedIn(StrEnum):
    """Where a clean-up that is owed is written down."""

    CONTROLLER = "controller"  # in a record of this machine, which `runbook settle` goes by
    HOST = "host"  # in a note on the host, for people and other controllers


@dataclass(frozen=True, slots=True, kw_only=True)
class OwedStep:
    """An `always` step that has not been taken yet, as it was planned."""

    id: str
    action: str
    say: str = ""
    """The change that it would make, in words."""
    on: str = ""
    become: str = ""
    args: Mapping[str, Json] = field(default_factory=dict)
    """The arguments as rendered for the plan: from the state before the change."""
    by_hand: tuple[str, ...] = ()
    """The commands with which a person would do the same."""
    withheld: str = ""
    """The reason why a record does not hold its arguments; empty: it does."""

    @property
    def words(self) -> str:
        """It in one line, for people."""
        return f"{self.id}: {self.say}" if self.say else self.id


@dataclass(frozen=True, slots=True, kw_only=True)
class NotePlace:
    """Where on a host the note about a clean-up lies: with the locks of this user."""

    on: str = ""
    """The host that steps name with `on`; empty: the host itself."""
    become: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwedCleanup:
    """The debt of one run to one host."""

    run: str
    playbook: str
    host: str
    by: str
    """``user@controller``."""
    since: str
    """ISO 8601."""
    steps: tuple[OwedStep, ...]
    notes: tuple[NotePlace, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NotRecorded:
    """The record of a clean-up failed, so that the change that would call for it must not be sent."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Owed:
    """A clean-up that a run owes a host, as a part of the host's result."""

    run: str
    playbook: str = ""
    by: str = ""
    since: str = ""
    steps: tuple[str, ...] = ()
    noted: tuple[NotedIn, ...] = ()
