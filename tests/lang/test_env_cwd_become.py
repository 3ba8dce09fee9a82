"""``env``, ``cwd`` and ``become`` of a step: filled in for each host, or refused with a plain sentence."""

from __future__ import annotations

import json

import pytest

from runbook.errors import ConfigError
from runbook.language.loader import load_playbook
from runbook.plugins import discover
from tests.support.program import runbook
from tests.support.tables import every_row

LOOK = "diagnose:\n  - {id: seen, command: {argv: ['true']}}\n"


def problems(step: str, section: str = "remediate", text: str = LOOK) -> str:
    with pytest.raises(ConfigError) as caught:
        load_playbook(f"name: toy\n{text}{section}:\n  - {step}\n", "toy.yaml", discover())
    return str(caught.value)


def test_env_and_cwd_are_filled_in_for_looks_and_for_changes(tmp_path):
    """Mutants: apply.py, or probing.py, without `surroundings`."""
    (tmp_path / "here").mkdir()
    hosts = {"here": {"transport": "local", "gpu": "none", "rack": 7}}
    (tmp_path / "hosts.yaml").write_text(json.dumps({"hosts": hosts}))
    around = {"env": {"RACK": "r{{ host.rack }}", "PORT": "{{ inputs.port }}", "ON": True}, "cwd": "{{ inputs.dir }}"}
    says = 'echo "$RACK $PORT $ON $(pwd)"'
    book = {
        "name": "toy",
        "inputs": {"port": {"about": "x", "default": 80}, "dir": {"about": "x", "default": f"{tmp_path}/here"}},
        "diagnose": [{"id": "look", "command": {"script": says}, **around}],
        "remediate": [{"id": "does", "command": {"do": {"script": f"{says} >made"}}, **around}],
    }
    (tmp_path / "toy.yaml").write_text(json.dumps(book))
    where = ("--hosts", "here", "-i", "hosts.yaml", "--output", "json", "--yes")
    said = runbook("run", "toy.yaml", *where, cwd=tmp_path)
    wanted = f"r7 80 true {tmp_path}/here\n"
    assert said.step("here", "look")["commands"][0]["stdout"] == wanted, said.out + said.err
    assert (tmp_path / "here" / "made").read_text() == wanted
    assert f"cd {tmp_path}/here" in runbook("show", "-v", "toy.yaml", cwd=tmp_path).out
    hosts["here"] = {"transport": "local", "gpu": "none"}
    (tmp_path / "hosts.yaml").write_text(json.dumps({"hosts": hosts}))
    blind = runbook("run", "toy.yaml", *where, cwd=tmp_path)
    assert blind.step("here", "does")["status"] == "blocked"
    assert "env: RACK: there is no 'rack'" in blind.step("here", "does")["why"]


@every_row(
    ("step", "words"),
    [
        ("{id: a, env: {A: '{{ seen.stdout }}'}, command: {do: {argv: [x]}}}", "'seen' cannot be used in `env`"),
        ("{id: a, cwd: '{{ item }}', each: ['/'], command: {do: {argv: [x]}}}", "'item' cannot be used in `cwd`"),
        ("{id: a, env: {A: '{{ inputs.nosuch }}'}, command: {do: {argv: [x]}}}", "there is no input 'nosuch'"),
        ("{id: a, cwd: '{{ nosuch }}', command: {do: {argv: [x]}}}", "the name 'nosuch' is not defined"),
        ("{id: a, cwd: '{{ host.', command: {do: {argv: [x]}}}", "cannot be understood"),
    ],
)
def test_what_env_and_cwd_may_not_name_is_a_mistake_with_its_place(step, words):
    said = problems(step)
    assert words in said
    assert "toy.yaml:5:" in said


def test_a_look_for_all_hosts_has_no_hosts_own_surroundings():
    look = "{id: a, once: true, env: {A: '{{ host.name }}'}, command: {argv: ['true']}}"
    assert "cannot depend on 'host'" in problems(look, "diagnose", "")


@every_row(
    "step",
    [
        "{id: a, cwd: !raw '{{ x }}', command: {do: {argv: [x]}}}",
        "{id: a, env: {A: !raw '{{ x }}'}, command: {do: {argv: [x]}}}",
        "{id: a, name: !raw '{{ x }}', command: {do: {argv: [x]}}}",
    ],
)
def test_raw_where_it_means_nothing_is_refused_in_a_sentence(step):
    said = problems(step)
    assert "`!raw` is for arguments of actions and defaults of inputs (leave it out; for a literal {{" in said
    assert "Raw(" not in said


@every_row("key", ["say", "advise", "advise: [x, "])
def test_raw_in_the_words_of_a_finding_is_refused_in_a_sentence(key):
    opens, closes = (key, "]") if "[" in key else (f"{key}: ", "")
    said = problems(f"{{id: f, when: true, severity: error, {opens}!raw '{{{{ x }}}}'{closes}}}", "findings")
    assert "`!raw` is for arguments of actions" in said
    assert "Raw(" not in said


@every_row(
    ("written", "user"),
    [("yes", "root"), ("on", "root"), ("Yes", "root"), ("true", "root"), ("'true'", "root"), ("no", ""), ("off", ""),
     ("false", ""), ("bob", "bob")],
)  # fmt: skip
def test_become_as_authors_of_other_tools_write_it(written, user):
    book = load_playbook(
        f"name: toy\ndiagnose:\n  - {{id: a, become: {written}, command: {{argv: ['true']}}}}\n", "toy.yaml", discover()
    )
    assert book.diagnose[0].become == user
