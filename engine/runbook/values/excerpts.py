"""Limit how much output of hosts is kept: excerpts that say what they leave out."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from runbook.secrets.masking import UNREADABLE

if TYPE_CHECKING:
    from runbook.values.result import HostPlan, SentCommand, StepResult

MOST = 64 * 1024
"""Characters that are kept of each stream of one command."""

MOST_OF_HOST = 1024 * 1024
"""Characters that are kept of all commands of one host together."""

LEAST = 1024
"""Characters that are kept of each stream, however many commands there are."""


_GAP = re.compile(r"\n\[\.\.\. (at least )?(\d{1,15}) bytes left out \.\.\.\]\n")


def excerpt(text: str, missing: int = 0, most: int = MOST) -> str:
    """*text*, or its beginning and its end with a line between them that says how much is left out.

    *missing*: bytes that *text* itself lacks in its middle, where ``gap`` says so already.  An excerpt of an excerpt
    says how much both left out.
    """
    if len(text) <= most:
        return text
    half = most // 2
    middle = text[half:-half]
    vague = UNREADABLE in middle
    if missing and gap(missing) in middle:
        middle = middle.replace(gap(missing), "", 1)
    elif found := next((match for match in _GAP.finditer(text) if match.start() == len(text) - match.end()), None):
        middle = text[half : found.start()] + text[found.end() : -half]
        missing, vague = int(found[2]), vague or bool(found[1])
    else:
        missing = 0
    return text[:half] + gap(missing + _bytes(middle), at_least=vague) + text[-half:]


def gap(missing: int, *, at_least: bool = False) -> str:
    """The line that stands for so many bytes."""
    return f"\n[... {'at least ' if at_least else ''}{missing} bytes left out ...]\n"


def _bytes(text: str) -> int:
    """How many bytes a host sent for *text*; at least, where some of them were no text."""
    return len(text.encode("utf-8", "replace")) - 2 * text.count(UNREADABLE)


def kept(steps: Iterable[StepResult], most: int = MOST_OF_HOST) -> tuple[StepResult, ...]:
    """*steps*, whose commands keep *most* characters of what they printed, all together: the longest are cut."""
    steps = tuple(steps)
    sizes = sorted(
        len(text) for step in steps for command in step.commands for text in (command.stdout, command.stderr)
    )
    if sum(sizes) <= most:
        return steps
    each = _share(sizes, most)
    return tuple(replace(step, commands=tuple(_cut(command, each) for command in step.commands)) for step in steps)


def kept_plan(plan: HostPlan) -> HostPlan:
    """*plan*, whose probes and steps keep as much."""
    return replace(plan, looks=kept(plan.looks), results=kept(plan.results))


def _share(sizes: list[int], most: int) -> int:
    """The length to which texts of *sizes*, the shortest first, are cut so that they have *most* together."""
    left = most
    for number, size in enumerate(sizes):
        share = left // (len(sizes) - number)
        if size > share:
            return max(LEAST, share)
        left -= size
    return max(sizes)


def _cut(command: SentCommand, each: int) -> SentCommand:
    most = each - len(gap(10**15, at_least=True))
    if len(command.stdout) <= most and len(command.stderr) <= most:
        return command
    return replace(command, stdout=excerpt(command.stdout, most=most), stderr=excerpt(command.stderr, most=most))
