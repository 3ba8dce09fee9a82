"""The pages: their content, what is escaped, and what works without JavaScript."""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote

import pytest

from runbook.commands.serve import pages
from runbook.commands.serve.access import Role
from runbook.commands.serve.desk import Health
from runbook.errors import ConfigError
from runbook.records.index import Index
from runbook.records.journal import Journal
from runbook.watch.events import Alerted, Approved, Began, Ended, Held, NotProposed
from tests.past_runs.recorded import origin, started
from tests.serve.fake_desk import (
    DIGEST,
    NOW,
    OWN,
    answered,
    gpu_rule,
    payload,
    proposed,
    refused,
    seen,
    served,
    tripped,
)
from tests.serve.page_reader import Page

EVIL = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>javascript:alert(1)\x1b[2J\u202e{{7*7}}"
EPISODE = "ab@2027-01-15T08:00:00+00:00"


def show(made, path: str, role: Role = Role.ADMIN) -> Page:
    answer = made.client(role).get(path)
    assert answer.status_code == 200, answer.text
    return Page(answer.text)


def full(tmp_path, evil: str = "", **keys):
    """Return an application whose every text ends in *evil*."""
    host = f"gpu-1{evil.replace('/', '')}"  # no name of a host has a slash
    made = served(
        tmp_path, (gpu_rule(f"gpu-held{evil}", about=f"frees GPUs{evil}", hosts=f"gpu-*{evil}"),), (host,), **keys
    )
    rule = f"gpu-held{evil}"
    made.desk.tell(
        Alerted(at=NOW - 90, rule=rule, host=host, episode=EPISODE, since=NOW - 100, firing=True),
        answered(rule=rule, host=host, why=f"a run ended{evil}", question=f"cooldown{evil}"),
        seen(host, f"held{evil}"),
        Began(at=NOW - 80, rule=rule, host=host, episode=EPISODE, digest="a" * 64, approved_by=(f"anna{evil}",)),
        Ended(
            at=NOW - 75,
            rule=rule,
            host=host,
            digest="a" * 64,
            run="",
            verdict=f"failed{evil}",
            cured=False,
            changed=True,
        ),
        Began(at=NOW - 70, rule=rule, host=host, episode=EPISODE, digest="b" * 64),
        NotProposed(at=NOW - 65, rule=rule, host=host, episode=EPISODE, why=f"no change{evil}"),
        proposed(rule=rule, host=host, say=f"kill 2{evil}", requester=f"bob{evil}", digest="c" * 64),
        refused("c" * 64, at=NOW - 50, rule=rule, host=host, by=f"carl{evil}", why=f"no{evil}"),
        proposed(rule=rule, host=host, say=f"kill 3{evil}", requester=f"bob{evil}", file=f"/nowhere/{evil}"),
        Approved(at=NOW - 40, rule=rule, host=host, digest=DIGEST, by=f"dora{evil}"),
        Held(at=NOW - 30, host=host, until=NOW + 60, by=f"emil{evil}", why=f"tests{evil}"),
        answered(rule=rule, host=host, why=f"attempts{evil}", decision="escalate", until=0.0),
    )
    made.desk.known.append(tripped())
    return made


PATHS = ("/", "/rules", "/hosts", "/hosts/gpu-1", f"/plans/{DIGEST}", "/runs", "/login")


def test_the_first_page_says_what_waits_what_runs_what_was_done_and_why_not(tmp_path):
    text = show(full(tmp_path), "/").text
    for words in (
        "Plans that wait for a person (1)", "kill 3", "kills-processes", "bob", "dora (1 of 1)", "in 1 h",
        "What runs now (1)", "plan bbbbbbbb", "Why it does not act (1)", "A person has to look: attempts",
        "carl refused plan cccccccc: no", "the run ended: failed", ", by emil: tests",
    ):  # fmt: skip
        assert words in text, words


def test_a_page_of_a_watcher_that_is_late_says_so(tmp_path):
    made = full(tmp_path)
    made.desk.state = Health(is_well=False, why="a cycle is late", cycle_age=400)
    assert "The watcher is not at work: a cycle is late" in show(made, "/").text


def test_the_first_page_leads_to_the_run_that_goes_on(tmp_path):
    made = full(tmp_path)
    assert "follow the run" not in show(made, "/").text  # it has no record yet
    going, other = "20270115T080000Z-abcd", "20270115T080000Z-0000"
    with closing(Journal(made.records, going)) as journal, closing(Journal(made.records, other)) as another:
        for each, run, rule in ((journal, going, "gpu-held"), (another, other, "gpu-held-too")):
            begun = started("gpu-1", run=run)
            each.on(replace(begun, origin=replace(origin(), reason=f"rule {rule}, approved by anna")))
        page = show(made, "/")
    assert f"follow the run {going}" in page.text
    assert [each["href"] for each in page.all("a") if "/runs/" in each["href"]] == [f"/runs/{going}"]
    assert "follow the run" not in show(made, "/").text  # it was interrupted


def test_the_first_page_does_not_need_the_records(tmp_path, monkeypatch):
    def unreadable(folder: object) -> Index:
        raise ConfigError("the records cannot be read")

    monkeypatch.setattr(pages, "Index", unreadable)
    assert "What runs now (1)" in show(full(tmp_path), "/").text


def test_the_first_page_says_that_alerts_were_left_out(tmp_path):
    made = full(tmp_path)
    assert "left out" not in show(made, "/").text
    for count in (5, 2):
        sent = payload("gpu-1") | {"truncatedAlerts": count}
        assert made.client(Role.ALERT).post("/hooks/alertmanager", json=sent).status_code == 202
    assert "Alertmanager has left out 7 alerts" in show(made, "/").text
    assert 'alerts_total{result="truncated"} 7.0' in made.client(Role.VIEW).get("/metrics").text


@pytest.mark.parametrize("path", PATHS)
def test_no_text_becomes_markup(tmp_path, path):
    made = full(tmp_path, EVIL)
    answer = made.client(Role.ADMIN).get(path.replace("gpu-1", quote(f"gpu-1{EVIL.replace('/', '')}", safe="")))
    assert answer.status_code == 200
    page = Page(answer.text)
    assert [each.get("src") for each in page.all("script")] == ["/static/live.js"]
    assert page.all("img", "iframe", "object", "style", "base") == []
    for _, attributes in page.tags:
        assert not any(name.startswith("on") or name == "style" for name in attributes), attributes
    for attributes in page.all("a", "form", "link"):
        for name in ("href", "action"):
            assert attributes.get(name, "/").startswith(("/", "#main")), attributes
            assert not attributes.get(name, "/").startswith("//")
    assert "\x1b" not in answer.text
    assert "\u202e" not in answer.text
    if path not in ("/login", "/runs"):
        assert "<script>alert(1)<" in page.text  # as text
        assert "{{7*7}}" in page.text


@pytest.mark.parametrize("path", PATHS)
def test_a_page_can_be_used_by_keyboard_and_by_ear(tmp_path, path):
    page = show(full(tmp_path), path)
    assert page.all("html")[0]["lang"] == "en"
    assert any(each.get("name") == "viewport" for each in page.all("meta"))
    assert len(page.all("h1")) == 1
    assert page.all("a")[0] == {"class": "skip", "href": "#main"}
    assert all(each.get("scope") in ("col", "row") for each in page.all("th"))
    labels = {each["for"] for each in page.all("label")}
    named = [each for each in page.all("input") if each.get("type") != "hidden"]
    assert all(each.get("id") in labels for each in named), named
    ids = [each["id"] for _, each in page.tags if "id" in each]
    assert len(ids) == len(set(ids))
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch(r"h\d", tag)]
    assert all(after <= before + 1 for before, after in pairwise(levels)), levels


