"""Connect to the cluster's PostgreSQL, and make or renew its schema."""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.resources import as_file, files
from itertools import count

from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, OperationalError, TimeoutError

from runbook.cluster.tables import SCHEMA
from runbook.errors import ConfigError, Problem
from runbook.secrets.masking import Masking
from runbook.values.types import seconds

PLACE = "RUNBOOK_CLUSTER"
"""The variable with the place of the cluster: ``postgresql://USER@HOST/DATABASE``."""
GIVE_UP = 3
"""The seconds after which PostgreSQL counts as gone, for a connection and for an answer."""
ANSWERS_WITHIN = 20.0
"""The seconds within which a transaction must come to its end; then its connection is cut."""
SCHEMA_WITHIN = 600.0
MOST_AHEAD = 30.0
"""The maximum difference, in seconds, between the clocks of a machine and of PostgreSQL."""
CLIENT_ROLE, SITE_ROLE = "runbook_client", "runbook_site"
SITE = re.compile(r"[a-z][a-z0-9_-]{0,40}")
"""The name of a site: it is the name of a queue, and the end of a role's."""


def place_of_cluster(given: str = "") -> str:
    """Return the place of the cluster: *given*, or ``$RUNBOOK_CLUSTER``.  Raises ConfigError."""
    place = given or os.environ.get(PLACE, "")
    if not place:
        hint = f"--cluster postgresql://USER@HOST/DATABASE, or {PLACE} in the environment"
        raise ConfigError(Problem(message="nothing says where the cluster is", hint=hint))
    return place


def conninfo(place: str) -> dict[str, str]:
    """Return *place* as parameters of libpq; a connection fails within seconds.  Raises ConfigError."""
    try:
        url = make_url(place)
    except ArgumentError:
        raise ConfigError("the place of the cluster is no URL such as postgresql://USER@HOST/DATABASE") from None
    if url.get_backend_name() != "postgresql":
        raise ConfigError(f"the cluster needs PostgreSQL, not {url.get_backend_name()}")
    named = {"user": url.username, "password": url.password, "host": url.host, "dbname": url.database}
    port = str(url.port) if url.port else None
    given = {name: value for name, value in {**named, "port": port}.items() if value}
    return {
        **given,
        **{name: str(value) for name, value in url.query.items()},
        "connect_timeout": str(3 * GIVE_UP),  # a machine that is busy begins slowly
        "tcp_user_timeout": str(GIVE_UP * 1000),
        "keepalives_idle": "2",
        "keepalives_interval": "1",
        "keepalives_count": str(GIVE_UP),
        "application_name": "runbook",
        "options": f"-c search_path={SCHEMA},pg_catalog -c statement_timeout=60s"
        " -c idle_in_transaction_session_timeout=5s",  # of a worker that was stopped: its rows are waited for
    }


class Database:
    """The cluster's PostgreSQL."""

    def __init__(self, place: str, *, connections: int = 5) -> None:
        """Prepare up to *connections* connections to *place*; nothing is connected yet.  Raises ConfigError."""
        self.conninfo = conninfo(place)
        self._mask = Masking((self.conninfo["password"],)) if "password" in self.conninfo else None
        self._impatience = _Impatience()
        self.engine: Engine = create_engine(
            "postgresql+psycopg://",
            connect_args=self.conninfo,
            pool_size=connections,
            max_overflow=0,
            pool_timeout=GIVE_UP * 4,
            pool_pre_ping=False,
            hide_parameters=True,
        )

    @contextmanager
    def begin(self, *, alone: bool = False, within: float = ANSWERS_WITHIN) -> Iterator[Connection]:
        """Yield a connection with a transaction, which is committed at the end, *within* so many seconds.

        *alone*: each statement is a transaction, which PostgreSQL ends itself whatever becomes of this process.
        Raises NoDatabase if PostgreSQL cannot be reached, and Refused if it refuses.
        """
        try:
            with self.engine.connect() as connection, self._impatience.watching(connection, within):
                if alone:
                    yield connection.execution_options(isolation_level="AUTOCOMMIT")
                    return
                with connection.begin():
                    yield connection
        except DBAPIError as error:
            if error.connection_invalidated:
                self.engine.dispose()  # what the pool still has is as dead
            lost = error.connection_invalidated or isinstance(error, OperationalError | InterfaceError)
            raise (NoDatabase if lost else Refused)(self.hidden(_first_line(error))) from None
        except TimeoutError as error:
            raise NoDatabase(f"the cluster's PostgreSQL: {error}") from None

    def wrong_clock(self) -> str:
        """Return how far this machine's clock is from PostgreSQL's; empty: near enough for the times in orders.

        Raises NoDatabase.
        """
        with self.begin(alone=True) as connection:
            before = time.time()
            theirs = float(connection.execute(text("SELECT extract(epoch FROM clock_timestamp())")).scalar() or 0.0)
            ahead = (before + time.time()) / 2 - theirs
        if abs(ahead) <= MOST_AHEAD:
            return ""
        return f"its clock is {seconds(round(abs(ahead)))} {'ahead of' if ahead > 0 else 'behind'} that of PostgreSQL"

    def hidden(self, words: str) -> str:
        """Return *words* without the password."""
        return self._mask(words) if self._mask else words

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


