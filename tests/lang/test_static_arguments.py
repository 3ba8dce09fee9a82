"""What is certainly wrong with a step is found beforehand, whatever else in it depends on a host, a probe or an item."""

from __future__ import annotations

import pytest

from runbook.errors import ConfigError
from runbook.language.loader import load_playbook
from runbook.plugins import discover
from tests.support.program import runbook
from tests.support.tables import every_row

HOST = "{{ host.name }}"
CERTAIN = {
    "a misspelt key beside": (f"pkill: {{patern: ['x-{HOST}']}}", ["unknown key 'patern' (did you mean patterns?)"]),
    "a missing key": (f"pkill: {{grace: '{HOST}'}}", ["'patterns' is missing"]),
    "a pattern of everything": (f"pkill: {{patterns: ['.*', 'x-{HOST}']}}", ["patterns[0]: pattern '.*' is refused"]),
    "a broken pattern, second": (f"pkill: {{patterns: ['x-{HOST}', '(']}}", ["patterns[1]: pattern '(' is refused"]),
    "a number between": (f"command: {{do: {{argv: [sleep, 5, '{HOST}']}}}}", ["do.argv[1]: expected text, got a num"]),
    "a key of another name": (f"note: {{say: '{HOST}'}}", ["unknown key 'say'", "'text' is missing"]),
    "text where a list must be": (f"pkill: {{patterns: 'x-{HOST}'}}", ["patterns: expected a list, got text"]),
    "text where true or false must be": (
        f"http: {{url: '{HOST}', insecure: 'x-{HOST}'}}",
        ["insecure"],
    ),
    "a signal that is none": (f"pkill: {{patterns: ['x-{HOST}'], signal: TREM}}", ["signal"]),
    "a probe's field": ("pkill: {patterns: ['(', '{{ seen.patterns }}']}", ["patterns[0]: pattern '('"]),
}


def problems(step: str, section: str = "remediate") -> str:
    look = "" if section == "diagnose" else "diagnose:\n  - {id: seen, processes: {patterns: [nosuchprocess]}}\n"
    with pytest.raises(ConfigError) as caught:
        load_playbook(f"name: toy\n{look}{section}:\n  - {{id: a, {step}}}\n", "toy.yaml", discover())
    return str(caught.value)


@every_row("kind", CERTAIN)
def test_what_is_certainly_wrong_is_a_mistake_beside_what_is_not_known_yet(kind):
    step, words = CERTAIN[kind]
    said = problems(step)
    for it in words:
        assert it in said, said
    assert "toy.yaml:5:" in said


def test_an_item_is_no_excuse_either():
    assert "patterns[0]: pattern '.*'" in problems(
        "each: seen.processes, pkill: {patterns: ['.*', '{{ item.command }}']}"
    )


@every_row(
    "argv",
    [
        "[rm, -f, '/tmp/{{ host.name }}']",
        "[sh, -c, 'kill 1', '{{ host.name }}']",
        "[systemctl, stop, '{{ host.name }}']",
    ],
)
def test_a_look_that_changes_things_is_refused_whatever_it_is_given(argv):
    assert "a probe may not change the host" in problems(f"command: {{argv: {argv}}}", "diagnose")


@every_row(
    "argv",
    [
        "[kill, '{{ host.name }}', '1']",
        "[pip, '{{ host.name }}']",
        "['{{ host.name }}', x]",
        "[cat, '{{ host.name }}']",
    ],
)
def test_a_look_that_may_be_one_is_left_to_the_run(argv):
    text = f"name: toy\ndiagnose:\n  - {{id: a, command: {{argv: {argv}}}}}\n"
    assert load_playbook(text, "toy.yaml", discover()).diagnose[0].id == "a"


def test_what_is_filled_in_makes_no_look_a_change(tmp_path):
    """Mutants: probing.py without the question to ``objection``."""
    there = tmp_path / "there"
    there.write_text("x")
    (tmp_path / "hosts.yaml").write_text("hosts:\n  here: {transport: local, gpu: none, does: rm}\n")
    look = f"{{id: a, command: {{argv: ['{{{{ host.does }}}}', -f, '{there}']}}}}"
    (tmp_path / "toy.yaml").write_text(f"name: toy\ndiagnose:\n  - {look}\n")
    said = runbook("run", "toy.yaml", "--hosts", "here", "-i", "hosts.yaml", "--output", "json", cwd=tmp_path)
    assert "a probe may not change the host, and `rm` does" in said.step("here", "a")["why"]
    assert said.code == 1
    assert there.exists()


@every_row(("way", "status"), [("--dry-run", "blocked"), ("--yes", "blocked")])
def test_a_note_that_cannot_be_told_says_why_and_is_no_fault_of_ours(tmp_path, way, status):
    (tmp_path / "hosts.yaml").write_text("hosts:\n  here: {transport: local, gpu: none, rack: 22}\n")
    notes = ["{id: a, note: {text: '{{ host.rack }}'}}", "{id: b, note: {text: '{{ host.row }}'}}"]
    (tmp_path / "toy.yaml").write_text("name: toy\nremediate:\n" + "".join(f"  - {it}\n" for it in notes))
    said = runbook("run", "toy.yaml", "--hosts", "here", "-i", "hosts.yaml", "--output", "json", way, cwd=tmp_path)
    assert said.step("here", "a")["status"] == status
    assert "text: expected text, got a number (22)" in said.step("here", "a")["why"]
    assert "internal error:" not in said.out
    if way == "--dry-run":
        assert "there is no 'row' (there is transport, gpu, rack, name" in said.step("here", "b")["why"]
