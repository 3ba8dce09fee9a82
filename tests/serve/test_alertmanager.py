"""A real Alertmanager, a real server, and a person in a real browser."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from datetime import UTC, datetime, timedelta

import pytest

from runbook import lab
from runbook.watch.events import Alerted, Answered, Began, Ended, Proposed
from tests.serve.serve_scene import TOKENS, ServeScene
from tests.support.browser import Browser
from tests.support.program import Practice
from tests.support.sshd import free_port
from tests.support.waiting import until

pytestmark = [pytest.mark.real("alertmanager", "chromium", "bash"), pytest.mark.slow]

CONFIG = """\
route: {receiver: runbook, group_by: [alertname], group_wait: 1s, group_interval: 1s, repeat_interval: 5s}
receivers:
  - name: runbook
    webhook_configs:
      - url: BASE/hooks/alertmanager
        send_resolved: true
        http_config: {authorization: {credentials_file: TOKEN}}
"""


class Alertmanager:
    """Debian's Alertmanager, to which alerts are sent as Prometheus sends them."""

    def __init__(self, scene: ServeScene) -> None:
        folder = scene.folder / "alertmanager"
        folder.mkdir()
        (folder / "token").write_text(TOKENS["alert"])
        config = CONFIG.replace("BASE", scene.base).replace("TOKEN", str(folder / "token"))
        (folder / "alertmanager.yml").write_text(config)
        self._url = f"http://127.0.0.1:{free_port()}"
        place = self._url.removeprefix("http://")
        words = (f"--config.file={folder}/alertmanager.yml", f"--storage.path={folder}/data",
                 f"--web.listen-address={place}", "--cluster.listen-address=")  # fmt: skip
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(["prometheus-alertmanager", *words], stdout=log, stderr=log)
        until(self._is_ready, "Alertmanager")

    def _is_ready(self) -> bool:
        try:
            return self._call("/-/ready") == 200
        except OSError:
            return False

    def _call(self, path: str, body: object = None) -> int:
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self._url + path, data=data, headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return int(answer.status)

    def send(self, host: str, *, firing: bool = True, **labels: str) -> None:
        now = datetime.now(UTC)
        began = (now - timedelta(minutes=1)).replace(microsecond=0, second=0).isoformat()
        ends = now + timedelta(minutes=5) if firing else now
        made = {"alertname": "HostFaulty", "instance": f"{host}:9100", **labels}
        self._call("/api/v2/alerts", [{"labels": made, "startsAt": began, "endsAt": ends.isoformat()}])


@pytest.fixture
def scenes(tmp_path):
    ended = []

    def make(**keys):
        scene = ServeScene(tmp_path, keys={"on": "{alert: HostFaulty}", **keys}).made()
        scene.serve()
        manager = Alertmanager(scene)
        ended.extend([manager.process, scene])
        return scene, manager

    yield make
    for each in ended:
        if isinstance(each, ServeScene):
            each.end()
        else:
            each.terminate()
            each.wait(30)


def test_an_alert_becomes_a_plan_that_a_person_approves_on_the_page(scenes):
    scene, manager = scenes()
    scene.break_host("a1")
    manager.send("a1", job="$(touch /tmp/no)")
    until(lambda: scene.events(Proposed), "the plan")
    assert scene.is_broken("a1")
    with Browser() as browser:
        browser.call("Page.navigate", url=scene.base)
        until(lambda: browser.js("location.pathname") == "/login", "the form")
        browser.type("#token", TOKENS["approve"])
        browser.click("main button")
        until(lambda: browser.js("location.pathname") == "/", "the first page")
        (plan,) = scene.inbox()
        until(
            lambda: "Plans that wait for a person (1)" in browser.js("document.body?.innerText ?? ''"),
            "the plan on the page",
        )
        browser.click(f"a.button[href='/plans/{plan['digest']}']")
        until(lambda: "The whole plan" in browser.js("document.body?.innerText ?? ''"), "the whole plan")
        browser.click(f"form[action='/plans/{plan['digest']}/approve'] button")
        until(lambda: scene.events(Ended), "the end of the run")
    (began,) = scene.events(Began)
    (ended,) = scene.events(Ended)
    assert (began.approved_by, ended.verdict, scene.runs("a1"), scene.is_broken("a1")) == (
        ("approve",),
        "resolved",
        1,
        False,
    )
    manager.send("a1", firing=False, job="$(touch /tmp/no)")
    until(lambda: [each for each in scene.events(Alerted) if not each.firing], "the end of the alert")
    assert (scene.runs("a1"), len(scene.events(Began)), scene.inbox()) == (1, 1, [])


ZOMBIES = """\
name: toy
about: Free GPUs that a crashed job still holds.
playbook: zombie-gpu
hosts: all
inputs: {older_than: 0s}
finding: held
on: {alert: HostFaulty}
then: apply
risk: kills-processes
"""


@pytest.mark.real("lab", "sshd")
def test_leftovers_on_hosts_of_the_lab_are_ended_over_ssh_and_nothing_else(tmp_path):
    there = Practice(lab.up(lab.LabOptions(directory=tmp_path / "lab", faults=("gpu-01=leftovers", "gpu-02=busy"))))
    scene = ServeScene(tmp_path / "scene", hosts=("none",), words=("--accept-new-host-keys",))
    scene.folder.mkdir()
    scene.made()
    scene.rule_file.write_text(ZOMBIES)
    (scene.folder / "hosts.yaml").unlink()
    (scene.folder / "hosts.yaml").symlink_to(there.lab.inventory)
    before = {host: there.commands(host) for host in ("gpu-01", "gpu-02")}
    try:
        scene.serve()
        manager = Alertmanager(scene)
        try:
            for host in before:
                manager.send(host)
            until(lambda: scene.events(Ended), "the end of the run")
            until(
                lambda: [it for it in scene.events(Answered) if it.host == "gpu-02" and it.question == "probe"],
                "gpu-02",
            )
        finally:
            manager.process.terminate()
            manager.process.wait(30)
        (ended,) = scene.events(Ended)
        assert (ended.host, ended.verdict, ended.cured) == ("gpu-01", "resolved", True)
        assert {event.host for event in scene.events(Began)} == {"gpu-01"}
        assert before["gpu-01"] - there.commands("gpu-01")
        assert before["gpu-02"] <= there.commands("gpu-02")
    finally:
        scene.end()
        lab.down(there.lab.directory)


def test_a_rule_that_applies_by_itself_needs_nobody(scenes):
    scene, manager = scenes(then="apply\nrisk: reboots")
    scene.break_host("a2")
    manager.send("a2")
    manager.send("b9")
    until(lambda: scene.events(Ended), "the end of the run")
    assert (scene.runs("a2"), scene.is_broken("a2")) == (1, False)
    manager.send("a2")
    until(lambda: [it for it in scene.events(Answered) if "waits for the alert to be resolved" in it.why], "the answer")
    assert len(scene.events(Began)) == 1
    assert {event.host for event in scene.events(Alerted)} == {"a2"}
