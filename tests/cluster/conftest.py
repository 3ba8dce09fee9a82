"""A PostgreSQL for each worker of pytest, and a fresh cluster in it for each test."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from runbook.cluster.database import Database, add_client, add_site, make_schema
from tests.cluster.made_cluster import Cluster
from tests.support.postgres import Postgres

_numbers = count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[Postgres]:
    folder = Path(tempfile.mkdtemp(prefix="runbook-pg-"))
    folder.chmod(0o755)  # PostgreSQL does not run as root
    started = Postgres(folder / "pg")
    try:
        started.psql("CREATE DATABASE template")
        template = Database(started.place(database="template"))
        make_schema(template)
        for site in ("berlin", "oslo"):
            add_site(template, site)
        add_client(template, "alice")
        template.close()
        yield started
    finally:
        started.close()
        shutil.rmtree(folder)


@pytest.fixture
def cluster(server) -> Iterator[Cluster]:
    name = f"t{next(_numbers)}"
    server.psql(f"CREATE DATABASE {name} TEMPLATE template")
    made = Cluster(server, name)
    yield made
    for each in made.opened:
        each.close()
