"""A site, as its workers have it."""

from __future__ import annotations

from sqlalchemy import text

from runbook.cluster.database import Database


class Site:
    """The site whose role is logged in.  Every method raises NoDatabase."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def name(self) -> str:
        """Return its name; empty if the role belongs to no site."""
        with self._database.begin(alone=True) as connection:
            return connection.execute(text("SELECT my_site()")).scalar() or ""

    def hello(self, worker: str, version: str, shards: int) -> None:
        """Say that *worker* lives, and that it has so many *shards* at work."""
        words = {"worker": worker, "version": version, "shards": shards}
        with self._database.begin(alone=True) as connection:
            connection.execute(text("SELECT hello(:worker, :version, :shards)"), words)

    def settle(self, silence: float, again: float, most: int) -> None:
        """Give the shards of workers that were silent for *silence* seconds to others, who have *again* seconds."""
        words = {"silence": silence, "again": again, "most": most}
        with self._database.begin(alone=True) as connection:
            connection.execute(text("SELECT settle(:silence, :again, :most)"), words)
