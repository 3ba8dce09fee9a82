"""The commands ``runbook history show`` and ``diff``: describe one run, and the differences between two runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from runbook.errors import ConfigError
from runbook.records.finding_runs import load_run
from runbook.records.index import recorded_runs
from runbook.records.private_folder import PrivateFolder
from runbook.records.recorded_run import RecordedRun, RunState, resumable
from runbook.reporting.wording.profile_inputs import profile_lines
from runbook.text.name_ranges import fold
from runbook.text.printable import json_text, printable, printable_line
from runbook.values.event import Answered, ChangeStarted, Event, StepFinished
from runbook.values.plan import Presence
from runbook.values.result import HostResult, Mode, Status, StepResult
from runbook.values.run_origin import RunOrigin
from runbook.values.types import plural, seconds


def show_text(folder: PrivateFolder, run: str, host: str) -> str:
    """Describe a recorded run; with *host*, every step of that host, with its commands and their output."""
    recorded = load_run(folder, run)
    head = head_lines(folder, recorded)
    if not host:
        return "\n".join([*head, "", *_hosts(recorded)])
    result = recorded.result_of(host)
    if result is None:
        raise ConfigError(f"run {recorded.run} has no host {host!r} (it has: {fold(recorded.started.hosts)})")
    return "\n".join([*head, "", *host_lines(folder, recorded, result)])


def head_lines(folder: PrivateFolder, recorded: RecordedRun) -> list[str]:
    """Return lines about the run itself: its playbook, who started it, and how it ended."""
    return [*_head(recorded, _resumed_by(folder, recorded.run))]


def host_lines(folder: PrivateFolder, recorded: RecordedRun, result: HostResult) -> list[str]:
    """Return lines about every step of the host of *result*, with its commands and their output."""
    return [*_host(result, folder.path), "", *_times(recorded, result.host)]


def _resumed_by(folder: PrivateFolder, run: str) -> list[str]:
    """Return the runs, without dry runs, that continued *run*, the oldest first."""
    rows = reversed(recorded_runs(folder))
    return [row.run for row in rows if row.resumes == run and row.mode == Mode.RUN]


def _head(recorded: RecordedRun, resumed_by: Sequence[str]) -> Iterator[str]:
    started, origin, finished = recorded.started, recorded.started.origin, recorded.finished
    yield f"run        {recorded.run}"
    yield f"playbook   {started.playbook}{f'  {origin.playbook}' if origin and origin.playbook else ''}"
    yield f"mode       {'dry run' if started.mode == 'plan' else 'run'}"
    if origin:
        yield from _origin(origin, started.at)
    if finished:
        result = finished.result
        yield f"ended      {finished.at} after {seconds(result.seconds)}, exit code {result.exit_code}"
    else:
        yield f"ended      {_without_end(recorded, resumed_by)}"
        if recorded.state is RunState.INTERRUPTED and resumable(recorded) and not resumed_by:
            yield f"           `runbook resume {recorded.run}` goes on with it"
    yield from (f"resumed by {word}" for word in resumed_by)
    for answer in (event for event in recorded.events if isinstance(event, Answered)):
        yield f"asked      the answer was {answer.answer}, at {answer.at}"
    for fault in recorded.faults:
        yield printable(f"FAULT      {fault}")
    if recorded.torn:
        yield "note       the last line of the journal is not whole"


def _origin(origin: RunOrigin, at: str) -> Iterator[str]:
    by = (origin.by, origin.sudo_user and f"sudo of {origin.sudo_user}", origin.client)
    yield f"started    {at} by {', '.join(filter(None, by))} (runbook {origin.version})"
    if origin.reason:
        yield printable(f"reason     {origin.reason}")
    yield from (f"inventory  {source}" for source in origin.inventory)
    if origin.inputs:
        given = (
            f"{name}={value if isinstance(value, str) else json_text(value, 'utf-8')}"
            for name, value in origin.inputs.items()
        )
        yield printable(f"inputs     {', '.join(given)}")
    yield from (printable(f"profile    {line}") for line in profile_lines(origin.profile_inputs))
    book, hosts = origin.playbook_digest[:12] or "-", origin.inventory_digest[:12] or "-"
    yield f"digests    playbook {book}, inventory {hosts}"
    if origin.resumes:
        yield f"resumes    {origin.resumes}"
    if origin.undoes:
        yield f"undoes     {origin.undoes}"


def _without_end(recorded: RecordedRun, resumed_by: Sequence[str]) -> str:
    if recorded.state is RunState.RUNNING:
        return "the run is still under way"
    return "it was interrupted, and another run has gone on with it" if resumed_by else "INTERRUPTED: it has no end"


def _hosts(recorded: RecordedRun) -> Iterator[str]:
    counted = Counter(host.verdict for host in recorded.hosts)
    totals = ", ".join(f"{number} {verdict}" for verdict, number in counted.items())
    yield f"{plural(len(recorded.hosts), 'host')}: {totals}"
    for result in recorded.hosts:
        yield from summary_lines(result)


def summary_lines(result: HostResult) -> Iterator[str]:
    """Yield the verdict of a host, its findings, and the steps that did something or failed."""
    yield printable_line(f"{result.host}: {result.verdict}{f' ({result.error})' if result.error else ''}")
    for finding in result.findings:
        if finding.status in (Presence.PRESENT, Presence.GONE):
            yield printable_line(f"  {finding.severity} {finding.id} ({finding.status}): {finding.say}", "      ")
    for step in result.steps:
        if step.status not in (Status.OK, Status.SKIPPED):
            yield printable_line(f"  {step.status} {step.id}: {step.why}", "      ")


def _host(result: HostResult, where: Path) -> Iterator[str]:
    """Yield lines about every step of a host; *where*: the directory of the records."""
    yield printable_line(f"{result.host}: {result.verdict}{f' ({result.error})' if result.error else ''}")
    for finding in result.findings:
        if finding.status is not Presence.ABSENT:
            yield printable_line(
                f"  finding {finding.id}: {finding.status}  {finding.say or finding.why or ''}", "      "
            )
    if absent := [each.id for each in result.findings if each.status is Presence.ABSENT]:
        yield printable_line(f"  findings that are absent: {', '.join(absent)}")
    for step in result.steps:
        yield from _step(step, where)


def _step(step: StepResult, where: Path) -> Iterator[str]:
    yield printable_line(f"  {step.phase} {step.id}: {step.status} ({seconds(step.seconds)})  {step.why}", "      ")
    for file in step.kept:
        yield printable_line(f"    file {where}/{file.path} ({file.about()}; sha256 {file.sha256[:16]})", "        ")
    for command in step.commands:
        code = "not sent" if command.exit_code is None else f"exit code {command.exit_code}"
        yield printable_line(f"    {command.shown or command.line}  # {code}, {seconds(command.seconds)}", "        ")
        for name, text in (("stdout", command.stdout), ("stderr", command.stderr)):
            if text.strip():
                yield f"      {name}:"
                yield from (f"        {printable(line)}" for line in text.splitlines())


def _times(recorded: RecordedRun, host: str) -> Iterator[str]:
    """Yield the times when each change began and ended."""
    yield "changes, as they were sent:"
    lines = [line for event in recorded.events if (line := _moment(event, host))]
    yield from lines or ["  none"]


def _moment(event: Event, host: str) -> str:
    match event:
        case ChangeStarted(host=name) if name == host:
            return printable(f"  {event.at}  {event.step} begins: {event.summary} ({event.risk})")
        case StepFinished(host=name, result=result) if name == host and result.status not in (
            Status.OK,
            Status.SKIPPED,
        ):
            return printable(f"  {event.at}  {result.id} ends: {result.status}")
    return ""


def diff_text(folder: PrivateFolder, before: str, after: str) -> str:
    """Describe the differences between the runs *before* and *after*, host by host."""
    one, two = load_run(folder, before), load_run(folder, after)
    lines = [f"- {_title(one)}", f"+ {_title(two)}"]
    if one.started.origin and two.started.origin:
        lines += _origins(one, two)
    old, new = ({result.host: result for result in run.hosts} for run in (one, two))
    for host in dict.fromkeys([*old, *new]):
        lines += _host_diff(host, old.get(host), new.get(host))
    return "\n".join(printable(line) for line in lines)


def _title(recorded: RecordedRun) -> str:
    return f"{recorded.run} {recorded.started.playbook}, {recorded.started.at}"


def _origins(one: RecordedRun, two: RecordedRun) -> Iterator[str]:
    assert one.started.origin
    assert two.started.origin
    for name in ("playbook_digest", "inventory_digest", "inputs_digest", "version", "by"):
        old, new = getattr(one.started.origin, name), getattr(two.started.origin, name)
        if old != new:
            short = (lambda it: it[:12]) if name.endswith("digest") else str
            yield f"{name.replace('_', ' ')}: {short(old) or '-'} -> {short(new) or '-'}"


def _host_diff(host: str, old: HostResult | None, new: HostResult | None) -> Iterator[str]:
    if old is None or new is None:
        yield f"{host}: only in the {'first' if new is None else 'second'} run"
        return
    lines = []
    then = {finding.id: finding for finding in old.findings if finding.status is not Presence.ABSENT}
    now = {finding.id: finding for finding in new.findings if finding.status is not Presence.ABSENT}
    for name in dict.fromkeys([*then, *now]):
        was, has = (found[name].status.value if name in found else "absent" for found in (then, now))
        if was != has:
            lines.append(f"  finding {name}: {was} -> {has}")
    steps = ({step.id: step for step in result.steps} for result in (old, new))
    before, after = steps
    for name in dict.fromkeys([*before, *after]):
        was, has = (row[name].status.value if name in row else "not there" for row in (before, after))
        if was != has:
            lines.append(f"  step {name}: {was} -> {has}")
    if old.verdict is not new.verdict:
        yield f"{host}: {old.verdict} -> {new.verdict}"
    elif lines:
        yield f"{host}: {new.verdict} in both"
    yield from lines
