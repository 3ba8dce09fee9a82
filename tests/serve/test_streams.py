"""Streams of events: every event once, in order, over any number of lost connections."""

from __future__ import annotations

import json
from contextlib import aclosing
from itertools import islice

import anyio
import pytest

from runbook.commands.serve import streams
from runbook.commands.serve.access import Role
from runbook.commands.serve.site import Refused
from runbook.commands.serve.streams import Numbered, Streams, messages
from tests.serve.fake_desk import NOW, answered, served


class Source:
    """A row of messages that grows."""

    def __init__(self, many: int = 0) -> None:
        self.many = many
        self.reads: list[int] = []

    def read(self, after: int) -> list[Numbered]:
        found = [*islice(range(after + 1, self.many + 1), streams.BATCH)]
        self.reads.append(len(found))
        return [Numbered(number=number, body=f'{{"n":{number}}}') for number in found]


async def never() -> None:
    """Pause for no time."""
    await anyio.lowlevel.checkpoint()


def numbers(parts: list[bytes]) -> list[int]:
    text = b"".join(parts).decode()
    return [int(line.removeprefix("id: ")) for line in text.splitlines() if line.startswith("id: ")]


async def collected(source: Source, after: int, most: int, goes_on=lambda: True) -> list[bytes]:
    found = []
    async with aclosing(messages(source.read, after, goes_on, never)) as stream:
        async for part in stream:
            found.append(part)
            if len(numbers(found)) >= most:
                break
    return found


def test_no_event_is_lost_or_doubled_over_lost_connections():
    source, seen = Source(1000), []

    async def follow() -> None:
        for length in (1, 7, 100, 101, 250, 541):
            seen.extend(numbers(await collected(source, seen[-1] if seen else 0, length)))

    anyio.run(follow)
    assert seen == [*range(1, 1001)]
    assert max(source.reads) == streams.BATCH


def test_an_event_that_comes_while_nobody_is_connected_is_sent_later():
    source = Source(3)

    async def follow() -> None:
        assert numbers(await collected(source, 0, 3)) == [1, 2, 3]
        source.many = 5
        assert numbers(await collected(source, 3, 2)) == [4, 5]

    anyio.run(follow)


def test_a_silent_stream_has_a_heartbeat():
    source, left = Source(), [streams.HEARTBEAT * 2 + 1]

    def goes_on() -> bool:
        left[0] -= 1
        return left[0] > 0

    found = anyio.run(collected, source, 0, 1, goes_on)
    assert found == [b"retry: 2000\n\n", b": still here\n\n", b": still here\n\n"]


def test_a_message_without_a_body_is_not_sent_and_not_read_again():
    asked, left = [], [3]

    def read(after: int) -> list[Numbered]:
        asked.append(after)
        return [Numbered(number=1, body=""), Numbered(number=2, body="")][after:]

    def goes_on() -> bool:
        left[0] -= 1
        return left[0] >= 0

    async def follow() -> list[bytes]:
        return [part async for part in messages(read, 0, goes_on, never)]

    assert anyio.run(follow) == [b"retry: 2000\n\n"]
    assert asked == [0, 2, 2]


def test_a_stream_ends_in_time_so_that_its_client_is_authorised_again(monkeypatch):
    monkeypatch.setattr(streams, "LONGEST", 3)
    source = Source()
    assert anyio.run(collected, source, 0, 1) == [b"retry: 2000\n\n"]
    assert len(source.reads) == 3


def stream(made, headers=(), after: str = "", polls: int = 1, role: Role = Role.VIEW):
    """Return the stream, which ends after *polls*."""
    left = [polls]

    def is_closing() -> bool:
        left[0] -= 1
        return left[0] < 0

    made.desk.is_closing = is_closing
    return made.client(role).get(f"/events{after}", headers=dict(headers))


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch):
    monkeypatch.setattr(streams, "_pause", never)


def test_the_events_of_the_store_are_streamed_by_number(tmp_path):
    made = served(tmp_path)
    made.desk.tell(*(answered(at=NOW + number, why="line\nend\r\x85\u2028") for number in range(5)))
    assert numbers([stream(made).content]) == [1, 2, 3, 4, 5]
    assert numbers([stream(made, after="?after=3").content]) == [4, 5]
    assert numbers([stream(made, {"Last-Event-ID": "4"}, after="?after=1").content]) == [5]
    assert numbers([stream(made, {"Last-Event-ID": "x"}, after="?after=4").content]) == [5]
    assert stream(made, after="?after=x").status_code == 400
    blocks = stream(made, after="?after=4").text.strip().split("\n\n")
    assert json.loads(blocks[-1].splitlines()[1].removeprefix("data: "))["event"]["at"] == NOW + 4
    assert len(blocks[-1].splitlines()) == 2


def test_a_stream_ends_with_the_session(tmp_path):
    made = served(tmp_path, session=3600.0)
    browser = made.browser(Role.VIEW)
    ends = iter([False, False, False])

    def is_closing() -> bool:
        made.clock.now += 1801
        return next(ends)

    made.desk.is_closing = is_closing
    assert browser.get("/events").status_code == 200
    assert [*ends] == [False]  # the server itself goes on


def test_too_many_streams_are_refused_and_those_that_end_are_not_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "MOST_STREAMS", 2)
    made = served(tmp_path)
    for _ in range(5):
        assert stream(made).status_code == 200
    counted = Streams()
    counted.enter()
    counted.refuse_many()
    counted.enter()
    with pytest.raises(Refused):
        counted.refuse_many()
    counted.leave()
    counted.refuse_many()


def test_a_stream_pauses_when_it_has_sent_all_and_not_before():
    source, pauses = Source(streams.BATCH + 1), []

    async def pause() -> None:
        pauses.append(len(source.reads))

    async def follow() -> None:
        async for _ in messages(source.read, 0, lambda: len(source.reads) < 4, pause):
            pass

    anyio.run(follow)
    assert pauses == [2, 3, 4]
