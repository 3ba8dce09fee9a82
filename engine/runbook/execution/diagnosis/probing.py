"""Run the probes of many steps concurrently, sending the commands of each round together."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from runbook.errors import ConfigError, NotInTime, ProbeError, ReadOnlyViolation, RunbookError, TransportError
from runbook.execution.diagnosis.host_context import HostContext
from runbook.execution.diagnosis.items import with_environment
from runbook.execution.diagnosis.probe_types import ProbeAnswer, ProbeFailure, ProbeRequest, ProbeResult
from runbook.execution.guards import ReadOnly
from runbook.language.arguments import build
from runbook.language.secret_uses import with_secrets
from runbook.protocols import Absent, Action, Probe
from runbook.values.command import Command, Completed, Effect
from runbook.values.playbook import Step
from runbook.values.result import SentCommand

LOOK_TIMEOUT = 30.0
WRITE_TIMEOUT = 600.0


class _Driven:
    """A running probe: the commands that it asks for now, and its outcome once it has one."""

    def __init__(self, request: ProbeRequest, context: HostContext) -> None:
        sending = context.sending_scope(request.step.part)
        self.step = with_environment(request.step, sending)
        self.outcome: ProbeAnswer | ProbeFailure | None = None
        self.sent: list[SentCommand] = []
        self.asked: tuple[Command, ...] = ()
        self.heard: dict[Command, int] = {}
        """The number of the last answer that the probe has received to each command (``RecentAnswers``)."""
        self._single = False
        if name := context.unread_secret(request.step, changing=False):
            self.outcome = ProbeFailure(why=f"the secret {name!r} was not read for this run")
            return
        try:
            args = with_secrets(request.step, request.args, sending)
            self._args = build(context.action(request.step).Args, args)
        except ConfigError as error:
            self.outcome = ProbeFailure(why=f"arguments: {error}", malformed=True)
            return
        objection = context.action(request.step).objection
        if objection and (why := objection(self._args)):  # what was filled in may be what is refused
            self.outcome = ProbeFailure(why=f"arguments: {why}", malformed=True)
            return
        self._args, self._limit = _bounded(context.action(request.step), self._args, request)
        self._probe: Probe[Any] = context.action(request.step).probe(self._args)
        self._advance(None)

    def answer(self, answers: tuple[Completed, ...], unsent: Collection[Command] = ()) -> None:
        """Pass *answers* to the probe; if an answer is refused or incomplete, the probe fails.

        *unsent*: commands that were not sent, because their program has just hung or another probe has sent the same
        command.
        """
        asked = tuple(zip(self.asked, answers, strict=True))
        sent = [(command, it) for command, it in asked if not it.refused and command not in unsent]
        self.sent.extend(SentCommand.of(command, it) for command, it in sent)
        if why := next((words for command, it in asked if (words := _unheard(command, it))), ""):
            self._probe.close()
            self.asked, self.outcome = (), ProbeFailure(why=why)
        else:
            self._advance(answers[0] if self._single else answers)

    def _advance(self, reply: Any) -> None:
        try:
            asked = self._probe.send(reply)
        except StopIteration as done:
            self.asked = ()
            match done.value:
                case Absent(why=why, state=state):
                    self.outcome = ProbeAnswer(args=self._args, state=state, absent=why)
                case state:
                    self.outcome = ProbeAnswer(args=self._args, state=state)
        except NotInTime as error:
            self.asked, self.outcome = (), ProbeFailure(why=f"{error} (the limit was its `{self._limit}`)")
        except ProbeError as error:
            self.asked, self.outcome = (), ProbeFailure(why=str(error))
        except Exception as error:  # an answer that no parser was written for: a host may send anything
            if reply is None or isinstance(error, RunbookError):  # a mistake of ours: nothing was answered so far
                raise
            self.asked, self.outcome = (), ProbeFailure(why=f"the host's answer cannot be parsed: {_short(error)}")
        else:
            self._single = isinstance(asked, Command)
            self.asked = tuple(
                prepared(command, self.step) for command in ((asked,) if isinstance(asked, Command) else asked)
            )


def run_probes(
    requests: Sequence[ProbeRequest], context: HostContext, *, planning: bool = False
) -> tuple[ProbeResult, ...]:
    """Run the probes of *requests* and return their results in order; the commands of each round are sent in one call.

    Equal commands of several probes in one round are sent once, so that a hanging driver is not asked repeatedly.  A
    probe that sends the same command in a later round gets a new answer, because it compares the two answers.
    *planning*: nothing is changed because of the results, so that answers of the diagnosis are used again
    (``RecentAnswers``).  A program that has just not answered is not waited for again (``HangingPrograms``).
    Raises TransportError and Cancelled as the connection does.
    """
    began = context.clock.now()
    driven = [_Driven(request, context) for request in requests]
    scratch = any(request.step.scratch for request in requests)
    ended: dict[int, float] = {}
    while waiting := [each for each in driven if each.outcome is None]:
        for place in dict.fromkeys(each.step.on for each in waiting):
            here = [each for each in waiting if each.step.on == place]
            _ask(here, place, context, scratch=scratch, planning=planning)
            ended |= {id(each): context.clock.now() for each in here}
    return tuple(
        ProbeResult(
            outcome=driver.outcome or ProbeFailure(why="the probe gave no answer"),
            commands=tuple(driver.sent),
            seconds=round(ended.get(id(driver), began) - began, 3),
        )
        for driver in driven
    )


def _bounded(action: Action, args: Any, request: ProbeRequest) -> tuple[Any, str]:
    """Return *args* of a waiting action, limited to the time of its step, and the name of the shortest limit."""
    if not action.waits or not hasattr(args, "at_most"):
        return args, ""
    step = request.step
    limits = {"at_most": args.at_most, "within": request.left or step.within, "timeout": step.timeout}
    given = {name: limit for name, limit in limits.items() if limit or name == "at_most"}
    shortest = min(given, key=given.__getitem__)
    return (args if shortest == "at_most" else replace(args, at_most=given[shortest])), shortest


def _ask(probes: Sequence[_Driven], place: str, context: HostContext, *, scratch: bool, planning: bool) -> None:
    """Send the commands of *probes* to the host *place*, each command once, and pass the answers to the probes.

    If another host than the run's own cannot be asked, only the probes on that host fail.
    """
    asked = list(dict.fromkeys(command for probe in probes for command in probe.asked))
    asked.sort(key=lambda command: command.waits)  # what waits on the host comes last
    recalled = {command: hung for command in asked if (hung := context.hangs.known(place, command))}
    if planning:
        recalled = _recent(probes, asked, place, context) | recalled
    fresh = [command for command in asked if command not in recalled]
    sent = context.clock.now()
    try:
        answers = ReadOnly(context.at(place), scratch=scratch).run(*fresh) if fresh else ()
    except TransportError as error:
        if not place:
            raise
        for probe in probes:
            probe.outcome = ProbeFailure(why=str(error))
        return
    known = dict(recalled)
    for command, answer in zip(fresh, answers, strict=True):
        context.hangs.note(place, command, answer)
        number = context.recent.note(place, command, answer, sent)
        known[command] = answer
        for probe in probes:
            if command in probe.asked:
                probe.heard[command] = number
    for probe in probes:
        probe.answer(tuple(known[command] for command in probe.asked), recalled)


def _recent(
    probes: Sequence[_Driven], asked: Sequence[Command], place: str, context: HostContext
) -> dict[Command, Completed]:
    """Return the kept answers to the commands in *asked* that none of *probes* has received yet."""
    found = {}
    for command in asked:
        askers = [probe for probe in probes if command in probe.asked]
        if recent := context.recent.known(place, command, max(probe.heard.get(command, 0) for probe in askers)):
            found[command] = recent.answer
            for probe in askers:
                probe.heard[command] = recent.number
    return found


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:200]


def _unheard(command: Command, answer: Completed) -> str:
    """Return the reason why a probe cannot use *answer*, because it is refused or incomplete; empty if it can."""
    if answer.refused:
        return answer.refused
    if answer.cut and not command.foreign:
        return f"the output was too long, and its middle is missing: {command.brief()}"
    return ""


def prepared(command: Command, step: Step) -> Command:
    """Return *command* with the settings of *step*: timeout, user, environment, directory, and whether it is owed."""
    if command.effect is Effect.SCRATCH and not step.scratch and not command.keep:
        raise ReadOnlyViolation(f"step {step.id} lacks `scratch: true`, which this command needs: {command.brief()}")
    default = WRITE_TIMEOUT if command.effect is Effect.WRITE else step.look_timeout or LOOK_TIMEOUT
    return replace(
        command,
        timeout=(step.timeout or command.timeout or default) + command.waits,
        become=command.become or step.become,
        env=(*command.env, *step.env),
        cwd=command.cwd or step.cwd,
        owed=command.owed or step.always,
    )
