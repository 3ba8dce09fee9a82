"""The numbers of the watcher for Prometheus: none of them names a host, a run or a person."""

from __future__ import annotations

from threading import Lock

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.responses import Response

from runbook.commands.serve.site import Call, Site
from runbook.commands.serve.wire import waiting
from runbook.commands.watch.watcher import Heard
from runbook.values.plan import Presence
from runbook.values.result import Verdict
from runbook.watch.alerts import Payload
from runbook.watch.events import (
    Alerted,
    Answered,
    Approved,
    Began,
    Ended,
    Faulted,
    Probed,
    Proposed,
    Rejected,
    Tripped,
    WatchEvent,
)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MOST_EPISODES = 20_000
"""The episodes whose beginning is remembered."""
OTHER = "other"
"""Stands for a rule that is gone, and for an outcome without a name, so that labels have few values."""
_BUCKETS = (5, 15, 30, 60, 120, 300, 600, 1800, 3600, 4 * 3600, 86400)
_OUTCOMES = frozenset(each.value for each in Verdict)

Episode = tuple[str, str, str]
"""A rule, a host, and the identity of an episode."""


class Metrics:
    """Numbers that are counted from the beginning of this server, and read from the watcher when they are asked for."""

    def __init__(self, site: Site) -> None:
        """Prepare the numbers; events of before count for nothing but the beginnings of episodes."""
        self._site, self._lock, self._registry = site, Lock(), CollectorRegistry()
        self._episodes = self._counter("episodes", "Episodes of faults that a rule has heard of.", "rule")
        self._decisions = self._counter("decisions", "Decisions that differ from the one before.", "rule", "decision")
        self._proposals = self._counter("proposals", "Plans that were made.", "rule")
        self._words = self._counter("verdicts_of_people", "Approvals and refusals of plans.", "word")
        self._runs = self._counter("runs", "Plans that were carried out, by their verdict.", "rule", "outcome")
        self._trips = self._counter("breaker_trips", "Times that a breaker has tripped.", "rule")
        self._faults = self._counter("faults", "Failures of the watcher's own work.")
        self._alerts = self._counter("alerts", "Alerts, by what became of them.", "result")
        self._refused = self._counter("payloads_refused", "Requests to the webhook that were no payload.")
        self._waiting = self._gauge("proposals_waiting", "Plans that wait for a person.", "rule")
        self._tripped = self._gauge("breaker_tripped", "1 while the breaker has tripped.", "rule")
        self._age = self._gauge("cycle_age_seconds", "Seconds since the last cycle ended.")
        self._healthy = self._gauge("healthy", "1 while the watcher is at work.")
        self._detect = self._histogram("detect_seconds", "From the beginning of an alert to our own first sight of it.")
        self._repair = self._histogram("repair_seconds", "From the beginning of an episode to the run that cured it.")
        self._begun: dict[Episode, float] = {}
        self._undetected: dict[tuple[str, str], dict[str, float]] = {}
        self._digests: dict[str, Episode] = {}
        self._last = 0
        for result in ("taken", "unlistened", "unknown_host", "truncated", "malformed"):
            self._alerts.labels(result)
        self._fold(is_counted=False)

    def heard(self, payload: Payload, heard: Heard) -> None:
        """Count the alerts of *payload*."""
        self._alerts.labels("taken").inc(heard.taken)
        self._alerts.labels("unlistened").inc(heard.unlistened)
        self._alerts.labels("unknown_host").inc(heard.unknown_hosts)
        self._alerts.labels("truncated").inc(payload.truncated)
        self._alerts.labels("malformed").inc(payload.malformed)

    @property
    def truncated(self) -> int:
        """Return the number of alerts that Alertmanager has left out of its payloads."""
        return int(self._registry.get_sample_value("runbook_watch_alerts_total", {"result": "truncated"}) or 0)

    def refused_payload(self) -> None:
        """Count a request that was no payload."""
        self._refused.inc()

    def text(self) -> bytes:
        """Return all numbers as they are now.  Raises StoreError."""
        desk = self._site.desk
        with self._lock:
            self._fold(is_counted=True)
            with desk.lock:
                plans = waiting(desk, self._site.clock())
                tripped = {name: bool(desk.known.remembered.rule(name).tripped) for name in desk.known.rules}
            for name, has_tripped in tripped.items():
                self._waiting.labels(name).set(sum(plan.rule == name for plan in plans))
                self._tripped.labels(name).set(has_tripped)
            health = desk.health()
            self._age.set(health.cycle_age)
            self._healthy.set(health.is_well)
            return generate_latest(self._registry)

    def _fold(self, *, is_counted: bool) -> None:
        desk = self._site.desk
        with desk.lock:
            desk.known.catch_up()
            new = [*desk.known.store.since(self._last)]
            rules = frozenset(desk.known.rules)
        for stored in new:
            self._last = stored.number
            rule = str(getattr(stored.event, "rule", ""))
            self._take(stored.event, rule if rule in rules else OTHER, is_counted=is_counted)

    def _take(self, event: WatchEvent, rule: str, *, is_counted: bool) -> None:
        if is_counted:
            self._count(event, rule)
        match event:
            case Alerted(firing=True):
                self._begin((event.rule, event.host, event.episode), event.since)
                self._undetected.setdefault((event.rule, event.host), {}).setdefault(event.episode, event.since)
            case Alerted():
                self._undetected.pop((event.rule, event.host), None)
            case Answered(episode=episode) if "@" in episode:
                self._begin((event.rule, event.host, episode), _since(episode))
            case Probed():
                self._see(event, rule, is_counted=is_counted)
            case Began():
                self._digests[event.digest] = (event.rule, event.host, event.episode)
            case Ended():
                begun = self._begun.get(self._digests.pop(event.digest, ("", "", "")), 0.0)
                if is_counted and event.cured and begun:
                    self._repair.labels(rule).observe(max(0.0, event.at - begun))

    def _count(self, event: WatchEvent, rule: str) -> None:
        match event:
            case Alerted(firing=True) if (event.rule, event.host, event.episode) not in self._begun:
                self._episodes.labels(rule).inc()
            case Answered():
                if (event.rule, event.host, event.episode) not in self._begun and "@" in event.episode:
                    self._episodes.labels(rule).inc()
                self._decisions.labels(rule, event.decision).inc()
            case Proposed():
                self._proposals.labels(rule).inc()
            case Approved() | Rejected():
                self._words.labels(event.kind).inc()
            case Ended():
                self._runs.labels(rule, event.verdict if event.verdict in _OUTCOMES else OTHER).inc()
            case Tripped():
                self._trips.labels(rule).inc()
            case Faulted():
                self._faults.inc()

    def _begin(self, episode: Episode, since: float) -> None:
        if episode not in self._begun:
            while len(self._begun) >= MOST_EPISODES:
                del self._begun[next(iter(self._begun))]
            self._begun[episode] = since

    def _see(self, event: Probed, rule: str, *, is_counted: bool) -> None:
        for reading in event.readings:
            if reading.presence is Presence.PRESENT:
                for since in self._undetected.pop((event.rule, reading.host), {}).values():
                    if is_counted:
                        self._detect.labels(rule).observe(max(0.0, event.at - since))

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(f"runbook_watch_{name}", about, labels, registry=self._registry)

    def _gauge(self, name: str, about: str, *labels: str) -> Gauge:
        return Gauge(f"runbook_watch_{name}", about, labels, registry=self._registry)

    def _histogram(self, name: str, about: str) -> Histogram:
        return Histogram(f"runbook_watch_{name}", about, ("rule",), buckets=_BUCKETS, registry=self._registry)

    def handler(self, site: Site, call: Call) -> Response:
        """Answer with all numbers."""
        return Response(self.text(), media_type=CONTENT_TYPE)


def _since(episode: str) -> float:
    """Return the time in *episode*, one of the clock or of a person (``seen@1800000000.000``); 0: it has none."""
    kind, _, at = episode.partition("@")
    try:
        return float(at) if kind in ("seen", "asked") else 0.0
    except ValueError:
        return 0.0
