"""One shard of a run, as its worker has it: claimed, permitted, shipped and ended by functions of the database.

Each call names the shard's epoch.  From the first one that is refused, the shard is another worker's.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TypeVar

from sqlalchemy import text

from runbook.cluster.clock import FixedClock
from runbook.cluster.database import Database, NoDatabase, Refused
from runbook.dataclass import dataclass
from runbook.execution.fleet.bounds import Bounds
from runbook.execution.fleet.rollout import BatchEnded, Rollout
from runbook.protocols import NotPermitted, seconds_since_boot
from runbook.text.printable import printable
from runbook.values.result import Verdict

T = TypeVar("T")

PERMIT_LASTS = 10.0
"""The seconds within which a permitted write must be sent: after a longer standstill others may have gone on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardId:
    """A shard of a run, under one epoch: a worker that has been silent finds a higher one in its place."""

    run: str
    shard: int
    epoch: int

    def __str__(self) -> str:
        return f"{self.run}.{self.shard}.{self.epoch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A shard that a worker has claimed."""

    phase: str
    site: str
    hosts: tuple[str, ...]
    content: str
    """The order for the site, as it was signed."""
    signature: str
    ends: Mapping[str, Verdict]
    """The verdicts of the hosts that have a result already."""
    permitted: Mapping[str, tuple[str, ...]]
    """The steps of which a write was permitted before, by host: the hosts without a result are in doubt."""


class Shard:
    """A shard that is worked on; used by many threads."""

    def __init__(self, database: Database, which: ShardId, worker: str) -> None:
        self.which, self._database, self._worker = which, database, worker
        self.lost = ""
        """The reason why the shard is no longer this worker's; empty: it is."""

    def _call(self, function: str, *words: object) -> object:
        names = [f"a{number}" for number in range(len(words))]
        listed = ", ".join(f":{name}" for name in names)
        with self._database.begin(alone=True) as connection:
            return connection.execute(
                text(f"SELECT {function}({listed})"), dict(zip(names, words, strict=True))
            ).scalar()

    def _mine(self) -> tuple[str, int, int]:
        return self.which.run, self.which.shard, self.which.epoch

    def claim(self) -> Claim | None:
        """Claim the shard, and return what it is; None: it is another worker's, too late, or the run is to end."""
        if not self._call("claim", *self._mine(), self._worker):
            return None
        run, number, _ = self._mine()
        with self._database.begin() as connection:
            row = connection.execute(
                text(
                    "SELECT s.phase, s.site, s.hosts, d.content, d.signature FROM shard s LEFT JOIN document d"
                    " ON d.run = s.run AND d.phase = s.phase AND d.site = s.site"
                    " WHERE s.run = :run AND s.number = :number"
                ),
                {"run": run, "number": number},
            ).one()
            ends = connection.execute(
                text("SELECT host, content->>'verdict' FROM result WHERE run = :run AND shard = :number"),
                {"run": run, "number": number},
            ).all()
            permitted = connection.execute(
                text(
                    "SELECT host, array_agg(DISTINCT step) FROM permit"
                    " WHERE run = :run AND shard = :number GROUP BY host"
                ),
                {"run": run, "number": number},
            )
            return Claim(
                phase=row.phase,
                site=row.site,
                hosts=tuple(row.hosts),
                content=row.content or "",
                signature=row.signature or "",
                ends={host: Verdict(word) for host, word in ends},
                permitted={host: tuple(steps) for host, steps in permitted},
            )

    def beat(self) -> tuple[int, str]:
        """Say that this worker lives; return how urgently the run is to end, and why.  Raises NoDatabase."""
        run, number, epoch = self._mine()
        with self._database.begin(alone=True) as connection:
            row = connection.execute(
                text("SELECT level, why FROM beat(:run, :number, :epoch, :worker)"),
                {"run": run, "number": number, "epoch": epoch, "worker": self._worker},
            ).first()
        if row is None:
            self._lose()
            return 1, self.lost
        return row.level, row.why

    def _lose(self) -> None:
        self.lost = self.lost or "this worker was silent for too long: the hosts are another worker's now"

    def ask(
        self, host: str, step: str, command: int, words: str, *, seconds: float, owed: bool
    ) -> NotPermitted | float:
        """Take the permit for a write (``protocols.Permits``)."""
        until = seconds_since_boot() + PERMIT_LASTS
        refused = self._refused(host, step, command, printable(words[:200]), seconds)
        if refused is None:
            return 0.0 if owed else until
        return 0.0 if owed and not refused.in_doubt else refused

    def _refused(self, host: str, step: str, command: int, words: str, seconds: float) -> NotPermitted | None:
        """Return the reason why the write is not permitted; None: it is, and nobody is permitted it again."""
        if self.lost:
            return NotPermitted(why=self.lost, ended=True)
        try:
            answer = self._call("permit", *self._mine(), self._worker, host, step, command, words, seconds)
        except Refused as error:  # also one that answers, and does not serve: a standby after a failover
            return NotPermitted(why=f"nobody permits it: {error}")
        match answer:
            case "":
                return None
            case "given":
                why = "it was permitted before, and may have been sent: it is not sent a second time"
                return NotPermitted(why=why, in_doubt=True)
            case "breaker":
                why = "limits.breaker: as many hosts as it allows were changed; a person has to look at it"
                return NotPermitted(why=why)
            case "stopped":
                return NotPermitted(why="the run was asked to end", ended=True)
        self._lose()
        return NotPermitted(why=self.lost, ended=True)

    def ship(self, events: Sequence[str]) -> bool:
        """Hand in events and results, in their order; whether the shard is still this worker's.

        *events*: each as JSON, with its number.  Raises NoDatabase.
        """
        text_ = f"[{','.join(events)}]".encode("utf-8", "replace").decode()  # half a surrogate
        whole = self._call("ship", *self._mine(), _NUL.sub(r"\1\\ufffd", text_))  # PostgreSQL stores no NUL
        if not whole:
            self._lose()
        return bool(whole)

    def finish(self) -> None:
        """End the shard.  Raises NoDatabase."""
        self._call("finish", *self._mine(), self._worker)

    def refuse(self, why: str) -> None:
        """Note that this worker refuses the shard.  Raises NoDatabase."""
        self._call("refuse", self.which.run, self._worker, why)

    def rollout(self, hosts: Sequence[str], bounds: Bounds) -> Callable[[BatchEnded], SharedRollout]:
        """Return what makes the rollout that all shards of the run share: of *hosts*, all hosts of the run."""
        return lambda ended: SharedRollout(self._database, self.which, hosts, bounds, ended)


