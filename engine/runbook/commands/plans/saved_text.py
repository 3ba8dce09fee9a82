"""Show a saved plan: the report of its dry run, its maker, the end of its validity, and its approvals."""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from runbook.commands.plans.approvals import Approval, Refused, checked, counted, signature_files, signers_file
from runbook.commands.plans.document import SavedPlan, is_plan, parsed
from runbook.commands.plans.plan_file import read_plan
from runbook.commands.plans.usage import Usage
from runbook.errors import ConfigError
from runbook.reporting import reporters
from runbook.reporting.wording.profile_inputs import profile_lines
from runbook.reporting.wording.step_lines import step_lines
from runbook.text.printable import printable_line
from runbook.values.event import Event, HostFinished, RunFinished, RunStarted
from runbook.values.result import Mode, Status, StepResult
from runbook.values.types import plural


def plan_text(path: str, content: bytes, signers: str = "") -> str:
    """Return the plan in *content*, read from the file *path*, as text.

    Raises ConfigError if *content* is no plan or was edited.
    """
    saved = parsed(content, path)
    lines = [*_in_full(saved), *_other_targets(saved), *_about(saved), *_approvals(saved, path, content, signers)]
    return "\n".join([report_text(saved), *map(printable_line, lines)])


def plan_or_nothing(path: str, signers: str = "") -> str:
    """Return the plan in the file *path* as text; empty if the file is no plan.  The file may belong to another
    user.
    """
    if not os.path.isfile(path):
        return ""
    content = read_plan(path, trusted=False)
    return plan_text(path, content, signers) if is_plan(content) else ""


def report_text(saved: SavedPlan) -> str:
    """Return the full report of the dry run, as ``-v`` shows it."""
    stream, whole = io.StringIO(), saved.result
    reporter = reporters.make("console", stream)
    hosts = tuple(host.host for host in whole.hosts)
    start = RunStarted(run=whole.run, playbook=whole.playbook, mode=Mode.PLAN, hosts=hosts, left_out=whole.left_out)
    events: list[Event] = [start, *(HostFinished(result=result) for result in whole.hosts), RunFinished(result=whole)]
    for event in events:
        reporter.on(event)
    return stream.getvalue()


def _in_full(saved: SavedPlan) -> list[str]:
    """Return the full text of the steps that the report shortens: nobody may be asked to approve a text that is not
    shown.
    """
    return [
        line
        for host in saved.result.hosts
        for step in host.steps
        if Counter(whole := _whole(step)) - Counter(step_lines(step))
        for line in (f"{host.host}: {step.id} in full:", *whole, "")
    ]


def _whole(step: StepResult) -> list[str]:
    """Return the full lines about *step*: its victims, diff and commands, in the form of ``step_lines``."""
    if step.status is not Status.WOULD_CHANGE and not step.condition:
        return []
    commands = (
        ()
        if step.victims
        else (command.shown or f"$ {command.line}" for command in step.commands if command.exit_code is None)
    )
    return [
        *(f"  pid {victim.pid} ({victim.user}) {' '.join(victim.command.split())}" for victim in step.victims),
        *(f"  | {line}" for line in (step.diff or "").removesuffix("\n").split("\n") if step.diff),
        *(f"  {command}" for command in commands),
    ]


def _other_targets(saved: SavedPlan) -> list[str]:
    """Return lines about the targets that are not processes: apply compares them, and a report does not show them."""
    lines = [
        f"{host.host}: {step.id} may touch: {', '.join(f'{other.kind} {other.say}' for other in others)}"
        for host in saved.hosts
        for step in host.steps
        if (others := [target for target in step.targets if target.kind != "process"])
    ]
    return [*lines, ""] if lines else []


def expired(saved: SavedPlan, now: datetime) -> bool:
    """Whether *saved* is too old to be applied."""
    return now >= _moment(saved.expires_at)


def from_the_future(saved: SavedPlan, now: datetime) -> bool:
    """Whether the plan was made more than five minutes after *now*, because the clocks differ."""
    return (_moment(saved.made.at) - now).total_seconds() > 300


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)  # ``parsed`` has seen to that


def _about(saved: SavedPlan) -> list[str]:
    over = "it has expired" if expired(saved, datetime.now(UTC)) else "not applied here so far"
    may = f"can be applied until {saved.expires_at}: {over}"
    try:
        use = Usage().of(saved.plan)
        may = f"cannot be applied a second time: {use}" if use else may
    except ConfigError as error:
        may = f"can be applied until {saved.expires_at}: whether it was applied is not known ({error})"
    source = f"the record of run {saved.undoes}, which it undoes" if saved.undoes else saved.rests_on.playbook
    return [
        f"plan {saved.plan[:8]}, made by {saved.made} at {saved.made.at} from {source}",
        may,
        *(f"by profile: {line}" for line in profile_lines(saved.rests_on.profile_inputs)),
    ]


def _approvals(saved: SavedPlan, path: str, content: bytes, signers: str) -> list[str]:
    if not saved.signatures:
        return []
    files = signature_files(os.path.expanduser(path), ())
    known = signers_file(signers, saved.rests_on.inventory)
    if known is None:
        there = f"; {plural(len(files), 'signature')} not checked, as there is no allowed_signers file" if files else ""
        return [f"needs {plural(saved.signatures, 'approval')}{there}"]
    good, refused = approvals_of(saved, content, files, str(known))
    return [
        f"needs {plural(saved.signatures, 'approval')}, has {len(good)}",
        *(f"  approved by {approval.principals[0]} ({approval.file}, {approval.key})" for approval in good),
        *(f"  {each.file} does not count: {each.why}" for each in refused),
    ]


def approvals_of(
    saved: SavedPlan, content: bytes, files: Sequence[str], signers: str, *, excluded: frozenset[str] = frozenset()
) -> tuple[list[Approval], list[Refused]]:
    """Return the approvals in *files* that count, and those that do not.

    Where the playbook asks for approvals, those of the plan's maker and of the users *excluded* do not count.
    """
    good, bad = checked(content, files, Path(signers)) if files else ([], [])
    counting, double = counted(good, saved.made.names | excluded if saved.approvals else frozenset())
    return counting, [*bad, *double]
