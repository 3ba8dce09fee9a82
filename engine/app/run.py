"""One run, from what was asked for to its exit code."""

from __future__ import annotations

import getpass
import secrets
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from engine import transports
from engine.actions import discover
from engine.app.secret_masking import secret_inputs, secrets_of
from engine.app.step_resolution import place
from engine.diagnosis import OtherHosts, SharedProbes, exit_code
from engine.errors import ConfigError
from engine.executor import Consent
from engine.fleet import Cancellation, Fleet, Planned, waits
from engine.inventory.secret_fields import secrets_in
from engine.protocols import Connection, ConnectOptions, Emit, Reporter
from engine.values.event import Answered, Asked, Event, HostFinished, RunFinished, RunStarted
from engine.values.inventory import Host, Inventory, Selection
from engine.values.masking import masked, masking
from engine.values.playbook import Playbook, Step
from engine.values.result import HostPlan, HostResult, Mode, RunResult, Status, Verdict, scripts_of
from engine.values.types import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is to be run, where, and how."""

    playbook: Playbook
    inputs: Mapping[str, Json]
    inventory: Inventory
    selection: Selection
    parts: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)
    """The inputs of included playbooks, by their prefix."""
    parallel: int = 32
    force: bool = False
    timeout: float = 0.0
    """Seconds per look, for steps that set none."""
    deadline: float = 0.0
    detailed_exit_code: bool = False
    options: ConnectOptions = field(default_factory=ConnectOptions)


class SystemClock:
    """The machine's monotonic clock; a sleep ends early when the run is asked to stop."""

    def __init__(self, stop: Cancellation) -> None:
        self._stop = stop

    def now(self) -> float:
        """Seconds."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait, or return within a tenth of a second of being asked to stop."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not self._stop.level():
            time.sleep(min(left, 0.1))


Ask = Callable[[tuple[HostPlan, ...]], bool]
"""Shows plans to a person, and says whether they agree."""


class Run:
    """A run on its way: what it is called, when it began, and who is informed."""

    def __init__(self, order: Order, reporters: Sequence[Reporter], stop: Cancellation) -> None:
        self.order, self.stop = order, stop
        self.started = datetime.now(UTC)
        self.id = f"{self.started:%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"
        self.began = time.monotonic()
        password = order.options.become_password
        shared = (password.secret if password else "", *order.options.passphrases.values())
        self.secrets = (*order.inventory.secrets, *secrets_of(order.playbook), *_secret_inputs(order), *shared)
        """Everything that nobody is to be shown."""
        self._mask = masking(self.secrets)
        self._shown: dict[str, tuple[HostResult, HostResult]] = {}
        self.emit = self._fan_out(reporters)
        self.fleet = self._fleet()

    def hidden(self, result: HostResult) -> HostResult:
        """*result* without secrets; each result of a host is gone through once, however often it is shown."""
        before, shown = self._shown.get(result.host, (None, None))
        if before is not result or shown is None:
            shown = masked(result, self._mask)
            self._shown[result.host] = (result, shown)
        return shown

    def _told(self, event: Event) -> Event:
        """*event* without secrets."""
        match event:
            case HostFinished(result=result):
                return replace(event, result=self.hidden(result))
            case RunFinished(result=whole):
                hosts = tuple(map(self.hidden, whole.hosts))
                return replace(event, result=replace(masked(replace(whole, hosts=()), self._mask), hosts=hosts))
        return masked(event, self._mask)

    def probed(self) -> tuple[int, tuple[HostResult, ...]]:
        """Look at every host; the exit code, and what was seen."""
        results = self.fleet.conclude(self.fleet.plan(self.order.selection.hosts))
        return self._end(Mode.PLAN, results), tuple(map(self.hidden, results))

    def plan_only(self) -> int:
        """Look at every host and say what would be done.  Sends looks only.  Returns the exit code."""
        self._start(Mode.PLAN)
        planned = self.fleet.plan(self.order.selection.hosts)
        return self._end(Mode.PLAN, self.fleet.conclude(planned))

    def go(self, consent: Consent) -> int:
        """Plan and do, host by host, without asking.  Returns the exit code."""
        self._start(Mode.RUN)
        return self._end(Mode.RUN, self.fleet.plan_and_carry_out(self.order.selection.hosts, consent))

    def ask_and_go(self, ask: Ask) -> int:
        """Plan, show, ask, and do what was shown.  Returns the exit code."""
        if not self.order.playbook.remediate:
            return self.go(Consent.NONE)
        self._start(Mode.RUN)
        planned = self.fleet.plan(self.order.selection.hosts)
        if not self.stop.level() and not _anything(planned) and _waiting(planned):
            return self._end(Mode.RUN, self.fleet.carry_out(planned, Consent.SHOWN))
        if self.stop.level() or not _anything(planned):
            return self._end(Mode.RUN, self.fleet.conclude(planned))
        plans = tuple(masked(it.plan, self._mask) for it in planned if it.plan)
        self.emit(Asked(hosts=tuple(it.host for it in plans)))
        agreed = not self.stop.level() and ask(plans)
        self.emit(Answered(answer="yes" if agreed else "no"))
        if not agreed:
            self.stop.ask("declined: nothing was changed", level=1)
            return self._end(Mode.PLAN, self.fleet.conclude(planned))
        return self._end(Mode.RUN, self.fleet.carry_out(planned, Consent.SHOWN))

    def _start(self, mode: Mode) -> None:
        hosts = tuple(it.name for it in self.order.selection.hosts)
        self.emit(
            RunStarted(
                run=self.id,
                playbook=self.order.playbook.name,
                mode=mode,
                hosts=hosts,
                left_out=self.order.selection.left_out,
            )
        )

    def _end(self, mode: Mode, hosts: Sequence[HostResult]) -> int:
        self.elsewhere.close()
        order = self.order
        interrupted = bool(self.stop.asked)
        over = self.stop.over or bool(self.stop.spent)
        code = exit_code(hosts, interrupted=interrupted, over=over, detailed=order.detailed_exit_code)
        counted = Counter(it.verdict for it in hosts)
        hidden = {it.name for it in order.playbook.inputs if it.hides(order.inputs.get(it.name))}
        hidden |= secret_inputs(order.playbook)
        result = RunResult(
            run=self.id,
            playbook=order.playbook.name,
            mode=mode,
            inputs={name: "***" if name in hidden else value for name, value in order.inputs.items()},
            started_at=self.started.isoformat(timespec="seconds").replace("+00:00", "Z"),
            seconds=round(time.monotonic() - self.began, 3),
            exit_code=code,
            left_out=order.selection.left_out,
            hosts=tuple(hosts),
            totals={it.value: counted[it] for it in Verdict if counted[it]},
            scripts=scripts_of(hosts),
        )
        self.emit(RunFinished(result=result))
        return code

    def _fan_out(self, reporters: Sequence[Reporter]) -> Emit:
        lock = threading.Lock()

        def emit(event: Event) -> None:
            reported = self._told(event)
            with lock:
                for reporter in reporters:
                    reporter.on(reported)

        return emit

    def _fleet(self) -> Fleet:
        order, there = self.order, transports.names()
        clock = SystemClock(self.stop)
        for host in order.selection.hosts:
            if host.transport not in there:
                known = ", ".join(sorted(there))
                raise ConfigError(f"host {host.name}: no transport is called {host.transport!r}; there are: {known}")

        def connect(host: Host) -> Connection:
            return transports.load(host.transport).connect(host, order.options, self.stop)

        def connect_to(name: str) -> Connection:
            return connect(place(name, order.inventory))

        self.elsewhere = OtherHosts(connect_to, clock)
        limit = min((it for it in (order.deadline, order.playbook.limits.deadline) if it), default=0.0)
        facts = {
            "id": self.id,
            "playbook": order.playbook.name,
            "started_at": self.started.isoformat(timespec="seconds"),
        }
        facts["by"] = f"{getpass.getuser()}@{socket.gethostname()}"
        return Fleet(
            playbook=_with_timeout(order.playbook, order.timeout),
            inputs=order.inputs,
            run=facts,
            actions=discover(),
            connect=connect,
            clock=clock,
            parts=order.parts,
            once=SharedProbes(clock),
            elsewhere=self.elsewhere,
            emit=self.emit,
            stop=self.stop,
            parallel=order.parallel,
            force=order.force,
            deadline=clock.now() + limit if limit else 0.0,
        )


def _secret_inputs(order: Order) -> list[str]:
    """The values of secret inputs, of the playbook and of what it includes; and those within others, by their names."""
    placed = secret_inputs(order.playbook)
    given = [(it, order.inputs.get(it.name), it.name in placed) for it in order.playbook.inputs]
    for part in order.playbook.parts:
        placed = secret_inputs(order.playbook, part.id)
        given += [(it, order.parts[part.id].get(it.name), it.name in placed) for it in part.inputs]
    return [
        text
        for it, value, secret in given
        for text in secrets_in({"secret": value} if secret or it.hides(value) else {"input": value})
    ]


def _anything(planned: Sequence[Planned]) -> bool:
    """Whether any plan would change something."""
    return any(it.status is Status.WOULD_CHANGE for one in planned if one.plan for it in one.plan.results)


def _waiting(planned: Sequence[Planned]) -> bool:
    """Whether any plan has a step that only waits, or tells something."""
    return any(waits(it) for one in planned if one.plan for it in one.plan.results)


def _with_timeout(playbook: Playbook, timeout: float) -> Playbook:
    """*playbook* with *timeout* on every look that sets none; a write keeps the time that its action gives it."""

    def given(steps: tuple[Step, ...]) -> tuple[Step, ...]:
        return tuple(replace(it, look_timeout=it.timeout or timeout) for it in steps)

    if not timeout:
        return playbook
    return replace(
        playbook, diagnose=given(playbook.diagnose), remediate=given(playbook.remediate), verify=given(playbook.verify)
    )