_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")


class SharedRollout(Rollout):
    """A rollout whose state lies in the database: one worker at a time looks at it and moves its hosts on.

    While the database is away no host begins, and the ends of hosts are kept until it is back.
    """

    def __init__(
        self, database: Database, which: ShardId, hosts: Sequence[str], bounds: Bounds, batch_ended: BatchEnded
    ) -> None:
        self._own_clock = FixedClock()
        super().__init__(hosts, bounds, self._own_clock, batch_ended)
        self._database, self._which = database, which
        self._thread = threading.RLock()
        self._ends: list[tuple[str, Verdict, bool]] = []

    @contextmanager
    def _turn(self) -> Iterator[None]:
        which = {"run": self._which.run, "shard": self._which.shard, "epoch": self._which.epoch}
        with self._thread, self._database.begin() as connection:
            row = connection.execute(
                text(
                    "SELECT turns, gone, extract(epoch FROM clock_timestamp()) AS now"
                    " FROM rollout_of(:run, :shard, :epoch)"
                ),
                which,
            ).first()
            if row is None:
                raise NoDatabase("the shard is another worker's")
            self._own_clock.time = float(row.now)
            try:
                self.take_over(row.turns)
                for host, (word, touched) in row.gone.items():
                    otherwise = Verdict.UNKNOWN if touched else Verdict.NOT_STARTED
                    self._end(host, Verdict(word) if word else otherwise, touched=touched)
            except (KeyError, TypeError, ValueError) as error:
                raise NoDatabase(f"the rollout in the database is none: {error}") from None
            before = json.dumps(row.turns)
            yield
            after = json.dumps(self.kept())
            if after != before:
                connection.execute(
                    text("SELECT keep_rollout(:run, :shard, :epoch, CAST(:kept AS json))"), {**which, "kept": after}
                )

    def ask(self, host: str) -> bool:
        """Whether the change of *host* may begin now."""
        return self._tell_ends() and self._answer(lambda: super(SharedRollout, self).ask(host), False)

    def waits(self, host: str) -> None:
        """Record that *host* waits; where that fails it waits all the same, and is counted as not probed yet."""
        with suppress(Refused):
            super().waits(host)

    def next(self, among: Sequence[str]) -> str | None:  # type: ignore[override]  # a mapping's keys will do
        """Return a waiting host of *among* whose change begins now; None if none of them may begin."""
        for host in among:  # also those that could not be recorded when they began to wait
            if self._turns.get(host) is not None and self._turns[host].name == "PROBED":
                self.waits(host)
        return self._answer(lambda: super(SharedRollout, self).next(among), None) if self._tell_ends() else None

    def ended(self, host: str, verdict: Verdict, *, touched: bool) -> None:
        """Record that *host* has its result, now or as soon as the database is back."""
        with self._thread:
            self._ends.append((host, verdict, touched))
        self._tell_ends()

    def all_ended(self) -> bool:
        """Record the ends of hosts that are not recorded yet; whether all are."""
        return self._tell_ends()

    def stopped(self) -> str:
        """Return the reason why no further host is started; empty: hosts may start, or that is not known now."""
        return self._answer(super().stopped, "")

    def used_up(self) -> str:
        """Return the reason why the change of no further host will begin; empty if it may, or that is not known now."""
        return self._answer(super().used_up, "")

    def _tell_ends(self) -> bool:
        """Record the ends of hosts that are not recorded yet; whether all are."""
        with self._thread:
            try:
                while self._ends:
                    host, verdict, touched = self._ends[0]
                    super().ended(host, verdict, touched=touched)
                    del self._ends[0]
            except Refused:
                return False
            return True

    def _answer(self, ask: Callable[[], T], otherwise: T) -> T:
        try:
            return ask()
        except Refused:
            return otherwise
