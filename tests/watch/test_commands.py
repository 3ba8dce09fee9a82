"""The commands ``runbook watch`` and ``runbook check`` over rules."""

from __future__ import annotations

import json
import re
import time
from datetime import datetime
from pathlib import Path

import pytest

from runbook.commands.watch.known import me
from runbook.language.watch_rules import APPROVE, BREAKER, DURING, ON, RULE
from runbook.values.plan import Presence, Risk
from runbook.watch.events import Alerted, Held, Probed, Proposed, Reading, Started, Tripped
from tests.support.program import runbook
from tests.watch.watch_scene import WatchScene

ROOT = Path(__file__).parents[2]


@pytest.fixture
def scene(tmp_path):
    return WatchScene(tmp_path, keys={"on": "{alert: HostFaulty}"}).made()


def said(scene, *words, code=0):
    """Run ``runbook watch`` there, and return both of its streams."""
    needs = ("--state", scene.options.state)
    if words[0] not in ("log",):
        needs += ("--rules", scene.options.rules[0], "-i", scene.options.choosing.inventory[0])
    done = runbook("watch", *words, *needs, cwd=scene.folder)
    assert done.code == code, done.err
    return done.out + done.err


def proposed(scene, digest="ab" * 32, **given):
    now = time.time()
    fields = {
        "at": now, "rule": "toy", "host": "a1", "episode": "1@x", "digest": digest, "file": "/plans/p.json",
        "until": now + 3600, "risk": Risk.DELETES_DATA, "signature": "s", "say": "it would remove a file",
    }  # fmt: skip
    plan = Proposed(**{**fields, **given})
    alert = Alerted(at=plan.at, rule=plan.rule, host=plan.host, episode=plan.episode, since=plan.at, firing=True)
    return alert, plan


def test_explain_asks_each_question_up_to_the_one_that_decides(scene):
    now = time.time()
    scene.store(
        Started(at=now - 100),
        Alerted(at=now - 90, rule="toy", host="a1", episode="1@x", since=now - 95, firing=True),
        Probed(at=now - 5, rule="toy", whole=False,
               readings=(Reading(host="a1", presence=Presence.UNKNOWN, say="no answer"),)),
    )  # fmt: skip
    text = said(scene, "explain", "toy", "a1")
    lines = [line.split("  ")[1].strip() for line in text.splitlines()[1:]]
    assert lines == [
        "known rule", "known host", "firing", "new episode", "our own doing", "freeze", "breaker", "lock", "cooldown",
        "attempts", "keep", "probe",
    ]  # fmt: skip
    assert "probe          not acted: the probe has no answer: no answer; asked again at " in text
    assert "nothing was heard of it" in said(scene, "explain", "toy", "a2")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("explain", "toi", "a1"), "there is no rule 'toi' (did you mean toy?)"),
        (("explain", "toy", "a3"), "the inventory has no host 'a3'"),
        (("ask", "toy", "b1"), "none of the hosts of the rule toy (all) is called 'b1'"),
        (("reset", "toy"), "the breaker of the rule toy has not tripped"),
        (("release", "a1"), "nobody has asked for a1 to be left alone"),
        (("hold", "a9", "--for", "1h"), "the inventory has no host 'a9'"),
        (("hold", "a1", "--for", "soon"), "'soon' is not a duration"),
        (("approve", "abababab"), "no plan that waits is called 'abababab' (no plan waits)"),
        (("replay", "none.jsonl"), "cannot read none.jsonl"),
    ],
)
def test_a_mistyped_name_is_an_error_that_says_what_was_meant(scene, words, message):
    assert message in said(scene, *words, code=2)


def test_a_person_who_approves_hears_what_keeps_the_plan_from_being_carried_out(scene):
    """Mutant: an approval that promises a run."""
    now = time.time()
    scene.store(Started(at=now - 30), *proposed(scene))
    said(scene, "hold", "a1", "--for", "2h", "--why", "inspected")
    words = said(scene, "approve", "abababab")
    assert f"not carried out now (freeze): {me()} wants the host to be left alone: inspected" in words


def test_a_hold_of_one_person_is_not_shortened_by_another(scene):
    """Mutants: the end of the last hold that is told; a hold of all hosts that is not told."""
    now = time.time()
    scene.store(Held(at=now, host="a1", until=now + 4 * 3600, by="carl"))
    until = re.search(r"until (\S+)", said(scene, "hold", "a1", "--for", "5m"))
    assert until
    assert datetime.fromisoformat(until[1]).timestamp() > now + 3 * 3600
    scene.store(Held(at=now, host="all", until=now + 9 * 3600, by="dora"))
    assert "by dora's word on all hosts" in said(scene, "hold", "a1", "--for", "5m")
    assert "but dora wants all hosts to be left alone until" in said(scene, "release", "a1")
    assert "dora wants all hosts to be left alone; release `all`" in said(scene, "release", "a2", code=2)
    assert "may act on all again" in said(scene, "release", "all")


def test_a_host_can_be_held_although_a_rule_has_a_mistake(scene):
    """Mutant: a hold that reads the rules."""
    scene.rule_file.write_text(scene.rule_file.read_text() + "oops: 1\n")
    assert "is left alone until" in said(scene, "hold", "a1", "--for", "1h")
    assert "may act on a1 again" in said(scene, "release", "a1")
    assert "oops" in said(scene, "inbox", code=2)


