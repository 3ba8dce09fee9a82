"""Limit the kept output of a host's commands to the size that memory and reports can hold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from runbook.values.excerpts import excerpt, gap
from runbook.values.result import HostPlan, SentCommand, StepResult

MOST_OF_HOST = 1024 * 1024
"""The maximum number of characters that are kept of all commands of one host together."""

MIN_KEPT_CHARACTERS = 1024
"""The number of characters that are kept of each stream, however many commands there are."""


def kept(steps: Iterable[StepResult], most: int = MOST_OF_HOST) -> tuple[StepResult, ...]:
    """Return *steps* with the output of their commands cut to *most* characters in total; the longest texts are cut."""
    steps = tuple(steps)
    sizes = sorted(
        len(text) for step in steps for command in step.commands for text in (command.stdout, command.stderr)
    )
    if sum(sizes) <= most:
        return steps
    each = _share(sizes, most)
    return tuple(replace(step, commands=tuple(_cut(command, each) for command in step.commands)) for step in steps)


def kept_plan(plan: HostPlan) -> HostPlan:
    """Return *plan* with the output of its probes and its steps cut in the same way."""
    return replace(plan, looks=kept(plan.looks), results=kept(plan.results))


def _share(sizes: list[int], most: int) -> int:
    """Return the length to which texts must be cut so that they have *most* characters together; *sizes* are sorted
    lengths.
    """
    left = most
    for number, size in enumerate(sizes):
        share = left // (len(sizes) - number)
        if size > share:
            return max(MIN_KEPT_CHARACTERS, share)
        left -= size
    return max(sizes)


def _cut(command: SentCommand, each: int) -> SentCommand:
    most = each - len(gap(10**15, at_least=True))
    if len(command.stdout) <= most and len(command.stderr) <= most:
        return command
    return replace(command, stdout=excerpt(command.stdout, most=most), stderr=excerpt(command.stderr, most=most))
