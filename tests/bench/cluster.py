"""A run through workers, beside the same run without them: ``python -m tests.bench.cluster``.

The hosts are toys of this machine (``transport: local``), of two sites.  Every figure is CPU: of PostgreSQL and of the workers while
the run went on, of the client from its start to its end.  A second of PostgreSQL and workers that have nothing to do is measured before.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from runbook.cluster.database import Database, add_client, add_site, make_schema
from tests.cluster.made_cluster import Cluster
from tests.cluster.site_scene import Scene
from tests.support.postgres import Postgres
from tests.support.program import PROGRAM

SITES = ("berlin", "oslo")
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Used:
    """Seconds of CPU."""

    wall: float
    postgres: float
    workers: float
    client: float
    memory: int
    """MiB of the client."""
    bytes: int
    """Bytes that the database has grown by."""

    @property
    def ours(self) -> float:
        return self.workers + self.client


def family(pid: int) -> float:
    """Seconds of CPU of a process, its living children and all that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / TICKS + sum(family(int(child)) for child in children)


def one_run(scene: Scene, server: Postgres, workers: list[int], via: str, words: list[str]) -> Used:
    for mark in (scene.folder / "marks").glob("*"):
        mark.unlink()
    argv = [
        *PROGRAM,
        "run",
        "toy.yaml",
        "-i",
        "hosts.yaml",
        "--hosts",
        "all",
        "-e",
        f"place={scene.folder / 'marks'}",
        "--output",
        "json",
    ]
    before, size = (family(server.pid), sum(map(family, workers))), stored(server)
    began = time.monotonic()
    with (scene.folder / "out").open("wb") as out:
        env = {**os.environ, **scene.environment}
        process = subprocess.Popen(
            [*argv, "--via", via, *words], env=env, cwd=scene.folder, stdout=out, stderr=out, stdin=subprocess.DEVNULL
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.monotonic() - began
    if process.returncode:
        raise SystemExit((scene.folder / "out").read_text()[-2000:])
    return Used(
        wall,
        family(server.pid) - before[0],
        sum(map(family, workers)) - before[1],
        used.ru_utime + used.ru_stime,
        used.ru_maxrss // 1024,
        stored(server) - size,
    )


def stored(server: Postgres) -> int:
    return int(server.psql("SELECT pg_database_size('bench')"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=200)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("words", nargs="*", help="options of the run")
    given = parser.parse_args()
    words = given.words or ["--dry-run"]
    folder = Path(tempfile.mkdtemp(prefix="runbook-bench-"))
    folder.chmod(0o755)
    server = Postgres(folder / "pg")
    try:
        server.psql("CREATE DATABASE bench")
        database = Database(server.place(database="bench"))
        make_schema(database)
        for site in SITES:
            add_site(database, site)
        add_client(database, "alice")
        database.close()
        (folder / "scene").mkdir()
        scene = Scene(
            folder / "scene", Cluster(server, "bench"), {f"h{at}": SITES[at % 2] for at in range(given.hosts)}
        ).made()
        try:
            for at in range(given.workers):
                scene.worker(SITES[at % 2])
            workers = [each.process.pid for each in scene.workers]
            time.sleep(2)
            idle = family(server.pid), sum(map(family, workers))
            time.sleep(10)
            idle = (family(server.pid) - idle[0]) / 10, (sum(map(family, workers)) - idle[1]) / 10
            print(
                f"with nothing to do, a second: PostgreSQL {idle[0] * 1000:.1f} ms, the workers {idle[1] * 1000:.1f} ms of CPU"
            )
            runs: dict[str, list[Used]] = {"local": [], "cluster": []}
            if given.rounds > 1:
                one_run(scene, server, workers, "cluster", words)  # what is done once is not counted
            for _ in range(given.rounds):
                for via, made in runs.items():
                    made.append(one_run(scene, server, workers, via, words))
        finally:
            scene.close()
    finally:
        server.close()
        shutil.rmtree(folder)
    alone = statistics.median(each.ours for each in runs["local"])
    for via, made in runs.items():
        wall, postgres, at_work, client = (
            statistics.median(getattr(each, name) for each in made)
            for name in ("wall", "postgres", "workers", "client")
        )
        ours = statistics.median(each.ours for each in made)
        grown, memory = max(each.bytes for each in made), max(each.memory for each in made)
        print(
            f"{via:8} {wall:6.1f} s   PostgreSQL {postgres / given.hosts * 1000:5.2f} ms a host   workers {at_work:6.2f} s,"
            f" client {client:6.2f} s of CPU: {ours / alone:4.2f} x local; client {memory} MiB,"
            f" stored {grown / given.hosts / 1024:.1f} KiB a host"
        )


if __name__ == "__main__":
    main()
