"""The commands about the cluster itself: ``cluster init``, ``worker`` and ``sites``."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path

from runbook.cluster.database import (
    Database,
    Refused,
    add_client,
    add_site,
    make_schema,
    place_of_cluster,
    remove_runs,
)
from runbook.cluster.queue import queue_of, work_off
from runbook.cluster.runs import AGAIN, MOST_EPOCHS, SILENCE, Runs, SiteState
from runbook.cluster.shard import ShardId
from runbook.cluster.site import Site
from runbook.commands.cluster.shard_work import Workplace, work_on
from runbook.commands.options import Connecting
from runbook.commands.plans.approvals import SIGNERS, signers_file
from runbook.commands.plans.plan_file import read_signers
from runbook.dataclass import dataclass
from runbook.errors import ConfigError, Problem
from runbook.records.private_folder import PrivateFolder, Unsafe, state_directory
from runbook.text.printable import printable
from runbook.values.types import plural, seconds
from runbook.values.units import time_span
from runbook.version import __version__

LEAST_AGE = 86400.0
"""The seconds for which the permits of a run are kept at least: an order is good for hours."""
HELLO = 3.0
"""The seconds between two signs of life of a worker."""
CONNECTIONS = 4
"""The connections to PostgreSQL for each shard at a time: permits, events, signs of life, the rollout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """The options of ``runbook worker``."""

    cluster: str = ""
    site: str = ""
    name: str = ""
    shards: int = 2
    """The number of shards that are worked on at a time."""
    allowed_signers: str = ""
    records: str = ""
    connecting: Connecting


def worker(options: WorkerOptions) -> int:
    """Work for a site until a signal ends it.  Returns the exit code; raises ConfigError."""
    database = Database(place_of_cluster(options.cluster), connections=CONNECTIONS * options.shards + 4)
    signers = signers_file(options.allowed_signers, ())
    if signers is None:
        hint = (
            f"write {SIGNERS} in ~/.config/runbook, a line for each person: `alice@example.com ssh-ed25519 AAAA...`; "
            "or name the file with --allowed-signers"
        )
        raise ConfigError(Problem(message="nothing says whose orders this worker carries out", hint=hint))
    read_signers(signers)
    name = options.name or f"{socket.gethostname()}-{os.getpid()}"
    site = _site(Site(database).name(), options.site)
    place = Workplace(
        database=database,
        site=site,
        name=name,
        signers=signers,
        connecting=options.connecting,
        records=_records(options.records),
        say=_say,
    )
    at_work = _AtWork()

    def work(which: ShardId) -> None:
        with at_work:
            try:
                work_on(which, place)
            except Exception:
                _say(f"{which}: internal error: {traceback.format_exc()}")
                raise

    hello = threading.Thread(target=_say_hello, args=(Site(database), name, at_work), daemon=True)
    hello.start()
    _say(f"worker {name} at {site}, version {__version__}: ready")
    work_off(lambda: queue_of(site, database.conninfo, work), site, name, options.shards, _say)
    _say(f"worker {name} at {site}: ended")
    return 0


class _AtWork:
    """The number of shards that are worked on."""

    def __init__(self) -> None:
        self._lock, self.number = threading.Lock(), 0

    def __enter__(self) -> None:
        with self._lock:
            self.number += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self.number -= 1


def _say(line: str) -> None:
    print(printable(line), file=sys.stderr, flush=True)


def _site(site: str, given: str) -> str:
    """Return *site*, that of the role that is logged in.  Raises ConfigError if it has none, or is not that *given*."""
    if not site:
        hint = "`runbook cluster init --site NAME` makes one for each site: runbook_site_NAME"
        raise ConfigError(Problem(message="this role of PostgreSQL belongs to no site", hint=hint))
    if given and given != site:
        raise ConfigError(f"--site {given}: this role of PostgreSQL belongs to the site {site}")
    return site


def _records(given: str) -> Path:
    try:
        path = Path(given).expanduser().absolute() if given else state_directory("worker")
        PrivateFolder(path).make()
    except (OSError, Unsafe) as error:
        raise ConfigError(f"--records: {error.strerror or error}") from error
    return path


def _say_hello(site: Site, name: str, at_work: _AtWork) -> None:
    while True:
        with suppress(Refused):  # it is asked again; what is at work knows by itself that nothing is permitted
            site.hello(name, __version__, at_work.number)
            site.settle(SILENCE, AGAIN, MOST_EPOCHS)
        time.sleep(HELLO)


@dataclass(frozen=True, slots=True, kw_only=True)
class InitOptions:
    """The options of ``runbook cluster init``."""

    cluster: str = ""
    site: tuple[str, ...] = ()
    client: tuple[str, ...] = ()


def init_cluster(options: InitOptions) -> int:
    """Make or renew the schema, and the roles of sites and clients.  Returns the exit code; raises ConfigError."""
    database = Database(place_of_cluster(options.cluster))
    make_schema(database)
    print("the schema runbook is up to date")
    for site in options.site:
        print(f"site {site}: its workers log in as {add_site(database, site)}")
    for role in options.client:
        add_client(database, role)
        print(f"client {role}: may begin and follow runs")
    return 0


def prune_cluster(cluster: str, older_than: str) -> int:
    """Remove old runs and silent workers from the database.  Returns the exit code; raises ConfigError."""
    age = time_span(older_than)
    if age < LEAST_AGE:
        words = f"--older-than {older_than}: without its permits a signed order could be carried out again"
        raise ConfigError(Problem(message=words, hint=f"at least {seconds(LEAST_AGE)}"))
    runs, workers = remove_runs(Database(place_of_cluster(cluster)), age)
    print(f"removed {plural(runs, 'run')} and {plural(workers, 'silent worker')}")
    return 0


def show_sites(cluster: str) -> int:
    """Print the sites and their workers.  Returns 1 if a site has no living worker; raises ConfigError."""
    sites = Runs(Database(place_of_cluster(cluster))).sites()
    for site in sites:
        for line in site_lines(site):
            print(printable(line))
    if not sites:
        print("no site: `runbook cluster init --site NAME` makes one")
    return 0 if sites and all(any(worker.lives for worker in site.workers) for site in sites) else 1


def site_lines(site: SiteState) -> list[str]:
    """Return the lines about *site*."""
    living = [worker for worker in site.workers if worker.lives]
    backlog = f"{plural(site.waiting, 'shard')} waiting, {site.working} at work"
    lines = [f"{site.name}: {plural(len(living), 'worker') if living else 'no worker'}, {backlog}"]
    for worker in site.workers:
        seen = "" if worker.lives else f", silent for {worker.seconds:.0f} s"
        other = f", this is {__version__}" if worker.version != __version__ else ""
        lines.append(f"  {worker.name}: version {worker.version}{other}, {plural(worker.shards, 'shard')}{seen}")
    return [*lines, *(f"  refused: {' '.join(why.split())}" for why in site.refusals[:5])]
