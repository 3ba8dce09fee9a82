"""The way to undo a change; it is recorded before the change is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from runbook.dataclass import dataclass
from runbook.values.types import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """The mode, the owner and the group of a file; an empty text means that it is not known."""

    mode: str = ""
    """The mode, octal: ``644``."""
    owner: str = ""
    """The owner, as a name or a number."""
    group: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoFile:
    """A file before and after a change.  Its content is kept on the host, never in a record."""

    path: str
    """The path of the file itself, not of a link to it."""
    before: str
    """The SHA-256 of the content before the change, hexadecimal; empty if there was no file."""
    after: str
    """The SHA-256 of the content after the change; empty if there is no file."""
    was: Ownership = field(default_factory=Ownership)
    left: Ownership = field(default_factory=Ownership)
    content: bool = True
    """Whether the change touches the content; otherwise it changes only mode, owner and group."""
    masked: bool = False
    """Whether a secret of the run was masked in the shown change, because an undo does not know this secret."""
    kind: Literal["file"] = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoStep:
    """A step that undoes a change: an action with its arguments."""

    action: str
    args: Mapping[str, Json] = field(default_factory=dict)
    say: str
    """The effect, in words for people."""
    if_restored: bool = False
    """Whether the step runs only after a file was restored: the file in the part before it, or a file of a step that
    ran earlier.
    """
    kind: Literal["step"] = "step"


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """The steps that undo a change, in order, and the effects that cannot be undone."""

    parts: tuple[UndoFile | UndoStep, ...] = ()
    stays: tuple[str, ...] = ()
    """Sentences about the effects that cannot be undone, and the reasons."""
