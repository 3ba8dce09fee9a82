"""A run that is killed anywhere is gone on with: nothing is done twice, nothing is lost, every host has a verdict."""

from __future__ import annotations

import json
import os
import random
import subprocess

import pytest

from runbook.values.playbook import Phase
from runbook.values.result import Sent, Status, StepResult
from tests.past_runs.counting_scene import HOSTS, PLAYBOOK, STEPS, Scene, as_if_killed_in, records
from tests.support.program import PROGRAM, runbook


@pytest.fixture
def scene(tmp_path) -> Scene:
    return Scene(tmp_path / "scene")


KILLS = int(os.environ.get("RUNBOOK_TEST_KILLS", "4"))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(KILLS))
def test_a_run_that_is_killed_and_resumed_does_everything_once(tmp_path, seed):
    """Mutants: ``continued`` that returns every decision as it is; ``earlier_changes`` that takes none for done; a planner
    that takes a change of an earlier run for none (the handler is lost)."""
    scene, chance = Scene(tmp_path / "scene"), random.Random(seed)
    scene.killed(chance.uniform(0, 1.5), *scene.begin)
    if chance.random() < 0.5:
        scene.killed(chance.uniform(0, 1.0), "resume", "last", "--yes")
    said = scene.run("resume", "last", "--yes")
    for _ in range(len(HOSTS) * len(STEPS)):
        if said.out.strip() == "" or not (doubt := scene.blocked(said)):
            break
        assert said.code == 1
        host, steps = next(iter(doubt.items()))
        done = scene.counts()[host][steps[0]]
        assert done <= 1
        option = "--assume-done" if done else "--repeat"
        said = scene.run("resume", "last", "--yes", option, steps[0], "--hosts", host)
        said = scene.run("resume", "last", "--yes") if len(doubt) > 1 or not scene.blocked(said) else said
    assert scene.counts() == {host: dict.fromkeys(STEPS, 1) for host in HOSTS}, (seed, said.out, said.err)
    assert {(scene.folder / f"{it}.conf").read_text() for it in HOSTS} == {"new\n"}
    assert runbook("history", "verify").code == 0
    again = scene.run("resume", "last", "--yes")
    assert "nothing to resume: every host came to its end" in again.err


def test_a_change_in_flight_that_no_probe_can_check_is_not_repeated_blindly(scene):
    """Mutant: ``continued`` that sends what is in doubt."""
    run = as_if_killed_in(scene, "count")
    before = scene.counts()
    said = scene.run("resume", run, "--yes")
    assert said.code == 1
    assert scene.counts() == before
    assert scene.blocked(said) == {host: ["count"] for host in HOSTS}
    step = said.step("h0", "count")
    assert step["status"] == "unknown"
    assert said.step("h0", "last")["status"] == "blocked", "no later step runs, as in the run that was interrupted"
    assert "--repeat count" in step["why"]
    assert "--assume-done count" in step["why"]
    planned = scene.run("resume", run, "--dry-run")
    assert scene.blocked(planned).keys() == set(HOSTS)


@pytest.mark.parametrize("sent", ["nothing", "part", ""])
def test_only_a_cancelled_change_that_may_be_half_done_is_asked_about(scene, sent):
    """One that was not sent is done now; of one in the record of an older version nobody knows.

    Mutant: ``may_have_been_sent`` always true, or for nothing that was cancelled.
    """
    end = StepResult(id="count", phase=Phase.REMEDIATE, action="command", status=Status.CANCELLED, sent=Sent(sent))
    run = as_if_killed_in(scene, "count", end)
    before = scene.counts()["h0"]["count"]
    said = scene.run("resume", run, "--yes")
    asked = {} if sent == "nothing" else {host: ["count"] for host in HOSTS}
    assert scene.blocked(said) == asked, said.out
    assert said.code == bool(asked)
    assert scene.counts()["h0"]["count"] == before + (not asked)


def test_repeat_sends_it_again_and_assume_done_does_not(scene):
    run = as_if_killed_in(scene, "count")
    assert scene.run("resume", run, "--yes", "--repeat", "count", "--hosts", "h0").code == 0
    assert scene.run("resume", run, "--yes", "--assume-done", "count", "--hosts", "h1").code == 0
    assert [scene.counts()[it]["count"] for it in ("h0", "h1", "h2")] == [2, 1, 1]
    said = scene.run("resume", run, "--yes", "--assume-done", "count", "--hosts", "h2")
    assert f"--assume-done count: taken as done; run {run} sent it at " in said.step("h2", "count")["why"], (
        "not: did it"
    )


