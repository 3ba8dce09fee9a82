"""Carry out one run, from its order to its exit code."""

from __future__ import annotations

import resource
import secrets
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from runbook.commands.history.remembering import change_limits_of, pool_of
from runbook.commands.order import Order, Record, hidden_inputs, no_record, secrets_of_order
from runbook.commands.rests_on import rests_on, secret_values
from runbook.commands.step_resolution import place
from runbook.connections import transports
from runbook.dataclass import dataclass
from runbook.errors import ConfigError, Problem
from runbook.execution.diagnosis import OtherHosts, SharedProbes, exit_code
from runbook.execution.diagnosis.host_context import RunContext
from runbook.execution.executor import Consent
from runbook.execution.fleet import Bounds, Cancellation, Fleet, Planned, waits
from runbook.execution.fleet.rollout import BatchEnded, Rollout
from runbook.execution.guards import Either, ReadOnly, Redacting, WithinTime
from runbook.plugins import discover
from runbook.protocols import Connection, Emit, Interrupt, Permits, Reporter
from runbook.records.owed_notes import NoticingConnection
from runbook.records.owed_records import RunRecords
from runbook.records.process_identity import process_user
from runbook.reporting.debug_log import DebugLog
from runbook.secrets.masking import masked, masking
from runbook.secrets.names import MASK
from runbook.text.timestamps import utc
from runbook.values.event import Answered, Asked, ChangeStarted, Event, HostFinished, RunFinished, RunStarted
from runbook.values.inventory import Host
from runbook.values.playbook import Playbook, Step
from runbook.values.result import AppliedLimits, HostPlan, HostResult, Mode, RunResult, Status, Verdict, scripts_of
from runbook.values.types import Json
from runbook.values.undo import UndoFile

OWN = 32
"""The open files that do not depend on the number of hosts: streams, reports, the record, libraries (measured: 10 to
20).
"""
LEAST_OF_HOST = 2
"""The open files of an idle host (measured: its socket), and one more at times: a key, the agent, the record."""
MOST_OF_HOST = 8
"""The open files of a busy host: the three pipes of a proxy, and the directories on the way to the record."""


def provide_files(hosts: int) -> None:
    """Raise this process's limit of open files to the number that *hosts* at once need.

    Raises ConfigError if the hard limit is too low even for the minimum.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = OWN + MOST_OF_HOST * hosts
    if soft == resource.RLIM_INFINITY or soft >= most:
        return
    limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
    least = OWN + LEAST_OF_HOST * hosts
    if limit < least:
        fits = max(1, (limit - OWN) // LEAST_OF_HOST)
        words = f"{hosts} hosts at once need {least} open files, and this process may have {limit}"
        raise ConfigError(Problem(message=words, hint=f"--parallel {fits}, or `ulimit -Hn {least}` as root"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


class SystemClock:
    """The machine's monotonic clock; a sleep ends early when the run is asked to stop."""

    def __init__(self, stop: Interrupt) -> None:
        self._stop = stop

    def now(self) -> float:
        """Return the time in seconds."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Sleep for *seconds*; return within a tenth of a second when the run is asked to stop."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not self._stop.level():
            time.sleep(min(left, 0.1))


Narrow = Callable[[tuple[Planned, ...]], tuple[Planned, ...]]
"""Removes from the plans of hosts all work that must not be done."""


Ask = Callable[[tuple[HostPlan, ...]], bool]
"""Shows plans to a person, and returns whether the person agrees."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The part of a run that a process carries out, and the whole as far as it has to know it."""

    started_at: str
    by: str
    attempt: str
    """The end of the name of this process's locks: others work for the same run."""
    permits: Permits
    rollout: Callable[[BatchEnded], Rollout] | None
    """Returns the rollout of the whole run; None: all hosts may be changed at once."""


