"""The command ``runbook plan``: a dry run whose plans are written to a file."""

from __future__ import annotations

import os
import secrets
import shlex
import socket
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TextIO

from runbook.commands.one_run import Run
from runbook.commands.options import FleetOptions, RunOptions
from runbook.commands.order import Order
from runbook.commands.placed import at_its_place
from runbook.commands.plans.binding import parts_of_playbook, secret_digests
from runbook.commands.plans.document import TEXTS, Maker, SavedPlan, parsed
from runbook.commands.playbook_order import order_of, origin_of_playbook
from runbook.commands.rests_on import rests_on, secret_values
from runbook.commands.secret_masking import SecretMasking, secrets_on_command_line
from runbook.commands.sources import or_problems, read_sources
from runbook.commands.workspace import OpenRun, Person
from runbook.dataclass import dataclass
from runbook.errors import ConfigError, Problem
from runbook.execution.executor.permitted import shown_host
from runbook.records.process_identity import process_user
from runbook.reporting.collector import Collector
from runbook.reporting.whole_report import WholeReport, can_be_replaced
from runbook.text.timestamps import utc
from runbook.values.result import HostResult
from runbook.values.types import Json, plural
from runbook.values.units import time_span
from runbook.version import __version__


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions(RunOptions):
    """The options of ``runbook plan``."""

    out: str = ""
    """The file of the plan."""
    expires: str = "24h"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFile:
    """The file in which a plan is saved, and the time for which it may be applied, as on the command line."""

    path: str
    expires: str


def make_plan_file(name: str, options: PlanOptions, person: Person) -> int:
    """Probe every host, show the plan, and write it to a file.  Returns the exit code of a dry run."""
    options = replace(options, plan_only=True)
    with SecretMasking(lambda: secrets_on_command_line(name, options.choosing.inventory, options.given)) as hiding:
        order = order_of_plan(name, options, person)
        order = replace(order, origin=origin_of_playbook(order, options, "plan"))
        return save_plan(order, name, options, person, hiding, PlanFile(path=options.out, expires=options.expires))


def order_of_plan(name: str, options: PlanOptions, person: Person) -> Order:
    """Return the order for a plan of the playbook *name*.  Raises ConfigError with every mistake."""
    problems: list[Problem] = []
    or_problems(problems, lambda: lifetime(options.expires))
    sources = read_sources(name, options, problems)
    if sources and not sources.playbook.remediate:
        problems.append(Problem(message=f"{sources.playbook.name} changes nothing: there is nothing to apply"))
    return order_of(sources, options, person, problems)


def lifetime(expires: str) -> timedelta:
    """Parse *expires*, the time for which a plan may be applied.  Raises ConfigError."""
    try:
        return timedelta(seconds=time_span(expires))
    except ConfigError as error:
        raise ConfigError(f"--expires: {error}") from error


def save_plan(
    order: Order, name: str, options: FleetOptions, person: Person, hiding: SecretMasking, file: PlanFile
) -> int:
    """Probe every host of *order*, show the plan, and write it to a file.  Returns the exit code.

    *name* is the given name of the playbook, or of the run that is undone.  Raises ConfigError.
    """
    lives, out = lifetime(file.expires), opened_plan(file.path)
    made = made_plan(order, name, options, person, hiding, lives)
    if made.saved is None:
        person.say("no plan was written: the run was interrupted")
        return made.exit_code
    publish(out, made.saved.text(), file.path)
    for line in _next(made.saved, file.path):
        person.say(line)
    return made.exit_code


@dataclass(frozen=True, slots=True, kw_only=True)
class MadePlan:
    """A plan that was just made, and the exit code of its dry run."""

    saved: SavedPlan | None
    """None: the run was interrupted."""
    exit_code: int


def made_plan(
    order: Order,
    name: str,
    options: FleetOptions,
    person: Person,
    hiding: SecretMasking,
    lives: timedelta,
    *,
    agent: str = "",
    stdout: TextIO | None = None,
) -> MadePlan:
    """Probe every host of *order*, show the plan on *stdout*, and return the plan, which was checked as ``apply`` does.

    *agent* is the program through which an agent makes the plan.  Raises ConfigError.
    """
    order = at_its_place(order, replace(options, plan_only=True), hiding)
    kept = Collector()
    with OpenRun(order, options, person, hiding, changing=False, listeners=(kept,), stdout=stdout) as open_run:
        code = open_run.run.plan_only()
    code = open_run.code(code)
    if open_run.stop.asked:
        return MadePlan(saved=None, exit_code=code)
    saved = _saved(open_run.run, kept, name, options, lives, agent)
    parsed(saved.text().encode(), "the plan")  # what could not be applied must not be saved
    return MadePlan(saved=saved, exit_code=code)


