"""The command ``runbook plan``: a dry run whose plans are written to a file."""

from __future__ import annotations

import os
import secrets
import shlex
import socket
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from runbook import __version__
from runbook.app.history.recording import recording_of
from runbook.app.order import Order
from runbook.app.outputs import outputs_for, verbosity_of
from runbook.app.plans.binding import bound_inputs, bound_inventory, bound_playbook
from runbook.app.plans.document import Maker, SavedPlan, parsed
from runbook.app.plans.well_formed import RECORDED
from runbook.app.run import Run
from runbook.app.run_command import Options, Person, order_from, origin_of_playbook, read_sources, with_secrets_resolved
from runbook.app.secret_masking import SecretMasking, secrets_on_command_line
from runbook.app.whole_report import WholeReport, can_be_replaced
from runbook.errors import ConfigError, Problem
from runbook.executor.permitted import shown_host
from runbook.fleet import Cancellation
from runbook.records.process_identity import process_user
from runbook.values.event import Event, HostPlanned, RunFinished
from runbook.values.result import HostPlan, HostResult, RunResult, Status
from runbook.values.types import Json, plural
from runbook.values.units import time_span

OF_UNDO = {"tags": (), "skip_tags": (), "force": False, "include_not_ready": True}
"""Values of the options of ``plan`` that ``undo`` does not have."""
NEVER = {"plan_only": True, "only": None, "settle": False, "yes": False, "wait_lock": ""}
"""What the other options of ``run`` are in a plan."""


class Recorder:
    """A reporter that keeps the plans of the hosts, and the result, as they are shown."""

    def __init__(self) -> None:
        self.plans: dict[str, HostPlan] = {}
        self.result: RunResult | None = None

    def on(self, event: Event) -> None:
        """Take note of *event*."""
        match event:
            case HostPlanned(plan=plan):
                self.plans[plan.host] = plan
            case RunFinished(result=result):
                self.result = result


def make_plan_file(name: str, options: Options, person: Person) -> int:
    """Probe every host, show what would be done, and write it to a file.  Returns the exit code of a dry run."""
    options = {**options, **NEVER}
    with SecretMasking(lambda: secrets_on_command_line(name, options)) as hiding:
        return _make(name, options, person, hiding)


def _make(name: str, options: Options, person: Person, hiding: SecretMasking) -> int:
    problems: list[Problem] = []
    try:
        time_span(options["expires"])
    except ConfigError as error:
        problems.append(Problem(message=f"--expires: {error}"))
    sources = read_sources(name, options, problems)
    if sources and not sources.playbook.remediate:
        problems.append(Problem(message=f"{sources.playbook.name} changes nothing: there is nothing to apply"))
    order = order_from(sources, options, person, problems)
    order = replace(order, origin=origin_of_playbook(order, options, "plan"))
    return save_plan(order, name, options, person, hiding)


def save_plan(order: Order, name: str, options: Options, person: Person, hiding: SecretMasking) -> int:
    """Probe every host of *order*, show what would be done, and write it to a file.  Returns the exit code.

    *name* is what the playbook, or the run that is undone, was called by.  Raises ConfigError.
    """
    try:
        lives = time_span(options["expires"])
    except ConfigError as error:
        raise ConfigError(f"--expires: {error}") from error
    out = opened_plan(options["out"])
    order = with_secrets_resolved(order, hiding, changes=False)
    stop = Cancellation()
    outputs = outputs_for(options["output"], sys.stdout, options["report"], person.say, stop, verbosity_of(options))
    kept = Recorder()
    run = Run(order, (outputs, kept), stop, lambda it: recording_of(it, options, person.say, changing=False))
    hiding.learn(run.secrets)
    person.speak_through(outputs.aside)
    person.can_stop(stop)
    with outputs:
        code = run.plan_only()
    if stop.asked:
        person.say("no plan was written: the run was interrupted")
        return outputs.code(code)
    saved = _saved(run, kept, name, options, timedelta(seconds=lives))
    parsed((text := saved.text()).encode(), options["out"])  # what could not be applied must not be saved
    publish(out, text, options["out"])
    for line in _next(saved, options["out"]):
        person.say(line)
    return outputs.code(code)


