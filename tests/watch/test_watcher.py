"""The watcher over toy hosts of this machine: real programs probe, plan and apply."""

from __future__ import annotations

import pytest

from runbook.watch.events import Answered, Began, Ended, Proposed
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
    scene = made(keys={"on": "{every: 10s}", "then": "apply", "risk": "unknown"})
    scene.keys["risk"] = ""
    scene.break_host("a2")
    with pytest.raises(Exception, match="risk"):
        scene.start()


def test_answers_say_why_nothing_is_done(made):
    scene = made(keys={"on": "{alert: HostFaulty}"})
    scene.start()
    scene.alert("a1")
    until(lambda: [each for each in scene.events(Answered) if each.question == "probe" and each.decision == "wait"])
    assert scene.events(Proposed) == []
