"""Rules whose probes, plans and runs are the work of workers at the sites of the hosts."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from runbook.commands.watch.event_store import EventStore, watch_folder
from runbook.watch.events import Began, Ended, Probed, Proposed, WatchEvent
from tests.cluster.site_scene import Scene
from tests.support.program import PROGRAM, runbook
from tests.support.waiting import LIMIT, until

pytestmark = [pytest.mark.real("postgres"), pytest.mark.slow]

RULE = """\
name: toy
playbook: PLACE/toy.yaml
hosts: all
inputs: {place: PLACE/marks, takes: 3}
finding: unmarked
on: {every: 10s}
then: apply
risk: reboots
"""


@pytest.fixture
def scene(tmp_path, cluster):
    made = Scene(tmp_path, cluster, {"h0": "berlin", "h1": "oslo"}).made()
    (tmp_path / "watch").mkdir()
    (tmp_path / "watch/toy.yaml").write_text(RULE.replace("PLACE", str(tmp_path)))
    yield made
    made.close()


def watcher(scene: Scene, *words: str) -> subprocess.Popen[bytes]:
    given = ("--rules", "watch", "--state", "watcher", "-i", "hosts.yaml", "--records", "records", *words)
    with (scene.folder / "watch.log").open("ab") as log:
        return subprocess.Popen(
            [*PROGRAM, "watch", "run", *given], env={**os.environ, **scene.environment}, cwd=scene.folder,
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip


def happened(scene: Scene, *kinds: type) -> list[WatchEvent]:
    store = EventStore(watch_folder(str(scene.folder / "watcher")))
    try:
        return [each.event for each in store.since(0) if isinstance(each.event, kinds)]
    finally:
        store.close()


def clients(scene: Scene) -> list[int]:
    """Return the processes of ``runbook apply`` that carry out plans of this scene."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"apply" in words and any(word.startswith(str(scene.folder).encode()) for word in words):
            found.append(int(entry.parent.name))
    return found


def test_a_rule_is_carried_out_by_workers_and_its_end_is_heard_although_the_one_who_ordered_died(scene):
    """Mutants: a probe, a plan or a run from here; an end that nobody asks the cluster for."""
    scene.worker("berlin", "--shards", "2")
    scene.worker("oslo", "--shards", "2")
    first = watcher(scene, "--via", "cluster")
    try:
        until(lambda: set(scene.marks()) == {"h0", "h1"}, within=LIMIT)
        first.kill()
        first.wait()
        for pid in clients(scene):
            os.kill(pid, signal.SIGKILL)
        second = watcher(scene, "--via", "cluster")
        try:
            until(lambda: len(happened(scene, Ended)) == 2, within=LIMIT)
        finally:
            second.send_signal(signal.SIGTERM)
            assert second.wait(LIMIT) == 0
    finally:
        if first.poll() is None:
            first.kill()
            first.wait()
    assert {(event.host, event.verdict, event.cured) for event in happened(scene, Ended)} == {
        ("h0", "resolved", True),
        ("h1", "resolved", True),
    }
    assert scene.marks() == {"h0": 1, "h1": 1}
    assert len(happened(scene, Began)) == len(happened(scene, Proposed)) == 2
    assert all(reading.presence != "unknown" for event in happened(scene, Probed) for reading in event.readings)
    said = " ".join(worker.said for worker in scene.workers)
    assert said.count("apply") >= 2 <= said.count("probe")


def refused(scene: Scene, *words: str, **env: str) -> str:
    given = ("--rules", "watch", "--state", "watcher", "-i", "hosts.yaml", "--via", "cluster", *words)
    said = runbook("watch", "run", *given, cwd=scene.folder, **{**scene.environment, **env})
    assert said.code == 2
    return said.err


def test_hosts_that_no_worker_could_reach_are_said_before_anything_is_begun(scene):
    """Mutant: a watcher that begins, and whose probes fail for ever."""
    hosts = scene.folder / "hosts.yaml"
    text = hosts.read_text()
    hosts.write_text(text.replace("site: oslo", "site: osol"))
    assert "h1: the cluster has no site 'osol'" in refused(scene)
    hosts.write_text(text.replace("site: oslo, ", ""))
    assert "h1: no site, so that no worker can reach it" in refused(scene)
    hosts.write_text(text)
    assert "nothing says where the cluster is" in refused(scene, RUNBOOK_CLUSTER="")
    (scene.folder / "password").touch(mode=0o600)
    assert "a password for sudo does not travel" in refused(scene, "--become-password-file", "password")
