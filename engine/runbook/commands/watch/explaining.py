"""The commands ``watch explain`` and ``watch replay``: why a rule acts or does not, now and over what has been."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from runbook.commands.sources import inventory_for
from runbook.commands.watch.event_store import events_in, watch_folder
from runbook.commands.watch.known import Known
from runbook.commands.watch.options import WatchOptions
from runbook.commands.watch.rule_files import hosts_of_rules, read_rules
from runbook.commands.watch.wording import DECISIONS, answer_words
from runbook.errors import ConfigError, Problem
from runbook.text.printable import on_one_line
from runbook.text.suggestions import suggest
from runbook.text.timestamps import utc
from runbook.text_files import read_text
from runbook.values.watch_rule import Rule
from runbook.watch.cycle import Cycle
from runbook.watch.events import Answered, WatchEvent
from runbook.watch.memory import Proposal, Remembered, Source, Trigger
from runbook.watch.policy import Answer, Wait, answers

LARGEST_REPLAY = 256 * 1024 * 1024
"""The maximum number of bytes of a file that is replayed."""
LONGEST_REPLAY = 100_000
"""The steps after which a replay ends: two rules that wake each other must not go on for ever."""


def explain(name: str, host: str, options: WatchOptions) -> str:
    """Return each question about *host* by the rule *name* with its answer now, as lines.  Raises ConfigError."""
    rules = read_rules(options.rules)
    rule = _named(name, rules)
    inventory = inventory_for(options.choosing, "")
    hosts = hosts_of_rules(rules, inventory)[rule.name]
    every = [each.name for each in inventory.hosts]
    if host not in every:
        raise ConfigError(Problem(message=f"the inventory has no host {host!r}", hint=suggest(host, every)))
    known = Known(rules, watch_folder(options.state))
    known.close()
    remembered = known.remembered
    now = time.time()
    triggers = [*remembered.triggers(rule.name, host)] or [_none(rule, host)]
    return "\n".join(
        line for trigger in triggers for line in _explained(rule, trigger, remembered, now, is_host_known=host in hosts)
    )


def _none(rule: Rule, host: str) -> Trigger:
    """Return the trigger for a host of which nothing was heard: it does not fire."""
    return Trigger(rule=rule.name, host=host, source=Source.CLOCK, episode="", since=0.0, firing=False)


def _named(name: str, rules: Sequence[Rule]) -> Rule:
    found = {rule.name: rule for rule in rules}
    if name not in found:
        raise ConfigError(Problem(message=f"there is no rule {name!r}", hint=suggest(name, found)))
    return found[name]


def _explained(
    rule: Rule, trigger: Trigger, remembered: Remembered, now: float, *, is_host_known: bool
) -> Iterator[str]:
    about = trigger.episode or "nothing was heard"
    yield f"{rule.name} on {trigger.host}, {trigger.source}: {about}"
    memory = remembered.memory(rule.name, trigger.host, is_host_known=is_host_known, at=now)
    found = [*answers(rule, trigger, memory, now)]
    width = max(len(each.question) for each in found)
    for answer in found[:-1]:
        yield on_one_line(f"  {answer.question:<{width}}  {answer.decision.why}")
    last = found[-1]
    yield on_one_line(f"  {last.question:<{width}}  {in_words(last, trigger.episode)}")


def in_words(answer: Answer, episode: str = "-") -> str:
    """Return the decision of *answer* as a sentence."""
    decision = answer.decision
    why = decision.why if episode or answer.question != "firing" else "nothing was heard of it"
    match decision:
        case Wait(until=until) if until < float("inf"):
            return f"not acted: {why}; asked again at {utc(until)}"
        case Wait():
            return f"not acted: {why}"
    return f"{DECISIONS[type(decision).__name__.lower()]}: {why}"


def replay(file: str, options: WatchOptions) -> Iterator[str]:
    """Yield, as lines, what the present rules would have decided over the events in *file*, and when.

    The hosts are those that the events name.  Plans and runs are those of the file: nothing is probed or changed.
    Raises ConfigError.
    """
    rules = read_rules(options.rules)
    lines = read_text(Path(file), LARGEST_REPLAY).splitlines()
    events = [each for each in events_in(lines, file) if not isinstance(each, Answered)]
    if not events:
        raise ConfigError(f"{file}: contains no event")
    named = frozenset(host for event in events for host in _hosts(event))
    yield from _Replay(rules, tuple(sorted(named))).lines(events)


def _hosts(event: WatchEvent) -> Iterator[str]:
    if host := getattr(event, "host", ""):
        yield host
    for reading in getattr(event, "readings", ()):
        yield reading.host


class _Replay:
    """The cycle over events that have been: it hands out no work, and keeps nothing but its answers."""

    def __init__(self, rules: Sequence[Rule], hosts: tuple[str, ...]) -> None:
        self._said: list[str] = []
        self._cycle = Cycle(Remembered(rules), {rule.name: hosts for rule in rules}, self._keep, self)

    def lines(self, events: Sequence[WatchEvent]) -> Iterator[str]:
        due, steps = 0.0, 0
        for event in sorted(events, key=lambda each: each.at):
            while due < event.at and steps < LONGEST_REPLAY:
                now, steps = max(due, self._began(event)), steps + 1
                due = max(self._cycle.step(now), now + 0.001)
                yield from self._new()
            self._cycle.release()
            self._take(event)
            due = max(self._cycle.step(event.at), event.at + 0.001)
            yield from self._new()

    def _began(self, event: WatchEvent) -> float:
        return self._cycle.remembered.started or event.at

    def _new(self) -> Iterator[str]:
        yield from self._said
        self._said.clear()

    def _take(self, event: WatchEvent) -> None:
        self._cycle.remembered.take(event)
        self._cycle.note(event)

    def _keep(self, event: WatchEvent) -> bool:
        """Show an answer; a run that was not is not taken for one that was."""
        if isinstance(event, Answered):
            self._said.append(f"{utc(event.at)} {event.rule} {event.host}: {answer_words(event)}")
            self._take(event)
        return True

    def probe(self, rule: Rule, hosts: tuple[str, ...], *, whole: bool) -> None:
        """Do nothing: the readings are in the file."""

    def plan(self, rule: Rule, trigger: Trigger) -> None:
        """Do nothing: the plans are in the file."""

    def apply(self, rule: Rule, proposal: Proposal) -> None:
        """Do nothing: the runs are in the file."""
