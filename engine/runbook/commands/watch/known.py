"""Read what a watcher knows, and pass it the word of a person."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from runbook.commands.plan import this_user
from runbook.commands.sources import inventory_for
from runbook.commands.watch.event_store import EventStore, Stored, to_line, watch_folder
from runbook.commands.watch.options import WatchOptions
from runbook.commands.watch.rule_files import hosts_of_rules, read_rules
from runbook.dataclass import dataclass
from runbook.errors import ConfigError, Problem
from runbook.records.private_folder import PrivateFolder
from runbook.text.suggestions import suggest
from runbook.values.types import seconds
from runbook.values.units import time_span
from runbook.values.watch_rule import Rule
from runbook.watch.events import Approved, Asked, BreakerReset, Held, Rejected, Released, WatchEvent
from runbook.watch.memory import EVERY_HOST, Hold, Proposal, Remembered
from runbook.watch.policy import Apply, Probe, counting_approvals, decide

SHORTEST_DIGEST = 8
"""The characters of a plan's digest that name it."""


class Known:
    """The rules, and what the watcher knows of their hosts; a person's word is appended to it."""

    def __init__(self, rules: tuple[Rule, ...], folder: PrivateFolder) -> None:
        """Read all events in *folder*.  Raises ConfigError, StoreError."""
        self.rules, self.folder = {rule.name: rule for rule in rules}, folder
        self.store = EventStore(folder)
        state, self.last = self.store.state()
        """``last``: the number of the last event that was taken in."""
        self.remembered = Remembered(rules, state)
        self.listeners: list[Callable[[Stored], None]] = []
        """Called with each event, after it was taken in."""
        self.catch_up()

    def catch_up(self) -> None:
        """Take in what was appended, by others too.  Raises StoreError."""
        for stored in tuple(self.store.since(self.last)):
            self.remembered.take(stored.event)
            self.last = stored.number
            for listener in self.listeners:
                listener(stored)

    def proposals(self) -> list[Proposal]:
        """Return the plans that wait for a person, the oldest first."""
        return self.remembered.proposals()

    def proposal(self, digest: str, now: float) -> Proposal:
        """Return the plan that waits whose digest begins with *digest*.  Raises ConfigError."""
        found = [each for each in self.proposals() if each.digest.startswith(digest)]
        if len(digest) < SHORTEST_DIGEST or len(found) != 1:
            waiting = [each.digest[:SHORTEST_DIGEST] for each in self.proposals()]
            hint = f"these wait: {', '.join(waiting)}" if waiting else "no plan waits"
            raise ConfigError(Problem(message=f"no plan that waits is called {digest!r}", hint=hint))
        if now > found[0].until:
            raise ConfigError(f"plan {digest} expired {seconds(now - found[0].until)} ago; a new one is made")
        return found[0]

    def approve(self, digest: str, by: str, now: float) -> tuple[Approved, str]:
        """Append that *by* agrees to a plan; also returns what follows from it.  Raises ConfigError."""
        plan = self.proposal(digest, now)
        rule = self.rules.get(plan.rule)
        if rule is None:
            raise ConfigError(f"the rule {plan.rule!r} of this plan is gone")
        if by in dict(plan.approvals):
            raise ConfigError(f"{by} has approved it already: that counts once")
        if rule.approve.by and by not in rule.approve.by:
            raise ConfigError(f"{by} may not approve for the rule {rule.name}: {', '.join(rule.approve.by)} may")
        if by == plan.requester and not rule.approve.requester_counts:
            raise ConfigError(f"{by} asked for this plan: another person has to approve it")
        made = Approved(at=now, rule=plan.rule, host=plan.host, digest=plan.digest, by=by)
        self.append(made)
        left = rule.approve.count - len(counting_approvals(rule, self._now(plan)))
        return made, f"{left} more must agree" if left > 0 else self._follows(plan, rule, now)

    def _follows(self, plan: Proposal, rule: Rule, now: float) -> str:
        """Return what is done with *plan*, which has all approvals, as it looks now."""
        memory = self.remembered.memory(rule.name, plan.host, at=now)
        for trigger in self.remembered.triggers(rule.name, plan.host):
            answer = decide(rule, trigger, memory, now)
            if trigger.episode == plan.episode and not isinstance(answer.decision, Probe | Apply):
                return f"not carried out now ({answer.question}): {answer.decision.why}"
        return "the host is probed again, then it is carried out"

    def reject(self, digest: str, by: str, why: str, now: float) -> Proposal:
        """Append that *by* refuses a plan, and return the plan.  Raises ConfigError."""
        plan = self.proposal(digest, now)
        self.append(
            Rejected(at=now, rule=plan.rule, host=plan.host, episode=plan.episode, digest=plan.digest, by=by, why=why)
        )
        return plan

    def ask(self, rule: str, host: str, by: str, now: float) -> None:
        """Append that *by* wants *rule* to look at *host*.  Raises ConfigError if the rule is unknown."""
        self.append(Asked(at=now, rule=self.named(rule).name, host=host, by=by))

    def hold(self, word: Held) -> Hold:
        """Append *word*, and return the hold of its host that lasts longest.  Raises StoreError."""
        self.append(word)
        lasting = self.remembered.hold(word.host, word.at)
        assert lasting
        return lasting

    def release(self, word: Released) -> Hold | None:
        """Append *word*, and return the hold of all hosts that lasts on.  Raises ConfigError if the host has none."""
        every = self.remembered.hold(EVERY_HOST, word.at)
        if all(each.host != word.host for each in self.remembered.holds(word.at)):
            if every:
                raise ConfigError(f"{every.by} wants all hosts to be left alone; release `{EVERY_HOST}`")
            raise ConfigError(f"nobody has asked for {word.host} to be left alone")
        self.append(word)
        return self.remembered.hold(EVERY_HOST, word.at)

    def reset(self, rule: str, by: str, now: float) -> None:
        """Append that *by* lets a rule go on whose breaker has tripped.  Raises ConfigError."""
        name = self.named(rule).name
        if not self.remembered.rule(name).tripped:
            raise ConfigError(f"the breaker of the rule {name} has not tripped")
        self.append(BreakerReset(at=now, rule=name, by=by))

    def named(self, name: str) -> Rule:
        """Return the rule *name*.  Raises ConfigError."""
        if name not in self.rules:
            raise ConfigError(Problem(message=f"there is no rule {name!r}", hint=suggest(name, self.rules)))
        return self.rules[name]

    def append(self, *events: WatchEvent) -> None:
        """Append *events*, and take them in.  Raises StoreError."""
        self.store.append(*events)
        self.catch_up()

    def decided(self, event: WatchEvent) -> bool:
        """Append *event*, which follows from what is known, and take it in, unless something new was appended.

        Returns whether it was appended; the news is taken in in any case.  Raises StoreError.
        """
        is_stored = self.store.append(event, last=self.last)
        self.catch_up()
        return is_stored

    def prune(self, now: float) -> None:
        """Remove old events, and store what follows from them.  Raises StoreError."""
        self.store.prune(now, self.remembered.state(), self.last)

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    def _now(self, plan: Proposal) -> Proposal:
        return self.remembered.host(plan.rule, plan.host).proposal or plan


