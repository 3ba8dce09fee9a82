"""The samples of one probe, and how often it is repeated."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil

from runbook.values.types import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """The number of repetitions of a probe, and the seconds between."""

    times: int = 0
    """The number of samples; 0: as many as *span* takes."""
    span: float = 0.0
    """Seconds from the first sample to the last."""
    every: float = 2.0

    @property
    def asked(self) -> int:
        """Return that number of samples, where none takes longer than *every*."""
        return self.times or ceil(round(self.span / self.every, 6)) + 1

    @property
    def seconds(self) -> float:
        """From the first sample to the last, likewise."""
        return self.span or (self.times - 1) * self.every

    def due(self, slot: int) -> float:
        """Seconds after the first sample at which one may be taken: *slot* times *every*, and the last at *span*."""
        return min(slot * self.every, self.span) if self.span else slot * self.every


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """A sample that is not known."""

    at: float
    """Seconds since the first sample."""
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """The samples of a probe; the names of its fields are part of the language."""

    samples: tuple[Json, ...] = ()
    """Each State as JSON with ``at``, the seconds since the first; an unknown one says so when it is used."""
    asked: int
    """The number of samples that were to be taken."""
    known: int = 0
    unknown: tuple[Missed, ...] = ()
    seconds: float = 0.0
    """From the first sample to the last."""
    absent: str = ""
    """The reason why its subject is proven to be absent, so that there are no samples."""
    began: float = field(metadata={"private": True})
    """When the first was taken, on our own clock."""