class Run:
    """A run: its id, its start, and its listeners."""

    def __init__(
        self,
        order: Order,
        reporters: Sequence[Reporter],
        stop: Cancellation,
        record: Record = no_record,
        *,
        called: str = "",
        part: Part | None = None,
    ) -> None:
        """Prepare the run of *order*.  *called*: its id; empty: a new one.  *part*: the rest of it is done elsewhere.

        Raises ConfigError if this process may not open as many files as the run needs.
        """
        if order.remote is None:
            provide_files(min(order.parallel, len(order.selection.hosts)))
        self.order, self.stop = order, stop
        self.started = datetime.now(UTC)
        self.id = called or f"{self.started:%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"
        self._part = part
        self.began = time.monotonic()
        self.secrets = secrets_of_order(order)
        """Secrets, which are masked in everything that is shown."""
        self._mask = masking(self.secrets)
        self._shown: dict[str, tuple[HostResult, HostResult]] = {}
        self._owed = self._owed_records() if order.keeps_owed else None
        self._journal = record(self.id)
        self.waiting = False
        """Whether the run has ended with planned changes that were not made."""
        self._debug = DebugLog(order.debug, self._mask) if order.debug else None
        self.emit = self._fan_out((*reporters, self._debug) if self._debug else reporters)
        self.shared = transports.SharedConnections()
        self.fleet = self._fleet()

    def _owed_records(self) -> RunRecords:
        basis = rests_on(self.order)
        return RunRecords(basis, self._mask, secrets=secret_values(self.order, basis), chain=self.order.chain)

    def hidden(self, result: HostResult) -> HostResult:
        """Return *result* with its secrets masked; a result is masked once, however often it is shown."""
        before, shown = self._shown.get(result.host, (None, None))
        if before is not result or shown is None:
            shown = masked(result, self._mask)
            self._shown[result.host] = (result, shown)
        return shown

    def _hidden_event(self, event: Event) -> Event:
        """Return *event* with its secrets masked."""
        match event:
            case HostFinished(result=result):
                return replace(event, result=self.hidden(result))
            case RunFinished(result=whole):
                hosts = tuple(map(self.hidden, whole.hosts))
                return replace(event, result=replace(masked(replace(whole, hosts=()), self._mask), hosts=hosts))
            case ChangeStarted():
                return self._with_masks_noted(event, masked(event, self._mask))
        return masked(event, self._mask)

    def _with_masks_noted(self, event: ChangeStarted, hidden: ChangeStarted) -> ChangeStarted:
        """Return *hidden*; in it, a file is marked if a secret was masked in the diff of *event*."""
        has_masked = bool(self.order.secret_values.masked) and MASK in event.diff  # masked as the host has printed them
        if hidden.undo is None or (hidden.diff == event.diff and not has_masked):
            return hidden
        parts = tuple(replace(part, masked=True) if isinstance(part, UndoFile) else part for part in hidden.undo.parts)
        return replace(hidden, undo=replace(hidden.undo, parts=parts))

    def probed(self) -> tuple[int, tuple[HostResult, ...]]:
        """Probe every host; return the exit code and the results."""
        self._start(Mode.PLAN)
        results = self.fleet.conclude(self.fleet.plan(self.order.selection.hosts))
        return self._end(Mode.PLAN, results), tuple(map(self.hidden, results))

    def plan_only(self) -> int:
        """Probe every host and show the plan; nothing else is sent.  Returns the exit code."""
        self._start(Mode.PLAN)
        planned = self.fleet.plan(self.order.selection.hosts)
        return self._end(Mode.PLAN, self.fleet.conclude(planned))

    def go(self, consent: Consent) -> int:
        """Plan and carry out, host by host, without asking.  Returns the exit code."""
        self._start(Mode.RUN)
        return self._end(Mode.RUN, self.fleet.plan_and_carry_out(self.order.selection.hosts, consent))

    def ask_and_go(self, ask: Ask) -> int:
        """Plan, show the plan, ask, and carry out the shown plan.  Returns the exit code."""
        if not self.order.playbook.remediate:
            return self.go(Consent.NONE)
        self._start(Mode.RUN)
        planned = self.fleet.plan(self.order.selection.hosts)
        if not self.stop.level() and not _anything(planned) and _waiting(planned):
            return self._end(Mode.RUN, self.fleet.carry_out(planned, Consent.SHOWN))
        if self.stop.level() or not _anything(planned):
            return self._end(Mode.RUN, self.fleet.conclude(planned))
        plans = tuple(masked(each.plan, self._mask) for each in planned if each.plan)
        self.emit(Asked(hosts=tuple(plan.host for plan in plans)))
        agreed = not self.stop.level() and ask(plans)
        self.emit(Answered(answer="yes" if agreed else "no"))
        if not agreed:
            self.stop.ask("declined: nothing was changed", level=1)
            return self._end(Mode.PLAN, self.fleet.conclude(planned))
        return self._end(Mode.RUN, self.fleet.carry_out(planned, Consent.SHOWN))

    def apply(self, narrowed: Narrow, left: Sequence[HostResult], consent: Consent | None) -> int:
        """Plan every host again except those of *left*, and do the work that *narrowed* permits.  Returns the exit
        code.

        *left* are results of hosts that already have one.  *consent*: None if nothing is to be done, or nobody agreed.
        """
        mode = Mode.RUN if consent else Mode.PLAN
        self._start(mode)
        hosts, ended = self.order.selection.hosts, {host_result.host: host_result for host_result in left}
        for result in left:
            self.emit(HostFinished(result=result))
        done = [Planned(host=host, result=it) for host in hosts if (it := ended.get(host.name))]
        try:
            planned = narrowed(self.fleet.plan([host for host in hosts if host.name not in ended]))
        except BaseException:
            self.close()
            raise
        if self.stop.level() or not consent:
            return self._end(mode, self.fleet.conclude((*planned, *done)))
        return self._end(mode, self.fleet.carry_out((*planned, *done), consent))

    def masked_plan(self, plan: HostPlan) -> HostPlan:
        """Return *plan* with its secrets masked, as it is shown."""
        return masked(plan, self._mask)

    def masked_value(self, value: Json) -> Json:
        """Return *value* with its secrets masked."""
        return masked({"value": value}, self._mask)["value"]

    def _start(self, mode: Mode) -> None:
        hosts = tuple(host.name for host in self.order.selection.hosts)
        self.emit(
            RunStarted(
                run=self.id,
                playbook=self.order.playbook.name,
                mode=mode,
                hosts=hosts,
                left_out=self.order.selection.left_out,
                origin=self.order.origin,
            )
        )

    def limits(self, changed: Sequence[str]) -> AppliedLimits:
        """Return the limits of the run if it changes the hosts *changed*."""
        shown = limits_of(self.order, changed)
        earlier = self.fleet.change_limits
        return replace(shown, used=earlier.used(host.name for host in self.order.selection.hosts)) if earlier else shown

    def close(self) -> None:
        """Close the connections that are kept for the whole run.  Never raises."""
        self.elsewhere.close()
        self.shared.close()

    def _end(self, mode: Mode, hosts: Sequence[HostResult]) -> int:
        self.close()
        if self._part and self._owed:  # a worker goes on
            self._owed.release()
        order = self.order
        interrupted = bool(self.stop.asked)
        over = self.stop.over or bool(self.stop.spent)
        code = exit_code(hosts, interrupted=interrupted, over=over, detailed=order.detailed_exit_code)
        counted = Counter(host.verdict for host in hosts)
        planned = mode is Mode.PLAN and order.playbook.remediate
        hidden = hidden_inputs(order)
        result = RunResult(
            run=self.id,
            playbook=order.playbook.name,
            mode=mode,
            inputs={name: "***" if name in hidden else value for name, value in order.inputs.items()},
            profile_inputs=order.profile_inputs,
            started_at=utc(self.started),
            seconds=round(time.monotonic() - self.began, 3),
            exit_code=code,
            left_out=order.selection.left_out,
            limits=self.limits([host_result.host for host_result in hosts if host_result.verdict is Verdict.PLANNED])
            if planned
            else None,
            hosts=tuple(hosts),
            totals={verdict.value: counted[verdict] for verdict in Verdict if counted[verdict]},
            scripts=scripts_of(hosts),
        )
        self.waiting = bool(counted[Verdict.PLANNED])
        self.emit(RunFinished(result=result))
        if self._journal:
            self._journal.close()
        return code

    def _fan_out(self, reporters: Sequence[Reporter]) -> Emit:
        lock = threading.Lock()

        def emit(event: Event) -> None:
            reported = replace(self._hidden_event(event), at=_now())
            if self._journal:
                self._journal.on(reported)
            with lock:
                for reporter in reporters:
                    reporter.on(reported)

        return emit

    def _fleet(self) -> Fleet:
        order, there = self.order, transports.names()
        limit = order.time_limit
        clock = SystemClock(Either(self.stop, limit) if limit else self.stop)
        for host in order.selection.hosts:
            if host.transport not in there:
                known = ", ".join(sorted(there))
                raise ConfigError(f"host {host.name}: there is no transport {host.transport!r}; there are: {known}")

        options = replace(order.options, shared=self.shared)
        handed_out = masking(order.secret_values.masked) if order.secret_values.masked else None

        def hiding(host: str, connection: Connection) -> Connection:
            shown = self._debug.connection(host, connection) if self._debug else connection
            shown = Redacting(shown, handed_out.redacted) if handed_out else shown
            return ReadOnly(shown) if order.reads_only else shown

        def connect(host: Host) -> Connection:
            if self._debug:
                ways = " or ".join(map(str, host.addresses or filter(None, [host.container])))
                self._debug.line(host.name, f"connect by {host.transport}: {ways}")
            own: Interrupt = self.stop.of(host.name)
            made = transports.load(host.transport).connect(host, options, Either(own, limit) if limit else own)
            return hiding(host.name, WithinTime(made, limit) if limit else made)

        def connect_noticing(host: Host) -> Connection:
            made = connect(host)
            owed = self._owed
            return NoticingConnection(made, lambda notes: owed.hear(host.name, notes)) if owed else made

        def connect_to(name: str) -> Connection:
            other = place(name, order.inventory)
            return hiding(name, transports.load(other.transport).connect(other, options, self.stop))

        self.elsewhere = OtherHosts(connect_to, clock)
        deadline = _deadline(order)
        facts = {
            "id": self.id,
            "playbook": order.playbook.name,
            "started_at": self.started.isoformat(timespec="milliseconds"),  # owed clean-ups are ordered by it
        }
        facts["by"] = f"{process_user()}@{socket.gethostname()}"
        if part := self._part:
            facts |= {"started_at": part.started_at, "by": part.by}
        past = order.past(self.id, order.origin.resumes if order.origin else "") if order.past else None
        context = RunContext(
            inputs=order.inputs,
            facts=facts,
            planned_in=order.planned_in,
            actions=discover(),
            emit=self.emit,
            once=SharedProbes(clock),
            owed=order.settles or self._owed,
            files=self._journal.files(self._mask) if self._journal else None,
            past=past,
            repeats=order.repeats,
            keeps_copies=self._journal is not None,
            wait_lock=order.wait_lock,
            permits=part.permits if part else None,
            attempt=part.attempt if part else "",
        )
        fleet = Fleet(
            run=context,
            playbook=_with_timeout(order.playbook, order.timeout),
            connect=connect_noticing,
            clock=clock,
            parts=order.parts,
            secrets=order.secret_values.of,
            elsewhere=self.elsewhere,
            assignments={
                host: replace(each, playbook=_with_timeout(each.playbook, order.timeout))
                for host, each in order.assignments.items()
            },
            owing=self._owed.owed_to if self._owed else lambda _: (),
            stop=self.stop,
            parallel=order.parallel,
            force=order.force,
            earlier=order.earlier,
            change_limits=change_limits_of(order, past),
            deadline=clock.now() + deadline if deadline else 0.0,
            shared_rollout=part.rollout if part else None,
        )
        return order.remote(fleet, order, self.id, self.started) if order.remote else fleet


