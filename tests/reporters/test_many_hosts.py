"""A run on a thousand hosts is read on one screen, and no host is lost on it."""

from __future__ import annotations

import io
import re
import time

import pytest
from ClusterShell.NodeSet import NodeSet

from runbook.reporting.reporters.console import MANY, Reporter
from runbook.reporting.reporters.console.live_display import SHARE, LiveDisplay
from runbook.values.event import HostFinished, HostStarted, RunFinished, RunStarted, StepFinished
from runbook.values.plan import Finding, Presence
from runbook.values.playbook import Phase, Severity
from runbook.values.result import HostResult, Mode, RunResult, Status, StepResult, Verdict

COUNT = 1000
HOSTS = tuple(f"gpu-{number:04}" for number in range(COUNT))


def result(number: int) -> HostResult:
    """Of a thousand hosts, 700 are healthy; the others have one of three causes, each with numbers of its own."""
    name = HOSTS[number]
    if number % 10 == 3:
        words = f"/ is {90 + number % 9} % full, {number} files"
        return HostResult(host=name, verdict=Verdict.UNRESOLVED, findings=(found("full", words),), seconds=number / 7)
    if number % 10 == 5:
        words = f"{2 + number % 7} processes hold GPUs on {name}"
        return HostResult(host=name, verdict=Verdict.UNRESOLVED, findings=(found("held", words),), seconds=number / 7)
    if number % 10 == 9:
        error = f"10.1.{number % 200}.{number // 200}:{22000 + number}: no answer within {number % 9}.5 s"
        return HostResult(host=name, verdict=Verdict.UNREACHABLE, error=error, seconds=number / 7)
    return HostResult(host=name, verdict=Verdict.HEALTHY, seconds=number / 7)


def found(name: str, words: str) -> Finding:
    return Finding(id=name, severity=Severity.ERROR, status=Presence.PRESENT, say=words, advise=("Mend it.",))


def told(reporter: Reporter, count: int = COUNT) -> None:
    results = tuple(map(result, range(count)))
    totals = {it.value: sum(one.verdict is it for one in results) for it in Verdict}
    reporter.on(RunStarted(run="r", playbook="feed", mode=Mode.RUN, hosts=HOSTS[:count]))
    for it in results:
        reporter.on(HostStarted(host=it.host))
    for number, it in enumerate(results):
        why = f"removed {number} MiB from {it.host}"
        done = StepResult(id="tidy", phase=Phase.REMEDIATE, action="remove", status=Status.CHANGED, why=why)
        reporter.on(StepFinished(host=it.host, result=done))
        reporter.on(HostFinished(result=it))
    whole = RunResult(
        run="r", playbook="feed", mode=Mode.RUN, started_at="", seconds=1, exit_code=1, hosts=results,
        totals={name: number for name, number in totals.items() if number},
    )  # fmt: skip
    reporter.on(RunFinished(result=whole))


def test_three_causes_on_a_thousand_hosts_are_read_on_one_screen():
    """Mutants: repeated_lines.py that drops nothing, the first line, or a verdict; similar_texts.py without ports."""
    stream = io.StringIO()
    told(Reporter(stream))
    lines = stream.getvalue().splitlines()
    assert len(lines) < 40
    ends = re.findall(r"^(gpu-\S+): (healthy|unresolved|unreachable)$", stream.getvalue(), re.MULTILINE)
    sets = [(NodeSet(hosts), verdict) for hosts, verdict in ends]
    counts = sorted((len(hosts), verdict) for hosts, verdict in sets)
    assert counts == [(100, "unreachable"), (100, "unresolved"), (100, "unresolved"), (700, "healthy")]
    assert len(NodeSet.fromlist([str(hosts) for hosts, _ in sets])) == COUNT, "nobody is missing, nor in two of them"
    exact = {frozenset(hosts) for hosts, _ in sets}
    assert frozenset(it for it in HOSTS if int(it[4:]) % 10 == 3) in exact
    assert frozenset(it for it in HOSTS if int(it[4:]) % 10 == 5) in exact
    begun = [it for it in lines if it.startswith("feed: ") and " done: " in it]
    assert [it.split()[1] for it in begun] == ["200", "400", "600", "800"]
    first = lines[: lines.index(begun[0])]
    for words in ("full: / is", "held: 7 processes", "unreachable (", "healthy (", "changed tidy: removed 0 MiB"):
        assert sum(words in it for it in first) == 1, words


def test_on_a_screen_of_hosts_every_line_is_shown():
    """Mutants: repeated_lines.py with no MANY, or with one less."""
    stream = io.StringIO()
    told(Reporter(stream), MANY)
    assert stream.getvalue().count("changed tidy: ") == MANY
    assert len(re.findall(r"^gpu-\d+: (?:healthy|un\w+) \(", stream.getvalue(), re.MULTILINE)) == MANY


@pytest.mark.alone
def test_the_live_view_of_a_thousand_hosts_takes_a_small_part_of_the_processor():
    """Mutants: live_display.py that draws at every event."""

    class Screen(io.StringIO):
        encoding = "utf-8"

        def fileno(self):
            raise OSError

    stream = Screen()
    display, drawn = LiveDisplay(stream), []
    draw = display._draw

    def timed() -> None:
        began = time.thread_time()
        draw()
        drawn.append(time.thread_time() - began)

    display._draw = timed
    reporter = Reporter(io.StringIO())
    reporter._screen = display
    began = time.monotonic()
    told(reporter)
    spent = time.monotonic() - began
    assert len(drawn) > 1
    assert sum(drawn[:-1]) < spent * 2 / SHARE + max(drawn), "but for the first and the last frame"
    assert "feed: " in stream.getvalue()
