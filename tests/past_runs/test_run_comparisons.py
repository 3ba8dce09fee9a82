"""A run that compares hosts is printed, recorded, replayed and reported as any other, and is not resumed."""

from __future__ import annotations

import pytest

from tests.support.program import runbook

PLAYBOOK = """\
name: versions
about: Names the host whose version differs.
hosts: all
inputs: {place: {about: Where the versions are., type: string, required: true}}
diagnose:
  - id: version
    command: {argv: [cat, "{{ inputs.place }}/{{ host.name }}"]}
findings:
  - id: unusual
    across: version.stdout | trim
    when: across.value != across.usual
    severity: error
    say: "{{ across.value }}, where most have {{ across.usual }}"
    advise: [Install the version that the others have.]
"""
HOSTS = ("h1", "h2", "h3")


@pytest.fixture
def scene(tmp_path):
    (tmp_path / "versions.yaml").write_text(PLAYBOOK)
    (tmp_path / "hosts.yaml").write_text("hosts:\n" + "".join(f"  {it}: {{transport: local}}\n" for it in HOSTS))
    for name, version in zip(HOSTS, ("550.1", "535.9", "550.1"), strict=True):
        (tmp_path / name).write_text(f"{version}\n")
    return tmp_path


def run(scene, *words, output="json"):
    argv = ("run", "versions.yaml", "-i", "hosts.yaml", "-e", f"place={scene}", "--output", output)
    return runbook(*argv, *words, cwd=scene)


def test_the_host_that_differs_is_named_on_every_way_out(scene):
    said = run(scene, "--yes", "--report", "run.html", "--report", "run.md", "--report", "run.xml")
    words = "535.9, where most have 550.1"
    assert (said.code, said.finding("h2", "unusual")["say"]) == (1, words)
    assert {it["host"]: it["verdict"] for it in said.document["hosts"]} == {
        "h1": "healthy", "h2": "unresolved", "h3": "healthy",
    }  # fmt: skip
    for report in ("run.html", "run.md", "run.xml"):
        assert words in (scene / report).read_text(), report
    assert runbook("history", "replay", "last", "--output", "json").document == said.document
    assert words in runbook("history", "replay", "last").out
    assert words in runbook("history", "show", "last", "h2").out
    dry = run(scene, "--dry-run")
    assert (dry.code, dry.finding("h2", "unusual")["say"]) == (1, words)
    console = run(scene, output="console").out
    assert f"unusual: {words}" in console
    assert "Install the version that the others have." in console


def test_a_run_that_compares_hosts_is_begun_anew_instead_of_resumed(scene):
    (scene / "h3").unlink()
    said = run(scene, "--yes")
    assert said.finding("h1", "unusual")["why"] == "no value is that of more than half of 2 hosts"
    resumed = runbook("resume", "last", "--yes", cwd=scene)
    assert resumed.code == 2
    assert "versions compares hosts with each other, and changes nothing" in resumed.err
    assert "run it again: runbook run versions" in resumed.err


def test_there_is_nothing_to_save_or_apply(scene):
    planned = runbook("plan", "versions.yaml", "-i", "hosts.yaml", "-e", f"place={scene}", "--out", "x.plan", cwd=scene)
    assert (planned.code, "versions changes nothing: there is nothing to apply" in planned.err) == (2, True)


def test_a_monitor_that_probes_each_host_by_itself_compares_none(scene):
    (scene / "playbooks").mkdir()
    (scene / "playbooks/monitor.yaml").write_text(PLAYBOOK.replace("name: versions", "name: monitor"))
    said = runbook("monitor", "--once", "-i", "hosts.yaml", "-e", f"place={scene}", cwd=scene)
    assert (said.code, "may not compare hosts (across)" in said.err) == (2, True), said.err
