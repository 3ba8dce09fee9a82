"""The markdown output: a summary for a ticket or a chat; text from hosts is never treated as markup."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TextIO

from runbook.reporting.wording.evidence import inside, short
from runbook.reporting.wording.exit_codes import exit_line
from runbook.reporting.wording.grouping import HostGroup, together
from runbook.reporting.wording.host_digest import causes
from runbook.reporting.wording.host_lines import owed_lines
from runbook.reporting.wording.limits import limit_lines
from runbook.reporting.wording.profile_inputs import profile_lines
from runbook.reporting.wording.step_lines import by_name, grouped, is_exec, outcome_notes, output_lines
from runbook.text.name_ranges import fold
from runbook.text.printable import printable
from runbook.values.event import Event, RunFinished
from runbook.values.plan import Presence
from runbook.values.playbook import Severity
from runbook.values.result import HostResult, RunResult, Status, StepResult, Verdict
from runbook.values.types import plural, seconds

ENDINGS = ("md",)

SHOWN = 30
"""The maximum number of causes, and of rows of a table, because a comment on GitHub has at most 65536 characters."""
SHOWN_BLOCKS = 6
"""The maximum number of different outputs that are shown."""
LONGEST = 240
"""The maximum number of letters of one text."""

BAR = "\N{BROKEN BAR}"
"""Replaces a vertical bar in a table, because Markdown readers differ in how a bar is escaped."""


class Reporter:
    """Writes the page at the end of the run."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def on(self, event: Event) -> None:
        """Write the page at the end of the run."""
        if isinstance(event, RunFinished):
            self._stream.write("\n".join(lines_of(event.result)) + "\n")
            self._stream.flush()


def lines_of(result: RunResult) -> list[str]:
    """Return the lines of the page.  Text that is not runbook's own is in code spans, so that it is not treated as
    markup.
    """
    parts = (
        _head(result),
        *_causes(causes(result.hosts)),
        _steps("Changed", result.hosts, lambda it: it.status is Status.CHANGED),
        _steps("Would change", result.hosts, lambda it: it.status is Status.WOULD_CHANGE),
        _steps("Not done, cut off, or failed", result.hosts, _is_bad),
        _outputs(result.hosts),
        _findings(result.hosts),
        _owed(result.hosts),
        _left_out(result),
        _inputs(result),
    )
    return [line for number, part in enumerate(filter(None, parts)) for line in (["", *part] if number else part)]


def _head(result: RunResult) -> list[str]:
    counts = ", ".join(f"{count} {verdict}" for verdict, count in result.totals.items()) or "no host"
    lines = [
        f"# {code(result.playbook)}: {counts}",
        "",
        f"- {result.mode} {code(result.run)}, {code(result.started_at)}, {seconds(result.seconds)}",
        f"- {exit_line(result.exit_code, result.mode)}",
    ]
    held = limit_lines(result.limits) if result.limits else []
    return [*lines, *(f"- {code(line.strip().removeprefix('limits: '))}" for line in held)]


def _is_bad(step: StepResult) -> bool:
    return step.status.is_broken or step.status.is_held_back or step.status is Status.UNREACHABLE


def _causes(found: Sequence[HostGroup]) -> Iterable[list[str]]:
    """Yield the part with the present causes, and the part with the repaired causes."""
    for title, is_cured in (("What is wrong, the worst first", False), ("What was cured", True)):
        some = [cause for cause in found if (cause.verdict is Verdict.RESOLVED) is is_cured]
        lines = []
        for cause in some[:SHOWN]:
            first, *more = cause.lines
            reason = code(first.removeprefix(f"{cause.verdict}: "))
            lines += [
                f"- {_hosts(cause.hosts)} **{cause.verdict}**: {reason}",
                *(f"  - {_next(line)}" for line in more),
            ]
        yield [f"## {title}", "", *lines, *_rest(some[SHOWN:], "cause")] if lines else []


def _next(line: str) -> str:
    """Return *line*, which describes the next action; only its first words are runbook's, the rest is in a
    code span.
    """
    for words in ("next: ", "would change "):
        if line.startswith(words):
            return f"{words}{code(line.removeprefix(words))}"
    return code(line)


def _steps(title: str, hosts: Sequence[HostResult], wanted: Callable[[StepResult], bool]) -> list[str]:
    """Return a table of the steps for which *wanted* is true; equal steps of several hosts share one row."""
    found = [
        ((step.id, _status(step)), (host.host, by_name(step))) for host in hosts for step in host.steps if wanted(step)
    ]
    rows = [
        f"| {_hosts(names, cell=True)} | {code(step, cell=True)} | {status} | {code(line, cell=True)} |"
        for (step, status), said in grouped(found).items()
        for names, line in _alike(said)
    ]
    return _part(title, rows, "row", ["| hosts | step | status | what |", "|---|---|---|---|"])


