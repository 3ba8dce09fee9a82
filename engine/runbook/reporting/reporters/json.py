"""The json output: one document about the whole run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TextIO, cast

from runbook.codec import to_json
from runbook.text.printable import json_text
from runbook.values.event import Event, HostFinished, RunFinished
from runbook.values.result import HostResult, RunResult, StepResult

ENDINGS = ("json",)

UNWRITABLE = (ValueError, TypeError, ArithmeticError, RecursionError)
"""The errors of a value that cannot be written as JSON."""


class Reporter:
    """Writes the document at the end of the run, one line per host; the line of a host is made when the host
    is done.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lines: dict[str, tuple[HostResult, str]] = {}

    def on(self, event: Event) -> None:
        """Record a host's result; write the document at the end."""
        match event:
            case HostFinished(result=result):
                self._lines[result.host] = (result, self._line(result))
            case RunFinished(result=whole):
                self._write(whole)
                self._stream.flush()

    def _write(self, whole: RunResult) -> None:
        """Write *whole*, one member a line, and within ``hosts`` one host a line; the text is never in memory as a
        whole.
        """
        members = cast("dict[str, Any]", to_json(replace(whole, hosts=())))
        between = "{\n"
        for name, value in members.items():
            self._stream.write(f"{between} {self._text(name)}: ")
            if name == "hosts":
                self._write_hosts(whole.hosts)
            else:
                self._stream.write(self._text(value))
            between = ",\n"
        self._stream.write("\n}\n")

    def _write_hosts(self, hosts: Sequence[HostResult]) -> None:
        between = "[\n  "
        for host in hosts:
            known, line = self._lines.pop(host.host, (None, ""))
            self._stream.write(between + (line if known is host else self._line(host)))
            between = ",\n  "
        self._stream.write("\n ]" if hosts else "[]")

    def _line(self, host: HostResult) -> str:
        """Return the line of *host*.  If a part of it cannot be written, the line says so and keeps all other parts."""
        try:
            return self._text(host_document(host))
        except UNWRITABLE:
            return self._text(host_document(_writable_host(host)))

    def _text(self, value: object) -> str:
        return json_text(value, self._stream.encoding)


def _writable_host(host: HostResult) -> HostResult:
    """Return *host* without the parts that cannot be written; the host and its steps say that something is missing."""
    if not (why := _fault(host)):
        return host
    steps = tuple(_writable_step(step) for step in host.steps)
    findings = tuple(finding if not _fault(finding) else replace(finding, evidence={}) for finding in host.findings)
    words = f"part of its result cannot be written as JSON ({why})"
    made = replace(host, steps=steps, findings=findings, error=f"{host.error}; {words}" if host.error else words)
    return made if not _fault(made) else HostResult(host=host.host, verdict=host.verdict, error=words)


def _writable_step(step: StepResult) -> StepResult:
    why = _fault(step)
    words = f"the probe's state cannot be written as JSON ({why})"
    return replace(step, state={}, why=f"{step.why}; {words}" if step.why else words) if why else step


def _fault(value: object) -> str:
    """Return the reason why *value* cannot be written as JSON; empty if it can."""
    try:
        json_text(to_json(value), None)
    except UNWRITABLE as error:
        return f"{type(error).__name__}: {error}"[:200]
    return ""


def host_document(host: HostResult) -> Mapping[str, Any]:
    """Return *host* in its documented form, without the fields that only the engine uses."""
    made = cast("dict[str, Any]", to_json(host))
    for step in made["steps"]:
        del step["fault"], step["inapplicable"], step["rests_on"]
    for finding in made["findings"]:
        del finding["rests_on"]
    return made
