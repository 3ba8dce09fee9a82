"""Send events to browsers and programs as they happen (server-sent events), without a gap over a lost connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from itertools import islice
from threading import Lock

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from runbook.commands.serve.run_matrix import JournalTail, Line
from runbook.commands.serve.site import Call, Refused, Site, compact
from runbook.commands.serve.wire import stored_tree
from runbook.dataclass import dataclass
from runbook.records.recorded_run import RunState
from runbook.text.printable import printable

BATCH = 100
"""The events that are read at once: no client keeps more in memory."""
POLL = 1.0
"""Seconds between two questions for new events."""
HEARTBEAT = 15
"""Polls without an event after which a comment is sent, so that a dead connection is noticed."""
LONGEST = 3600
"""Polls after which a stream ends; its client comes back with the number of the last event, and is authorised again."""
MOST_STREAMS = 100
"""The streams that are open at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbered:
    """A message with its place in the order of all."""

    number: int
    body: str
    """Empty: nothing is sent."""


Read = Callable[[int], Sequence[Numbered]]
"""Returns the first messages after a number."""


class Streams:
    """The number of open streams, which is limited."""

    def __init__(self) -> None:
        self._open, self._lock = 0, Lock()

    def refuse_many(self) -> None:
        """Raise Refused if too many streams are open."""
        with self._lock:
            if self._open >= MOST_STREAMS:
                raise Refused(503, "too many streams are open", {"Retry-After": "30"})

    def enter(self) -> None:
        """Count a stream."""
        with self._lock:
            self._open += 1

    def leave(self) -> None:
        """Count a stream no more."""
        with self._lock:
            self._open -= 1


def first_number(call: Call) -> int:
    """Return the number of the last event that the client has: by Last-Event-ID, or by the query.  Raises Refused."""
    last = call.headers.get("last-event-id", "")
    return int(last) if last.isascii() and last.isdecimal() and len(last) <= 15 else call.number("after")


async def messages(
    read: Read, after: int, goes_on: Callable[[], bool], pause: Callable[[], Awaitable[None]]
) -> AsyncIterator[bytes]:
    """Yield the messages after the number *after*, and those that come, as long as *goes_on*."""
    yield b"retry: 2000\n\n"
    silent = 0
    for _ in range(LONGEST):
        if not goes_on():
            return
        new = await run_in_threadpool(read, after)
        for each in new:
            after = each.number
            if each.body:
                yield f"id: {each.number}\ndata: {each.body}\n\n".encode()
        silent = 0 if new else silent + 1
        if silent >= HEARTBEAT:
            silent = 0
            yield b": still here\n\n"
        if len(new) < BATCH:
            await pause()


async def _pause() -> None:
    await asyncio.sleep(POLL)


def _stream(site: Site, call: Call, streams: Streams, read: Read) -> Response:
    after = first_number(call)
    streams.refuse_many()

    def goes_on() -> bool:
        return not site.desk.is_closing() and site.access.is_alive(call.who)

    async def body() -> AsyncIterator[bytes]:
        streams.enter()  # a client may be gone before: only a body that has begun also ends
        try:
            async for message in messages(read, after, goes_on, _pause):
                yield message
        finally:
            streams.leave()

    return StreamingResponse(body(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


def events(streams: Streams) -> Callable[[Site, Call], Response]:
    """Return the handler that streams the events of the watcher."""

    def handler(site: Site, call: Call) -> Response:
        def read(after: int) -> list[Numbered]:
            with site.desk.lock:
                found = [*islice(site.desk.known.store.since(after), BATCH)]
            return [Numbered(number=each.number, body=compact(stored_tree(each))) for each in found]

        return _stream(site, call, streams, read)

    return handler


def run_events(streams: Streams) -> Callable[[Site, Call], Response]:
    """Return the handler that streams what happens in a run, by the lines of its journal."""

    def handler(site: Site, call: Call) -> Response:
        tail = JournalTail(site.records, call.path["run"])

        def read(after: int) -> list[Numbered]:
            return [_numbered(line) for line in tail.lines(after, BATCH)]

        return _stream(site, call, streams, _with_interruption(read, tail.is_interrupted))

    return handler


def _with_interruption(read: Read, is_interrupted: Callable[[], bool]) -> Read:
    """Return *read* with one more message, if the run has no end and its process is gone."""
    is_said = False

    def reading(after: int) -> Sequence[Numbered]:
        nonlocal is_said
        found = read(after)
        if found or is_said or not is_interrupted():
            return found
        if found := read(after):  # written between the two questions
            return found
        is_said = True
        return [Numbered(number=after, body=compact({"cells": [], "state": RunState.INTERRUPTED}))]

    return reading


def _numbered(line: Line) -> Numbered:
    has_news = line.cells or line.is_last
    cells = [[printable(part) for part in cell] for cell in line.cells]  # as on the page, where a script finds them
    tree = {"cells": cells} | ({"state": RunState.FINISHED} if line.is_last else {})
    return Numbered(number=line.number, body=compact(tree) if has_news else "")
