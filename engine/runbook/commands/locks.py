"""The command ``runbook locks``: show which runs are changing which hosts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from runbook.commands.one_run import Run
from runbook.commands.options import FleetOptions
from runbook.commands.secret_masking import SecretMasking, secrets_on_command_line
from runbook.commands.sources import inventory_for, selected
from runbook.commands.workspace import Person, order_for, perform, with_secrets_resolved
from runbook.execution.fleet import Cancellation
from runbook.text.name_ranges import fold
from runbook.text.printable import printable
from runbook.values.playbook import Phase, Playbook, Step
from runbook.values.result import HostResult, Status, StepResult
from runbook.values.types import Json

USERS = ("root", "login")
"""The ids of the steps: one reads the locks of root, the other those of the login user."""

STATE_BY_FIELD = {"locked by": "held", "being locked by": "asked"}
"""The word about the lock, keyed by the field of ``host_locks`` that names the run."""


def list_locks(pattern: str, options: FleetOptions, person: Person) -> int:
    """Print who holds the locks of the hosts of *pattern*.  Changes nothing.  Returns the exit code."""
    with SecretMasking(lambda: secrets_on_command_line("", options.choosing.inventory)) as hiding:
        inventory = inventory_for(options.choosing, pattern)
        chosen = selected(inventory, pattern, options.choosing)
        order = order_for(_playbook(), options, person, inventory=inventory, selection=chosen)
        order = with_secrets_resolved(order, hiding, changes=False)
        if options.output.output != "console" or options.output.report:
            return perform(order, replace(options, plan_only=True), person, hiding)
        stop = Cancellation()
        person.can_stop(stop)
        run = Run(order, (), stop)
        hiding.learn(run.secrets)
        code, results = run.probed()
        for line in lines_of(results):
            print(printable(line))
        return code


def _playbook() -> Playbook:
    root, login = (Step(id=user, phase=Phase.DIAGNOSE, action="host_locks") for user in USERS)
    return Playbook(name="locks", diagnose=(replace(root, become="root", ignore_failure=True), login))


def lines_of(results: Sequence[HostResult]) -> Iterator[str]:
    """Yield a line for each lock, then one line for all hosts with the same message."""
    rest: dict[str, list[str]] = {}
    for result in results:
        steps = {step.id: step for step in result.steps}
        if result.error:
            rest.setdefault(f"{result.verdict}: {result.error}", []).append(result.host)
            continue
        locks = dict.fromkeys(line for user in USERS for line in _lock_lines(steps[user]))
        yield from (f"{result.host}: {line}" for line in locks)
        if why := _unknown(steps):
            rest.setdefault(why, []).append(result.host)
        elif not locks:
            rest.setdefault("not locked", []).append(result.host)
    for why, hosts in rest.items():
        yield f"{fold(hosts)}: {why}"


def _lock_lines(step: StepResult) -> list[str]:
    state = step.state if isinstance(step.state, Mapping) else {}
    return [f"{word} {run}" for word, key in STATE_BY_FIELD.items() for run in _texts(state.get(key))]


def _texts(value: Json) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else []


def _unknown(steps: Mapping[str, StepResult]) -> str:
    """Return text about the locks of a host that are unknown, and the reason."""
    whose = {"root": "root's locks are not known", "login": "the locks of the login user are not known"}
    failed = [user for user in USERS if steps[user].status is not Status.OK]
    return "; ".join(f"{whose[word]}: {steps[word].why}" for word in failed)
