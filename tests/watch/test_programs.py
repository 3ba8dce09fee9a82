"""The programs of the watcher: their arguments, what they leave behind, and what a faulty one leads to."""

from __future__ import annotations

import os
import time

import pytest

from runbook.commands.watch.event_store import EventStore, watch_folder
from runbook.commands.watch.known import Known
from runbook.commands.watch.options import ServeOptions
from runbook.commands.watch.programs import LONGEST_ARGUMENT, Programs, _portions
from runbook.commands.watch.rule_files import read_rules
from runbook.records.private_folder import PrivateFolder
from runbook.values.plan import Presence
from runbook.values.watch_rule import LONGEST_WITHIN
from runbook.watch.events import (
    Alerted,
    Began,
    Ended,
    Held,
    Probed,
    Proposed,
    Reading,
    Rejected,
    Released,
    Started,
    Tripped,
)
from runbook.watch.policy import Question, decide
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
    store.prune(now, lambda refusal: True)
    assert [type(each.event) for each in store.since(0)] == [Held, Released, Tripped, Began]
    store.close()


DAY = 86400.0


def reopened(known: Known, folder: PrivateFolder) -> Known:
    """Return what is known after old events are pruned and the watcher was started again."""
    rules = tuple(known.rules.values())
    known.prune(time.time())
    known.close()
    return Known(rules, folder)


@pytest.mark.parametrize("ends_by", ["", "resolved"])
def test_a_refusal_holds_as_long_as_its_fault_however_old_it_is(tmp_path, ends_by):
    """Mutant: a refusal that is found by the plan that it names; one that is kept for ever."""
    scene = WatchScene(tmp_path, keys={"on": "{alert: HostFaulty}"}).made()
    folder = watch_folder(scene.options.state)
    known = Known(read_rules(scene.options.rules), folder)
    now = time.time()

    def alert(age: float, episode: str = "1", *, firing: bool = True) -> Alerted:
        return Alerted(at=now - age, rule="toy", host="a1", episode=episode, since=now - 60 * DAY, firing=firing)

    known.append(
        alert(60 * DAY),
        Rejected(at=now - 59.9 * DAY, rule="toy", host="a1", episode="1", digest="ab" * 32, by="bob"),
    )
    if ends_by:
        known.append(alert(50 * DAY, firing=False))
    else:
        known.append(*(alert(day * DAY / 2) for day in range(118, 0, -1)))
    known = reopened(known, folder)
    new = "2" if ends_by else "1"
    known.append(alert(0, new))
    (trigger,) = known.remembered.triggers("toy", "a1")
    answer = decide(known.rules["toy"], trigger, known.remembered.memory("toy", "a1", at=now), now)
    assert answer.question == (Question.PROBE if ends_by else Question.NEW_EPISODE)
    assert bool(ends_by) == (not [each for each in known.store.since(0) if isinstance(each.event, Rejected)])
    known.close()


def test_what_a_threshold_counts_is_kept_for_its_time(tmp_path):
    """Mutant: readings that are pruned after seven days, whatever the rules count."""
    keys = {"on": "{every: 1h}", "threshold": "{count: 2, within: 20d}"}
    scene = WatchScene(tmp_path, keys=keys).made()
    folder = watch_folder(scene.options.state)
    known = Known(read_rules(scene.options.rules), folder)
    now = time.time()
    for day, presence in ((15, Presence.PRESENT), (14, Presence.ABSENT), (0, Presence.PRESENT)):
        reading = Reading(host="a1", presence=presence, changes=1, signature="a")
        known.append(Probed(at=now - day * DAY, rule="toy", readings=(reading,)))
    known = reopened(known, folder)
    assert len(known.remembered.host("toy", "a1").began) == 2
    known.close()
