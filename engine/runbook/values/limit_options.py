"""The limits that a user types as options of a command."""

from __future__ import annotations

from runbook.dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitOptions:
    """The limits from the command line, as typed; an empty text means that the option was not given."""

    host_deadline: str = ""
    pause_between: str = ""
    stop_after: str = ""
    max_unavailable: str = ""
    batches: str = ""
    order: str | None = None
