"""The watcher over toy hosts of this machine: real programs probe, plan and apply."""

from __future__ import annotations

import sqlite3
import threading
import time
from datetime import UTC, datetime

import pytest

from runbook.commands.watch.event_store import EventStore, StoreError, only_watcher, watch_folder
from runbook.commands.watch.known import Known
from runbook.commands.watch.watcher import Watcher, next_cron
from runbook.values.watch_rule import Then
from runbook.watch.events import Alerted, Answered, Began, Ended, Faulted, Held, Probed, Proposed, Started
from tests.support.waiting import until
from tests.watch.watch_scene import WatchScene

pytestmark = pytest.mark.slow


@pytest.fixture
def made(tmp_path):
    scenes = []

    def make(**given):
        scenes.append(WatchScene(tmp_path, **given).made())
        return scenes[-1]

    yield make
    for scene in scenes:
        scene.end()


def test_an_alert_leads_to_a_plan_that_waits_and_an_approval_cures_the_host(made):
    scene = made(keys={"on": "{alert: HostFaulty}"})
    scene.break_host("a1")
    scene.start()
    scene.alert("a1")
    until(lambda: scene.events(Proposed))
    assert scene.is_broken("a1")
    scene.approve()
    until(lambda: scene.events(Ended))
    (ended,) = scene.events(Ended)
    assert (ended.host, ended.verdict, ended.cured, ended.changed) == ("a1", "resolved", True, True)
    assert (scene.runs("a1"), scene.runs("a2"), scene.is_broken("a1")) == (1, 0, False)
    scene.alert("a1")
    scene.alert("a1", firing=False)
    assert len(scene.events(Began)) == 1


def test_a_rule_applies_by_itself_what_its_clock_has_seen(made):
    scene = made(keys={"on": "{every: 10s}", "then": "apply\nrisk: reboots"})
    scene.break_host("a2")
    scene.start()
    until(lambda: scene.events(Ended))
    assert (scene.runs("a1"), scene.runs("a2"), scene.is_broken("a2")) == (0, 1, False)
    (began,) = scene.events(Began)
    assert (began.host, began.episode.startswith("seen@"), began.approved_by) == ("a2", True, ())


def test_a_plan_that_is_too_risky_waits_although_the_rule_applies_by_itself(made):
    """Mutant: a risk that is not compared."""
    scene = made(keys={"on": "{every: 10s}", "then": "apply\nrisk: edits-files"})
    scene.break_host("a2")
    scene.start()
    until(lambda: [each for each in scene.events(Answered) if "waits for an approval" in each.why])
    assert scene.events(Began) == []


def test_a_playbook_that_is_gone_is_said_and_the_next_cycle_finds_it_again(made):
    scene = made(keys={"on": "{every: 10s}"})
    scene.start()
    until(lambda: scene.events(Probed))
    text = (scene.folder / "toy.yaml").read_text()
    (scene.folder / "toy.yaml").unlink()
    until(lambda: [each for each in scene.events(Probed) if any(it.presence == "unknown" for it in each.readings)])
    (scene.folder / "toy.yaml").write_text(text)
    scene.break_host("a1")
    until(lambda: scene.events(Proposed))


def test_nothing_is_changed_while_the_events_cannot_be_stored(made, monkeypatch):
    """Mutant: a run that is begun before its event is stored."""
    scene = made(keys={"on": "{every: 10s}", "then": "apply\nrisk: reboots"})
    scene.break_host("a1")
    append, refused = EventStore.append, []

    def append_no_run(self, *events, last=None):
        if any(isinstance(event, Began) for event in events):
            refused.append(events)
            raise StoreError("the disk is full")
        return append(self, *events, last=last)

    monkeypatch.setattr(EventStore, "append", append_no_run)
    watcher = scene.start()
    until(lambda: len(refused) > 1)
    assert scene.runs("a1") == 0
    assert not watcher.health().is_well
    monkeypatch.setattr(EventStore, "append", append)
    until(lambda: scene.events(Ended))
    assert (scene.runs("a1"), len(scene.events(Began))) == (1, 1)


