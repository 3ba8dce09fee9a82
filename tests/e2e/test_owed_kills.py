"""A run that is killed, cut off or interrupted between a change and its clean-up: the clean-up is settled once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.past_runs.owed_scene import FLIP, Scene
from tests.support.program import PROGRAM, runbook
from tests.support.sshd import start_sshd
from tests.support.waiting import until

SEED = int(os.environ.get("RUNBOOK_TEST_SEED", "0")) or random.SystemRandom().randrange(10**6)
BRIEF = FLIP.replace('[ ! -e "$1.go" ] && [ $n -lt 600 ]', "[ $n -lt 20 ]")
"""Lingers for a second, whatever is there."""


@pytest.fixture
def scene(tmp_path):
    made = Scene(tmp_path)
    yield made
    made.go()


@pytest.fixture
def remote(scene):
    """The scene with `here` behind a real sshd."""
    server = start_sshd(scene.folder / "sshd")
    (scene.folder / "hosts.yaml").write_text(
        f"hosts:\n  here: {{ssh_host: {server.address}, ssh_port: {server.port}, ssh_user: root, ssh_key: {server.key}, is_ephemeral: true, gpu: none}}\n"
    )
    yield scene, server
    server.stop()


def settled(scene: Scene) -> None:
    """Settle, and hold what must be so then."""
    last = scene.settle("--yes", "--output", "json")
    assert last.code == 0, last.out + last.err
    assert scene.file.read_text() == "old\n"
    assert scene.log == ["changed", "restored"]
    assert (scene.records(), scene.notes()) == ([], [])


@pytest.mark.soak
@pytest.mark.real("sshd", "root")
@pytest.mark.parametrize("moment", range(10))
def test_kill_9_between_the_change_and_its_clean_up_loses_nothing_and_does_nothing_twice(moment, remote):
    """Mutants: `keep` after the change is sent; `_drop` before the step has ended well; `settled_here` without steps."""
    scene, _ = remote
    after = random.Random(f"{SEED}-{moment}").uniform(0, 2.5)
    (scene.folder / "flip.yaml").write_text(BRIEF)
    process = scene.started()
    time.sleep(after)  # noqa: TID251 any moment
    process.kill()
    process.wait()
    if "restored" not in scene.log:
        assert (len(scene.records()), len(scene.notes())) == (1, 1), (SEED, after)
    settled(scene)  # also while what the run has sent still goes on: the lock keeps them apart
    assert scene.look("--output", "json").host("here")["owed"] == []


@pytest.mark.slow
@pytest.mark.real("sshd", "root")
@pytest.mark.soak
def test_what_a_cut_line_leaves_is_owed_and_said_so(remote):
    scene, server = remote
    argv = (*PROGRAM, *scene.argv("--output", "json"))
    process = subprocess.Popen(argv, cwd=scene.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                               env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])})  # fmt: skip
    until(lambda: scene.log, "the change")
    server.cut()
    out, _ = process.communicate(timeout=120)
    assert process.returncode in (1, 4)
    assert '"status": "owed"' in out
    assert '"noted": ["controller"]' in out
    scene.go()
    settled(scene)


@pytest.mark.slow
@pytest.mark.parametrize("again", [1, pytest.param(2, marks=pytest.mark.soak)])
def test_an_interrupted_run_takes_its_clean_up_or_owes_it(again, scene):
    process = scene.started()
    for _ in range(again):
        process.send_signal(signal.SIGINT)
        time.sleep(0.5)  # noqa: TID251 the second is one of its own, and what comes of the first is no event
    scene.go()
    assert process.wait(timeout=60) in (130, -signal.SIGINT)
    if "restored" not in scene.log:
        assert len(scene.records()) == 1
    elif again == 1:
        assert scene.records() == []
    settled(scene)


@pytest.mark.soak
def test_a_settle_that_is_killed_is_settled_by_the_next(scene):
    (scene.folder / "flip.yaml").write_text(FLIP.replace("script: 'mv -f", "script: 'sleep 1; mv -f"))
    scene.killed()
    for after in (0.0, 0.4, 0.8):
        process = subprocess.Popen((*PROGRAM, "settle", "--yes"), cwd=scene.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])})  # fmt: skip
        time.sleep(0.6 + after)  # noqa: TID251 any moment
        process.kill()
        process.wait()
    settled(scene)


@pytest.mark.soak
def test_of_two_settles_at_once_one_does_what_has_no_check(scene):
    """Mutants: `OwedSettlement.keep` that returns nothing; `ended` that drops the record after the lock."""
    check = """      check: {params: *file, script: '[ ! -e "$1.kept" ] || exit 1'}\n      do:\n        params: ["""
    assert check in FLIP
    text = FLIP.replace(check, check.partition("\n")[2]).replace("script: 'mv -f", "script: 'sleep 1; cp -p")
    (scene.folder / "flip.yaml").write_text(text)
    scene.killed()
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    both = [
        subprocess.Popen((*PROGRAM, "settle", "--yes"), cwd=scene.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True, env=env)
        for _ in range(2)
    ]  # fmt: skip
    said = [it.communicate(timeout=120)[0] for it in both]
    assert scene.log == ["changed", "restored"], said
    assert scene.records() == []
    assert any("owes it no more" in it or "nothing is owed" in it for it in said), said


@pytest.mark.slow
@pytest.mark.soak
def test_a_settle_does_not_wait_for_a_run_that_has_the_host(scene):
    scene.killed()
    (scene.folder / "file.go").unlink()
    scene.file.write_text("old\n")
    process = scene.started()
    try:
        said = scene.settle("--yes", "--wait-lock", "0s", "--output", "json")
        assert (said.code, said.step("here", "put_back")["status"]) == (1, "blocked")
        assert "another run is changing this host" in said.step("here", "put_back")["why"]
        assert scene.log == ["changed", "changed"]
    finally:
        scene.go()
        process.wait(timeout=60)
    assert runbook("settle", "--yes", cwd=scene.folder).code == 0