class _Impatience:
    """A thread that cuts connections on which PostgreSQL has not answered in time, as it may where it hangs.

    libpq itself waits for ever for an answer of a server whose machine still acknowledges what it gets.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._until: dict[int, tuple[float, int]] = {}
        """The time at which each use of a connection ends, and its socket."""
        self._numbers = count()
        self._started = False

    @contextmanager
    def watching(self, connection: Connection, within: float) -> Iterator[None]:
        """Cut *connection* if this context has not ended *within* so many seconds."""
        socket_number = connection.connection.driver_connection.fileno()  # type: ignore[union-attr]
        with self._lock:
            number = next(self._numbers)
            self._until[number] = (time.monotonic() + within, socket_number)
            if not self._started:
                self._started = True
                threading.Thread(target=self._watch, daemon=True).start()
        try:
            yield
        finally:
            with self._lock:
                self._until.pop(number, None)

    def _watch(self) -> None:
        while True:
            time.sleep(1.0)
            with self._lock:  # a context that ends waits for it, so that the number is still that of the connection
                late = [number for number, (until, _) in self._until.items() if until < time.monotonic()]
                for number in late:
                    _, socket_number = self._until.pop(number)
                    with suppress(OSError), socket.socket(fileno=os.dup(socket_number)) as its:
                        its.shutdown(socket.SHUT_RDWR)


class Refused(ConfigError):
    """An error of PostgreSQL: it refuses what it is asked for."""


class NoDatabase(Refused):
    """An error of PostgreSQL: it cannot be reached now."""


def _first_line(error: DBAPIError) -> str:
    words = " ".join(str(error.orig).split())[:300]
    return f"the cluster's PostgreSQL: {words}"


def make_schema(database: Database) -> None:
    """Make the roles and the schema, or renew them, as the user who owns the database.  Raises NoDatabase."""
    from alembic import command  # a third of the start-up of those who never make a schema
    from alembic.config import Config

    with database.begin(within=SCHEMA_WITHIN) as connection:
        for role in (CLIENT_ROLE, SITE_ROLE):
            _make_role(connection, role, "NOLOGIN")
        connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}"))
        with as_file(files(__package__).joinpath("migrations")) as folder:
            config = Config()
            config.set_main_option("script_location", str(folder))
            config.attributes["connection"] = connection
            command.upgrade(config, "head")


def remove_runs(database: Database, age: float) -> tuple[int, int]:
    """Remove the runs that began more than *age* seconds ago, and workers that have been silent for as long.

    Runs that go on are kept.  Returns how many runs, and how many workers.  Raises NoDatabase.
    """
    than = {"age": age}
    with database.begin(within=SCHEMA_WITHIN) as connection:
        connection.execute(
            text(
                "CREATE TEMPORARY TABLE old ON COMMIT DROP AS SELECT id FROM run"
                " WHERE at < now() - make_interval(secs => :age)"
                " AND NOT EXISTS (SELECT FROM shard WHERE shard.run = run.id AND state <> 'done')"
            ),
            than,
        )
        for statement in (
            "DELETE FROM permit WHERE run IN (SELECT id FROM old)",
            "DELETE FROM procrastinate_jobs WHERE args->>'run' IN (SELECT id FROM old)",
            "DELETE FROM run WHERE id IN (SELECT id FROM old)",
        ):
            runs = connection.execute(text(statement)).rowcount
        connection.execute(text("DELETE FROM refusal WHERE at < now() - make_interval(secs => :age)"), than)
        silent = text("DELETE FROM worker WHERE heartbeat < now() - make_interval(secs => :age)")
        return runs, connection.execute(silent, than).rowcount


def add_site(database: Database, name: str) -> str:
    """Make the site *name* with a role for its workers; return the name of the role.  Raises ConfigError."""
    if not SITE.fullmatch(name):
        raise ConfigError(f"--site {name}: a site's name has small letters, digits, _ and -, at most 41")
    role = f"{SITE_ROLE}_{name}"
    with database.begin() as connection:
        _make_role(connection, role, "LOGIN")
        connection.execute(text(f'GRANT {SITE_ROLE} TO "{role}"'))
        connection.execute(
            text("INSERT INTO site (name, role) VALUES (:name, :role) ON CONFLICT DO NOTHING"),
            {"name": name, "role": role},
        )
    return role


def add_client(database: Database, role: str) -> None:
    """Let the role *role* begin runs; it is made if there is none.  Raises ConfigError."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]{0,62}", role):
        raise ConfigError(f"--client {role}: it is no name of a role")
    with database.begin() as connection:
        _make_role(connection, role, "LOGIN")
        connection.execute(text(f'GRANT {CLIENT_ROLE} TO "{role}"'))


def _make_role(connection: Connection, role: str, can: str) -> None:
    known = connection.execute(text("SELECT 1 FROM pg_roles WHERE rolname = :role"), {"role": role}).first()
    if known is None:
        connection.execute(text(f'CREATE ROLE "{role}" {can}'))