def test_a_cycle_that_hangs_is_said_while_it_hangs(made, monkeypatch):
    """Mutant: health that only knows of faults."""
    monkeypatch.setattr("runbook.commands.watch.watcher.LATE", 0.2)
    scene, goes_on, hangs = made(), threading.Event(), threading.Event()
    refresh = Watcher._refresh

    def refresh_late(self):
        hangs.set()
        assert goes_on.wait(60)
        refresh(self)

    monkeypatch.setattr(Watcher, "_refresh", refresh_late)
    watcher = scene.start()
    try:
        assert hangs.wait(60)
        until(lambda: not watcher.health().is_well)
        assert "the last cycle was" in watcher.health().why
        scene.alert("a1")  # is heard meanwhile: nothing that may hang is done under the lock
        assert [event.host for event in scene.events(Alerted)] == ["a1"]
        monkeypatch.setattr("runbook.commands.watch.watcher.LATE", 60.0)
    finally:
        goes_on.set()
    until(lambda: watcher.health().is_well and scene.events(Answered))


def test_a_rule_that_is_edited_stays_what_it_was_also_after_a_fault(made, monkeypatch):
    """Mutant: rules that are read again with the store."""
    scene = made(keys={"on": "{every: 10s}", "then": "propose"})
    watcher = scene.start()
    until(lambda: scene.events(Probed))
    scene.rule_file.write_text(
        scene.rule_file.read_text().replace("then: propose", "then: apply\nrisk: deletes-data").replace("10s", "11s")
    )
    scene.break_host("a1")
    prune = Known.prune

    def broken(self, now):
        monkeypatch.setattr(Known, "prune", prune)
        raise RuntimeError("a fault")

    monkeypatch.setattr(Known, "prune", broken)
    watcher._pruned_at = -1e9
    until(lambda: len(scene.events(Started)) > 1)
    assert [event.why for event in scene.events(Faulted)] == ["RuntimeError: a fault"]
    until(lambda: scene.events(Proposed))
    with watcher.lock:
        assert watcher.known.rules["toy"].then is Then.PROPOSE
    assert scene.events(Began) == []


@pytest.mark.parametrize("what", ["the events", "the lock"])
def test_a_watcher_whose_state_is_removed_does_nothing_more_and_says_so(made, what):
    """Mutant: a watcher that goes on with files that nobody else sees, so that no hold reaches it."""
    scene = made(keys={"on": "{every: 10s}", "then": "apply\nrisk: reboots"})
    with only_watcher(watch_folder(scene.options.state)):
        watcher = scene.start()
        until(lambda: scene.events(Probed) or scene.events(Answered) or watcher.known.remembered.rule("toy").well)
        for file in (scene.folder / "state").glob("watch.sqlite*" if what == "the events" else "watch.lock"):
            file.unlink()
        until(lambda: not watcher.health().is_well)
        if what == "the lock":
            with only_watcher(watch_folder(scene.options.state)):
                pass  # another watcher may begin; this one is out of the way
        scene.store(Held(at=time.time(), host="a1", until=time.time() + 600, by="bob"))
        scene.break_host("a1")
        until(lambda: len(scene.said) > 1)
    assert "was removed or exchanged" in scene.said[-1]
    assert (scene.runs("a1"), scene.events(Began)) == (0, [])


def test_an_event_that_a_listener_cannot_take_is_stored_nevertheless(made):
    """Mutant: a listener whose error ends the cycle."""
    scene = made(keys={"on": "{every: 10s}", "then": "apply\nrisk: reboots"})
    scene.break_host("a1")
    watcher = scene.start()

    def broken(stored):
        raise OSError("the pipe is closed")

    with watcher.lock:
        watcher.listeners.append(broken)
    until(lambda: scene.events(Ended))
    assert scene.runs("a1") == 1
    assert len(scene.events(Started)) == 1
    assert scene.events(Faulted) == []
    assert "an event could not be passed on: OSError: the pipe is closed" in scene.said