def test_a_handler_runs_that_an_interrupted_run_owed_to_a_change(scene):
    """The change was made, its probe has nothing more to do, and the step with ``if_changed`` had not begun.

    Mutants: ``_hold_back`` without what changed earlier; ``unmet_dependency`` without it.
    """
    run = as_if_killed_in(scene, "settings")
    for host in HOSTS:
        (scene.folder / f"{host}.handler").unlink()
    planned = scene.run("resume", run, "--dry-run")
    assert planned.step("h0", "handler")["status"] == "would_change", "a run does no more than its plan shows"
    said = scene.run("resume", run, "--yes")
    assert said.code == 0, said.out
    assert said.step("h0", "settings")["status"] == "ok"
    assert said.step("h0", "handler")["status"] == "changed"
    assert {it["handler"] for it in scene.counts().values()} == {1}
    assert {it["count"] for it in scene.counts().values()} == {1}, "what is known to be done is not done again"


def test_what_cannot_be_resumed_is_refused_with_the_reason(scene, tmp_path):
    dry = scene.run(*scene.begin[:-3], "--dry-run")
    assert dry.code == 0
    said = scene.run("resume", "last", "--yes")
    assert (said.code, "was a dry run" in said.err) == (2, True)
    assert runbook("exec", "h0", "-i", "hosts.yaml", "--read", "--", "true", cwd=scene.folder).code == 0
    assert "started by `exec`" in scene.run("resume", "last").err
    assert scene.run(*scene.begin).code == 0
    assert "nothing to resume: every host came to its end" in scene.run("resume", "last", "--yes").err
    assert "no recorded run is called '2099'" in scene.run("resume", "2099").err
    assert "recorded runs begin with '2'" in scene.run("resume", "2").err


def test_a_changed_playbook_or_record_is_not_gone_on_with(scene):
    """Mutants: ``_playbook`` that does not compare digests; ``believed`` that believes every record."""
    run = as_if_killed_in(scene, "count")
    path = scene.folder / "counted.yaml"
    assert "--repeat cuont: the playbook has no such remediate step (did you mean count?)" in (
        scene.run("resume", run, "--repeat", "cuont").err
    )
    assert "stay as they were" in scene.run("resume", run, "-e", "place=/tmp").err
    path.write_text(PLAYBOOK.replace("0.05", "0.06"))
    said = scene.run("resume", run, "--yes")
    assert (said.code, "has changed since that run" in said.err, "--changed-playbook" in said.err) == (2, True, True)
    assert scene.run("resume", run, "--yes", "--changed-playbook", "--assume-done", "count", "--hosts", "h0").code == 0
    journal = records() / f"{run}.jsonl"
    journal.write_text(journal.read_text().replace("0.05", "0.01"))
    said = scene.run("resume", run, "--yes")
    assert (said.code, "not as it was written" in said.err) == (2, True)


def test_a_run_that_cannot_be_recorded_changes_nothing(scene, tmp_path):
    """Mutants: ``recording_of`` and ``Recording.on`` that go on; a dry run that refuses."""
    (tmp_path / "file").write_text("")
    nowhere = ("--records", str(tmp_path / "file"))
    said = scene.run(*scene.begin, *nowhere)
    assert said.code == 1
    assert "cannot be recorded, so it is not begun" in said.err
    assert "--no-record" in said.err
    assert not any(it["count"] for it in scene.counts().values())
    dry = scene.run(*scene.begin[:-3], "--dry-run", *nowhere)
    assert dry.code == 0
    assert "this run is not recorded" in dry.err
    assert scene.run(*scene.begin, *nowhere, "--no-record").code == 0
    assert {it["count"] for it in scene.counts().values()} == {1}


@pytest.mark.real("root")
def test_a_disk_that_fills_up_stops_the_run_before_its_next_change(scene, tmp_path):
    """A real file system of 64 KiB.  Mutant: ``_change`` in host_steps.py that sends what could not be recorded."""
    place = tmp_path / "small"
    place.mkdir(mode=0o700)
    inner = [*PROGRAM, *scene.begin, "-i", "hosts.yaml", "--output", "json", "--records", str(place)]
    mounted = f'mount -t tmpfs -o size=64k,mode=700 tmpfs {place} && head -c 40000 /dev/zero >{place}/filler; exec "$@"'
    argv = ["unshare", "--mount", "sh", "-c", mounted, "sh", *inner]
    done = subprocess.run(argv, cwd=scene.folder, capture_output=True, text=True, timeout=120)
    document = json.loads(done.stdout)
    steps = [step for host in document["hosts"] for step in host["steps"]]
    lost = [it for it in steps if "cannot be recorded" in it["why"]]
    assert done.returncode == 1
    assert lost
    assert {it["status"] for it in lost} == {"blocked"}
    assert "No space left on device" in lost[0]["why"]
    changed = sum(it["status"] == "changed" and it["id"] in STEPS for it in steps)
    assert sum(number for counts in scene.counts().values() for number in counts.values()) == changed
    assert "the record of this run is incomplete" in done.stderr


