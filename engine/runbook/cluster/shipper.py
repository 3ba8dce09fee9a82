"""Hand the events of a shard to the database, in their order, as long as it takes."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from itertools import islice

from runbook.cluster.database import ANSWERS_WITHIN, GIVE_UP, NoDatabase, Refused
from runbook.cluster.shard import Shard
from runbook.codec import to_json
from runbook.protocols import NotPermitted
from runbook.values.event import Event, HostFinished, RunFinished, RunStarted
from runbook.values.types import Json

MOST_AT_ONCE = 200
MOST_BYTES = 1024 * 1024
"""The size at which a batch is full: a shard's row is held while it is handed in."""
PAUSE = 0.2
"""The seconds in which events are gathered."""
AGAIN = 0.5
"""The seconds between two attempts to reach the database."""


class Shipper:
    """A reporter; its thread ships what it hears.  The worker's own journal has had each event before.

    It is also what a run asks for permits: what the run has said of a change is in the database before the change is
    permitted: a later run that goes on with it, or takes it back, knows of it even if this worker ends at once.
    """

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._number = self._shipped = 0
        self.refused = ""
        """The reason why the database takes no more; empty: it does."""
        self._queue: deque[str] = deque()  # JSON
        self._moved = threading.Condition()
        self._wake, self._hurry, self._ended = threading.Event(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def on(self, event: Event) -> None:
        """Queue *event*."""
        if isinstance(event, RunStarted | RunFinished):  # the client tells of the run as a whole
            return
        with self._moved:
            self._number += 1
            one: dict[str, Json] = {"n": self._number}
            if isinstance(event, HostFinished):
                one["result"] = to_json(event.result)
            else:
                one["event"] = to_json(event)
            self._queue.append(json.dumps(one, ensure_ascii=False))
        self._wake.set()

    def ask(
        self, host: str, step: str, command: int, words: str, *, seconds: float, owed: bool
    ) -> NotPermitted | float:
        """Ship what is queued, and take the permit for a write (``protocols.Permits``)."""
        if not self.flush(GIVE_UP if owed else ANSWERS_WITHIN) and not owed:
            return NotPermitted(why="nobody permits it: the database does not take what is to be recorded before it")
        return self._shard.ask(host, step, command, words, seconds=seconds, owed=owed)

    def flush(self, within: float) -> bool:
        """Ship what is queued, for at most *within* seconds; whether it is in the database."""
        with self._moved:
            upto = self._number
            self._hurry.set()
            self._wake.set()
            return (
                self._moved.wait_for(lambda: self._shipped >= upto or bool(self.refused), within) and not self.refused
            )

    def close(self, within: float) -> bool:
        """Ship what is left, for at most *within* seconds; whether all of it is in the database."""
        self._ended.set()
        self._hurry.set()
        self._wake.set()
        self._thread.join(within)
        return not self._queue

    def _batch(self) -> list[str]:
        batch, size = list[str](), 0
        with self._moved:
            for one in islice(self._queue, MOST_AT_ONCE):
                size += len(one)
                if batch and size > MOST_BYTES:
                    break
                batch.append(one)
        return batch

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
                    with self._moved:
                        self.refused = str(error)
                        self._moved.notify_all()
                    return
                with self._moved:
                    for _ in batch:
                        self._queue.popleft()
                    self._shipped += len(batch)
                    self._moved.notify_all()
                if not self._ended.is_set() and self._hurry.wait(PAUSE):
                    self._hurry.clear()
            if self._ended.is_set() and not self._queue:
                return
