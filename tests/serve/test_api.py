"""The webhook of Alertmanager, health, and the API for programs."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from runbook.commands.serve import api
from runbook.commands.serve.access import Role
from runbook.commands.serve.desk import Health
from runbook.commands.watch.event_store import StoreError
from runbook.values.watch_rule import Approve
from runbook.watch.events import Alerted, Approved, Asked, BreakerReset, Held, Released
from tests.serve.fake_desk import DIGEST, NOW, answered, gpu_rule, payload, proposed, refused, served, tripped


def test_alerts_are_stored_and_counted(tmp_path):
    made = served(tmp_path)
    sent = payload("gpu-1:9100", "gpu-2", "elsewhere")
    sent["alerts"].append({"status": "firing"})
    sent["alerts"].append({**sent["alerts"][0], "labels": {"alertname": "Other"}})
    sent["truncatedAlerts"] = 7
    answer = made.client(Role.ALERT).post("/hooks/alertmanager", json=sent)
    assert answer.status_code == 202
    assert answer.json() == {
        "alerts": 4, "taken": 2, "unlistened": 1, "unknown_hosts": 1, "truncated": 7, "malformed": 1,
    }  # fmt: skip
    assert [(each.host, type(each)) for each in made.desk.events()] == [("gpu-1", Alerted), ("gpu-2", Alerted)]


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{}", b"null", b"{", b'{"alerts": {}}', b'{"alerts": 3}', b"\xff\xfe", b"[" * 60_000],
)
def test_what_is_no_payload_is_refused(tmp_path, body):
    made = served(tmp_path)
    answer = made.client(Role.ALERT).post("/hooks/alertmanager", content=body)
    assert answer.status_code == 400
    assert set(answer.json()) == {"error"}
    assert made.desk.events() == []


def test_a_body_that_is_too_large_is_refused(tmp_path, monkeypatch):
    made = served(tmp_path)
    client = made.client(Role.ALERT)
    whole = json.dumps(payload("gpu-1")).encode()
    large = whole + b" " * (api.LARGEST_PAYLOAD - len(whole))
    assert client.post("/hooks/alertmanager", content=large).status_code == 202
    assert client.post("/hooks/alertmanager", content=large + b" ").status_code == 413
    parts = (large, b" ")
    assert client.post("/hooks/alertmanager", content=iter(parts)).status_code == 413
    assert len(made.desk.events()) == 1


def test_other_routes_take_small_bodies_only(tmp_path):
    client = served(tmp_path).client(Role.ADMIN)
    assert client.post("/api/hosts/gpu-1/hold", content=b" " * 70_000).status_code == 413


def test_health_says_why_the_watcher_is_late(tmp_path):
    made = served(tmp_path)
    assert made.client().get("/healthz").json() == {"ok": True}
    made.desk.state = Health(is_well=False, why="the last cycle ended 5 min ago", cycle_age=300)
    answer = made.client().get("/healthz")
    assert (answer.status_code, answer.json()["why"]) == (503, "the last cycle ended 5 min ago")


def test_a_plan_is_approved_by_the_name_of_the_token(tmp_path):
    made = served(tmp_path)
    made.desk.tell(proposed())
    answer = made.client(Role.APPROVE).post(f"/api/plans/{DIGEST}/approve", json={"by": "somebody"})
    assert answer.json()["follows"].startswith("the host is probed again")
    assert made.desk.events()[-1] == Approved(at=NOW, rule="gpu-held", host="gpu-1", digest=DIGEST, by="approve")
    assert made.desk.woken == 1


def approval(made, digest: str = DIGEST, role: Role = Role.APPROVE) -> tuple[int, str]:
    answer = made.client(role).post(f"/api/plans/{digest}/approve")
    return answer.status_code, answer.json().get("error", "")


def test_who_asked_for_a_plan_does_not_approve_it(tmp_path):
    made = served(tmp_path, (gpu_rule(approve=Approve(requester_counts=False)),))
    made.desk.tell(proposed(requester="approve"))
    assert approval(made) == (409, "approve asked for this plan: another person has to approve it")
    assert approval(made, role=Role.ADMIN)[0] == 200


def test_a_second_approval_of_the_same_person_is_refused(tmp_path):
    made = served(tmp_path, (gpu_rule(approve=Approve(count=2)),))
    made.desk.tell(proposed())
    assert approval(made)[0] == 200
    assert approval(made) == (409, "approve has approved it already: that counts once")
    assert made.client(Role.ADMIN).post(f"/api/plans/{DIGEST}/approve").json()["follows"].startswith("the host")


def test_people_whom_the_rule_does_not_name_may_not_approve(tmp_path):
    made = served(tmp_path, (gpu_rule(approve=Approve(by=("anna",))),))
    made.desk.tell(proposed())
    assert approval(made)[0] == 409


def test_an_expired_plan_is_not_approved(tmp_path):
    made = served(tmp_path)
    made.desk.tell(proposed())
    made.clock.now = NOW + 3601
    status, words = approval(made)
    assert status == 409
    assert "expired" in words
    assert made.client(Role.VIEW).get("/api/inbox").json() == {"plans": []}


def test_a_plan_that_was_replaced_is_not_approved(tmp_path):
    made = served(tmp_path)
    made.desk.tell(proposed(), proposed("e" * 64))
    status, words = approval(made)
    assert status == 409
    assert "no plan that waits is called" in words
    assert approval(made, "e" * 64)[0] == 200


@pytest.mark.parametrize("digest", ["d" * 8, "d" * 63, "d", "d" * 65, "D" * 64, "%20"])
def test_only_the_whole_digest_names_a_plan(tmp_path, digest):
    made = served(tmp_path)
    made.desk.tell(proposed())
    assert approval(made, digest)[0] in (400, 409)
    assert made.client(Role.APPROVE).post(f"/api/plans/{digest}/reject").status_code in (400, 409)
    assert len(made.desk.events()) == 1


def test_a_plan_that_another_process_appended_is_there(tmp_path):
    made = served(tmp_path)
    alert = Alerted(at=NOW, rule="gpu-held", host="gpu-1", episode=proposed().episode, since=NOW, firing=True)
    made.desk.store.append(alert, proposed())
    assert [plan["digest"] for plan in made.client(Role.VIEW).get("/api/inbox").json()["plans"]] == [DIGEST]
    assert approval(made)[0] == 200


def test_a_plan_is_refused_with_a_reason(tmp_path):
    made = served(tmp_path)
    made.desk.tell(proposed())
    assert made.client(Role.APPROVE).post(f"/api/plans/{DIGEST}/reject", json={"why": "not now"}).status_code == 200
    assert made.desk.events()[-1] == refused(at=NOW, by="approve", why="not now")
    assert approval(made)[0] == 409


def test_a_person_asks_for_a_host_of_the_rule(tmp_path):
    made = served(tmp_path)
    client = made.client(Role.RUN)
    assert client.post("/api/rules/gpu-held/ask", json={"host": "gpu-1"}).status_code == 202
    assert client.post("/api/rules/gpu-held/ask", json={"host": "db-1"}).status_code == 404
    assert client.post("/api/rules/gpu-held/ask", json={"host": ["gpu-1"]}).status_code == 404
    assert client.post("/api/rules/gpu-held/ask", json=["gpu-1"]).status_code == 400
    assert client.post("/api/rules/gone/ask", json={"host": "gpu-1"}).status_code == 409
    assert made.desk.events() == [Asked(at=NOW, rule="gpu-held", host="gpu-1", by="run")]


def test_a_host_is_held_and_released(tmp_path):
    made = served(tmp_path)
    client = made.client(Role.RUN)
    assert client.post("/api/hosts/gpu-1/hold", json={"for": "4h", "why": "tests"}).json()["until"] == NOW + 4 * 3600
    assert client.post("/api/hosts/gpu-1/release").status_code == 200
    assert client.post("/api/hosts/gpu-1/release").status_code == 409
    assert [type(each) for each in made.desk.events()] == [Held, Released]
    assert made.desk.events()[0].by == "run"


@pytest.mark.parametrize(
    ("host", "sent", "status"),
    [
        ("db-1", {"for": "4h"}, 404),
        ("gpu-1", {}, 400),
        ("gpu-1", {"for": "soon"}, 400),
        ("gpu-1", {"for": "-4h"}, 400),
        ("gpu-1", {"for": "inf"}, 400),
        ("gpu-1", {"for": "1e308"}, 400),
        ("gpu-1", {"for": "367d"}, 400),
        ("gpu-1", {"for": "4h", "why": "x" * 501}, 400),
    ],
)
def test_a_hold_that_cannot_be_is_refused(tmp_path, host, sent, status):
    made = served(tmp_path)
    assert made.client(Role.RUN).post(f"/api/hosts/{host}/hold", json=sent).status_code == status
    assert made.desk.events() == []


def test_only_a_breaker_that_has_tripped_is_reset(tmp_path):
    made = served(tmp_path)
    client = made.client(Role.ADMIN)
    assert client.post("/api/rules/gpu-held/reset").status_code == 409
    made.desk.tell(tripped())
    assert client.get("/api/rules").json()["rules"][0]["tripped"] == "3 hosts within 1 h"
    assert client.post("/api/rules/gpu-held/reset").status_code == 200
    assert made.desk.events()[-1] == BreakerReset(at=NOW, rule="gpu-held", by="admin")


def test_answers_say_why_nothing_was_done(tmp_path):
    made = served(tmp_path)
    made.desk.tell(answered(), answered(host="gpu-2", decision="apply", question="apply", why="kill 1", until=0.0))
    found = made.client(Role.VIEW).get("/api/answers").json()["answers"]
    assert [(each["host"], each["acted"], each["question"]) for each in found] == [
        ("gpu-1", False, "cooldown"),
        ("gpu-2", True, "apply"),
    ]
    assert "a run ended 5 min ago" in found[0]["words"]


def test_the_log_goes_on_after_a_number(tmp_path, monkeypatch):
    monkeypatch.setattr(api, "MOST_EVENTS", 2)
    made = served(tmp_path)
    made.desk.tell(*(answered(at=NOW + number) for number in range(5)))
    client, after, seen = made.client(Role.VIEW), 0, []
    while events := client.get(f"/api/log?after={after}").json()["events"]:
        assert len(events) <= 2
        seen += [each["event"]["at"] - NOW for each in events]
        after = events[-1]["number"]
    assert seen == [0, 1, 2, 3, 4]
    for after in ("x", "-1", "1e3", "9" * 30, "\u0663"):
        assert client.get("/api/log", params={"after": after}).status_code == 400


def test_a_store_that_cannot_be_read_is_said(tmp_path, monkeypatch):
    made = served(tmp_path)

    def broken(*_, **__):
        raise StoreError("the watcher's events cannot be read: disk I/O error")
        yield

    monkeypatch.setattr(made.desk.store, "since", broken)
    assert made.client(Role.VIEW).get("/api/inbox").status_code == 503
    assert made.client(Role.VIEW).get("/").status_code == 503


def test_an_error_of_the_server_shows_nothing_of_itself(tmp_path, monkeypatch):
    made = served(tmp_path)
    monkeypatch.setattr(made.desk, "health", lambda: 1 / 0)
    for path in ("/healthz", "/"):
        answer = made.client(Role.VIEW).get(path)
        assert answer.status_code == 500
        assert "division" not in answer.text


def test_json_has_no_character_that_a_terminal_obeys(tmp_path):
    made = served(tmp_path)
    made.desk.tell(answered(why="\x1b[2J \u202e \x9b \ud800"[:7]))
    text = made.client(Role.VIEW).get("/api/answers").text
    assert text.isascii()
    assert text.isprintable()


def test_of_approvals_at_the_same_time_one_counts(tmp_path):
    made = served(tmp_path)
    made.desk.tell(proposed())
    with ThreadPoolExecutor(8) as threads:
        found = sorted(status for status, _ in threads.map(lambda _: approval(made), range(8)))
    assert found == [200] + [409] * 7
    assert [type(each) for each in made.desk.events()[1:]] == [Approved]


def test_a_person_interrupts_a_run_and_nobody_one_that_is_not_there(tmp_path):
    made = served(tmp_path)
    client = made.client(Role.RUN)
    assert client.post(f"/api/plans/{DIGEST}/stop").status_code == 200
    assert client.post(f"/api/plans/{'e' * 64}/stop").status_code == 409
    assert made.desk.stopped == [(DIGEST, "run"), ("e" * 64, "run")]


def test_every_host_is_held_by_its_own_word(tmp_path):
    made = served(tmp_path)
    assert made.client(Role.RUN).post("/api/hosts/all/hold", json={"for": "1h"}).status_code == 200
    assert made.desk.known.remembered.memory("gpu-held", "gpu-2").hold.by == "run"