def limits_of(order: Order, changed: Sequence[str]) -> AppliedLimits:
    """Return the limits for a run of *order* that changes the hosts *changed*, without the use by earlier runs."""
    bounds = Bounds.of(order.playbook.limits, order.selection.hosts)
    return bounds.applied(len(changed), _deadline(order), pool_of(order))


def _deadline(order: Order) -> float:
    """Return the seconds that a run of *order* may take; 0: no limit."""
    return min((number for number in (order.deadline, order.playbook.limits.deadline) if number), default=0.0)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _anything(planned: Sequence[Planned]) -> bool:
    """Whether any plan would change something."""
    return any(result.status is Status.WOULD_CHANGE for one in planned if one.plan for result in one.plan.results)


def _waiting(planned: Sequence[Planned]) -> bool:
    """Whether any plan has a step that only waits or prints something."""
    return any(waits(result) for one in planned if one.plan for result in one.plan.results)


def _with_timeout(playbook: Playbook, timeout: float) -> Playbook:
    """Return *playbook* with *timeout* for every probe that has none; a write keeps the timeout of its action."""

    def given(steps: tuple[Step, ...]) -> tuple[Step, ...]:
        return tuple(replace(step, look_timeout=step.timeout or timeout) for step in steps)

    if not timeout:
        return playbook
    return replace(
        playbook, diagnose=given(playbook.diagnose), remediate=given(playbook.remediate), verify=given(playbook.verify)
    )
