"""The command ``runbook run``: diagnose hosts with a playbook, and change them."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

from runbook.commands.options import RunOptions
from runbook.commands.secret_masking import SecretMasking, secrets_on_command_line
from runbook.commands.sources import Sources, sources_of_run
from runbook.errors import ConfigError, Problem
from runbook.secrets.detection import masked_argv

if TYPE_CHECKING:
    from runbook.commands.one_run import Run
    from runbook.commands.workspace import Person

ONLY_PLAN = "--dry-run"


def run_playbook(name: str, options: RunOptions, person: Person) -> int:
    """Run the playbook *name*.  Returns the exit code; every mistake in the arguments is found before any
    connection.
    """
    with SecretMasking(lambda: secrets_on_command_line(name, options.choosing.inventory, options.given)) as hiding:
        problems: list[Problem] = []
        sources = sources_of_run(name, options, problems)
        if problems:  # before anything is imported that carries out a run
            raise ConfigError(*problems)
        return _run(sources, options, person, hiding)


def _run(sources: Sources | None, options: RunOptions, person: Person, hiding: SecretMasking) -> int:
    from runbook.commands.placed import at_its_place
    from runbook.commands.playbook_order import order_of, origin_of_playbook
    from runbook.commands.settle import settle_first
    from runbook.commands.workspace import OpenRun, go

    order = order_of(sources, options, person, [])
    order = replace(order, keeps_owed=True)
    if options.settle and options.through.workers:
        raise ConfigError("--settle: what is owed is settled from here, without --via cluster")
    order = at_its_place(order, options, hiding)
    order = replace(order, origin=origin_of_playbook(order, options, "run"))
    if options.detach and options.through.workers:
        from runbook.commands.cluster.client import begin_and_leave

        return begin_and_leave(order, options, person)
    if options.settle and (code := settle_first(order, options, person, hiding)):
        person.say(f"{order.playbook.name} was not begun: something may still be owed to its hosts")
        return code
    changing = not options.plan_only and bool(order.playbook.remediate)
    with OpenRun(order, options, person, hiding, changing=changing) as open_run:
        if options.through.workers:
            person.say(f"run {open_run.run.id}: if this is lost, `runbook attach {open_run.run.id}` follows it")
        code = go(open_run.run, options, person)
    if options.plan_only and open_run.run.waiting and options.output.output == "console" and options.typed:
        person.say(f"to do it, after a yes: {_typed_to_do_it(open_run.run, options)}")
    return open_run.code(code)


def _typed_to_do_it(run: Run, options: RunOptions) -> str:
    """Return the command line that carries out the shown plan, without secrets."""
    words = [word for word in masked_argv(options.typed) if word != ONLY_PLAN]
    if not options.choosing.hosts:  # a change takes no hosts that nobody has named
        words += ["--hosts", run.order.playbook.hosts]
    return str(run.masked_value(shlex.join(["runbook", *words])))
