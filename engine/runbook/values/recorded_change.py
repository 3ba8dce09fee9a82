"""The records of earlier runs on one host: the changes that were sent, and the answers of probes."""

from __future__ import annotations

from collections.abc import Mapping

from runbook.dataclass import dataclass
from runbook.values.types import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedChange:
    """A change that an earlier run sent to a host, whatever its outcome."""

    run: str
    step: str
    """The id of the step in the playbook, without the number of an item."""
    ago: float
    """The seconds since the change was begun."""
    attempt: str = ""
    """The first run of the attempt to which this run belongs: this run, or an earlier run that it continues."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedAnswer:
    """The answer of a probe on a host in an earlier run."""

    run: str
    state: Mapping[str, Json]
    """The fields of the state in the record; secrets are masked."""
    ago: float
    """The seconds since that run began."""
