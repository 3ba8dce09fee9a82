"""A cluster in a fresh database: the sites berlin and oslo, and the client alice."""

from __future__ import annotations

from dataclasses import dataclass, field

from runbook.cluster.database import Database
from runbook.cluster.runs import NewShard, Runs
from runbook.cluster.shard import Shard, ShardId
from tests.support.postgres import Postgres


@dataclass
class Cluster:
    """A cluster with the sites berlin and oslo, and the client alice."""

    server: Postgres
    name: str
    opened: list[Database] = field(default_factory=list)

    def place(self, role: str) -> str:
        return self.server.place(role, self.name)

    def database(self, role: str, connections: int = 8) -> Database:
        self.opened.append(Database(self.place(role), connections=connections))
        return self.opened[-1]

    @property
    def runs(self) -> Runs:
        return Runs(self.database("alice"))

    def site(self, name: str) -> Database:
        return self.database(f"runbook_site_{name}")

    def begun(
        self, *shards: tuple[str, tuple[str, ...]], phase: str = "apply", run: str = "r1", within: float = 60
    ) -> Runs:
        """Begin a run with a shard for each (site, hosts)."""
        runs = self.runs
        runs.begin(run, "toy", "alice@here")
        sites = dict.fromkeys(site for site, _ in shards)
        made = [NewShard(number=at, phase=phase, site=site, hosts=hosts) for at, (site, hosts) in enumerate(shards)]
        runs.order(run, phase, dict.fromkeys(sites, ("{}", "")), made, within)
        return runs

    def claimed(
        self, number: int = 0, epoch: int = 0, site: str = "berlin", worker: str = "w", run: str = "r1"
    ) -> Shard:
        shard = Shard(self.site(site), ShardId(run=run, shard=number, epoch=epoch), worker)
        assert shard.claim()
        return shard

    def settled(self) -> int:
        """How many shards are given on or closed now; the superuser need not wait for silence."""
        self.sql("UPDATE runbook.settling SET at = now()")
        return Runs(self.database("postgres")).settle(0)

    def sql(self, text: str, role: str = "postgres") -> list[tuple]:
        with self.database(role).begin() as connection:
            done = connection.exec_driver_sql(text)
            return [tuple(row) for row in done] if done.returns_rows else []
