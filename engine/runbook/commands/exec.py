"""The command ``runbook exec``: run one command on hosts."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from runbook.commands.options import FleetOptions
from runbook.commands.rests_on import origin_of
from runbook.commands.secret_masking import SecretMasking, secrets_on_command_line
from runbook.commands.sources import inventory_for, selected, times
from runbook.commands.workspace import Person, order_for, perform, with_secrets_resolved
from runbook.dataclass import dataclass
from runbook.errors import ConfigError, Problem
from runbook.programs.mutating_programs import mutating_command
from runbook.values.playbook import Phase, Playbook, Step
from runbook.values.types import Raw


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecOptions(FleetOptions):
    """The options of ``runbook exec``."""

    read: bool = False
    """Whether the command only reads; then there is neither a plan nor a question."""


def exec_command(pattern: str, argv: Sequence[str], options: ExecOptions, person: Person) -> int:
    """Run the command *argv* on the hosts of *pattern*, as a playbook with one step.  Returns the exit code."""
    with SecretMasking(lambda: secrets_on_command_line("", options.choosing.inventory)) as hiding:
        if not argv[0]:
            raise ConfigError("no command: the first word after -- is empty")
        if len(argv) == 1 and " " in argv[0].strip() and "/" not in argv[0].split()[0]:
            hint = f"leave the quotes out, or let a shell read it: -- sh -c {shlex.quote(argv[0])}"
            raise ConfigError(Problem(message=f"{argv[0]!r} is one word, the name of a program", hint=hint))
        inventory = inventory_for(options.choosing, pattern)
        playbook = _playbook(argv, options)
        chosen = selected(inventory, pattern, options.choosing, options.recording.records)
        order = order_for(playbook, options, person, inventory=inventory, selection=chosen)
        order = with_secrets_resolved(order, hiding, changes=not options.read)
        order = replace(order, origin=origin_of(order, "exec"))
        return perform(order, options, person, hiding)


def _playbook(argv: Sequence[str], options: ExecOptions) -> Playbook:
    """Return a playbook whose one step runs *argv*: a probe with ``--read``, otherwise a change.  Raises
    ConfigError.
    """
    limit, words = times(options.connecting, options.limits)["timeout"], _raw(argv)
    if not options.read:
        step = Step(id="exec", phase=Phase.REMEDIATE, action="command", args={"do": {"argv": words}}, timeout=limit)
        return Playbook(name="exec", remediate=(step,))
    if found := mutating_command(argv):
        message = f"--read is for commands that change nothing, but `{found.words}` does ({found.risk})"
        raise ConfigError(Problem(message=message, hint="leave out --read"))
    step = Step(id="exec", phase=Phase.DIAGNOSE, action="command", args={"argv": words})
    return Playbook(name="exec", diagnose=(step,))


def _raw(argv: Sequence[str]) -> Any:
    """Return *argv* marked so that no expressions are looked for in it."""
    return Raw(list(argv))