def test_the_log_says_that_it_knows_nothing_of_a_name(scene):
    scene.store(Alerted(at=time.time(), rule="toy", host="a1", episode="1@x", since=1.0, firing=True))
    assert "nothing is kept about the host 'a11' (did you mean a1?)" in said(scene, "log", "--host", "a11", code=2)
    assert "nothing is kept about the rule 'toi' (did you mean toy?)" in said(scene, "log", "--rule", "toi", code=2)
    assert "an alert fires" in said(scene, "log", "--host", "a1", "--rule", "toy")


def test_a_person_approves_refuses_holds_and_resets(scene):
    scene.rule_file.write_text(scene.rule_file.read_text() + "approve: {not: requester}\n")
    scene.store(Started(at=time.time() - 10), *proposed(scene), *proposed(scene, "cd" * 32, host="a2", requester=me()))
    inbox = said(scene, "inbox")
    assert "abababab  a1  deletes-data  rule toy" in inbox
    assert f"asked for by {me()}" in inbox
    assert "approved by" in said(scene, "approve", "abababab")
    assert "has approved it already" in said(scene, "approve", "abababab", code=2)
    assert "another person has to approve it" in said(scene, "approve", "cdcdcdcd", code=2)
    assert "no plan that waits is called 'abab'" in said(scene, "approve", "abab", code=2)
    assert "is refused" in said(scene, "reject", "cdcdcdcd", "--why", "not now")
    assert "cdcdcdcd" not in said(scene, "inbox")
    assert "is left alone until" in said(scene, "hold", "a1", "--for", "2h", "--why", "inspected")
    assert "may act on a1 again" in said(scene, "release", "a1")
    scene.store(Tripped(at=time.time(), rule="toy", why="too many"))
    assert "is reset" in said(scene, "reset", "toy")
    assert "will look at a2" in said(scene, "ask", "toy", "a2")
    log = said(scene, "log")
    for words in (
        "approved plan abababab", ": not now", "wants it to be left alone", "lets rules act on it again",
        "the breaker has tripped: too many", "has reset the breaker", "asked for it to be looked at",
    ):  # fmt: skip
        assert words in log


def test_a_plan_that_has_expired_cannot_be_approved(scene):
    scene.store(*proposed(scene, until=time.time() - 1))
    assert "no plan waits" in said(scene, "inbox")
    assert "expired" in said(scene, "approve", "abababab", code=2)


def test_the_log_is_replayed_with_other_rules(scene, tmp_path):
    """Mutant: a replay that keeps runs which were not."""
    at = 1_800_000_000.0
    here = (Reading(host="a1", presence=Presence.PRESENT, say="broken", changes=1, signature="s"),)
    scene.store(
        Started(at=at),
        Alerted(at=at + 1, rule="toy", host="a1", episode="1@x", since=at, firing=True),
        *(Probed(at=at + second, rule="toy", readings=here, whole=False) for second in range(2, 400, 60)),
    )
    lines = said(scene, "log", "--output", "jsonl")
    (tmp_path / "events.jsonl").write_text(lines)
    assert [json.loads(line)["kind"] for line in lines.splitlines()[:2]] == ["started", "alerted"]
    assert "make a plan (risk and approval)" in said(scene, "replay", "events.jsonl")
    scene.rule_file.write_text(scene.rule_file.read_text() + "for: 300s\n")
    text = said(scene, "replay", "events.jsonl")
    assert (
        "2027-01-15T08:00:02Z toy a1: not acted (sustained) until 2027-01-15T08:01:02Z: seen for 0 s of 5 min" in text
    )
    assert "2027-01-15T08:05:02Z toy a1: make a plan (risk and approval)" in text


def test_check_finds_the_mistakes_of_rules(scene, tmp_path):
    good = runbook("check", str(scene.rule_file))
    assert (good.code, "good (a rule: the alert HostFaulty; then propose" in good.out) == (0, True), good.err
    for text, mistake in (
        ("finding: faulti\n", "has no finding 'faulti' (did you mean faulty?)"),
        ("inputs: {place: 3}\n", "input place: "),
        ("inputs: {plaice: x}\n", "plaice"),
        ("playbook: no-such-playbook\n", "no-such-playbook"),
        ("then: aply\n", "aply"),
    ):
        key = text.partition(":")[0]
        kept = [line for line in scene.rule_file.read_text().splitlines() if not line.startswith(f"{key}:")]
        wrong = tmp_path / "watch" / "wrong.yaml"
        wrong.write_text("\n".join([*kept, text]).replace("name: toy", "name: wrong"))
        done = runbook("check", str(wrong))
        assert (done.code, mistake in done.err, f"{wrong}:" in done.err) == (2, True, True), done.err
        wrong.unlink()


def test_the_page_about_rules_has_every_key_and_every_rule_of_the_project_is_good():
    page = (ROOT / "docs/watch.md").read_text()
    inner = {"on": ON, "approve": APPROVE, "during": DURING, "breaker": BREAKER}
    names = [f"{key}.{name}" for key, table in inner.items() for name in table] + [
        key for key in RULE if key not in inner
    ]
    assert [name for name in names if f"`{name}`" not in page] == []
    done = runbook("check", str(ROOT / "watch"))
    assert done.code == 0, done.err
