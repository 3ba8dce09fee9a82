"""Profiles of an inventory in whole runs: which value counts, and that plans and resumed runs keep theirs."""

from __future__ import annotations

import json

import pytest

from tests.past_runs.counting_scene import INVENTORY, Scene, as_if_killed_in
from tests.support.program import runbook
from tests.support.tables import every_row

pytestmark = pytest.mark.slow  # whole runs, one after the other

INNER = """\
name: inner
about: x
inputs:
  level: {about: x, type: integer, default: 1}
  kept: {about: x, default: as-included}
diagnose:
  - {id: seen, command: {argv: [echo, "{{ inputs.level | string }}", "{{ inputs.kept }}"]}}
findings:
  - {id: high, when: "true", severity: error, say: "{{ seen.stdout | trim }}"}
"""
OUTER = """\
name: outer
about: x
inputs:
  word: {about: x, default: plain}
  pin: {about: x, secret: true, default: ""}
diagnose:
  - {id: part, include: inner.yaml, inputs: {kept: by-include}}
  - {id: own, command: {argv: [echo, "{{ inputs.word }}"]}}
findings:
  - {id: said, when: "true", severity: error, say: "{{ own.stdout | trim }}"}
remediate:
  - {id: keep, for: said, file: {path: "FOLDER/{{ host.name }}", content: "{{ inputs.word }}"}}
"""
HOSTS = "hosts: {a: {transport: local, gpu: 8x H100}, b: {transport: local, gpu: 8x A100}}\n"
PROFILE = """\
profiles:
  h100:
    hosts: gpu=*H100*
    inputs: {outer: {word: WORD}, inner: {level: 7, kept: never}}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "inner.yaml").write_text(INNER)
    (tmp_path / "outer.yaml").write_text(OUTER.replace("FOLDER", str(tmp_path)))
    (tmp_path / "hosts.yaml").write_text(HOSTS + PROFILE.replace("WORD", "special"))
    return tmp_path


def said(folder, *words: str, command: str = "run") -> tuple[dict[str, list[str]], str]:
    """The findings on each host, and what was said of profiles."""
    given = ("outer.yaml", "-i", "hosts.yaml", "--hosts", "all", "--output", "json", "--dry-run")
    done = runbook(command, *given, *words, cwd=folder)
    found = {it["host"]: [each["say"] for each in it["findings"]] for it in done.document["hosts"]}
    return found, done.err


def test_a_profile_counts_before_the_default_and_after_what_is_given(folder, monkeypatch):
    """Mutants: a profile for every host; one that overrides ``-e``, or the inputs of an include."""
    found, words = said(folder)
    assert found == {"a": ["7 by-include", "special"], "b": ["1 by-include", "plain"]}
    assert "by profile: a: level=7 (inner), word=special (outer)" in words
    found, words = said(folder, "-e", "word=plain")
    assert found == {"a": ["7 by-include", "plain"], "b": ["1 by-include", "plain"]}
    assert "word" not in words


def test_a_plan_is_applied_with_the_inputs_that_it_shows(folder):
    """Mutants: records without the inputs of profiles; ``apply`` that takes those of the inventory."""
    given = ("-i", "hosts.yaml", "--hosts", "all", "-o", "plan.json")
    assert runbook("plan", "outer.yaml", *given, cwd=folder).code == 0
    assert "by profile: a: level=7 (inner), word=special (outer)" in runbook("show", "plan.json", cwd=folder).out
    assert json.loads((folder / "plan.json").read_text())["rests_on"]["profile_inputs"]["a"]["outer"] == {
        "word": "special"
    }
    (folder / "hosts.yaml").write_text(HOSTS + PROFILE.replace("WORD", "other"))
    refused = runbook("apply", "plan.json", "--yes", cwd=folder)
    assert (refused.code, "the inventory has changed" in refused.err) == (2, True)
    (folder / "hosts.yaml").write_text(HOSTS + PROFILE.replace("WORD", "special"))
    assert runbook("apply", "plan.json", "--yes", cwd=folder).code == 1  # the finding of the test stays
    assert [(folder / host).read_text() for host in "ab"] == ["special", "plain"]


@pytest.mark.parametrize("later", ["other", "special"])
def test_a_resumed_run_keeps_its_inputs(tmp_path, monkeypatch, later):
    """Mutant: ``resume`` that takes the profiles of today."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    scene = Scene(tmp_path / "scene")
    counted = scene.folder / "counted.yaml"
    counted.write_text(counted.read_text().replace("{about: Where it counts., type: string, required: true}",
                                                   "{about: x, type: string, required: true}\n  word: {about: x, default: plain}")
                       .replace('content: "new\\n"', 'content: "{{ inputs.word }}"'))  # fmt: skip
    profiles = "profiles: {p: {hosts: h1, inputs: {counted: {word: WORD}}}}\n"
    (scene.folder / "hosts.yaml").write_text(INVENTORY + profiles.replace("WORD", "special"))
    run = as_if_killed_in(scene, "count")
    for file in scene.folder.glob("h*.conf"):
        file.unlink()
    (scene.folder / "hosts.yaml").write_text(INVENTORY + profiles.replace("WORD", later))
    assert scene.run("resume", run, "--yes", "--assume-done", "count").code == 0
    assert [(scene.folder / f"h{at}.conf").read_text() for at in (0, 1, 2)] == ["plain", "special", "plain"]
    shown = runbook("history", "show", run, cwd=scene.folder)
    assert "profile    h1: word=special (counted)" in shown.out