def opened_plan(path: str, mode: int = 0o600) -> WholeReport:
    """What is to be put into the file *path* of ``--out``, as a whole, with that mode.  Raises ConfigError."""
    if not can_be_replaced(path):
        raise ConfigError(f"--out {path}: it is not a regular file; name another one")
    try:
        return WholeReport(path, "--out", mode)
    except OSError as error:
        raise ConfigError(f"--out {path}: {error.strerror}") from error


def publish(out: WholeReport, text: str, path: str) -> None:
    """Put *text* into the file *path*, in place of what is there.  Raises ConfigError."""
    try:
        out.write(text)
        out.publish()
    except OSError as error:
        raise ConfigError(f"--out {path}: {error.strerror}") from error
    finally:
        out.close()


def _saved(run: Run, kept: Recorder, name: str, options: Options, lives: timedelta) -> SavedPlan:
    order, facts = run.order, run.facts()
    assert kept.result
    recorded: dict[str, Json] = {
        option: list(value) if isinstance(value := options.get(option, OF_UNDO.get(option)), tuple) else value
        for option in RECORDED
    }
    undoes = order.origin.undoes if order.origin else ""
    from_env = tuple(each.name for each in order.playbook.inputs if each.env and each.name in facts.given)
    now = datetime.now(UTC)
    return SavedPlan(
        plan=secrets.token_hex(16),
        made=this_user(now),
        expires_at=iso(now + lives),
        engine_version=__version__,
        playbook=bound_playbook(order.playbook, name, facts.path, run.masked_value),
        inventory=bound_inventory(facts.inventory, order.inventory.digest, order.selection.hosts, run.masked_value),
        inputs=bound_inputs(facts.inputs, facts.secrets, facts.given, from_env, secrets.token_bytes(16)),
        options={**recorded, **_hosts(run, options)},
        undoes=undoes,
        run={key: run.fleet.run[key] for key in sorted(run.fleet.run)},
        approvals=order.playbook.limits.approvals,
        hosts=tuple(shown_host(plan) for plan in kept.plans.values()),
        result=replace(kept.result, hosts=tuple(map(_brief, kept.result.hosts)), scripts={}),
    ).sealed()


def _hosts(run: Run, options: Options) -> dict[str, Json]:
    """The pattern of the hosts; those of a recorded run, or an undo, by name: ``@last`` will be another run."""
    pattern = options["hosts"] or run.order.playbook.hosts
    if pattern and "@" not in pattern:
        return {"hosts": pattern}
    return {"hosts": ",".join(host.name for host in run.order.selection.hosts), "include_not_ready": True}


def _brief(host: HostResult) -> HostResult:
    """*host* as people see it: without the states of the probes, and what commands printed."""
    steps = tuple(
        replace(step, state={}, commands=tuple(command for command in step.commands if command.exit_code is None))
        for step in host.steps
    )
    return replace(host, steps=steps)


def _next(saved: SavedPlan, out: str) -> list[str]:
    """What was made, and what to do with it."""
    many = sum(any(step.status is Status.WOULD_CHANGE for step in host.steps) for host in saved.result.hosts)
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
    """The user who started the program, as the operating system knows them: no variable but sudo's can change that."""
    user = process_user()
    sudo_user = os.environ.get("SUDO_USER", "") if os.geteuid() == 0 else ""
    return Maker(user=user, sudo_user=sudo_user if sudo_user != user else "", host=socket.gethostname(), at=iso(now))


def iso(moment: datetime) -> str:
    """ISO 8601, UTC, in seconds."""
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def recorded_options(saved: SavedPlan) -> Mapping[str, Json]:
    """The options that *saved* was made with."""
    return {name: saved.options.get(name) for name in (*RECORDED, "hosts")}
