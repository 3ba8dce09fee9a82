"""``runbook serve`` as a program: its start, its end, and what it refuses."""

from __future__ import annotations

import os
import signal

import pytest

from runbook.watch.events import Began, Ended, Proposed, Stopped
from tests.serve.serve_scene import ServeScene
from tests.support.program import runbook
from tests.support.waiting import until
from tests.watch.watch_scene import alerts

pytestmark = pytest.mark.slow


@pytest.fixture
def scene(tmp_path):
    made = ServeScene(tmp_path, keys={"on": "{alert: HostFaulty}"}).made()
    yield made
    made.end()


def test_an_alert_over_http_leads_to_a_plan_and_an_approval_over_http_cures_the_host(scene):
    scene.break_host("a1")
    scene.serve()
    status, text = scene.call("POST", "/hooks/alertmanager", alerts(("a1", "2026-11-01T10:00:00Z", True)), role="alert")
    assert status == 202, text
    until(lambda: scene.inbox(), "the plan")
    (plan,) = scene.inbox()
    assert scene.call("POST", f"/api/plans/{plan['digest']}/approve", role="view")[0] == 403
    assert scene.call("POST", f"/api/plans/{plan['digest']}/approve", role="approve")[0] == 200
    until(lambda: scene.events(Ended), "the end")
    assert (scene.runs("a1"), scene.is_broken("a1")) == (1, False)


def test_a_run_goes_on_when_the_server_ends_and_the_next_one_learns_its_end(scene):
    """Mutants: a run in the process group of the server; one whose output goes to a pipe."""
    inputs = f"inputs: {{place: {scene.folder}/marks, takes: 4}}"
    lines = [line for line in scene.rule_file.read_text().splitlines() if not line.startswith(("inputs", "then"))]
    scene.rule_file.write_text("\n".join([*lines, inputs, "then: apply", "risk: reboots", ""]))
    scene.break_host("a1")
    server = scene.serve()
    scene.call("POST", "/hooks/alertmanager", alerts(("a1", "2026-11-01T10:00:00Z", True)), role="alert")
    until(lambda: scene.runs("a1"), "the run")
    server.send_signal(signal.SIGTERM)
    assert server.wait(30) == 0
    assert scene.events(Ended) == []
    scene.serve()
    until(lambda: scene.events(Ended), "the end")
    (ended,) = scene.events(Ended)
    assert (ended.cured, ended.verdict, scene.runs("a1"), len(scene.events(Began))) == (True, "resolved", 1, 1)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_person_interrupts_a_run_that_goes_on(scene, restarted):
    """Mutants: a signal to nobody; a server that only interrupts what it has begun itself."""
    lines = [line for line in scene.rule_file.read_text().splitlines() if not line.startswith(("inputs", "then"))]
    inputs = f"inputs: {{place: {scene.folder}/marks, takes: 5}}"
    scene.rule_file.write_text("\n".join([*lines, inputs, "then: apply", "risk: reboots", ""]))
    scene.break_host("a1")
    server = scene.serve()
    scene.call("POST", "/hooks/alertmanager", alerts(("a1", "2026-11-01T10:00:00Z", True)), role="alert")
    until(lambda: scene.runs("a1"), "the run")
    if restarted:
        server.kill()
        server.wait()
        scene.serve()
    (began,) = scene.events(Began)
    assert scene.call("POST", f"/api/plans/{began.digest}/stop", role="admin")[0] == 200
    until(lambda: scene.events(Ended), "the end")
    (ended,) = scene.events(Ended)
    assert (ended.verdict, ended.cured, ended.changed) == ("cancelled", False, True)
    assert [event.by for event in scene.events(Stopped)] == ["admin"]
    assert scene.call("POST", f"/api/plans/{began.digest}/stop", role="admin")[0] == 409


def test_nothing_is_changed_that_cannot_be_recorded(scene):
    """Mutant: a plan that is applied with ``--no-record``."""
    scene.keys |= {"then": "apply\nrisk: reboots"}
    lines = [line for line in scene.rule_file.read_text().splitlines() if not line.startswith("then")]
    scene.rule_file.write_text("\n".join([*lines, "then: apply", "risk: reboots", "ineffective: 1", ""]))
    scene.break_host("a1")
    (scene.folder / "records").write_text("no directory")
    scene.serve()
    scene.call("POST", "/hooks/alertmanager", alerts(("a1", "2026-11-01T10:00:00Z", True)), role="alert")
    until(lambda: [each for each in scene.events() if each.kind in ("ended", "not_proposed")], "the refusal")
    assert (scene.runs("a1"), scene.is_broken("a1")) == (0, True)


def test_a_receiver_that_is_not_in_the_settings_is_a_mistake(scene):
    scene.rule_file.write_text(scene.rule_file.read_text() + "notify: [ops]\n")
    done = runbook("serve", "--config", str(scene.folder / "serve.yaml"), "--rules", str(scene.folder / "watch"),
                   "--state", str(scene.folder / "state"), "-i", str(scene.folder / "hosts.yaml"))  # fmt: skip
    assert (done.code, "notify: the settings have no receiver 'ops'" in done.err) == (2, True), done.err


def test_without_settings_it_starts_on_a_terminal_only(scene):
    done = runbook("serve", "--rules", str(scene.folder / "watch"), "--state", str(scene.folder / "state"),
                   "-i", str(scene.folder / "hosts.yaml"))  # fmt: skip
    assert (done.code, "rbk_" in done.out + done.err) == (2, False)
    assert "serve needs --config where it is not started on a terminal" in done.err


def test_a_token_is_shown_once_with_the_line_for_the_settings(scene):
    done = runbook("watch", "token", "alice", "--role", "approve")
    assert done.code == 0
    shown, _, line = done.out.splitlines()
    assert shown.startswith("token of alice, shown only now: rbk_")
    assert line.startswith("  - {name: 'alice', role: approve, digest: ")


def test_the_state_belongs_to_its_user_alone(scene):
    scene.serve()
    assert os.stat(scene.folder / "state").st_mode & 0o077 == 0
    assert os.stat(scene.folder / "state/watch.sqlite").st_mode & 0o077 == 0
    assert scene.events(Proposed) == []
