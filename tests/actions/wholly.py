"""One step taken as a run takes it, on this machine: planned, done, and looked at again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from engine.actions import discover
from engine.codec import from_json, to_json
from engine.executor import Consent, execute
from engine.judge import Site
from engine.planner import make_plan
from engine.ports import Connection, ConnectOptions
from engine.shields import Recording
from engine.transports import local
from engine.values.command import Command, Completed, Effect
from engine.values.inventory import Host
from engine.values.playbook import Phase, Playbook, Step
from engine.values.result import HostPlan, StepResult

ACTIONS = discover()


class Patient:
    """Nobody asks the run to end."""

    def level(self) -> int:
        return 0


class Wall:
    """Real time."""

    def now(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


@dataclass
class Taken:
    """What a plan said of a step, and what became of it."""

    planned: StepResult
    result: StepResult
    writes: list[str]
    """The lines that were sent to change something."""

    @property
    def status(self) -> str:
        return self.result.status.value

    @property
    def why(self) -> str:
        return self.result.why


@dataclass
class Within:
    """A connection whose commands are started by other words: ``nsenter`` and the like."""

    inner: Connection
    words: tuple[str, ...]

    def run(self, *commands: Command) -> tuple[Completed, ...]:
        return self.inner.run(*map(self._within, commands))

    def close(self) -> None:
        self.inner.close()

    def _within(self, command: Command) -> Command:
        own = ("sh", "-c", command.script, "sh", *command.argv) if command.script else command.argv
        return replace(command, script="", argv=(*self.words, *own))


def take(
    action: str,
    args: dict,
    *,
    between: Callable[[], object] | None = None,
    consent=Consent.SHOWN,
    within: tuple[str, ...] = (),
    **keys,
) -> Taken:
    """Take a step of *action*; *between* happens after a person has seen the plan, and before it is carried out."""
    step = Step(id="it", phase=Phase.REMEDIATE, action=action, args=args, **keys)
    line = local.connect(Host(name="here", transport="local"), ConnectOptions(), Patient())
    connection = Recording(Within(line, within) if within else line)
    try:
        site = Site(
            playbook=Playbook(name="one", remediate=(step,)),
            host=Host(name="here"),
            inputs={},
            run={"id": "r"},
            actions=ACTIONS,
            connection=connection,
            clock=Wall(),
            emit=lambda event: None,
        )
        plan, seen = make_plan(site)
        assert all(it.effect is not Effect.WRITE for it, _ in connection.sent), "a plan only looks"
        shown = from_json(HostPlan, json.loads(json.dumps(to_json(plan))))
        assert shown == plan, "a plan survives a JSON round trip"
        if between:
            between()
        outcome = execute(site, shown, seen, consent)
    finally:
        connection.close()
    writes = [str(it) for it, _ in connection.sent if it.effect is Effect.WRITE]
    return Taken(planned=plan.results[0], result=outcome.steps[0], writes=writes)
