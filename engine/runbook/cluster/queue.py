"""The queue of shards: Procrastinate hands each task to one worker, and never hands one out again by itself."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress

from procrastinate import App, PsycopgConnector
from psycopg.conninfo import make_conninfo

from runbook.cluster.shard import ShardId

Work = Callable[[ShardId], None]
AFTER_FAILURE = 3
"""The seconds after which a queue that has failed is begun again."""


def queue_of(site: str, conninfo: dict[str, str], work: Work) -> App:
    """Return the queue of *site*: its tasks call *work*."""
    app = App(connector=PsycopgConnector(conninfo=make_conninfo("", **conninfo), min_size=1, max_size=4))

    def begin(run: str, shard: int, epoch: int) -> None:
        work(ShardId(run=run, shard=shard, epoch=epoch))

    # A task is never tried again: who has begun a shard and ended without a word may have changed its hosts.
    # What is left of it is given on by `settle`, under a new epoch.
    app.task(name="probe", queue=site, retry=False)(begin)
    app.task(name="apply", queue=site, retry=False)(begin)

    return app


def work_off(make: Callable[[], App], site: str, name: str, shards: int, say: Callable[[str], None]) -> None:
    """Work off the queue of *site*, *shards* at a time, until a signal ends it; what was begun is finished first.

    Where the queue fails, because PostgreSQL is away or somebody has sent it nonsense, it is made again by *make*.
    """
    asyncio.run(_work_off(make, site, name, shards, say))


async def _work_off(make: Callable[[], App], site: str, name: str, shards: int, say: Callable[[str], None]) -> None:
    asked, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked.set)
    while not asked.is_set():
        work = asyncio.create_task(_once(make(), site, name, shards))
        ended = asyncio.create_task(asked.wait())
        await asyncio.wait({work, ended}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            work.cancel()  # it ends once what it has begun is finished
        error = (await asyncio.gather(work, return_exceptions=True))[0]
        ended.cancel()
        if not asked.is_set():
            say(f"the queue failed, and is begun again in {AFTER_FAILURE} s: {type(error).__name__}: {error}")
            with suppress(TimeoutError):
                await asyncio.wait_for(asked.wait(), AFTER_FAILURE)


async def _once(app: App, site: str, name: str, shards: int) -> None:
    async with app.open_async():
        await app.run_worker_async(
            queues=[site],
            name=name,
            concurrency=shards,
            fetch_job_polling_interval=2.0,
            delete_jobs="successful",
            update_heartbeat_interval=5.0,
            install_signal_handlers=False,
        )
