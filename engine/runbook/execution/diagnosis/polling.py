"""Repeat an attempt until its outcome is as required, or the time is over."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TypeVar

from runbook.execution.diagnosis.host_context import HostContext
from runbook.values.event import Waiting

T = TypeVar("T")


def poll(
    context: HostContext,
    attempt: Callable[[], T],
    ended: Callable[[T], bool],
    *,
    within: float,
    every: float,
    waiting: Callable[[T], str] = lambda _: "",
    due: Callable[[], float] = lambda: inf,
) -> T:
    """Call *attempt* now and every *every* seconds, or at the time *due* if that is earlier, until *ended* is true for
    its outcome or *within* seconds have passed.

    Returns the outcome of the last attempt.  *waiting* gives the reason to wait, which is reported once, before the
    first pause.  Raises the errors of *attempt*.
    """
    clock, began, reported = context.clock, context.clock.now(), False
    while True:
        outcome = attempt()
        if ended(outcome) or clock.now() - began >= within:
            return outcome
        if not reported and (why := waiting(outcome)):
            context.run.emit(Waiting(host=context.host.name, why=why))
        reported = True
        clock.sleep(max(0.0, min(every, due() - clock.now())))