def test_hosts_are_taken_from_a_record(scene):
    assert scene.run(*scene.begin[:3], "h0,h1", *scene.begin[4:]).code == 0
    (first,) = records().glob("*.jsonl")  # later ones may be of the same second
    said = scene.run("run", "counted.yaml", "-e", f"place={scene.folder}", "--dry-run", "--hosts", "@last:resolved!h1")
    assert [it["host"] for it in said.document["hosts"]] == ["h0"]
    (scene.folder / "hosts.yaml").write_text("hosts: {h0: {transport: local}}\n")
    words = ("run", "counted.yaml", "-e", f"place={scene.folder}", "--dry-run", "--hosts")
    assert "h1 of that run is not in the inventory" in scene.run(*words, f"@{first.stem}").err
    assert "'faild' is no verdict" in scene.run(*words, "@last:faild").err
    assert "no host of run" in scene.run(*words, "@last:unreachable").err


def test_history_lists_shows_compares_exports_and_replays(scene):
    assert scene.run(*scene.begin, "--reason", "ticket 7").code == 0
    first = runbook("history", "list", "--limit", "1").out.split()[0]
    assert scene.run(*scene.begin[:-3], "--dry-run").code == 0
    listed = runbook("history").out.splitlines()
    assert len(listed) == 2
    assert "dry run" in listed[0]
    assert "5 resolved" in listed[1]
    assert "(ticket 7)" in listed[1]
    shown = runbook("history", "show", first, "h0").out
    assert "ticket 7" in shown
    assert "count begins" in shown
    assert f"inputs     place={scene.folder}\n" in shown
    assert "exit code 0" in shown
    differ = runbook("history", "diff", first, "last").out
    assert "h0: resolved -> planned" in differ
    assert "step settings: changed -> ok" in differ
    rows = json.loads(runbook("history", "export", "--host", "h0").out)
    assert [(it["host"], it["verdict"], it["changes"]) for it in rows] == [
        ("h0", "planned", 0), ("h0", "resolved", 4),
    ]  # fmt: skip
    table = runbook("history", "export", "--format", "csv", "--verdict", "resolved").out.splitlines()
    assert len(table) == 6
    assert listed[1].split()[1] == f"{first[:4]}-{first[4:6]}-{first[6:11]}:{first[11:13]}:{first[13:16]}"
    assert len(runbook("history", "list", "--since", listed[1].split()[1]).out.splitlines()) == 2
    assert "an id, its beginning, or `last`" in runbook("history", "show", "0000").err
    replayed = runbook("history", "replay", first, "--output", "json").document
    assert {it["host"]: it["verdict"] for it in replayed["hosts"]} == dict.fromkeys(HOSTS, "resolved")
    assert runbook("history", "show", "nope").code == 2
    assert "has no host 'x'" in runbook("history", "show", first, "x").err


def test_a_replayed_run_is_the_document_that_it_printed(scene):
    """Mutant: ``_with_hosts`` that returns the events as they are."""
    printed = scene.run(*scene.begin).document
    assert runbook("history", "replay", "last", "--output", "json").document == printed


