"""The records of earlier runs on one host: changes that were sent to it, and what probes saw there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from runbook.values.types import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedChange:
    """A change that an earlier run sent to a host, also with a failed or unknown end."""

    run: str
    step: str
    """As it is written in the playbook, without the number of an item."""
    ago: float
    """Seconds since it was begun."""
    attempt: str = ""
    """The first run of this one's attempt on the host: itself, or an earlier run that it continues."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedAnswer:
    """The answer of a probe on a host in an earlier run."""

    run: str
    state: Mapping[str, Json]
    """Its state fields, as the record has them: secrets are masked."""
    ago: float
    """Seconds since that run began."""
