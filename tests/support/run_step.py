"""One step taken as a run takes it, on this machine: planned, done, and probed again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from runbook.codec import from_json, to_json
from runbook.connections.transports import local
from runbook.execution.diagnosis import HostContext
from runbook.execution.diagnosis.host_context import RunContext
from runbook.execution.diagnosis.probe_types import ProbeAnswer, ProbeFailure, ProbeRequest
from runbook.execution.diagnosis.probing import run_probes
from runbook.execution.executor import Consent, execute
from runbook.execution.guards import Recording
from runbook.execution.planner import make_plan
from runbook.plugins import discover
from runbook.protocols import Connection, ConnectOptions, KeptFiles
from runbook.values.command import Command, Completed, Effect
from runbook.values.inventory import Host
from runbook.values.playbook import Phase, Playbook, Step
from runbook.values.result import HostPlan, StepResult

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
        time.sleep(seconds)  # noqa: TID251 it is the clock of the steps


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
    """A connection whose commands are started by other words, ``nsenter`` and the like."""

    inner: Connection
    words: tuple[str, ...]

    def run(self, *commands: Command) -> tuple[Completed, ...]:
        return self.inner.run(*map(self._within, commands))

    def close(self) -> None:
        self.inner.close()

    def _within(self, command: Command) -> Command:
        if not self.words:
            return command
        own = ("sh", "-c", command.script, "sh", *command.argv) if command.script else command.argv
        return replace(command, script="", argv=(*self.words, *own))


def way_to(folder: Path) -> list[Path]:
    """*folder* and those around it that are the tests' own: what somebody else must pass to get there."""
    return [it for it in (folder, *folder.parents) if any(part.startswith("pytest-") for part in it.parts)]


@contextmanager
def site(book: Playbook, within: tuple[str, ...] = (), files: KeptFiles | None = None) -> Iterator[HostContext]:
    """This machine, and *book* held against it."""
    line = local.connect(Host(name="here", transport="local"), ConnectOptions(), Patient())
    connection = Recording(Within(line, within))
    try:
        yield HostContext(
            playbook=book,
            run=RunContext(
                inputs={it.name: it.default for it in book.inputs},
                facts={"id": "r"},
                actions=ACTIONS,
                emit=lambda event: None,
                files=files,
            ),
            host=Host(name="here"),
            connection=connection,
            clock=Wall(),
        )
    finally:
        connection.close()


def see(action: str, args: dict, *, within: tuple[str, ...] = (), **keys) -> ProbeAnswer | ProbeFailure:
    """What a probe of *action* sees."""
    step = Step(id="it", phase=Phase.DIAGNOSE, action=action, args=args, **keys)
    with site(Playbook(name="one", diagnose=(step,)), within) as place:
        return run_probes([ProbeRequest(step=step, args=args)], place)[0].outcome


def take(
    action: str, args: dict, *, within: tuple[str, ...] = (), between=None, consent=Consent.SHOWN, files=None, **keys
) -> Taken:
    """Take a step of *action*."""
    step = Step(id="it", phase=Phase.REMEDIATE, action=action, args=args, **keys)
    book = Playbook(name="one", remediate=(step,))
    return carry_out(book, within=within, between=between, consent=consent, files=files)


def carry_out(
    book: Playbook,
    *,
    within: tuple[str, ...] = (),
    between: Callable[[], object] | None = None,
    consent: Consent = Consent.SHOWN,
    files: KeptFiles | None = None,
) -> Taken:
    """Take the one step of *book*; *between* happens after a person has seen the plan, and before it is carried out."""
    with site(book, within, files) as place:
        connection = place.connection
        assert isinstance(connection, Recording)
        plan, seen = make_plan(place)
        assert all(it.effect is not Effect.WRITE for it, _ in connection.sent), "a plan only looks"
        shown = from_json(HostPlan, json.loads(json.dumps(to_json(plan))))
        assert shown == plan, "a plan survives a JSON round trip"
        if between:
            between()
        outcome = execute(place, shown, seen, consent)
        writes = [str(it) for it, _ in connection.sent if it.effect is Effect.WRITE]
    return Taken(planned=plan.results[-1], result=outcome.steps[-1], writes=writes)
