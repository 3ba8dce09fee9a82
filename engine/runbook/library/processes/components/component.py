"""A component: its fields, and how it is started."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from hashlib import sha256

from runbook.dataclass import dataclass
from runbook.values.types import Duration, Json, ProcessPattern

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NOT_SET = frozenset(("BASHOPTS", "BASH_VERSINFO", "EUID", "IFS", "LINENO", "OPTIND", "PPID", "SHELLOPTS", "UID"))
"""Variables that some shells refuse to set, or that make a shell fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """A process to start."""

    name: str
    """The component's name: letters, digits, - and _."""
    argv: tuple[str, ...] = ()
    """The program and its arguments; they are not passed through a shell."""
    pattern: ProcessPattern = ProcessPattern("")
    """A pattern of the command line: a process that matches counts as this component, whatever started it."""
    env: Mapping[str, Json] = field(default_factory=dict)
    """Environment variables; only their names are ever shown."""
    delay: Duration = field(default=Duration(0), metadata={"minimum": 0, "maximum": 3600})
    """The pause after the start of the component before this one, if that component is started, too."""
    cwd: str = ""
    """The directory in which the component starts; empty: the `cwd` of the step."""
    log: str
    """The file to which the output of the component is appended."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"`name`: {self.name!r} is not a valid name: use letters, digits, - and _ only")
        if not self.argv and not self.pattern:
            raise ValueError("give `argv` to start the component, or `pattern` to find it, or both")
        if self.argv and (not self.argv[0] or self.argv[0].startswith("-")):
            raise ValueError(f"`argv`: {self.argv[0]!r} is not the name of a program")
        for what, path in (("cwd", self.cwd or "/"), ("log", self.log)):
            if why := objection_to_path(path):
                raise ValueError(f"`{what}` {why}")
        for name, value in self.env.items():
            if not _VARIABLE.fullmatch(name) or name.lower().startswith("runbook_") or name in _NOT_SET:
                raise ValueError(f"`env`: {name!r} is not allowed as the name of a variable")
            if isinstance(value, bool) or not isinstance(value, str | int | float):
                raise ValueError(f"`env`: the value of {name} must be text or a number (write text in quotes)")

    @property
    def variables(self) -> tuple[tuple[str, str], ...]:
        """Return the environment of the component as text."""
        return tuple((name, str(value)) for name, value in self.env.items())

    @property
    def digest(self) -> str:
        """Return a digest of everything that determines how the component runs."""
        reported = (self.argv, sorted(self.variables), self.cwd, self.log)
        return sha256(repr(reported).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def objection_to_path(path: str) -> str:
    """Return the reason why *path* is refused; empty if it is accepted."""
    if not path.startswith(("/", "~/")) or "\n" in path:
        return f"must be absolute, or begin with ~/: {path!r}"
    return ""
