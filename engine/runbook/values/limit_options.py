"""The limits of a command line, as they are typed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitOptions:
    """The limits of a command line, as typed; empty: not given."""

    host_deadline: str = ""
    pause_between: str = ""
    stop_after: str = ""
    max_unavailable: str = ""
    batches: str = ""
    order: str | None = None
