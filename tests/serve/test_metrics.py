"""The numbers for Prometheus."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from runbook.commands.serve.access import Role
from runbook.commands.serve.desk import Health
from runbook.values.watch_rule import Sources
from runbook.watch.events import Alerted, Approved, Began, Ended, Faulted
from tests.serve.fake_desk import DIGEST, NOW, answered, gpu_rule, payload, proposed, seen, served, tripped

EPISODE = "ab@2027-01-15T08:00:00+00:00"


def samples(made, client=None) -> dict[str, float]:
    answer = (client or made.client(Role.VIEW)).get("/metrics")
    assert answer.status_code == 200
    return {
        f"{each.name}{sorted(each.labels.values())}": each.value
        for family in text_string_to_metric_families(answer.text)
        for each in family.samples
    }


def whole_story(made, host: str = "gpu-1", at: float = NOW, digest: str = DIGEST) -> None:
    made.desk.tell(
        Alerted(at=at, rule="gpu-held", host=host, episode=EPISODE, since=at - 20, firing=True),
        Alerted(at=at + 1, rule="gpu-held", host=host, episode=EPISODE, since=at - 20, firing=True),
        answered(at=at + 2, host=host, decision="probe", question="probe"),
        seen(host, at=at + 10),
        proposed(digest, at=at + 20, host=host, until=at + 3600),
        Approved(at=at + 30, rule="gpu-held", host=host, digest=digest, by="anna"),
        Began(at=at + 40, rule="gpu-held", host=host, episode=EPISODE, digest=digest, approved_by=("anna",)),
        Ended(
            at=at + 80, rule="gpu-held", host=host, digest=digest, run="20270115T080000Z-abcd", verdict="resolved",
            cured=True, changed=True,
        ),
    )  # fmt: skip


def test_the_numbers_follow_the_events(tmp_path):
    made = served(tmp_path)
    whole_story(made)
    made.desk.tell(tripped(), Faulted(at=NOW, rule="", why="x"), proposed("e" * 64, host="gpu-2"))
    found = samples(made)
    assert found["runbook_watch_episodes_total['gpu-held']"] == 2
    assert found["runbook_watch_decisions_total['gpu-held', 'probe']"] == 1
    assert found["runbook_watch_runs_total['gpu-held', 'resolved']"] == 1
    assert found["runbook_watch_proposals_total['gpu-held']"] == 2
    assert found["runbook_watch_proposals_waiting['gpu-held']"] == 1
    assert found["runbook_watch_breaker_trips_total['gpu-held']"] == 1
    assert found["runbook_watch_breaker_tripped['gpu-held']"] == 1
    assert found["runbook_watch_faults_total[]"] == 1
    assert (
        found["runbook_watch_detect_seconds_count['gpu-held']"],
        found["runbook_watch_detect_seconds_sum['gpu-held']"],
    ) == (1, 30)
    assert (
        found["runbook_watch_repair_seconds_count['gpu-held']"],
        found["runbook_watch_repair_seconds_sum['gpu-held']"],
    ) == (1, 100)
    assert samples(made) == found  # asking changes nothing


def test_events_of_before_the_server_are_not_counted_again(tmp_path):
    whole_story(served(tmp_path))
    made = served(tmp_path)
    assert not any("episodes_total" in name or "runs_total" in name for name in samples(made))
    whole_story(made, at=NOW + 100, digest="e" * 64)
    assert samples(made)["runbook_watch_runs_total['gpu-held', 'resolved']"] == 1


def test_a_fault_that_our_own_probes_saw_is_timed_from_then(tmp_path):
    made = served(tmp_path)
    episode = f"seen@{NOW:.3f}"
    made.desk.tell(
        answered(episode=episode),
        Began(at=NOW + 40, rule="gpu-held", host="gpu-1", episode=episode, digest=DIGEST),
        Ended(
            at=NOW + 60,
            rule="gpu-held",
            host="gpu-1",
            digest=DIGEST,
            run="",
            verdict="resolved",
            cured=True,
            changed=True,
        ),
    )
    found = samples(made)
    assert found["runbook_watch_repair_seconds_sum['gpu-held']"] == 60
    assert found["runbook_watch_episodes_total['gpu-held']"] == 1


def test_no_label_names_a_host_a_run_or_a_person(tmp_path):
    made = served(tmp_path)
    whole_story(made)
    made.desk.tell(
        Ended(
            at=NOW,
            rule="a rule that is gone",
            host="gpu-1",
            digest="x",
            run="",
            verdict="the host gpu-1 is odd",
            cured=False,
            changed=True,
        )
    )
    made.client(Role.ALERT).post("/hooks/alertmanager", json=payload("gpu-1", "db-1"))
    text = made.client(Role.VIEW).get("/metrics").text
    for word in ("gpu-1", "db-1", "20270115T080000Z", "anna", DIGEST[:8], "is gone", "zombie"):
        assert word not in text, word
    labels = {
        name for family in text_string_to_metric_families(text) for each in family.samples for name in each.labels
    }
    assert labels <= {"rule", "decision", "outcome", "result", "word", "le"}


def test_alerts_are_counted_by_what_became_of_them(tmp_path):
    made = served(tmp_path, (gpu_rule(), gpu_rule("other", on=Sources(alert="GpuHeld"))), hosts=("gpu-1",))
    sent = payload("gpu-1", "db-1")
    sent["alerts"].append(3)
    sent["truncatedAlerts"] = 5
    client = made.client(Role.ALERT)
    assert client.post("/hooks/alertmanager", json=sent).status_code == 202
    assert client.post("/hooks/alertmanager", json=payload("gpu-1", name="Else")).status_code == 202
    assert client.post("/hooks/alertmanager", content=b"x").status_code == 400
    found = samples(made)
    counts = {
        word: found[f"runbook_watch_alerts_total['{word}']"]
        for word in ("taken", "unlistened", "unknown_host", "truncated", "malformed")
    }
    assert counts == {"taken": 2, "unlistened": 1, "unknown_host": 2, "truncated": 5, "malformed": 1}
    assert found["runbook_watch_payloads_refused_total[]"] == 1


def test_the_age_of_the_cycle_is_read_when_it_is_asked_for(tmp_path):
    made = served(tmp_path)
    assert samples(made)["runbook_watch_healthy[]"] == 1
    made.desk.state = Health(is_well=False, why="late", cycle_age=321)
    found = samples(made)
    assert (found["runbook_watch_healthy[]"], found["runbook_watch_cycle_age_seconds[]"]) == (0, 321)


@pytest.mark.parametrize(("is_public", "status"), [(False, 401), (True, 200)])
def test_a_setting_opens_the_numbers_to_everybody(tmp_path, is_public, status):
    made = served(tmp_path, public_metrics=is_public)
    assert made.client().get("/metrics").status_code == status
    assert made.client(Role.ALERT).get("/metrics").status_code == (200 if is_public else 403)
