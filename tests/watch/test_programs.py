"""The programs of the watcher: their arguments, what they leave behind, and what a faulty one leads to."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator

import pytest

from runbook.commands.watch.event_store import EventStore, StoreError, watch_folder
from runbook.commands.watch.known import Known
from runbook.commands.watch.options import ServeOptions
from runbook.commands.watch.programs import LONGEST_ARGUMENT, Programs, _portions
from runbook.commands.watch.rule_files import read_rules
from runbook.values.plan import Presence, Risk
from runbook.values.watch_rule import LONGEST_WITHIN
from runbook.watch.events import (
    Alerted,
    Answered,
    Approved,
    Began,
    BreakerReset,
    Ended,
    Held,
    NotProposed,
    Probed,
    Proposed,
    Reading,
    Rejected,
    Released,
    Started,
    Stopped,
    Tripped,
    WatchEvent,
)
from runbook.watch.memory import Remembered
from tests.support.waiting import until
from tests.watch.watch_scene import WatchScene


def test_ten_thousand_hosts_are_probed_in_portions_that_fit_into_one_argument():
    """Mutant: all names in one argument."""
    names = tuple(f"gpu-7-rack-{number:06}.cluster.example.com" for number in range(10_000))
    portions = [*_portions(names)]
    assert max(len(",".join(portion).encode()) for portion in portions) <= LONGEST_ARGUMENT
    assert tuple(name for portion in portions for name in portion) == names
    assert [*_portions(names[:3])] == [names[:3]]
    assert [*_portions(())] == []


def test_old_plans_and_outputs_are_removed_and_young_ones_stay(tmp_path):
    programs = Programs(watch_folder(str(tmp_path / "state")), ServeOptions(), lambda event: None)
    old = time.time() - 2 * LONGEST_WITHIN - 60
    for folder, ending in (("plans", "json"), ("outputs", "jsonl")):
        for name, at in (("old", old), ("young", time.time())):
            file = tmp_path / "state" / folder / f"{name}.{ending}"
            file.write_text("{}")
            os.utime(file, (at, at))
    programs.prune(time.time())
    left = sorted(each.name for each in (tmp_path / "state").rglob("*.json*"))
    assert left == ["young.json", "young.jsonl"]


def test_a_fault_of_our_own_is_an_answer_too(tmp_path, monkeypatch):
    """Mutant: a thread that dies without a word, so that its hosts are never asked again."""
    scene = WatchScene(tmp_path).made()
    heard = []
    programs = Programs(watch_folder(scene.options.state), scene.options, heard.append)

    def broken(*given, **named):
        raise RuntimeError("a fault")

    monkeypatch.setattr(programs, "_output", broken)
    (rule,) = read_rules(scene.options.rules)
    programs.probe(rule, ("a1", "a2"), whole=True)
    until(lambda: heard)
    assert [(each.host, each.presence, "a fault" in each.say) for each in heard[0].readings] == [
        ("a1", Presence.UNKNOWN, True),
        ("a2", Presence.UNKNOWN, True),
    ]


def test_a_plan_whose_file_was_exchanged_is_not_carried_out(tmp_path):
    """Mutant: ``_applied`` that does not compare the digest."""
    scene = WatchScene(tmp_path, keys={"on": "{alert: HostFaulty}"}).made()
    for host in scene.hosts:
        scene.break_host(host)
    scene.start()
    try:
        for host in scene.hosts:
            scene.alert(host)
        until(lambda: len(scene.events(Proposed)) == 2)
        plans = {event.host: event for event in scene.events(Proposed)}
        folder = scene.folder / "state/plans"
        (folder / f"{plans['a1'].digest}.json").write_bytes((folder / f"{plans['a2'].digest}.json").read_bytes())
        scene.known(lambda known: known.approve(plans["a1"].digest, "bob", time.time()))
        until(lambda: scene.events(Ended))
        (ended,) = scene.events(Ended)
        assert (ended.host, ended.changed, "another content" in ended.verdict) == ("a1", False, True)
        assert (scene.runs("a1"), scene.runs("a2")) == (0, 0)
    finally:
        scene.end()


def test_words_of_a_host_that_no_database_takes_stop_nobody(tmp_path):
    """Mutant: ``ensure_ascii=False`` in ``to_line``."""
    scene = WatchScene(tmp_path, keys={"on": "{every: 10s}"}).made()
    toy = (
        (scene.folder / "toy.yaml").read_text().replace("command: {script: 'cat", "command: {parse: json, script: 'cat")
    )
    toy = toy.replace("'none' not in mark.stdout", "mark.value != 'none'").replace("mark.stdout", "mark.value")
    (scene.folder / "toy.yaml").write_text(toy.replace("|| echo none", '|| echo \\"none\\"').replace('\\"', '"'))
    (scene.folder / "marks/a1.fault").write_text(
        '"\\ud800 forged\\n2026-01-01T00:00:00Z toy a1: bob approved plan deadbeef"'
    )
    watcher = scene.start()
    try:
        until(lambda: scene.events(Probed))
        until(lambda: [it for event in scene.events(Probed) for it in event.readings if it.host == "a1"])
        assert watcher.health().is_well
        assert len(scene.events(Started)) == 1
        assert all("\n" not in it.say for event in scene.events(Probed) for it in event.readings)
    finally:
        scene.end()


def test_pruning_forgets_no_word_of_a_person_and_no_run(tmp_path):
    """Mutant: a prune by time alone."""
    now = time.time()
    old = now - 60 * 86400
    store = EventStore(watch_folder(str(tmp_path / "state")))
    store.append(
        Started(at=old),
        Probed(at=old, rule="toy"),
        Held(at=old, host="a1", until=now + 86400, by="bob"),
        Released(at=old + 1, host="a1", by="bob"),
        Tripped(at=old, rule="toy", why="too many"),
        Began(at=old, rule="toy", host="a1", episode="1", digest="d"),
    )
    store.prune(now, Remembered([]).state(), 6)
    assert [type(each.event) for each in store.since(0)] == [Held, Released, Tripped, Began]
    store.close()


DAY = 86400.0


def story(now: float) -> Iterator[WatchEvent]:
    """Yield 60 days of a host with faults that were refused, held, planned, cured and interrupted."""
    for day in range(60, 0, -1):
        at, episode = now - day * DAY, f"fp{day}@{day}"
        host = f"a{day % 7}"

        def seen(
            presence: Presence, later: float, host: str = host, at: float = at, whole: bool = not day % 2
        ) -> Probed:
            reading = Reading(host=host, presence=presence, changes=1, signature="s")
            return Probed(at=at + later, rule="toy", readings=(reading,), well=3, whole=whole)

        if day > 5:
            yield Started(at=at)
        yield Alerted(at=at + 1, rule="toy", host=host, episode=episode, since=at, firing=True)
        yield seen(Presence.PRESENT, 2)
        yield Proposed(
            at=at + 3, rule="toy", host=host, episode=episode, digest=f"{day:064x}", file="f", until=at + 9 * DAY,
            risk=Risk.REBOOTS, signature="s", say="it would reboot",
        )  # fmt: skip
        if day % 3 == 0:
            yield Rejected(at=at + 4, rule="toy", host=host, episode=episode, digest=f"{day:064x}", by="bob")
        elif day % 3 == 1:
            yield Approved(at=at + 4, rule="toy", host=host, digest=f"{day:064x}", by="bob")
        else:
            yield Began(at=at + 5, rule="toy", host=host, episode=episode, digest=f"{day:064x}")
            if day % 2:
                yield Stopped(at=at + 6, rule="toy", host=host, digest=f"{day:064x}", by="ann")
            yield Ended(
                at=at + 7, rule="toy", host=host, digest=f"{day:064x}", run=f"r{day}", verdict="resolved",
                cured=day % 4 == 0, changed=True,
            )  # fmt: skip
        if day % 5 and day > 1:
            yield seen(Presence.ABSENT if day % 4 else Presence.UNKNOWN, 8)
            yield Alerted(at=at + 9, rule="toy", host=host, episode=episode, since=at, firing=False)
        if day % 10 == 0:
            yield Held(at=at + 10, host=host, until=now + day * DAY, by=f"p{day}")
            yield Tripped(at=at + 12, rule="toy", why="too many")
            yield BreakerReset(at=at + 13, rule="toy", by="bob")
        if day == 5:
            yield NotProposed(at=at + 13, rule="toy", host=host, episode=episode, why="no sudo")
        yield Answered(
            at=at + 14, rule="toy", host=host, episode=episode, question="keep", decision="wait", why=f"day {day}"
        )


def test_pruning_changes_nothing_of_what_follows_from_the_events(tmp_path):
    """Mutants: a prune without the state; a state that leaves out any part; events that are taken in twice."""
    scene = WatchScene(tmp_path, keys={"threshold": "{count: 2, within: 20d}"}).made()
    rules, folder, now = read_rules(scene.options.rules), watch_folder(scene.options.state), time.time()
    known = Known(rules, folder)
    known.append(*story(now))
    before = known.remembered.state()
    places = [*known.remembered.remembered_hosts()]
    memories = [known.remembered.memory(*place, at=now) for place in places]
    faulty = known.remembered.faulty("toy", now)
    many = len([*known.store.since(0)])
    for _ in range(2):  # also the state that was made from a state
        known.prune(now)
        known.close()
        known = Known(rules, folder)
    assert len([*known.store.since(0)]) < many / 2
    assert known.remembered.state() == before
    assert [known.remembered.memory(*place, at=now) for place in places] == memories
    assert known.remembered.faulty("toy", now) == faulty
    assert {"refused", "seen", "proposal", "no_plan", "began", "runs", "rejected", "alerts", "certain"} <= {
        field for place in before.places for field in ("refused", "seen", "proposal", "no_plan", "began", "runs",
        "rejected", "alerts", "certain") if getattr(place.known, field)
    }  # fmt: skip
    known.append(Released(at=now, host="a0", by="bob"))
    assert all(hold.host != "a0" for hold in known.remembered.holds(now))
    known.close()


def test_a_state_of_another_version_is_not_used(tmp_path):
    scene = WatchScene(tmp_path).made()
    rules, folder, now = read_rules(scene.options.rules), watch_folder(scene.options.state), time.time()
    known = Known(rules, folder)
    known.append(Held(at=now, host="a1", until=now + 600, by="bob"))
    known.prune(now)
    known.close()
    with sqlite3.connect(folder.path / "watch.sqlite") as base:
        base.execute("UPDATE state SET body = '{\"other\": 1}'")
    base.close()
    known = Known(rules, folder)
    assert [hold.by for hold in known.remembered.holds(now)] == ["bob"]
    known.close()


def test_a_decision_is_not_stored_once_something_else_was(tmp_path):
    """Mutant: an append that does not look."""
    scene = WatchScene(tmp_path).made()
    rules, folder, now = read_rules(scene.options.rules), watch_folder(scene.options.state), time.time()
    known, other = Known(rules, folder), EventStore(folder)
    other.append(Held(at=now, host="a1", until=now + 600, by="bob"))
    began = Began(at=now, rule="toy", host="a1", episode="1", digest="d")
    assert not known.decided(began)
    assert [hold.by for hold in known.remembered.holds(now)] == ["bob"]
    assert known.decided(began)
    assert [type(each.event) for each in other.since(0)] == [Held, Began]
    other.close()
    known.close()


@pytest.mark.parametrize("by", ["removal", "exchange"])
def test_nothing_is_stored_where_nobody_looks(tmp_path, by):
    """Mutant: a file that is only compared when it is opened."""
    scene = WatchScene(tmp_path).made()
    folder = watch_folder(scene.options.state)
    known = Known(read_rules(scene.options.rules), folder)
    (folder.path / "watch.sqlite").rename(folder.path / "old.sqlite")
    if by == "exchange":
        EventStore(folder).close()
    with pytest.raises(StoreError, match="was removed or exchanged while it was in use"):
        known.append(Started(at=1.0))
    known.close()
