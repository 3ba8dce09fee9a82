"""The way to undo a change, as it is recorded before the change is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from runbook.values.types import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """The mode, the owner and the group of a file; what is empty is not known."""

    mode: str = ""
    """Octal: ``644``."""
    owner: str = ""
    """A name, or a number."""
    group: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoFile:
    """A file as it was, and as the change leaves it.  Its content is kept on the host, never in a record."""

    path: str
    """The file itself, not a link to it."""
    before: str
    """sha256 of its content, hexadecimal; empty: there is no file."""
    after: str
    """The same of what the change leaves; empty: no file."""
    was: Ownership = field(default_factory=Ownership)
    left: Ownership = field(default_factory=Ownership)
    content: bool = True
    """Whether the change touches the content; else mode, owner and group alone."""
    masked: bool = False
    """Whether a secret of the run was masked in the shown change: an undo does not know that secret."""
    kind: Literal["file"] = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoStep:
    """A step that takes a change back: an action with its arguments."""

    action: str
    args: Mapping[str, Json] = field(default_factory=dict)
    say: str
    """The effect, for people."""
    if_restored: bool = False
    """Whether it is only taken once a file is back: the part before it, or those of the steps that it came after."""
    kind: Literal["step"] = "step"


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """The steps that take a change back, in their order, and what of it stays."""

    parts: tuple[UndoFile | UndoStep, ...] = ()
    stays: tuple[str, ...] = ()
    """The parts that cannot be undone, and why, in sentences."""
