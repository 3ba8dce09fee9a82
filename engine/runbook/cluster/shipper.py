"""Hand the events of a shard to the database, in their order, as long as it takes."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Collection
from itertools import islice

from runbook.cluster.database import NoDatabase, Refused
from runbook.cluster.shard import Shard
from runbook.codec import to_json
from runbook.values.event import Event, HostFinished, RunFinished, RunStarted
from runbook.values.types import Json

MOST_AT_ONCE = 200
MOST_BYTES = 4 * 1024 * 1024
"""The size at which a batch is full: a shard's row is held while it is handed in."""
PAUSE = 0.05
"""The seconds in which events are gathered."""
AGAIN = 0.5
"""The seconds between two attempts to reach the database."""


class Shipper:
    """A reporter; its thread ships what it hears.  The worker's own journal has had each event before."""

    def __init__(self, shard: Shard, in_doubt: Collection[str] = ()) -> None:
        self._shard, self._in_doubt = shard, in_doubt
        self._number = 0
        self.refused = ""
        """The reason why the database takes no more; empty: it does."""
        self._queue: deque[Json] = deque()
        self._lock, self._wake, self._ended = threading.Lock(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def on(self, event: Event) -> None:
        """Queue *event*."""
        if isinstance(event, RunStarted | RunFinished):  # the client tells of the run as a whole
            return
        with self._lock:
            self._number += 1
            one: dict[str, Json] = {"n": self._number, "event": to_json(event)}
            if isinstance(event, HostFinished):
                one |= {"result": to_json(event.result), "in_doubt": event.result.host in self._in_doubt, "event": None}
            self._queue.append(one)
        self._wake.set()

    def _batch(self) -> list[Json]:
        batch, size = list[Json](), 0
        with self._lock:
            for one in islice(self._queue, MOST_AT_ONCE):
                size += len(json.dumps(one))
                if batch and size > MOST_BYTES:
                    break
                batch.append(one)
        return batch

    def close(self, within: float) -> bool:
        """Ship what is left, for at most *within* seconds; whether all of it is in the database."""
        self._ended.set()
        self._wake.set()
        self._thread.join(within)
        return not self._queue

    def _work(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            while self._queue:
                batch = self._batch()
                try:
                    self._shard.ship(batch)
                except NoDatabase:
                    time.sleep(AGAIN)
                    continue
                except Refused as error:  # nothing after it is shipped either: the shard is given on
                    self.refused = str(error)
                    return
                with self._lock:
                    for _ in batch:
                        self._queue.popleft()
                if not self._ended.is_set():
                    time.sleep(PAUSE)
            if self._ended.is_set() and not self._queue:
                return
