"""Work on the hosts of a run through workers: order it from their sites, and follow what they tell."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field, fields, replace
from datetime import UTC, datetime, timedelta

from runbook.cluster.database import NoDatabase, Refused
from runbook.cluster.runs import AGAIN, NewShard, Read, Runs, ShardState, SiteState
from runbook.codec import from_json
from runbook.commands.cluster.doubt import doubtful
from runbook.commands.cluster.site_order import (
    ReadTexts,
    SiteOrder,
    inventory_of,
    refuse_secrets,
    signed_text,
    texts_of,
)
from runbook.commands.history.remembering import pool_of
from runbook.commands.options import FleetOptions
from runbook.commands.order import Order
from runbook.commands.plans.document import RECORDED
from runbook.dataclass import dataclass
from runbook.errors import ConfigError, Problem
from runbook.execution.executor import Consent
from runbook.execution.executor.permitted import shown_host
from runbook.execution.fleet import Bounds, Fleet, Planned
from runbook.execution.fleet.bounds import value_of
from runbook.execution.fleet.host_work import has_steps
from runbook.execution.fleet.rollout import Rollout
from runbook.text.name_ranges import fold
from runbook.text.timestamps import utc
from runbook.values.event import Event, HostPlanned, Waiting
from runbook.values.inventory import Host
from runbook.values.owed import NotedIn, Owed
from runbook.values.result import HostPlan, HostResult, Verdict
from runbook.values.run_origin import RunOrigin
from runbook.values.types import Json, seconds

POLL = 0.2
"""The seconds after which the news is read again."""
LOOK = 2.0
"""The seconds after which the shards themselves are read again."""
MOST_HOSTS = 100
"""The maximum number of hosts of a shard."""
LEAST_HOSTS = 5
ASK_AGAIN = 120.0
"""The seconds in which the database must be back, so that it can say whether a run was ordered."""
GOOD_FOR = timedelta(hours=1)
"""The time for which an order is good, beyond the time in which it has to be begun, or that of the run."""
WORDS = {"yes": Consent.YES, "shown": Consent.SHOWN, "none": Consent.NONE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """The workers of a cluster, for one run."""

    runs: Runs
    key: str
    """The SSH key that signs what is ordered."""
    start_within: float
    """The seconds in which a worker must have begun a shard."""
    options: Mapping[str, Json]
    """The options of the command line that matter at a site."""
    ordered: bool = False
    """Whether it was ordered before, and is only followed."""


def options_at_sites(options: FleetOptions) -> Mapping[str, Json]:
    """Return what a site needs of *options*, by the names that ``made_from`` takes."""
    limits, connecting = options.limits, options.connecting
    return {
        **{name: getattr(limits, name) for name in RECORDED if hasattr(limits, name)},
        **{name: getattr(connecting, name) for name in CONNECTING},
        "force": options.force,
        "plan_only": options.plan_only,
        "scratch": getattr(options, "scratch", False),  # `run` has it
        "timeout": limits.timeout,
        "wait_lock": limits.wait_lock,
        "include_not_ready": True,
    }


CONNECTING = ("parallel", "strict_host_keys", "connect_timeout", "shell_timeout")
"""The options for connecting that hold at a site, too."""


def _options_of(origin: RunOrigin) -> Mapping[str, Json]:
    """Return the options about the steps of a run, which a run that continues another one has from that."""
    only = {"only": "diagnose"} if origin.diagnose_only else {}
    return {"tags": list(origin.tags), "skip_tags": list(origin.skip_tags), **only}


def sites_of(hosts: Sequence[Host], known: Sequence[SiteState]) -> Mapping[str, str]:
    """Return the site of each of *hosts*, by name.  Raises ConfigError for hosts without one, and for unknown sites."""
    found = {host.name: value_of(host, "site") for host in hosts}
    names = [site.name for site in known]
    problems = []
    if without := [name for name, site in found.items() if not isinstance(site, str) or not site]:
        hint = "write `site: NAME` at the host, or below `defaults:`"
        problems.append(Problem(message=f"{fold(without)}: no site, so that no worker can reach it", hint=hint))
    for site in dict.fromkeys(str(site) for site in found.values() if site):
        if site not in names:
            theirs = fold([name for name, its in found.items() if its == site])
            hint = f"the cluster has {', '.join(names)}" if names else "`runbook cluster init --site NAME` makes one"
            problems.append(Problem(message=f"{theirs}: the cluster has no site {site!r}", hint=hint))
    if problems:
        raise ConfigError(*problems)
    return {name: str(site) for name, site in found.items()}


def refuse_unfit(order: Order) -> None:
    """Raise ConfigError if a run of *order* needs what workers do not have."""
    refuse_secrets(order)
    book, problems = order.playbook, []
    if book.comparisons:
        problems.append(Problem(message=f"{book.name} compares hosts with each other, which workers cannot"))
    if problems:
        raise ConfigError(*(replace(problem, hint="run it without --via cluster") for problem in problems))


@dataclass(slots=True)
class _Followed:
    """One phase of a run, as far as it has been heard."""

    phase: str
    hosts: dict[str, Host]
    plans: dict[str, HostPlan] = field(default_factory=dict)
    results: dict[str, HostResult] = field(default_factory=dict)
    looked: float = 0.0
    asked_level: int = 0
    """The level of the request to end that the workers know of."""
    silent: set[tuple[int, int]] = field(default_factory=set)
    """The shards, with their epochs, whose workers have fallen silent."""

    @property
    def whole(self) -> bool:
        """Whether every host has its result."""
        return len(self.results) == len(self.hosts)


@dataclass(slots=True)
class _SoFar:
    """A run over its phases."""

    read: Read = field(default_factory=dict)
    """The place up to which the news was read."""
    shards: int = 0
    """The number of shards that were ordered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFleet(Fleet):
    """The hosts of a run, worked on by workers at their sites."""

    order: Order
    workers: Workers
    run_id: str
    started: datetime
    hosts_of: dict[int, frozenset[str]] = field(default_factory=dict)
    """The hosts of each shard, by its number."""
    so_far: _SoFar = field(default_factory=lambda: _SoFar())

    @classmethod
    def of(cls, fleet: Fleet, order: Order, workers: Workers, run_id: str, started: datetime) -> RemoteFleet:
        """Return *fleet* with its work done elsewhere."""
        same = {each.name: getattr(fleet, each.name) for each in fields(fleet)}
        return cls(**same, order=order, workers=workers, run_id=run_id, started=started)

    def plan(self, hosts: Sequence[Host]) -> tuple[Planned, ...]:
        """Have every host probed, and return its plan."""
        heard = self._phase("probe", hosts, Consent.NONE)
        planned = []
        for host in hosts:
            plan, result = heard.plans.get(host.name), heard.results[host.name]
            if plan is None or result.verdict in (Verdict.CANCELLED, Verdict.NOT_STARTED, Verdict.UNREACHABLE):
                planned.append(Planned(host=host, result=self._finish(result)))
            else:
                planned.append(Planned(host=host, plan=plan, result=result))
        return tuple(planned)

    def plan_and_carry_out(self, hosts: Sequence[Host], consent: Consent) -> tuple[HostResult, ...]:
        """Have every host planned and changed."""
        heard = self._phase("apply", hosts, consent)
        return tuple(heard.results[host.name] for host in hosts)

    def carry_out(self, planned: Sequence[Planned], consent: Consent) -> tuple[HostResult, ...]:
        """Have done what the plans show, or less."""
        # a host that has drifted from a saved plan has steps, and nothing is done on it
        work = [each for each in planned if has_steps(each.plan) and each.result.verdict is not Verdict.DRIFTED]
        heard = self._phase("apply", [each.host for each in work], consent, work)
        return tuple(
            heard.results[each.host.name]
            if each.host.name in heard.results
            else self._finish(each.result)
            if each.plan
            else each.result
            for each in planned
        )

    def _phase(self, phase: str, hosts: Sequence[Host], consent: Consent, shown: Sequence[Planned] = ()) -> _Followed:
        heard = _Followed(phase, {host.name: host for host in hosts})
        if not hosts:
            return heard
        if not self.workers.ordered:
            self.order_only(phase, hosts, consent, shown)
        return self._follow(heard)

    def order_only(self, phase: str, hosts: Sequence[Host], consent: Consent, shown: Sequence[Planned] = ()) -> None:
        """Order *phase* for *hosts* from the workers of their sites.  Raises ConfigError."""
        runs, known = self.workers.runs, self.workers.runs.sites()
        sites = sites_of(hosts, known)
        origin = self.order.origin
        assert origin
        path = origin.playbook
        texts = texts_of(path, origin.playbook_digest) if path else ReadTexts()
        until = datetime.now(UTC) + timedelta(seconds=self.workers.start_within) + GOOD_FOR
        bounds = Bounds.of(self.playbook.limits, hosts) if self.playbook.remediate and phase == "apply" else None
        orders, breaker = {}, self._breaker()
        for site in dict.fromkeys(sites.values()):
            own = tuple(host for host in hosts if sites[host.name] == site)
            names = {host.name for host in own}
            orders[site] = signed_text(
                SiteOrder(
                    run=self.run_id,
                    site=site,
                    phase=phase,
                    consent=next(word for word, it in WORDS.items() if it is consent),
                    not_after=utc(until),
                    by=str(self.run.facts["by"]),
                    started_at=str(self.run.facts["started_at"]),
                    reason=self.order.reason,
                    deadline=utc(self.started + timedelta(seconds=self.order.deadline)) if self.order.deadline else "",
                    playbook=path,
                    digest=origin.playbook_digest,
                    texts=texts.texts,
                    opened=texts.opened,
                    inputs=self.order.inputs,
                    profile_inputs={name: it for name, it in self.order.profile_inputs.items() if name in names},
                    inventory=inventory_of(self.order, own),
                    hosts=tuple(host.name for host in own),
                    options={**self.workers.options, **_options_of(origin)},
                    earlier={name: it for name, it in self.order.earlier.items() if name in names},
                    chain=self.order.chain,
                    repeats=tuple(sorted(self.order.repeats)),
                    planned_in=self.order.planned_in,
                    undoes=origin.undoes,
                    undo={name: self.playbook_of(name).remediate for name in names} if origin.undoes else {},
                    breaker=breaker[0] if breaker else 0,
                    bounds=bounds if bounds and bounds.any else None,
                    shown={
                        each.host.name: shown_host(each.plan) for each in shown if each.plan and each.host.name in names
                    },
                    seen={
                        each.host.name: each.plan.findings for each in shown if each.plan and each.host.name in names
                    },
                ),
                self.order,
                self.workers.key,
            )
        turns = None
        if bounds and bounds.any:
            turns = Rollout([host.name for host in hosts], bounds, self.clock, self._batch_ended).kept()
        most = len(hosts) if turns else MOST_HOSTS  # a shard that waits for its turn keeps others from beginning
        shards = shards_of(hosts, sites, known, phase, most=most, first=self.so_far.shards)
        self.so_far.shards += len(shards)
        if not runs.known(self.run_id):
            every = [host.name for host in self.order.selection.hosts]
            runs.begin(
                self.run_id,
                self.order.playbook.name,
                str(self.run.facts["by"]),
                every,
                attempt=self.order.chain[0] if self.order.chain else "",
                breaker=self._breaker(),
            )
        try:
            runs.order(self.run_id, phase, orders, shards, self.workers.start_within, turns)
        except NoDatabase as error:  # perhaps after the commit
            if not self._is_ordered(phase):
                raise error

    def _breaker(self) -> tuple[int, float] | None:
        """Return the limit ``breaker`` as the number of hosts and the seconds; None: there is none."""
        limit = self.playbook.limits.breaker if self.playbook.remediate else None
        return (limit.hosts.at_most(pool_of(self.order)), limit.within) if limit else None

    def _is_ordered(self, phase: str) -> bool:
        """Whether *phase* was ordered, although the answer to that was lost.  Raises NoDatabase if nobody can say."""
        deadline = time.monotonic() + ASK_AGAIN
        while True:
            try:
                return any(each.phase == phase for each in self.workers.runs.shards(self.run_id))
            except NoDatabase as error:
                if time.monotonic() > deadline:
                    words = (
                        f"whether run {self.run_id} was ordered is not known; `runbook attach {self.run_id}` says it"
                    )
                    raise NoDatabase(f"{words}: {error}") from None
                time.sleep(LOOK)

    def _follow(self, heard: _Followed) -> _Followed:
        """Report what workers tell until every host has its result."""
        while True:
            try:
                whole = self._hear(heard)
                self._look_after(heard, whole)
            except Refused as error:
                if self._given_up(heard, error):
                    return heard
            if heard.whole:
                return self._ended_phase(heard)
            self._heed_own_deadline()
            time.sleep(POLL)

    def _ended_phase(self, heard: _Followed) -> _Followed:
        if heard.phase == "apply":
            with suppress(Refused):  # then it ends with its shards
                self.workers.runs.end(self.run_id)
        return heard

    def _hear(self, heard: _Followed) -> bool:
        """Report the news; whether there is no more for now."""
        news = self.workers.runs.news(self.run_id, heard.phase, self.so_far.read)
        for row in news.rows:
            if row.result is not None:
                self._take(heard, from_json(HostResult, row.result))
                continue
            event = self._event(row.shard, row.event)
            if event is None:
                continue
            if isinstance(event, HostPlanned):
                heard.plans[event.plan.host] = event.plan
            self.run.emit(event)
        self.so_far.read = news.read
        return news.whole

    def _event(self, number: int, content: Json) -> Event | None:
        """Return an event of shard *number*; None if it is none, or is about a host of another shard."""
        try:
            event: Event = from_json(Event, content)  # type: ignore[arg-type]  # a union is a type to cattrs
        except ValueError:
            return None
        host = event.plan.host if isinstance(event, HostPlanned) else getattr(event, "host", "")
        if host and number not in self.hosts_of:
            self.hosts_of.update({each.number: frozenset(each.hosts) for each in self.workers.runs.shards(self.run_id)})
        return event if not host or host in self.hosts_of.get(number, ()) else None

    def _take(self, heard: _Followed, result: HostResult) -> None:
        if result.host in heard.results or result.host not in heard.hosts:
            return
        if not result.steps:  # a site that refuses the order does not know its steps
            why = result.error or "refused at its site"
            if result.verdict is Verdict.UNKNOWN:
                permitted = self.workers.runs.permitted(self.run_id, [result.host]).get(result.host, ())
                result = doubtful(self.playbook_of(result.host), result.host, permitted, why)
            else:
                result = self._not_started(heard.hosts[result.host], why)
        result = replace(result, owed=tuple(map(_elsewhere, result.owed)))
        heard.results[result.host] = result
        if heard.phase == "apply":
            self._finish(result)

    def _look_after(self, heard: _Followed, whole: bool) -> None:
        """Pass a request to end on, and give every host a result that no worker will tell of any more."""
        runs, now, level = self.workers.runs, time.monotonic(), self.stop.level()
        if level > heard.asked_level:
            runs.stop(self.run_id, level, self.stop.why)
            heard.asked_level, heard.looked = level, 0.0
        if now - heard.looked < LOOK or not whole:
            return
        heard.looked = now
        asked, why = runs.stopped(self.run_id)
        if asked > level:  # by somebody else who follows it
            self.stop.ask(why, level=asked)
            heard.asked_level = level = asked
        runs.settle()
        if heard.asked_level:
            runs.stop(self.run_id, level, self.stop.why)  # what was given on meanwhile is closed, too
        shards = [each for each in runs.shards(self.run_id) if each.phase == heard.phase]
        self._say_silent(heard, shards)
        closed = [each for each in shards if each.state == "done"]
        if not any(host not in heard.results for each in closed for host in each.hosts):
            return
        while not self._hear(heard):  # a shard that has ended has handed in everything before
            pass
        left = {
            host: each for each in closed for host in each.hosts if host not in heard.results and host in heard.hosts
        }
        permitted = runs.permitted(self.run_id, left) if left else {}
        for host, each in left.items():
            self._take(heard, self._without_word(heard, host, each, permitted.get(host, ())))

    def _say_silent(self, heard: _Followed, shards: Sequence[ShardState]) -> None:
        """Report each shard whose worker has fallen silent, once."""
        for each in shards:
            left = [host for host in each.hosts if host not in heard.results]
            if each.epoch and each.state == "waiting" and left and (each.number, each.epoch) not in heard.silent:
                heard.silent.add((each.number, each.epoch))
                why = f"{each.worker} at {each.site} is silent; another worker there has {seconds(AGAIN)} to go on"
                self.run.emit(Waiting(host=left[0], why=why))

    def _without_word(self, heard: _Followed, host: str, each: ShardState, permitted: Sequence[str]) -> HostResult:
        """Return the result of a host of which no worker will tell any more."""
        if heard.asked_level and not permitted:
            return self._not_started(heard.hosts[host], self.stop.why or "the run was asked to end")
        if permitted:
            why = f"{each.worker or 'its worker'} at {each.site} fell silent after it was permitted to change this host"
            return doubtful(self.playbook_of(host), host, permitted, why)
        if each.worker:
            why = f"the workers at {each.site} fell silent over it, the last of them {each.worker}"
        else:
            why = f"no worker at {each.site} began it within {seconds(self.workers.start_within)} (--start-within)"
        self.stop.spent = self.stop.spent or why
        return self._not_started(heard.hosts[host], why)

    def _given_up(self, heard: _Followed, error: Refused) -> bool:
        """Whether to leave without results, because a person asked twice while no worker can be reached."""
        if self.stop.level() < 2:
            return False
        why = f"no worker could be asked to end, and what they have done is not known: {error}"
        for host in heard.hosts:
            if host not in heard.results:
                steps = doubtful(self.playbook_of(host), host, (), why)
                self._take(heard, steps)
        return True

    def _heed_own_deadline(self) -> None:
        if self.deadline and self.clock.now() >= self.deadline and not self.stop.level():
            self.stop.ask("the deadline of the run has passed", level=1, over=True)


