"""A watcher without a loop, over a real store of events, and an application in front of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock

from starlette.applications import Starlette
from starlette.testclient import TestClient

from runbook.commands.serve.access import Access, Role, Token, token_digest
from runbook.commands.serve.app import access_by, application
from runbook.commands.serve.settings import ServeSettings
from runbook.commands.watch.known import Known
from runbook.commands.watch.watcher import Health, Heard
from runbook.records.private_folder import PrivateFolder
from runbook.values.plan import Presence, Risk
from runbook.values.watch_rule import Rule, RuleBreaker, Sources
from runbook.watch.alerts import Payload, hosts_named
from runbook.watch.events import Alerted, Answered, Probed, Proposed, Reading, Rejected, Tripped, WatchEvent

NOW = 1_800_000_000.0
OWN = "http://localhost"
DIGEST = "d" * 64
ROLES = {role: f"token-of-{role}-0123456789" for role in Role}
"""A token of each role; the person is called as the role."""


def gpu_rule(name: str = "gpu-held", **keys) -> Rule:
    return Rule(
        **{
            "name": name,
            "playbook": "zombie-gpu",
            "hosts": "gpu-*",
            "on": Sources(alert="GpuHeld"),
            "breaker": RuleBreaker(hosts=3, within=3600),
            **keys,
        }
    )


class FakeDesk:
    """A watcher that stores what it hears, and decides nothing."""

    def __init__(self, folder: Path, rules: tuple[Rule, ...], hosts: tuple[str, ...]) -> None:
        self.lock = RLock()
        private = PrivateFolder(folder)
        private.make()
        self.known = Known(rules, private)
        self.store = self.known.store
        self.hosts = {rule.name: hosts for rule in rules}
        self.state = Health(is_well=True, cycle_age=0.5)
        self.woken = 0
        self.stopped: list[tuple[str, str]] = []
        self.closing = False
        self.alerts: list[Alerted] = []

    def heard(self, payload: Payload) -> Heard:
        taken = unlistened = unknown = 0
        with self.lock:
            for alert in payload.alerts:
                named = [*hosts_named(alert, self.known.rules)]
                unlistened += not named
                for rule, host in named:
                    if host not in self.hosts[rule.name]:
                        unknown += 1
                        continue
                    taken += 1
                    event = Alerted(
                        at=NOW, rule=rule.name, host=host, episode=alert.episode, since=alert.since, firing=alert.firing
                    )
                    self.known.append(event)
        return Heard(taken=taken, unlistened=unlistened, unknown_hosts=unknown)

    def health(self) -> Health:
        return self.state

    def stop(self, digest: str, by: str) -> bool:
        self.stopped.append((digest, by))
        return digest == DIGEST

    def wake(self) -> None:
        self.woken += 1

    def is_closing(self) -> bool:
        return self.closing

    def tell(self, *events: WatchEvent) -> None:
        """Store *events*; a plan waits for a person as long as its alert fires, so that one is told first."""
        for event in events:
            if isinstance(event, Proposed) and not self.known.remembered.is_live(event.rule, event.host, event.episode):
                at, rule, host, episode = event.at, event.rule, event.host, event.episode
                self.alerts.append(Alerted(at=at, rule=rule, host=host, episode=episode, since=at, firing=True))
                self.known.append(self.alerts[-1])
            self.known.append(event)

    def events(self) -> list[WatchEvent]:
        """Return what is stored, without the alerts that are only there so that plans wait."""
        return [stored.event for stored in self.store.since(0) if stored.event not in self.alerts]


@dataclass
class Clock:
    now: float = NOW

    def __call__(self) -> float:
        return self.now


@dataclass
class Served:
    """An application, with what is behind it."""

    desk: FakeDesk
    access: Access
    app: Starlette
    settings: ServeSettings
    records: PrivateFolder
    clock: Clock = field(default_factory=Clock)

    def client(self, role: Role | None = None, base: str = OWN, **keys) -> TestClient:
        """Return a program with a token of *role*, or none."""
        headers = {"Authorization": f"Bearer {ROLES[role]}"} if role else {}
        return TestClient(self.app, base_url=base, headers=headers, follow_redirects=False, **keys)

    def browser(self, role: Role) -> TestClient:
        """Return a browser that has logged in."""
        made = self.client()
        assert made.post("/login", data={"token": ROLES[role]}, headers={"Origin": OWN}).status_code == 303
        return made


def served(folder: Path, rules: tuple[Rule, ...] = (), hosts: tuple[str, ...] = ("gpu-1", "gpu-2"), **keys) -> Served:
    """Return an application over a store in *folder*; *keys*: settings."""
    tokens = tuple(Token(name=str(role), role=role, digest=token_digest(text)) for role, text in ROLES.items())
    settings = ServeSettings(**{"tokens": tokens, **keys})
    desk, clock = FakeDesk(folder / "state", rules or (gpu_rule(),), hosts), Clock()
    access = access_by(settings, clock)
    records = PrivateFolder(folder / "runs")
    app = application(desk, access, settings, records, clock)
    return Served(desk=desk, access=access, app=app, settings=settings, records=records, clock=clock)


def refused(digest: str = DIGEST, **keys) -> Rejected:
    made = {"at": NOW, "rule": "gpu-held", "host": "gpu-1", "episode": "ab@2027-01-15T08:00:00+00:00", "digest": digest}
    return Rejected(**{**made, **keys})


def proposed(digest: str = DIGEST, **keys) -> Proposed:
    return Proposed(
        **{
            "at": NOW - 60,
            "rule": "gpu-held",
            "host": "gpu-1",
            "episode": "ab@2027-01-15T08:00:00+00:00",
            "digest": digest,
            "file": "/nowhere/plan.json",
            "until": NOW + 3600,
            "risk": Risk.KILLS_PROCESSES,
            "signature": "s1",
            "say": "kill 2 processes",
            **keys,
        }
    )


def answered(**keys) -> Answered:
    return Answered(
        **{
            "at": NOW - 50,
            "rule": "gpu-held",
            "host": "gpu-1",
            "episode": "ab@2027-01-15T08:00:00+00:00",
            "question": "cooldown",
            "decision": "wait",
            "why": "a run ended 5 min ago",
            "until": NOW + 600,
            **keys,
        }
    )


def seen(host: str = "gpu-1", say: str = "2 processes hold it", at: float = NOW - 70) -> Probed:
    return Probed(
        at=at,
        rule="gpu-held",
        readings=(Reading(host=host, presence=Presence.PRESENT, say=say, changes=1),),
        whole=False,
    )


def tripped() -> Tripped:
    return Tripped(at=NOW - 10, rule="gpu-held", why="3 hosts within 1 h")


def payload(*hosts: str, name: str = "GpuHeld", status: str = "firing", **labels: str) -> dict[str, object]:
    """Return a payload of Alertmanager with an alert for each of *hosts*."""
    return {
        "version": "4",
        "alerts": [
            {
                "status": status,
                "labels": {"alertname": name, "instance": host, **labels},
                "startsAt": "2027-01-15T08:00:00Z",
                "fingerprint": f"{number:04x}",
            }
            for number, host in enumerate(hosts)
        ],
    }
