"""Runs, as clients begin and follow them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import func, insert, literal_column, select, text

from runbook.cluster.database import Database
from runbook.cluster.tables import document, permit, refusal, rollout, run, shard, site, stop, worker
from runbook.dataclass import dataclass
from runbook.values.types import Json

MOST_ROWS = 500
"""The maximum number of rows that are read at once."""
LIVES = 10.0
"""The seconds since the last sign of life of a worker that is there."""
SILENCE = 15.0
"""The seconds of silence after which a worker's shards are given to others."""
AGAIN = 60.0
"""The seconds in which another worker must have begun such a shard."""
MOST_EPOCHS = 3
"""The number of workers that may fall silent over a shard; then it is given to no other."""

Read = Mapping[tuple[int, int], int]
"""The number of the last row that was read, by shard and epoch: each worker numbers what it hands in, in its order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewShard:
    """A shard that is to be worked on."""

    number: int
    phase: str
    site: str
    hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteState:
    """A site, and its workers."""

    name: str
    workers: tuple[WorkerState, ...]
    waiting: int
    """The number of shards that no worker has begun."""
    working: int
    refusals: tuple[str, ...]
    """The reasons why workers refused shards in the last day, the newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerState:
    """A worker, as it last said."""

    name: str
    version: str
    seconds: float
    """The seconds since its last sign of life."""
    shards: int

    @property
    def lives(self) -> bool:
        """Whether it is there."""
        return self.seconds < LIVES


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """The events and results of a run that are new since the last time, in the order of their workers."""

    rows: tuple[Row, ...]
    read: Read
    whole: bool
    """Whether there was no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """An event, or the result of a host."""

    shard: int
    event: Json = None
    result: Json = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardState:
    """A shard, as it stands."""

    number: int
    phase: str
    site: str
    hosts: tuple[str, ...]
    state: str
    epoch: int
    worker: str


class Runs:
    """The runs of the cluster, for clients.  Every method raises NoDatabase."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def begin(
        self,
        name: str,
        playbook: str,
        by: str,
        hosts: Sequence[str] = (),
        attempt: str = "",
        breaker: tuple[int, float] | None = None,
    ) -> None:
        """Begin the run *name* on *hosts*.

        *attempt*: the first of the runs that it continues.  *breaker*: the number of hosts that its playbook may change
        within so many seconds.
        """
        values = {"id": name, "playbook": playbook, "by": by, "hosts": list(hosts), "attempt": attempt}
        most, within = breaker or (None, None)
        with self._database.begin() as connection:
            connection.execute(insert(run).values(**values, breaker_hosts=most, breaker_within=within))

    def hosts(self, name: str) -> tuple[str, ...]:
        """Return the hosts of the run *name*, in their order."""
        with self._database.begin() as connection:
            return tuple(connection.execute(select(run.c.hosts).where(run.c.id == name)).scalar() or ())

    def stopped(self, name: str) -> tuple[int, str]:
        """Return how urgently the run *name* was asked to end, and why; 0: it was not."""
        with self._database.begin(alone=True) as connection:
            row = connection.execute(select(stop.c.level, stop.c.why).where(stop.c.run == name)).first()
        return (row.level, row.why) if row else (0, "")

    def order(
        self,
        name: str,
        phase: str,
        orders: Mapping[str, tuple[str, str]],
        shards: Sequence[NewShard],
        start_within: float,
        turns: Json = None,
    ) -> None:
        """Order one phase of a run: the signed text for each site, and the shards; *turns*: its rollout at first."""
        limit = text("clock_timestamp() + make_interval(secs => :within)").bindparams(within=start_within)
        with self._database.begin() as connection:
            connection.execute(
                insert(document),
                [{"run": name, "phase": phase, "site": where, "content": content, "signature": signature}
                 for where, (content, signature) in orders.items()],
            )  # fmt: skip
            if turns is not None:
                connection.execute(insert(rollout).values(run=name, state=turns))
            for each in shards:
                connection.execute(
                    insert(shard).values(
                        run=name,
                        number=each.number,
                        phase=phase,
                        site=each.site,
                        hosts=list(each.hosts),
                        start_before=limit,
                    )
                )
            connection.execute(
                text(
                    "SELECT procrastinate_defer_jobs_v1(array_agg(task_of(s))) FROM shard s"
                    " WHERE run = :run AND phase = :phase"
                ),
                {"run": name, "phase": phase},
            )

    def news(self, name: str, phase: str, read: Read) -> News:
        """Return the news of one phase of the run *name* since *read*."""
        places = list(read.items())
        given = {
            "run": name,
            "phase": phase,
            "most": MOST_ROWS,
            "shards": [shard for (shard, _), _ in places],
            "epochs": [epoch for (_, epoch), _ in places],
            "numbers": [number for _, number in places],
        }
        with self._database.begin(alone=True) as connection:
            rows = connection.execute(_NEWS, given).all()
        last = {(row.shard, row.epoch): row.number for row in rows}
        return News(
            rows=tuple(Row(shard=row.shard, event=row.event, result=row.result) for row in rows),
            read={**read, **last},
            whole=len(rows) < MOST_ROWS,
        )

    def shards(self, name: str) -> tuple[ShardState, ...]:
        """Return the shards of the run *name*."""
        columns = (
            shard.c.number,
            shard.c.phase,
            shard.c.site,
            shard.c.hosts,
            shard.c.state,
            shard.c.epoch,
            shard.c.worker,
        )
        with self._database.begin() as connection:
            rows = connection.execute(select(*columns).where(shard.c.run == name).order_by(shard.c.number)).all()
        return tuple(
            ShardState(
                number=row.number,
                phase=row.phase,
                site=row.site,
                hosts=tuple(row.hosts),
                state=row.state,
                epoch=row.epoch,
                worker=row.worker,
            )
            for row in rows
        )

    def permitted(self, name: str, hosts: Iterable[str]) -> Mapping[str, tuple[str, ...]]:
        """Return the steps of which a write was permitted in the run *name*, by host of *hosts*."""
        wanted = list(hosts)
        query = (
            select(permit.c.host, func.array_agg(permit.c.step.distinct()))
            .where(permit.c.run == name, permit.c.host.in_(wanted))
            .group_by(permit.c.host)
        )
        with self._database.begin() as connection:
            return {host: tuple(steps) for host, steps in connection.execute(query)}

    def stop(self, name: str, level: int, why: str) -> None:
        """Ask for the end of the run: from this commit on, no write is permitted.  What nobody has begun is closed."""
        with self._database.begin(alone=True) as connection:
            connection.execute(text("SELECT ask_stop(:run, :level, :why)"), {"run": name, "level": level, "why": why})
            connection.execute(text("SELECT complete_stop(:run)"), {"run": name})

    def end(self, name: str) -> None:
        """Note that the run *name* has ended: nobody begins anything of it any more."""
        with self._database.begin(alone=True) as connection:
            connection.execute(text("SELECT end_run(:run)"), {"run": name})

    def settle(self, silence: float = SILENCE) -> int:
        """Give the shards of workers that were silent for *silence* seconds to others, and close those that nobody has
        begun in time.
        """
        with self._database.begin() as connection:
            words = {"silence": silence, "again": AGAIN, "most": MOST_EPOCHS}
            return int(connection.execute(text("SELECT settle(:silence, :again, :most)"), words).scalar() or 0)

    def sites(self) -> tuple[SiteState, ...]:
        """Return the sites, and their workers."""
        ago = func.extract("epoch", func.clock_timestamp() - worker.c.heartbeat)
        with self._database.begin() as connection:
            names = connection.execute(select(site.c.name).order_by(site.c.name)).scalars().all()
            workers = connection.execute(
                select(worker.c.site, worker.c.name, worker.c.version, worker.c.shards, ago.label("ago")).order_by(
                    worker.c.name
                )
            ).all()
            counts = connection.execute(
                select(shard.c.site, shard.c.state, func.count().label("count"))
                .where(shard.c.state != "done")
                .group_by(shard.c.site, shard.c.state)
            ).all()
            refused = connection.execute(
                select(refusal.c.site, refusal.c.run, refusal.c.worker, refusal.c.why)
                .where(refusal.c.at > func.now() - literal_column("interval '1 day'"))
                .order_by(refusal.c.id.desc())
                .limit(50)
            ).all()
        backlog: dict[tuple[str, str], int] = {(row[0], row[1]): row[2] for row in counts}
        return tuple(
            SiteState(
                name=name,
                workers=tuple(
                    WorkerState(name=row.name, version=row.version, seconds=round(float(row.ago), 1), shards=row.shards)
                    for row in workers
                    if row.site == name
                ),
                waiting=backlog.get((name, "waiting"), 0),
                working=backlog.get((name, "working"), 0),
                refusals=tuple(f"{row.worker}: run {row.run}: {row.why}" for row in refused if row.site == name),
            )
            for name in names
        )

    def known(self, name: str) -> bool:
        """Whether there is a run *name*."""
        with self._database.begin() as connection:
            return connection.execute(select(run.c.id).where(run.c.id == name)).first() is not None

    def orders(self, name: str) -> tuple[tuple[str, str], ...]:
        """Return the phase and the signed text of each order of the run *name*."""
        with self._database.begin() as connection:
            query = select(document.c.phase, document.c.content).where(document.c.run == name)
            return tuple((row.phase, row.content) for row in connection.execute(query))


_NEWS = text(
    """
    SELECT shard.number AS shard, epoch.number AS epoch, new.number AS number, new.event AS event, new.result AS result
    FROM shard CROSS JOIN LATERAL generate_series(0, shard.epoch) AS epoch (number)
    LEFT JOIN unnest(CAST(:shards AS int[]), CAST(:epochs AS int[]), CAST(:numbers AS int[]))
        AS seen (shard, epoch, number)
        ON seen.shard = shard.number AND seen.epoch = epoch.number
    CROSS JOIN LATERAL (
        SELECT event.number, event.content AS event, CAST(NULL AS jsonb) AS result FROM event
            WHERE event.run = shard.run AND event.shard = shard.number AND event.epoch = epoch.number
                AND event.number > coalesce(seen.number, 0)
        UNION ALL
        SELECT result.number, NULL, result.content FROM result
            WHERE result.run = shard.run AND result.shard = shard.number AND result.epoch = epoch.number
                AND result.number > coalesce(seen.number, 0)
        ORDER BY 1 LIMIT :most
    ) AS new
    WHERE shard.run = :run AND shard.phase = :phase ORDER BY shard.number, epoch.number, new.number LIMIT :most
    """
)
