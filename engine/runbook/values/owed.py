"""The clean-ups that are owed to hosts: `always` steps that were not done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from runbook.dataclass import dataclass
from runbook.values.types import Json


class NotedIn(StrEnum):
    """The place where an owed clean-up is recorded."""

    CONTROLLER = "controller"  # in a record of this machine, which `runbook settle` goes by
    HOST = "host"  # in a note on the host, for people and other controllers


@dataclass(frozen=True, slots=True, kw_only=True)
class OwedStep:
    """An `always` step that was planned and is not done yet."""

    id: str
    action: str
    say: str = ""
    """The change that the step would make, in words."""
    on: str = ""
    become: str = ""
    args: Mapping[str, Json] = field(default_factory=dict)
    """The arguments as rendered for the plan, that is, from the state before the change."""
    by_hand: tuple[str, ...] = ()
    """The commands with which a person could do the same."""
    withheld: str = ""
    """The reason why a record does not contain the arguments; empty if it does."""

    @property
    def words(self) -> str:
        """Return the step as one line for people."""
        return f"{self.id}: {self.say}" if self.say else self.id


@dataclass(frozen=True, slots=True, kw_only=True)
class NotePlace:
    """The place on a host of the note about a clean-up: beside the locks of this user."""

    on: str = ""
    """The host that steps name with `on`; empty for the host itself."""
    become: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwedCleanup:
    """The clean-up that one run owes to one host."""

    run: str
    playbook: str
    host: str
    by: str
    """The user who started the run, as ``user@controller``."""
    since: str
    """The time since when it is owed, ISO 8601."""
    steps: tuple[OwedStep, ...]
    notes: tuple[NotePlace, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NotRecorded:
    """A clean-up could not be recorded, so that the change that makes it necessary must not be sent."""

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