def opened_plan(path: str, mode: int = 0o600) -> WholeReport:
    """Open the file *path* of ``--out`` with that *mode*; the file appears only when it is complete.  Raises
    ConfigError.
    """
    if not can_be_replaced(path):
        raise ConfigError(f"--out {path}: it is not a regular file; name another one")
    try:
        return WholeReport(path, "--out", mode)
    except OSError as error:
        raise ConfigError(f"--out {path}: {error.strerror}") from error


def publish(out: WholeReport, text: str, path: str) -> None:
    """Write *text* to the file *path*, replacing an earlier file.  Raises ConfigError."""
    try:
        out.write(text)
        out.publish()
    except OSError as error:
        raise ConfigError(f"--out {path}: {error.strerror}") from error
    finally:
        out.close()


def _saved(run: Run, kept: Collector, name: str, options: FleetOptions, lives: timedelta, agent: str) -> SavedPlan:
    order, basis = run.order, rests_on(run.order)
    assert kept.result
    from_env = tuple(each.name for each in order.playbook.inputs if each.env and each.name in basis.secret_inputs)
    undoes = order.origin.undoes if order.origin else ""
    now = datetime.now(UTC)
    return SavedPlan(
        plan=secrets.token_hex(16),
        made=replace(this_user(now), agent=agent),
        expires_at=utc(now + lives),
        engine_version=__version__,
        rests_on=basis,
        named=name,
        parts=parts_of_playbook(order.playbook, run.masked_value),
        secrets=secret_digests(secret_values(order, basis), from_env, secrets.token_bytes(16)),
        options={**_recorded(options), **_hosts(run, options)},
        undoes=undoes,
        run={key: run.fleet.run.facts[key] for key in sorted(run.fleet.run.facts)},
        approvals=order.playbook.limits.approvals,
        hosts=tuple(shown_host(plan) for plan in kept.plans.values()),
        result=replace(kept.result, hosts=tuple(map(_brief, kept.result.hosts)), scripts={}),
    ).sealed()


def _recorded(options: FleetOptions) -> dict[str, Json]:
    """Return the options that affect the work and its hosts, keyed by the parameters of ``made_from``."""
    tags, skipped = (options.tags, options.skip_tags) if isinstance(options, RunOptions) else ((), ())
    return {
        "tags": list(tags),
        "skip_tags": list(skipped),
        "force": options.force,
        "include_not_ready": options.choosing.include_not_ready,
        **{name: getattr(options.limits, name) for name in TEXTS},
        **({"via": options.through.via} if options.through.workers else {}),
    }


def _hosts(run: Run, options: FleetOptions) -> dict[str, Json]:
    """Return the pattern of the hosts.

    For a recorded run or an undo, it consists of their names, because ``@last`` will later be another run.
    """
    pattern = options.choosing.hosts or run.order.playbook.hosts
    if pattern and "@" not in pattern:
        return {"hosts": pattern}
    return {"hosts": ",".join(host.name for host in run.order.selection.hosts), "include_not_ready": True}


def _brief(host: HostResult) -> HostResult:
    """Return *host* without the states of the probes, and without the output of commands."""
    steps = tuple(
        replace(step, state={}, commands=tuple(command for command in step.commands if command.exit_code is None))
        for step in host.steps
    )
    return replace(host, steps=steps)


def _next(saved: SavedPlan, out: str) -> list[str]:
    """Return lines about the new plan, and about the next command for it."""
    many = saved.changed_hosts
    lines = [
        f"plan {saved.plan[:8]} is in {out}: {plural(many, 'host')} would be changed; it can be applied until "
        f"{saved.expires_at}",
    ]
    file = shlex.quote(out)
    if not many:
        return [f"plan {saved.plan[:8]} is in {out}: no host would be changed, so that there is nothing to apply"]
    if saved.approvals:
        lines.append(f"it needs {plural(saved.approvals, 'approval')} of others: each runs `runbook approve {file}`")
    return [*lines, f"`runbook show {file}` shows it again, `runbook apply {file}` does it"]


def this_user(now: datetime) -> Maker:
    """Return the user who started the program, from the operating system; the only variables used are those of sudo."""
    user = process_user()
    sudo_user = os.environ.get("SUDO_USER", "") if os.geteuid() == 0 else ""
    return Maker(user=user, sudo_user=sudo_user if sudo_user != user else "", host=socket.gethostname(), at=utc(now))