def test_the_reason_of_a_fault_is_said_as_long_as_it_lasts(made, monkeypatch):
    """Mutant: a store that is used after it was closed, so that the reason is hidden."""
    monkeypatch.setattr("runbook.commands.watch.watcher.AFTER_A_FAULT", 0.1)
    scene = made(keys={"on": "{every: 10s}"})
    watcher = scene.start()
    until(lambda: scene.events(Started))
    with sqlite3.connect(scene.folder / "state/watch.sqlite") as base:
        base.execute("INSERT INTO events (at, kind, rule, host, body) VALUES (1.0, 'x', 'toy', 'a1', '{}')")
    base.close()
    until(lambda: len(scene.said) > 3)
    assert {line.partition(": not a")[0] for line in scene.said} == {
        "the watcher does not decide: the watcher's events cannot be read"
    }
    assert not watcher.health().is_well
    with sqlite3.connect(scene.folder / "state/watch.sqlite") as base:
        base.execute("DELETE FROM events WHERE kind = 'x'")
    base.close()
    until(lambda: watcher.health().is_well)
    assert len(scene.events(Faulted)) == 1


class SetClock:
    """The module ``time`` with a clock that can be put back."""

    def __init__(self) -> None:
        self.back = 0.0

    def time(self) -> float:
        return time.time() - self.back

    def __getattr__(self, name: str) -> object:
        return getattr(time, name)


def test_a_clock_that_is_put_back_does_not_stop_the_probes(made, monkeypatch):
    """Mutant: the next probe at the time that the clock had before."""
    monkeypatch.setattr("runbook.commands.watch.watcher.AFTER_A_FAULT", 0.1)
    clock = SetClock()
    monkeypatch.setattr("runbook.commands.watch.watcher.time", clock)
    scene = made(keys={"on": "{every: 10s}"})
    scene.break_host("a1")
    scene.start()
    until(lambda: scene.events(Probed))
    clock.back = 3600.0
    until(lambda: len(scene.events(Started)) > 1)
    number = len(scene.events(Probed))
    until(lambda: len(scene.events(Probed)) > number)
    (fault,) = scene.events(Faulted)
    assert fault.why.startswith("the clock was put back by ")


def test_a_slow_inventory_keeps_nobody_waiting(made, monkeypatch):
    """Mutant: an inventory that is read under the lock, or in the cycle."""
    monkeypatch.setattr("runbook.commands.watch.watcher.READ_AGAIN", 0.0)
    scene, goes_on, reads = made(), threading.Event(), threading.Event()
    read = Watcher._read_hosts

    def read_late(self):
        if threading.current_thread() is not threading.main_thread():
            reads.set()
            assert goes_on.wait(60)
        return read(self)

    monkeypatch.setattr(Watcher, "_read_hosts", read_late)
    watcher = scene.start()
    try:
        assert reads.wait(60)
        scene.alert("a1")
        until(lambda: scene.events(Answered))
        assert watcher.health().is_well
    finally:
        goes_on.set()


def test_a_second_watcher_with_the_same_state_is_refused(made):
    scene = made()
    with only_watcher(watch_folder(scene.options.state)):
        process = scene.process()
        assert process.wait(60) == 2
    assert "another watcher is at work" in (scene.folder / "watch.log").read_text()


def test_a_person_whose_rule_has_a_cron_knows_when_it_probes():
    at = datetime(2026, 11, 29, 2, 59, tzinfo=UTC).timestamp()
    assert datetime.fromtimestamp(next_cron("0 3 * * sun", at), UTC).astimezone().strftime("%a %H:%M") == "Sun 03:00"


def test_answers_say_why_nothing_is_done(made):
    scene = made(keys={"on": "{alert: HostFaulty}"})
    scene.start()
    scene.alert("a1")
    until(lambda: [each for each in scene.events(Answered) if each.question == "probe" and each.decision == "wait"])
    assert scene.events(Proposed) == []
