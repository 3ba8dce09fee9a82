"""The junit output: JUnit XML for a CI, with a suite for each host and a case for each step and finding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, TextIO, assert_never
from xml.sax.saxutils import escape, quoteattr

from runbook.dataclass import dataclass
from runbook.reporting.wording.evidence import evidence_lines, short
from runbook.reporting.wording.host_digest import host_digest
from runbook.reporting.wording.host_lines import owed_lines
from runbook.reporting.wording.step_lines import is_exec, step_line
from runbook.text.printable import printable
from runbook.values.event import Event, RunFinished
from runbook.values.excerpts import excerpt
from runbook.values.plan import Finding, Presence
from runbook.values.playbook import Severity
from runbook.values.result import HostResult, RunResult, SentCommand, Status, StepResult, Verdict

ENDINGS = ("xml",)

OUTPUT = 4096
"""The maximum number of characters of a case's text, and of each stream of its commands."""

Outcome = Literal["passed", "failure", "error", "skipped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One test case."""

    name: str
    outcome: Outcome
    kind: str
    """The status, verdict or severity that led to the outcome."""
    message: str = ""
    details: str = ""
    seconds: float = 0.0


class Reporter:
    """Writes the document at the end of the run."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def on(self, event: Event) -> None:
        """Write the document at the end of the run."""
        if isinstance(event, RunFinished):
            for line in lines_of(event.result):
                self._stream.write(self._encodable(line) + "\n")
            self._stream.flush()

    def _encodable(self, line: str) -> str:
        """Return *line*; characters outside the stream's encoding become references."""
        unicode = (self._stream.encoding or "utf-8").lower().replace("-", "") == "utf8"
        return line if unicode else line.encode("ascii", "xmlcharrefreplace").decode("ascii")


def lines_of(result: RunResult) -> Iterable[str]:
    """Yield the lines of the document."""
    suites = [(host.host, host.seconds, _cases(host)) for host in result.hosts]
    if result.left_out:
        suites.append(("hosts left out", 0.0, [_left_out(left_out.host, left_out.why) for left_out in result.left_out]))
    counts = Counter(case.outcome for _, _, cases in suites for case in cases)
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    numbers = {**_counted(counts), "time": _time(result.seconds)}
    del numbers["skipped"]  # the root has no such number in the schema that Jenkins goes by
    yield f"<testsuites{_attributes(name=result.playbook, **numbers)}>"
    for name, seconds, cases in suites:
        yield from _suite(result, name, seconds, cases)
    yield "</testsuites>"


def _suite(result: RunResult, name: str, seconds: float, cases: Sequence[Case]) -> Iterable[str]:
    counts = Counter(case.outcome for case in cases)
    # JUnit's own times have no zone, and readers refuse one: it is UTC
    when = result.started_at[:19] or "1970-01-01T00:00:00"
    numbers = {**_counted(counts), "time": _time(seconds)}
    yield f" <testsuite{_attributes(name=name, **numbers, timestamp=when, hostname=name)}>"
    yield "  <properties>"
    for key, value in {"run": result.run, "mode": result.mode, "exit_code": str(result.exit_code)}.items():
        yield f"   <property{_attributes(name=key, value=value)}/>"
    yield "  </properties>"
    for case in cases:
        yield from _case_lines(case, f"{result.playbook}.{name}")
    yield " </testsuite>"


def _case_lines(case: Case, classname: str) -> Iterable[str]:
    head = f"  <testcase{_attributes(name=case.name, classname=classname, time=_time(case.seconds))}"
    message = _attributes(message=short(case.message, 300))
    text = escape(_xml(case.details))
    match case.outcome:
        case "passed":
            yield f"{head}><system-out>{text}</system-out></testcase>" if text else f"{head}/>"
        case "skipped":
            more = f"<system-out>{text}</system-out>" if case.details != case.message else ""
            yield f"{head}><skipped{message}/>{more}</testcase>"
        case "failure" | "error":
            tag = case.outcome
            yield f"{head}><{tag}{message}{_attributes(type=case.kind)}>{text}</{tag}></testcase>"
        case _:
            assert_never(case.outcome)


def _cases(host: HostResult) -> list[Case]:
    return [_verdict(host), *map(_finding, host.findings), *map(_step, host.steps)]


VERDICTS: dict[Verdict, Outcome] = {
    Verdict.UNREACHABLE: "error",
    Verdict.CANCELLED: "error",
    Verdict.NOT_STARTED: "error",
    Verdict.DRIFTED: "error",
    Verdict.FAILED: "failure",
    Verdict.UNKNOWN: "error",
    Verdict.PLANNED: "skipped",
    Verdict.UNRESOLVED: "failure",
    Verdict.RESOLVED: "passed",
    Verdict.HEALTHY: "passed",
}
STATUSES: dict[Status, Outcome] = {
    Status.OK: "passed",
    Status.CHANGED: "passed",
    Status.WOULD_CHANGE: "skipped",
    Status.FAILED: "failure",
    Status.TIMEOUT: "failure",
    Status.SKIPPED: "skipped",
    Status.BLOCKED: "error",
    Status.DRIFTED: "error",
    Status.UNKNOWN: "error",
    Status.UNREACHABLE: "error",
    Status.CANCELLED: "error",
    Status.OWED: "error",
}


def _verdict(host: HostResult) -> Case:
    outcome, cause = VERDICTS[host.verdict], host_digest(host).cause
    why = "" if outcome == "passed" or cause is None else cause.text
    if host.verdict is Verdict.PLANNED:
        why = "a dry run changes nothing"
    message = f"{host.verdict}: {why}" if why else str(host.verdict)
    details = "\n".join([message, *owed_lines(host)])
    return Case(
        name="verdict", outcome=outcome, kind=host.verdict, message=message, details=details, seconds=host.seconds
    )


def _finding(finding: Finding) -> Case:
    said = finding.say or finding.id
    message = f"{finding.severity}: {said}"
    evidence = [line for name, value in finding.evidence.items() for line in evidence_lines(name, value)]
    outcome: Outcome = "passed"
    match finding.status:
        case Presence.UNKNOWN:
            outcome, message = "error", f"unknown: {finding.why}"
        case Presence.PRESENT if finding.severity.drives:
            outcome = "failure"
        case Presence.PRESENT if finding.severity is Severity.WARNING:
            outcome = "skipped"  # it makes no run fail, and must not pass for health
    details = {
        Presence.PRESENT: [f"present: {message}", *finding.advise, *evidence],
        Presence.GONE: [f"gone; it was {message}"],
        Presence.UNKNOWN: [message, *evidence],
        Presence.ABSENT: [],
    }[finding.status]
    kind = str(finding.severity if finding.status is Presence.PRESENT else finding.status)
    text = excerpt("\n".join(details), most=OUTPUT)
    return Case(name=f"finding {finding.id}", outcome=outcome, kind=kind, message=message, details=text)


def _step(step: StepResult) -> Case:
    outcome = STATUSES[step.status]
    if step.ignored and outcome in ("failure", "error") and step.status.is_failure:
        outcome = "skipped"
    plain = outcome == "passed" and step.status is Status.OK and not is_exec(step)
    sent = [] if outcome == "skipped" and not step.ignored else [_command(command) for command in step.commands]
    details = "" if plain else "\n".join([step_line(step), *sent])
    name = f"{step.phase} {step.id}"
    return Case(
        name=name, outcome=outcome, kind=step.status, message=step_line(step), details=details, seconds=step.seconds
    )


def _command(command: SentCommand) -> str:
    """Return the text of a command with its output."""
    code = "not sent" if command.exit_code is None else f"exit code {command.exit_code}"
    code = "timed out" if command.timed_out else code
    head = f"{excerpt(command.shown or command.line, most=OUTPUT)}  [{code}]"
    return "\n".join([head, *(excerpt(word, most=OUTPUT) for word in (command.stdout, command.stderr) if word)])


def _left_out(host: str, why: str) -> Case:
    return Case(name=host, outcome="skipped", kind="left out", message=f"left out: {why}")


def _counted(counts: Counter[Outcome]) -> dict[str, str]:
    return {
        "tests": str(counts.total()),
        "failures": str(counts["failure"]),
        "errors": str(counts["error"]),
        "skipped": str(counts["skipped"]),
    }


def _time(seconds: float) -> str:
    return f"{max(0.0, seconds):.3f}"


def _attributes(**values: str) -> str:
    return "".join(f" {name}={quoteattr(_xml(value))}" for name, value in values.items())


def _xml(text: str) -> str:
    """Return *text* with only characters that XML 1.0 allows; others, and control characters, are written out."""
    return printable(text).replace("\ufffe", "\\ufffe").replace("\uffff", "\\uffff")