def _status(step: StepResult) -> str:
    notes = [str(step.status).replace("_", " ")]
    if step.status is Status.WOULD_CHANGE:
        notes += [str(risk) for risk in [step.risk] if risk]
        notes += [code(word, cell=True) for word in [step.condition] if word]
    return ", ".join([*notes, *outcome_notes(step)])


def _findings(hosts: Sequence[HostResult]) -> list[str]:
    """Return a table of the present findings and of the unknown findings."""
    found = [
        (
            (finding.id, finding.severity, finding.status),
            (host.host, (finding.why if finding.status is Presence.UNKNOWN else finding.say) or ""),
        )
        for status in (Presence.PRESENT, Presence.UNKNOWN, Presence.GONE)
        for severity in reversed(Severity)
        for host in hosts
        for finding in host.findings
        if (finding.status, finding.severity) == (status, severity)
    ]
    rows = [
        f"| {_hosts(names, cell=True)} | {code(name, cell=True)} | {severity} | {status} | {code(line, cell=True)} |"
        for (name, severity, status), said in grouped(found).items()
        for names, line in _alike(said)
    ]
    return _part("Findings", rows, "row", ["| hosts | finding | severity | status | what |", "|---|---|---|---|---|"])


def _outputs(hosts: Sequence[HostResult]) -> list[str]:
    """Return the output of the command of ``runbook exec``, once for the hosts with equal output."""
    printed = grouped(
        (tuple(line.removeprefix("| ") for line in output_lines(step)), host.host)
        for host in hosts
        for step in host.steps
        if is_exec(step)
    )
    blocks = [[f"{_hosts(names)}:", "", *block(lines), ""] for lines, names in printed.items() if lines]
    shown = [line for item in blocks[:SHOWN_BLOCKS] for line in item]
    return ["## Output", "", *shown[:-1], *_rest(blocks[SHOWN_BLOCKS:], "output")] if blocks else []


def block(lines: Sequence[str]) -> list[str]:
    """Return *lines* as a block of code: the first lines, each shortened, and a fence longer than any in the text."""
    shown = [printable(line)[:LONGEST] for line in lines[:SHOWN]]
    rest = [f"... {len(lines) - SHOWN} more lines"] if len(lines) > SHOWN else []
    fence = "`" * max(3, 1 + max((len(found) for line in shown for found in re.findall("`+", line)), default=0))
    return [fence, *shown, *rest, fence]


def _owed(hosts: Sequence[HostResult]) -> list[str]:
    lines = [f"- {code(host.host)}: {code(line)}" for host in hosts for line in owed_lines(host)]
    return _part("Clean-ups that are owed", lines)


def _left_out(result: RunResult) -> list[str]:
    why = grouped((left_out.why, left_out.host) for left_out in result.left_out)
    lines = [f"- {_hosts(names)}: {code(reason)}" for reason, names in why.items()]
    return _part("Hosts left out", lines)


def _inputs(result: RunResult) -> list[str]:
    said = [code(f"{name}={inside(it)}") for name, it in result.inputs.items()]
    said += [f"by profile: {code(line)}" for line in profile_lines(result.profile_inputs)]
    return ["## Inputs", "", ", ".join(said[:SHOWN]), *_rest(said[SHOWN:], "input")] if said else []


def _alike(said: Iterable[tuple[str, str]]) -> list[tuple[list[str], str]]:
    """Return groups of hosts with similar texts, each with its text."""
    return [(names, lines[0]) for names, lines in together((host, (), [line], True) for host, line in said)]


def _hosts(names: Sequence[str], *, cell: bool = False) -> str:
    many = f" ({len(names)})" if len(names) > 1 else ""
    return code(fold(names), cell=cell) + many


def _part(title: str, lines: Sequence[str], noun: str = "line", head: Sequence[str] = ()) -> list[str]:
    """Return a part of the page: its title, the *head* of a table, and its first lines.

    Nothing if there are no lines.
    """
    return [f"## {title}", "", *head, *lines[:SHOWN], *_rest(lines[SHOWN:], noun)] if lines else []


def _rest(rest: Sequence[object], noun: str) -> list[str]:
    return (
        ["", f"... and {plural(len(rest), f'more {noun}')}: `--output json` or a report of another format has all"]
        if rest
        else []
    )


def code(text: str, *, cell: bool = False) -> str:
    """Return *text* on one line in a code span that the text cannot end; in a *cell* of a table, vertical bars are
    replaced.
    """
    plain = printable(short(text, LONGEST))
    if not plain:
        return ""
    if cell:
        plain = plain.replace("|", BAR)
    fence = "`" * (1 + max((len(found) for found in re.findall("`+", plain)), default=0))
    space = " " if plain.startswith("`") or plain.endswith("`") else ""
    return f"{fence}{space}{plain}{space}{fence}"
