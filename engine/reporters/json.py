"""One JSON document on the whole run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TextIO, cast

from engine.codec import to_json
from engine.text.printable import json_text
from engine.values.event import Event, RunFinished
from engine.values.result import HostResult, RunResult, StepResult

ENDINGS = ("json",)

UNWRITABLE = (ValueError, TypeError, ArithmeticError, RecursionError)
"""What a value raises that has no form in JSON."""


class Reporter:
    """Writes the document when the run is over, and nothing before."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def on(self, event: Event) -> None:
        """Write the document at the end."""
        if isinstance(event, RunFinished):
            self._stream.write(_text(event.result, self._stream.encoding) + "\n")
            self._stream.flush()


def _text(result: RunResult, encoding: str | None) -> str:
    """*result*, also where something of one host cannot be written: that is named, and nothing else is lost."""
    try:
        return json_text(document(result), encoding, indent=1)
    except UNWRITABLE:
        hosts = tuple(_writable_host(it) for it in result.hosts)
        return json_text(document(replace(result, hosts=hosts)), encoding, indent=1)


def _writable_host(host: HostResult) -> HostResult:
    """*host* without what cannot be written; steps that lost something say so, and so does the host."""
    if not (why := _fault(host)):
        return host
    steps = tuple(_writable_step(it) for it in host.steps)
    findings = tuple(it if not _fault(it) else replace(it, evidence={}) for it in host.findings)
    words = f"something of its result cannot be written as JSON ({why})"
    made = replace(host, steps=steps, findings=findings, error=f"{host.error}; {words}" if host.error else words)
    return made if not _fault(made) else HostResult(host=host.host, verdict=host.verdict, error=words)


def _writable_step(step: StepResult) -> StepResult:
    why = _fault(step)
    words = f"what it saw cannot be written as JSON ({why})"
    return replace(step, state={}, why=f"{step.why}; {words}" if step.why else words) if why else step


def _fault(value: object) -> str:
    """Why *value* cannot be written; empty where it can."""
    try:
        json_text(to_json(value), None, indent=1)
    except UNWRITABLE as error:
        return f"{type(error).__name__}: {error}"[:200]
    return ""


def document(result: RunResult) -> Mapping[str, Any]:
    """*result* in the shape of the contract: as the values are, without what only the engine reads."""
    whole = cast("dict[str, Any]", to_json(result))
    for host in whole["hosts"]:
        for step in host["steps"]:
            del step["fault"], step["inapplicable"]
    return whole