@every_row(
    ("inputs", "words"),
    [
        ("{outer: {wrd: x}}", ":5:22: profiles.h100.inputs.outer.wrd: outer has no such input (did you mean word?)"),
        ("{inner: {level: x}}", "profiles.h100.inputs.inner.level: expected"),
        ("{outer: {pin: hunter2}}", "profiles.h100.inputs.outer.pin: the value is secret, or contains a secret (a profile is no place"),
        ("{outer: {word: 'https://me:hunter2@host/x'}}", "inputs.outer.word: the value is secret, or contains a secret"),
        ("{zombie_gpu: {x: 1}}", "profiles.h100.inputs.zombie_gpu: there is no such playbook (did you mean zombie-gpu?)"),
    ],
)  # fmt: skip
def test_an_input_that_a_playbook_does_not_have_is_told_before_anything_is_connected_to(folder, inputs, words):
    """Mutants: names that are not compared; values that are not checked."""
    profile = PROFILE.replace("{outer: {word: WORD}, inner: {level: 7, kept: never}}", inputs)
    (folder / "hosts.yaml").write_text(HOSTS + profile)
    done = runbook("run", "outer.yaml", "-i", "hosts.yaml", "--hosts", "all", "--dry-run", cwd=folder)
    assert done.code == 2
    assert words in done.err
    assert "hunter2" not in done.err


def test_the_stricter_limit_counts_on_its_hosts_alone(folder):
    """Mutants: a cooldown for every host; one that no record is read for."""
    (folder / "hosts.yaml").write_text(HOSTS + "profiles: {p: {hosts: a, limits: {cooldown: 1h}}}\n")
    assert "by profile: a: cooldown 60 min (p)" in said(folder)[1]
    run = ("run", "outer.yaml", "-i", "hosts.yaml", "--hosts", "all", "--yes", "--output", "json")
    for word in ("one", "two"):
        done = runbook(*run, "-e", f"word={word}", cwd=folder)
    assert [(folder / host).read_text() for host in "ab"] == ["one", "two"]
    assert "limits.cooldown" in json.dumps(done.step("a", "keep"))


def test_a_host_of_a_profile_has_its_own_deadline(folder):
    """Mutant: the deadline of the run's playbook."""
    (folder / "hosts.yaml").write_text(HOSTS + "profiles: {p: {hosts: a, limits: {host_deadline: 200ms}}}\n")
    book = (
        (folder / "outer.yaml")
        .read_text()
        .replace("[echo, ", "[sleep, '2', ")
        .replace("sleep, '2'", "sh, -c, 'sleep 2; echo'")
    )
    (folder / "outer.yaml").write_text(book)
    done = runbook(
        "run", "outer.yaml", "-i", "hosts.yaml", "--hosts", "all", "--dry-run", "--output", "json", cwd=folder
    )
    assert {it["host"]: it["verdict"] for it in done.document["hosts"]} == {"a": "cancelled", "b": "planned"}


def test_what_one_host_asks_elsewhere_is_no_answer_for_a_host_that_asks_another(folder):
    """Mutant: ``probe_shared`` with a key that has no place."""
    book = (folder / "outer.yaml").read_text()
    once = "argv: [hostname]}, once: true, on: '{{ inputs.word }}'}"
    (folder / "outer.yaml").write_text(book.replace('argv: [echo, "{{ inputs.word }}"]}}', once).replace("plain", "b"))
    (folder / "hosts.yaml").write_text(HOSTS + PROFILE.replace("WORD", "a"))
    done = runbook(
        "run", "outer.yaml", "-i", "hosts.yaml", "--hosts", "all", "--dry-run", "--output", "json", cwd=folder
    )
    steps = [done.step(host, "own") for host in "ab"]
    assert [len(step["commands"]) for step in steps] == [1, 1]
