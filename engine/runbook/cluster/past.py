"""The changes of all earlier runs through the cluster, from their permits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import text

from runbook.cluster.database import Database, Refused
from runbook.values.playbook import written_id
from runbook.values.recorded_change import RecordedAnswer, RecordedChange
from runbook.values.types import Unknown

MOST_CHANGES = 1000


class PermittedPast:
    """The changes that runs of *playbook* were permitted through the cluster (``protocols.RecordedPast``).

    *own*: the run that asks, and that does not count.  *chain*: the runs that it continues, the first one first.
    """

    def __init__(self, database: Database, playbook: str, own: str, chain: tuple[str, ...] = ()) -> None:
        self._database, self._playbook, self._own, self._chain = database, playbook, own, chain

    def changes(self, host: str, within: float) -> tuple[RecordedChange, ...] | Unknown:
        """Return the changes of *host* in the last *within* seconds, the newest first."""
        return self._changes(host, within)

    def last_change(self, host: str) -> RecordedChange | None | Unknown:
        """Return the newest change of *host*; None: there was none."""
        found = self._changes(host, None)
        return found if isinstance(found, Unknown) else next(iter(found), None)

    def changed_hosts(self, within: float) -> frozenset[str] | Unknown:
        """Return the hosts that were changed in the last *within* seconds; those of other sites have no names here."""
        rows = self._rows(
            "SELECT changed_hosts(:playbook, :own, :within) AS host", playbook=self._playbook, within=within
        )
        return rows if isinstance(rows, Unknown) else frozenset(row.host for row in rows)

    def attempt(self, host: str) -> str:
        """Return the first of the runs that the asking run continues, if one of them changed *host*."""
        if not self._chain:
            return ""
        rows = self._rows(
            "SELECT FROM permit WHERE host = :host AND run = ANY (:chain) LIMIT 1", host=host, chain=list(self._chain)
        )
        return "" if isinstance(rows, Unknown) or not rows else self._chain[0]

    def answer(self, host: str, probe: str) -> RecordedAnswer | None | Unknown:
        """Return Unknown: the answers of probes are in records, which workers do not have."""
        return Unknown(why=f"workers have no records of what {probe} said on {host} before")

    def _changes(self, host: str, within: float | None) -> tuple[RecordedChange, ...] | Unknown:
        rows = self._rows(
            "SELECT permit.run, step, attempt, extract(epoch FROM clock_timestamp() - permit.at) AS ago"
            " FROM permit JOIN run ON run.id = permit.run"
            " WHERE host = :host AND playbook = :playbook AND run.id <> :own AND (CAST(:within AS float) IS NULL"
            " OR permit.at > clock_timestamp() - make_interval(secs => CAST(:within AS float)))"
            " ORDER BY permit.at DESC LIMIT :most",
            host=host,
            playbook=self._playbook,
            within=within,
            most=MOST_CHANGES,
        )
        if isinstance(rows, Unknown):
            return rows
        return tuple(
            RecordedChange(
                run=row.run, step=written_id(row.step), ago=max(0.0, float(row.ago)), attempt=row.attempt or row.run
            )
            for row in rows
        )

    def _rows(self, query: str, **words: object) -> list[Any] | Unknown:
        given: Mapping[str, object] = {"own": self._own, **words}
        try:
            with self._database.begin(alone=True) as connection:
                return list(connection.execute(text(query), given).all())
        except Refused as error:
            return Unknown(why=str(error))