@pytest.mark.parametrize("path", PATHS)
def test_nothing_comes_from_elsewhere_and_nothing_is_inline(tmp_path, path):
    page = show(full(tmp_path), path)
    assert {each["href"] for each in page.all("link")} == {"/static/serve.css"}
    assert {each["src"] for each in page.all("script")} == {"/static/live.js"}
    assert not any("style" in attributes for _, attributes in page.tags)


def test_the_script_and_the_style_name_no_other_server():
    for file in (Path(pages.HERE) / "static").iterdir():
        text = file.read_text()
        assert "http" not in text, file
        assert "innerHTML" not in text
        assert "url(" not in text


@pytest.mark.parametrize(
    ("role", "words"),
    [
        (Role.VIEW, set()),
        (Role.RUN, {"hold", "release", "ask", "stop"}),
        (Role.APPROVE, {"hold", "release", "ask", "stop", "approve", "reject"}),
        (Role.ADMIN, {"hold", "release", "ask", "stop", "approve", "reject", "reset"}),
    ],
)
def test_people_see_the_forms_that_they_may_use(tmp_path, role, words, monkeypatch):
    monkeypatch.setattr(pages, "_text", lambda plan: ("$ kill 4711", ""))
    made = full(tmp_path)
    actions = {each["action"] for path in PATHS[:-1] for each in show(made, path, role).all("form")}
    assert {action.rpartition("/")[2] for action in actions} - {"logout"} == words