SENDS_SECRET = """\
name: counted
inputs:
  place: {about: Where it counts., type: string, required: true}
remediate:
  - id: pre
    command: {do: {params: &file ["{{ inputs.place }}/{{ host.name }}"], script: 'test -e "$1.go"'}}
  - id: last
    env: {KEY: "{{ secrets.bmc_password }}", OTHER: "{{ host.secrets.own }}"}
    command: {do: {params: *file, script: 'echo "$KEY $OTHER" >"$1.last"'}}
"""
SECRETS_OF = """\
hosts:
  h0: {{transport: local, secrets: {{own: {own}}}}}
  h1: {{transport: local, secrets: {{own: {{env: H1_SEC}}}}}}
secrets: {{bmc_password: {bmc}, unused: {unused}}}
"""
THEN = {"own": "{env: A_SEC}", "bmc": "{file: bmc-key}", "unused": "{env: X}"}


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ({"own": "{env: B_SEC}"}, "the inventory has the secret host.own of h0 elsewhere than in that run"),
        ({"bmc": "{file: bcm-key}"}, "the inventory has the secret bmc_password of h[0-1] elsewhere than in that run"),
        ({"unused": "{env: Y}", "own": "{env: A_SEC, description: Of the BMC.}"}, ""),
    ],
)
def test_a_secret_that_the_inventory_has_elsewhere_by_now_is_not_taken_without_a_word(scene, monkeypatch, now, said):
    """Mutants: ``_resume`` whose ``_selected`` does not ask for secrets; rests_on.py ``rests_on`` without ``secret_places``;
    ``_place_digest`` without the words; with the description.
    """
    monkeypatch.setenv("A_SEC", "canary-aaaa")
    monkeypatch.setenv("B_SEC", "canary-bbbb")
    monkeypatch.setenv("H1_SEC", "canary-1111")
    for name in ("bmc-key", "bcm-key"):
        (scene.folder / name).write_text(f"canary-{name}")
        (scene.folder / name).chmod(0o600)
    (scene.folder / "counted.yaml").write_text(SENDS_SECRET)
    (scene.folder / "hosts.yaml").write_text(SECRETS_OF.format(**THEN))
    assert scene.run(*scene.begin).code == 1
    for host in ("h0", "h1"):
        (scene.folder / f"{host}.go").touch()
    (scene.folder / "hosts.yaml").write_text(SECRETS_OF.format(**{**THEN, **now}))
    went_on = scene.run("resume", "last", "--yes")
    if said:
        assert (went_on.code, said in went_on.err, "--changed-inventory" in went_on.err) == (2, True, True), went_on.err
        assert not (scene.folder / "h0.last").exists()
        went_on = scene.run("resume", "last", "--yes", "--changed-inventory")
    assert went_on.code == 0, went_on.err
    sent = {**THEN, **now}
    keys = (
        "canary-bcm-key" if "bcm" in sent["bmc"] else "canary-bmc-key",
        "canary-bbbb" if "B_" in sent["own"] else "canary-aaaa",
    )
    assert (scene.folder / "h0.last").read_text().split() == [*keys]


def test_secret_inputs_are_given_again(scene):
    text = PLAYBOOK.replace(
        "inputs:\n", "inputs:\n  token: {about: A secret., type: string, default: '', secret: true}\n"
    )
    (scene.folder / "counted.yaml").write_text(text)
    scene.begin = (*scene.begin, "-e", "token=canary-93481")
    run = as_if_killed_in(scene, "last")
    assert "canary-93481" not in "".join(it.read_text() for it in records().glob("*.jsonl"))
    said = scene.run("resume", run, "--yes")
    assert (said.code, "give it again with -e" in said.err) == (2, True), said.err
    (scene.folder / "inputs.yaml").write_text("token: canary-93481\nplace: /elsewhere\n")
    other = scene.run("resume", run, "--yes", "--inputs", "inputs.yaml")
    assert (other.code, "place: it is no secret input" in other.err, "canary" in other.err) == (2, True, False)
    (scene.folder / "inputs.yaml").write_text("token: [canary-93481]\n")
    wrong = scene.run("resume", run, "--yes", "--inputs", "inputs.yaml")
    assert (wrong.code, "token" in wrong.err, "canary" in wrong.err) == (2, True, False), wrong.err
    (scene.folder / "inputs.yaml").write_text("token: canary-93481\n")
    assert scene.run("resume", run, "--dry-run", "-e", "token=canary-93481").code in (0, 1)
    assert scene.run("resume", run, "--yes", "--inputs", "inputs.yaml", "--assume-done", "last").code == 0


ONLY_PROBES = """\
name: probed
about: Counts on a host that has a file.
diagnose:
  - {id: there, command: {script: 'cat "$1" || exit 9', params: ["FILE"]}}
findings:
  - {id: found, when: "'x' in there.stdout", severity: error, say: It is there., advise: [Count.]}
remediate:
  - {id: count, for: found, command: {do: {params: ["FILE"], script: 'echo >>"$1.count"'}}}
"""


def test_whoever_goes_on_with_a_diagnosis_twice_still_changes_nothing(scene):
    """Mutant: a resume that does not record that it only diagnoses."""
    file = scene.folder / "there"
    (scene.folder / "probed.yaml").write_text(ONLY_PROBES.replace("FILE", str(file)))
    first = scene.run("run", "probed.yaml", "--hosts", "h0", "--only", "diagnose")
    assert first.host("h0")["verdict"] == "unknown", first.err
    assert scene.run("resume", "last", "--yes").host("h0")["verdict"] == "unknown"
    file.write_text("x\n")
    said = scene.run("resume", "last", "--yes")
    assert [step["phase"] for step in said.host("h0")["steps"]] == ["diagnose"], said.err
    assert not file.with_name("there.count").exists()
