"""Containers that a restart of Docker ended, told from those that ended by themselves or on request."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from runbook.library.docker import containers
from runbook.values.command import Completed
from runbook.values.types import Unknown
from tests.support.docker_engine import engine_of_its_own
from tests.support.probe_driver import drive
from tests.support.tables import every_row
from tests.support.waiting import until

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC).timestamp()
STARTED = 3000


def at(ago: float) -> str:
    """Docker's text for so many seconds before NOW."""
    return datetime.fromtimestamp(NOW - ago, UTC).isoformat().replace("+00:00", "Z")


def row(name: str, ended: float | None, code: int = 0, started: float = STARTED) -> str:
    """A line of a container that ended so many seconds before NOW, or runs."""
    said = {
        "id": name * 64, "name": f"/{name}", "image": "i", "image_id": "i", "created": at(4000), "pid": 0, "exit_code": code,
        "status": "running" if ended is None else "exited", "oom_killed": False, "error": "", "started": at(started),
        "finished": "0001-01-01T00:00:00Z" if ended is None else at(ended), "restarts": 0, "health": "", "memory": 0, "swap": 0,
        "nano": 0, "shm": 0, "ipc": "private", "policy": {"Name": "no", "MaximumRetryCount": 0}, "log": "json-file",
        "log_path": "", "auto_remove": False, "mounts": [],
    }  # fmt: skip
    return f"container {json.dumps(said)}"


class Engine:
    """Answers the two questions of the probe: the containers, and what Docker was asked to end."""

    def __init__(self, rows, dockerd_age, stopped=()):
        self.listed = [*rows, f'clock "{at(0)}"']
        if dockerd_age is not None:
            self.listed.append(f'daemon {{"up":{dockerd_age + 500:.2f},"began":50000}}')
        said = {"type": "container", "what": "kill", "at": int((NOW - 200) * 1e9), "signal": "15"}
        self.events = [*(f"event {json.dumps({**said, 'id': it * 64})}" for it in stopped), 'listed ""']

    def run(self, *commands):
        lines = (self.listed, self.events)
        return tuple(Completed(exit_code=0, stdout="".join(f"{it}\n" for it in said)) for said in lines)


THREE = [row("a", 200.0, 137), row("b", 199.6, 0), row("c", 200.4, 143), row("d", 900.0)]
ALL = ("a", "b", "c")


@every_row(
    ("rows", "dockerd_age", "stopped", "ended_with"),
    [
        pytest.param(THREE, 190, (), ALL, id="dockerd was started ten seconds later"),
        pytest.param(THREE[:2], 190, (), ALL[:2], id="of two"),
        pytest.param(THREE, 205, (), ALL, id="dockerd found them ended as it started"),
        pytest.param(THREE, 2900, (), (), id="dockerd ran all the time"),
        pytest.param(THREE, 205, ("b",), (), id="one docker stop ended them, just after dockerd was started"),
        pytest.param(
            [row("a", 200.0, started=203), row("b", 199.8, started=203)], 205, (), (), id="started after dockerd was"
        ),
        pytest.param(THREE[:1], 190, (), (), id="one alone"),
        pytest.param([row("a", 200.0, 255)], 205, (), ("a",), id="one alone that dockerd could not find"),
        pytest.param([row("a", 200.0, 255)], 2900, (), (), id="one that ended with that code by itself"),
        pytest.param(THREE, 20, (), Unknown, id="dockerd was started long after, and has forgotten"),
        pytest.param(THREE, None, (), Unknown, id="dockerd is not seen from here"),
        pytest.param([row("a", None), row("b", 200.0)], 190, (), (), id="it runs"),
    ],
)
def test_what_a_restart_ended(rows, dockerd_age, stopped, ended_with):
    found = drive(containers.probe(containers.Args(name="a")), Engine(rows, dockerd_age, stopped)).chosen.ended_with
    assert isinstance(found, Unknown) if ended_with is Unknown else found == ended_with


def test_what_docker_was_asked_before_its_restart_is_unknown():
    old, new = row("a", 200.0, 137), row("b", 50.0, 137, started=100)
    state = drive(containers.probe(containers.Args()), Engine([old, new], 120))
    by_name = {it.name: it.signals for it in state.containers}
    assert by_name["b"] == ()
    assert isinstance(by_name["a"], Unknown)


@pytest.mark.real("docker")
def test_a_real_restart_is_told_from_a_stop():
    """Mutants: containers that one ``docker stop`` ended at one moment taken for a restart's."""
    with engine_of_its_own() as engine:
        asked = [engine.lives(), engine.lives()]
        engine("stop", "-t", "0", *asked)
        seen = drive(containers.probe(containers.Args(name=asked[0])), engine.machine()).chosen
        assert (seen.ended_with, bool(seen.signals)) == ((), True)
        names = {engine.lives() for _ in range(3)}
        engine.stop()
        engine.start()
        until(lambda: not engine("ps", "-q"))
        seen = drive(containers.probe(containers.Args(name=sorted(names)[0])), engine.machine()).chosen
        assert set(seen.ended_with) == names
        assert isinstance(seen.signals, Unknown)
