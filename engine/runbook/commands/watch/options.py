"""The options of ``runbook watch`` and ``runbook serve``."""

from __future__ import annotations

from dataclasses import field

from runbook.commands.options import Choosing, Connecting, Recording, Through
from runbook.dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    """The options of every command of the watcher."""

    rules: tuple[str, ...] = ()
    """Files or folders of rules; empty: ``./watch``."""
    state: str = ""
    """The directory of the watcher's state; empty: the user's own."""
    choosing: Choosing = field(default_factory=Choosing)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions(WatchOptions):
    """The options of ``runbook serve``."""

    config: str = ""
    """The file with addresses, tokens and messages; empty: none."""
    listen: str = ""
    """``HOST:PORT`` in place of that of the file."""
    connecting: Connecting = field(default_factory=Connecting)
    recording: Recording = field(default_factory=Recording)
    through: Through = field(default_factory=Through)