@contextmanager
def opened(options: WatchOptions, *, rules: bool = True) -> Iterator[Known]:
    """Open what the watcher of *options* knows; without *rules* for a word that concerns all.  Raises ConfigError."""
    known = Known(read_rules(options.rules) if rules else (), watch_folder(options.state))
    try:
        yield known
    finally:
        known.close()


def me() -> str:
    """Return the name of the user who runs this program; under sudo, of the one who ran sudo."""
    user = this_user(datetime.now(UTC))
    return user.sudo_user or user.user


def known_host(host: str, options: WatchOptions) -> str:
    """Return *host*, if the inventory has it, or ``all``.  Raises ConfigError."""
    if host == EVERY_HOST:
        return host
    names = [each.name for each in inventory_for(options.choosing, "").hosts]
    if host not in names:
        raise ConfigError(Problem(message=f"the inventory has no host {host!r}", hint=suggest(host, names)))
    return host


def host_of_rule(known: Known, rule: str, host: str, options: WatchOptions) -> str:
    """Return *host*, if it is one of the hosts of *rule*.  Raises ConfigError."""
    found = known.named(rule)
    hosts = hosts_of_rules((found,), inventory_for(options.choosing, ""))[rule]
    if host not in hosts:
        words = f"none of the hosts of the rule {rule} ({found.hosts}) is called {host!r}"
        raise ConfigError(Problem(message=words, hint=suggest(host, hosts)))
    return host


def hold(options: WatchOptions, host: str, lasts: str, why: str) -> Hold:
    """Append that all rules must leave *host* alone for a time, and return the hold that lasts longest.

    The rules may have mistakes.  Raises ConfigError.
    """
    now = time.time()
    until = now + time_span(lasts)
    with opened(options, rules=False) as known:
        return known.hold(Held(at=now, host=known_host(host, options), until=until, by=me(), why=why))


def release(options: WatchOptions, host: str) -> Hold | None:
    """Append that the holds of *host* are over, and return that of all hosts, if it has one.  Raises ConfigError."""
    now = time.time()
    with opened(options, rules=False) as known:
        return known.release(Released(at=now, host=host, by=me()))


@dataclass(frozen=True, slots=True, kw_only=True)
class LogQuery:
    """The conditions of ``watch log``; an empty field is none."""

    rule: str = ""
    host: str = ""
    since: str = ""
    """A time before now, as on a command line."""


def log_lines(options: WatchOptions, query: LogQuery, shown: str) -> Iterator[str]:
    """Yield the events that match *query*, oldest first, as lines; *shown*: ``console`` or ``jsonl``.

    Raises ConfigError if there never was an event about its rule or its host.
    """
    from runbook.commands.watch.wording import event_line

    at = time.time() - time_span(query.since) if query.since else 0.0
    store = EventStore(watch_folder(options.state))
    try:
        for kind, name, there in zip(("rule", "host"), (query.rule, query.host), store.names(), strict=True):
            if name and name not in there:
                raise ConfigError(
                    Problem(message=f"nothing is kept about the {kind} {name!r}", hint=suggest(name, there))
                )
        for stored in store.since(0, rule=query.rule, host=query.host, at=at):
            line = to_line(stored.event) if shown == "jsonl" else event_line(stored.event)
            if line:
                yield line
    finally:
        store.close()
