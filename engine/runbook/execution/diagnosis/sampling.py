"""Repeat probes at an interval (``samples``), several concurrently, and keep the result of each sample."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import ceil

from runbook.codec import UNKNOWN, to_json
from runbook.errors import Cancelled, ConfigError, TransportError
from runbook.execution.diagnosis.host_context import HostContext
from runbook.execution.diagnosis.probe_types import PartialSamples, ProbeAnswer, ProbeFailure, ProbeRequest, ProbeResult
from runbook.execution.diagnosis.retries import probe_shared, probe_with_retries
from runbook.language.expressions.sampling import sampling
from runbook.language.expressions.templates import evaluate_sample
from runbook.values.event import Waiting
from runbook.values.playbook import Step
from runbook.values.result import SentCommand
from runbook.values.sampling import Missed, Sampling, Series
from runbook.values.types import Json, plural, seconds

REPORTED_FROM_SECONDS = 5.0
"""Samples that take at least so many seconds are reported to people."""

GAP = 3
"""If the time between two samples is so many times the interval (and long), the state in between is unknown."""

COMMANDS = 20
"""The number of commands of a series that are reported: those sent last."""

MAX_SERIES_CHARACTERS = 100_000
"""The maximum number of characters of the samples of one series in a result."""


def sampling_of(step: Step, context: HostContext) -> Sampling:
    """Return the interval and the number of samples of *step*.  Raises ConfigError."""
    return sampling(step.samples, context.scope({}, step.part))


Enough = Callable[[ProbeAnswer | ProbeFailure], bool]
"""Whether a sample is the last that is needed."""


def sample(
    requests: Sequence[ProbeRequest],
    context: HostContext,
    before: Sequence[Series | None] = (),
    *,
    fresh: bool = False,
    enough: Enough | None = None,
) -> tuple[ProbeResult, ...]:
    """Run the probes of *requests*, which all have ``samples``, repeatedly until their series are complete.

    *fresh*: something was changed.  Then one new sample, which must be known, is added to each series of *before*.
    *enough* decides when a series ends early; without it, the ``while`` of the step does.  Raises TransportError and
    Cancelled as the connection does; the samples taken so far are then passed to the host context.
    """
    earlier = dict(zip(map(id, requests), before, strict=True)) if before else {}

    def take(them: Sequence[ProbeRequest]) -> list[ProbeResult]:
        return _side_by_side(
            [_Taker(request, context, earlier.get(id(request)), fresh, enough) for request in them], context
        )

    return probe_shared(requests, context, take, fresh=fresh)


def _side_by_side(takers: Sequence[_Taker], context: HostContext) -> list[ProbeResult]:
    clock = context.clock
    _tell(takers, context)
    try:
        while waiting := [taker for taker in takers if not taker.done]:
            due = min(each.due for each in waiting)
            if due > clock.now():
                clock.sleep(due - clock.now())
            now = clock.now()
            ready = [each for each in waiting if each.due <= max(now, due)]
            context.recent.forget()
            for taker, probed in zip(
                ready, probe_with_retries([taker.request for taker in ready], context), strict=True
            ):
                taker.note(probed, now)
    except (TransportError, Cancelled):
        _tell_cut(takers, context)
        raise
    return [taker.probed() for taker in takers]


def _tell(takers: Sequence[_Taker], context: HostContext) -> None:
    """Report the probes whose samples will take a long time."""
    long = [taker for taker in takers if not taker.fresh and taker.sampling.seconds >= REPORTED_FROM_SECONDS]
    if long:
        names = ", ".join(dict.fromkeys(each.request.step.id for each in long))
        most = seconds(max(each.sampling.seconds for each in long))
        context.run.emit(Waiting(host=context.host.name, why=f"taking samples of {names} for {most}"))


def _tell_cut(takers: Sequence[_Taker], context: HostContext) -> None:
    for name in dict.fromkeys(taker.request.step.id for taker in takers if taker.taken):
        own = [taker for taker in takers if taker.request.step.id == name]
        states: list[Json] = [shortened(each.series()) for each in own]
        state = {"items": states} if own[0].request.step.each else states[0]
        assert isinstance(state, Mapping)
        words = "; ".join(
            dict.fromkeys(f"{each.taken} of {each.sampling.asked} samples had been taken" for each in own)
        )
        context.cut(PartialSamples(step=name, why=words, state=state))


class _Taker:
    """The samples of one probe while they are being taken."""

    def __init__(
        self, request: ProbeRequest, context: HostContext, before: Series | None, fresh: bool, enough: Enough | None
    ) -> None:
        self.sampling = sampling_of(request.step, context)
        self.request = replace(request, step=replace(request.step, once=False))
        self.fresh, self.done, self.taken = fresh, False, 0
        self.due = self._began = self._now = context.clock.now()
        """The time when the next sample must be taken."""
        self._context, self._enough = context, enough or self._refuted
        self._slot = 0
        self._samples: list[Json] = []
        self._missed: list[Missed] = []
        self._commands: tuple[SentCommand, ...] = ()
        self._last: ProbeAnswer | ProbeFailure = ProbeFailure(why="no sample was taken")
        self._absent = ""
        self._seconds = self._spent = self._at = 0.0
        self._start = self.due
        if before is not None and before.samples:
            self._began, self._samples, self._missed = before.began, list(before.samples), list(before.unknown)

    def note(self, probed: ProbeResult, began: float) -> None:
        """Add the sample that was started at *began*, and decide whether and when the next sample is taken."""
        self._began = self._began if self._samples else began
        at = round(began - self._began, 3)
        self._mind_the_gap(at)
        self._commands = (*self._commands, *probed.commands)[-COMMANDS:]
        self._spent = self._context.clock.now() - self._start
        self.taken, self._last, self._seconds = self.taken + 1, probed.outcome, at
        match probed.outcome:
            case ProbeAnswer(absent=why) if why and not self._samples:
                self._absent = why
            case ProbeAnswer(state=state, absent=""):
                seen = to_json(state)
                self._samples.append({**(seen if isinstance(seen, Mapping) else {"value": seen}), "at": at})
            case ProbeAnswer(absent=why) | ProbeFailure(why=why):
                self._samples.append({UNKNOWN: why})
                self._missed.append(Missed(at=at, why=why))
        over = at >= round(self.sampling.span, 3) if self.sampling.span else self.taken >= self.sampling.times
        self.done = self._enough(probed.outcome) or over or self.fresh or bool(self._absent)
        self._slot = max(self._slot + 1, ceil((self._context.clock.now() - self._began) / self.sampling.every))
        self.due = self._began + self.sampling.due(self._slot)

    def _mind_the_gap(self, at: float) -> None:
        """Note a long gap between two samples of a series.

        The gap before a sample that is added after a change does not count.
        """
        last, self._at = self._at, at
        if self._samples and not self.fresh and at - last > max(GAP * self.sampling.every, REPORTED_FROM_SECONDS):
            why = f"nothing was seen for {seconds(round(at - last, 1))}"
            self._samples.append({UNKNOWN: why})
            self._missed.append(Missed(at=round((at + last) / 2, 3), why=why))

    def _refuted(self, outcome: ProbeAnswer | ProbeFailure) -> bool:
        """Whether the ``while`` of the step is known to be false."""
        condition, newest = self.request.step.samples.get("while"), self._samples[-1] if self._samples else None
        if not isinstance(condition, str) or not isinstance(outcome, ProbeAnswer) or not isinstance(newest, Mapping):
            return False
        try:
            return evaluate_sample(condition, newest, self._context.scope({}, self.request.step.part)) is False
        except ConfigError:
            return False

    def series(self) -> Series:
        """Return the samples so far."""
        return Series(
            samples=tuple(self._samples),
            asked=self.sampling.asked,
            known=len(self._samples) - len(self._missed),
            unknown=tuple(self._missed),
            seconds=self._seconds,
            absent=self._absent,
            began=self._began,
        )

    def probed(self) -> ProbeResult:
        """Return the result of the whole series."""
        series, outcome = self.series(), self._last
        if isinstance(outcome, ProbeAnswer) and (series.known or self._absent):
            whole: ProbeAnswer | ProbeFailure = ProbeAnswer(args=outcome.args, state=series, absent=self._absent)
        elif series.known and not self.fresh:
            whole = ProbeAnswer(args=None, state=series)
        else:
            why = self._missed[-1].why
            whole = ProbeFailure(why=why if self.fresh else f"none of {plural(self.taken, 'sample')} is known: {why}")
        return ProbeResult(outcome=whole, commands=self._commands, seconds=round(self._spent, 3), series=series)


def remark(series: Series) -> str:
    """Return a remark about the unknown samples of *series*; empty if all are known."""
    if not series.unknown:
        return ""
    reasons = "; ".join(dict.fromkeys(missed.why for missed in series.unknown[:3]))
    return f"{len(series.unknown)} of {plural(len(series.samples), 'sample')} not known: {reasons}"


def shortened(series: Series) -> Mapping[str, Json]:
    """Return *series* in the form for a result: if it is too large, without its middle samples, and with their
    number.
    """
    state = to_json(series)
    assert isinstance(state, Mapping)
    samples = series.samples
    sizes = [len(json.dumps(value)) for value in samples]
    head = tail = 0
    room = MAX_SERIES_CHARACTERS
    while head + tail < len(samples):
        size = sizes[head] if head <= tail else sizes[-1 - tail]
        if (room := room - size) < 0 and head and tail:
            break
        head, tail = (head + 1, tail) if head <= tail else (head, tail + 1)
    kept = (*samples[:head], *samples[len(samples) - tail :])
    if len(kept) == len(samples):
        return state
    return {**state, "samples": list(kept), "left_out": len(samples) - len(kept)}