def test_every_form_leads_to_a_route(tmp_path):
    made = full(tmp_path)
    actions = {each["action"] for path in PATHS for each in show(made, path).all("form")}
    assert len(actions) >= 8
    known = [route.path_regex for route in made.app.routes if "POST" in route.methods]
    assert all(any(each.match(action) for each in known) for action in actions)


def test_a_form_does_what_it_says_without_javascript(tmp_path):
    made = full(tmp_path)
    browser = made.browser(Role.APPROVE)
    of_form = {"Origin": "null", "Sec-Fetch-Site": "same-origin"}
    answer = browser.post(f"/plans/{DIGEST}/approve", headers=of_form, data={})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert made.desk.events()[-1] == Approved(at=NOW, rule="gpu-held", host="gpu-1", digest=DIGEST, by="approve")
    held = browser.post("/hold", headers=of_form, data={"host": "gpu-1", "for": "7d", "why": "a & b = c+d"})
    assert held.status_code == 303
    assert (made.desk.events()[-1].why, made.desk.events()[-1].by) == ("a & b = c+d", "approve")
    twice = browser.post(f"/plans/{DIGEST}/approve", headers=of_form)
    assert twice.status_code == 409
    assert "approve has approved it already" in Page(twice.text).text


def test_a_plan_without_a_file_cannot_be_agreed_to_on_its_page(tmp_path):
    page = show(full(tmp_path), f"/plans/{DIGEST}")
    assert "cannot be shown, so that nobody can agree to it" in page.text
    assert not [each for each in page.all("form") if each["action"].endswith("approve")]


def test_a_plan_is_shown_whole(tmp_path, monkeypatch):
    made = full(tmp_path)
    saved = type("Saved", (), {"digest": DIGEST})
    monkeypatch.setattr(pages, "read_plan", lambda path, trusted: b"{}")
    monkeypatch.setattr(pages, "parsed", lambda raw, path: saved)
    monkeypatch.setattr(pages, "plan_text", lambda path, raw: f"$ kill 4711 {EVIL}")
    page = show(made, f"/plans/{DIGEST}")
    assert "$ kill 4711" in page.text
    assert len(page.all("script")) == 1
    assert [each for each in page.all("form") if each["action"].endswith("approve")]
    saved.digest = "f" * 64
    page = show(made, f"/plans/{DIGEST}")
    assert "another content" in page.text
    assert "4711" not in page.text
    assert not [each for each in page.all("form") if each["action"].endswith("approve")]


def test_alerts_of_the_webhook_are_escaped_on_the_page_of_the_host(tmp_path):
    made = served(tmp_path, hosts=("gpu-1",))
    sent = payload("gpu-1", label=EVIL)
    assert made.client(Role.ALERT).post("/hooks/alertmanager", json=sent).status_code == 202
    assert "fires since 2027-01-15T08:00:00Z" in show(made, "/hosts/gpu-1").text


def test_an_error_page_escapes_what_was_asked_for(tmp_path):
    made = full(tmp_path)
    for path in ("/hosts/%3Cscript%3Ealert(1)%3Cscript%3E", "/plans/%3Cscript%3E", "/runs/%3Cscript%3E"):
        answer = made.client(Role.VIEW).get(path)
        assert answer.status_code == 404
        assert len(Page(answer.text).all("script")) == 1


def test_old_events_are_not_on_the_first_page(tmp_path):
    made = full(tmp_path)
    assert "carl refused plan" in show(made, "/").text
    made.clock.now += 86400
    assert "carl refused plan" not in show(made, "/").text


def test_an_error_for_a_browser_that_is_not_logged_in_has_a_page(tmp_path):
    answer = full(tmp_path).client().post("/hold", headers={"Origin": OWN}, data={"host": "gpu-1", "for": "4h"})
    assert answer.status_code == 401
    assert "log in" in Page(answer.text).text
