"""The command ``runbook locks``: which runs are changing which hosts."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from runbook.commands.history.recording import hosts_in_records
from runbook.commands.inventory_files.host_sources import inventory_for
from runbook.commands.one_run import Run
from runbook.commands.order import Order
from runbook.commands.outputs import outputs_for, verbosity_of
from runbook.commands.run import Options, Person, order_for, with_secrets_resolved
from runbook.commands.secret_masking import SecretMasking, secrets_on_command_line
from runbook.fleet import Cancellation
from runbook.inventory.host_patterns import select
from runbook.text.name_ranges import fold
from runbook.text.printable import printable
from runbook.values.playbook import Phase, Playbook, Step
from runbook.values.result import HostResult, Status, StepResult
from runbook.values.types import Json

USERS = ("root", "login")
"""The steps: root's locks, and those of the user who logs in."""

WORDS = {"locked by": "held", "being locked by": "asked"}
"""What is said of a run, by the field of ``host_locks`` in which it stands."""


def list_locks(pattern: str, options: Options, person: Person) -> int:
    """Say who holds the locks of the hosts of *pattern*.  Changes nothing.  Returns the exit code."""
    with SecretMasking(lambda: secrets_on_command_line("", options)) as hiding:
        inventory = inventory_for(options, pattern)
        chosen = select(inventory, pattern, options["include_not_ready"], recorded=hosts_in_records())
        order = order_for(_playbook(), {}, options, person, inventory=inventory, selection=chosen)
        order = with_secrets_resolved(order, hiding, changes=False)
        stop = Cancellation()
        person.can_stop(stop)
        if options["output"] != "console" or options["report"]:
            return _report(order, options, person, stop, hiding)
        run = Run(order, (), stop)
        hiding.learn(run.secrets)
        code, results = run.probed()
        for line in lines_of(results):
            print(printable(line))
        return code


def _report(order: Order, options: Options, person: Person, stop: Cancellation, hiding: SecretMasking) -> int:
    with outputs_for(
        options["output"], sys.stdout, options["report"], person.say, stop, verbosity_of(options)
    ) as outputs:
        run = Run(order, (outputs,), stop)
        hiding.learn(run.secrets)
        code = run.plan_only()
    return outputs.code(code)


def _playbook() -> Playbook:
    root, login = (Step(id=user, phase=Phase.DIAGNOSE, action="host_locks") for user in USERS)
    return Playbook(name="locks", diagnose=(replace(root, become="root", ignore_failure=True), login))


def lines_of(results: Sequence[HostResult]) -> Iterator[str]:
    """A line for each lock, then one for all hosts of which the same is to be said."""
    rest: dict[str, list[str]] = {}
    for result in results:
        steps = {step.id: step for step in result.steps}
        if result.error:
            rest.setdefault(f"{result.verdict}: {result.error}", []).append(result.host)
            continue
        locks = dict.fromkeys(line for user in USERS for line in _held(steps[user]))
        yield from (f"{result.host}: {line}" for line in locks)
        if why := _unknown(steps):
            rest.setdefault(why, []).append(result.host)
        elif not locks:
            rest.setdefault("not locked", []).append(result.host)
    for why, hosts in rest.items():
        yield f"{fold(hosts)}: {why}"


def _held(step: StepResult) -> list[str]:
    state = step.state if isinstance(step.state, Mapping) else {}
    return [f"{word} {run}" for word, key in WORDS.items() for run in _texts(state.get(key))]


def _texts(value: Json) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else []


def _unknown(steps: Mapping[str, StepResult]) -> str:
    """What is not known of a host's locks, and why."""
    whose = {"root": "root's locks are not known", "login": "the locks of the login user are not known"}
    failed = [user for user in USERS if steps[user].status is not Status.OK]
    return "; ".join(f"{whose[word]}: {steps[word].why}" for word in failed)