def _elsewhere(owed: Owed) -> Owed:
    """Return *owed* as it concerns this machine: its record is at the site."""
    noted = tuple(each for each in owed.noted if each is not NotedIn.CONTROLLER)
    return replace(owed, by=f"{owed.by} through a worker of the site", noted=noted)


def shards_of(
    hosts: Sequence[Host], sites: Mapping[str, str], known: Sequence[SiteState], phase: str, *, most: int, first: int
) -> list[NewShard]:
    """Divide *hosts* into shards of one site each, in their order; small ones where many workers wait.

    *most*: the maximum number of hosts of a shard; all hosts of a site are together if it is more than usual.
    """
    made: list[NewShard] = []
    for site in dict.fromkeys(sites[host.name] for host in hosts):
        own = [host.name for host in hosts if sites[host.name] == site]
        workers = sum(worker.lives for state in known if state.name == site for worker in state.workers)
        size = max(LEAST_HOSTS, math.ceil(len(own) / (2 * max(1, workers))))
        size = min(most, size) if most == MOST_HOSTS else most
        made += [
            NewShard(number=0, phase=phase, site=site, hosts=tuple(own[begin : begin + size]))
            for begin in range(0, len(own), size)
        ]
    place = {host.name: number for number, host in enumerate(hosts)}
    made.sort(key=lambda each: place[each.hosts[0]])
    return [replace(each, number=first + number) for number, each in enumerate(made)]
