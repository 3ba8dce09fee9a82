"""The samples of one probe: their number, their interval, and their values."""

from __future__ import annotations

from dataclasses import field
from math import ceil

from runbook.dataclass import dataclass
from runbook.values.types import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """The number of repetitions of a probe, and the seconds between repetitions."""

    times: int = 0
    """The number of samples; 0 means as many as fit into *span*."""
    span: float = 0.0
    """The seconds from the first sample to the last."""
    every: float = 2.0

    @property
    def asked(self) -> int:
        """Return the number of samples if no sample takes longer than *every*."""
        return self.times or ceil(round(self.span / self.every, 6)) + 1

    @property
    def seconds(self) -> float:
        """Return the seconds from the first sample to the last if no sample takes longer than *every*."""
        return self.span or (self.times - 1) * self.every

    def due(self, slot: int) -> float:
        """Return the seconds after the first sample when sample *slot* is due: *slot* times *every*, at most *span*."""
        return min(slot * self.every, self.span) if self.span else slot * self.every


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """A sample whose value is not known."""

    at: float
    """The seconds since the first sample."""
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The samples of a probe; the names of these fields are part of the playbook language."""

    samples: tuple[Json, ...] = ()
    """Each State as JSON with ``at``, the seconds since the first sample.  The use of an unknown sample raises an
    error.
    """
    asked: int
    """The number of samples that should have been taken."""
    known: int = 0
    unknown: tuple[Missed, ...] = ()
    seconds: float = 0.0
    """The seconds from the first sample to the last."""
    absent: str = ""
    """The reason why the subject of the probe is proven to be absent, so that there are no samples."""
    began: float = field(metadata={"private": True})
    """The time of the first sample, on the controller's own clock."""
