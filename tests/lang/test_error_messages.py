"""What a mistake is called, and what to write instead."""

from __future__ import annotations

import pytest

from runbook.errors import ConfigError
from runbook.language.ansible_hints import MEANT
from runbook.language.keys import STEP
from runbook.language.loader import load_playbook
from runbook.plugins import discover
from tests.support.program import runbook
from tests.support.tables import every_row

HEAD = "name: toy\nabout: x\n"
BAD = {
    "a tab": ("diagnose:\n\t- {id: a}\n", "toy.yaml:4:1: a tab, which YAML does not allow for indentation (use spaces)"),
    "an at": ("hosts: @gpu\n", "toy.yaml:3:8: a value cannot begin with '@' in YAML (put the whole value in quotes)"),
    "NUL": ("hosts: a\0b\n", "toy.yaml:3:9: a character that YAML does not allow (#x0000, NUL)"),
    "brackets": ("hosts: " + "[" * 300, "toy.yaml:3:208: nested deeper than 50 levels"),
    "dashes": ("hosts:\n" + "- " * 300 + "x\n", "toy.yaml:4:1: nested deeper than 50 levels"),
    "keys": ("".join(f"{' ' * it}a:\n" for it in range(90)), "toy.yaml:5"),
    "a bang": ("diagnose:\n  - {id: a, command: {argv: [test, !, -e, x]}}\n", "toy.yaml:4:36: `!` alone"),
    "a bang before a text": ("diagnose:\n  - {id: a, command: {script: ! test -e x}}\n", "toy.yaml:4:31: `!` alone"),
    "register": ("diagnose:\n  - {id: a, register: b, command: {argv: [x]}}\n", "a probe is named by its `id`"),
    "shell": ("diagnose:\n  - {id: a, shell: uptime}\n", "write `command: {script: ...}`"),
    "cmd": ("diagnose:\n  - {id: a, command: {cmd: uptime}}\n", "write `argv: [program, argument]`"),
    "a module": ("remediate:\n  - {id: a, ansible.builtin.service: {name: x}}\n", "did you mean service?"),
    "a module of others": ("diagnose:\n  - {id: a, ansible.builtin.shell: x}\n", "write `command: {script: ...}`"),
    "no state": ("remediate:\n  - {id: a, service: {name: x, state: up}}\n", "use one of: started, stopped, restarted, reloaded"),
    "a list of conditions": ("diagnose:\n  - {id: a, when: [b, c], command: {argv: [x]}}\n", "join them by `and`"),
    "a number": ("diagnose:\n  - {id: a, command: {argv: [sleep, 5]}}\n", 'put it in quotes: "5"; in a template: | string'),
    "a mode": ("remediate:\n  - {id: a, file: {path: /x, mode: 644, content: x}}\n", 'such as "0644"'),
    "an input that is a number": (
        "inputs: {port: {about: x, default: 80}}\ndiagnose:\n  - {id: a, command: {argv: [x, '{{ inputs.port }}']}}\n",
        "in a template: | string",
    ),
}  # fmt: skip


def mistakes(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load_playbook(text, "toy.yaml", discover())
    return str(caught.value)


@every_row("kind", BAD)
def test_a_mistake_is_named_with_its_place_and_what_to_write(kind):
    text, words = BAD[kind]
    assert words in mistakes(HEAD + text)


def test_a_bang_in_quotes_is_a_word():
    text = "diagnose:\n  - {id: a, command: {argv: [test, '!', \"! x\", !raw '{{', x!]}}\n"
    assert load_playbook(HEAD + text, "toy.yaml", discover()).diagnose[0].args["argv"][1:3] == ["!", "! x"]


def test_a_bang_at_an_end_of_line_of_another_kind_breaks_nothing():
    assert "toy.yaml:" in mistakes("name: toy\rabout: x\rdiagnose:\r  - {id: a, command: {argv: [!, x]}}\r, ]")


def test_a_list_of_plays_is_told_what_a_playbook_is():
    assert "at its top level, without a dash" in mistakes("- hosts: all\n  tasks: []\n")


def test_no_word_of_ours_is_called_a_word_of_others():
    assert not MEANT.keys() & ({*STEP} - {"become"})
    assert not MEANT.keys() & discover().keys()


@every_row(
    ("words", "said"),
    [
        (("hosts", "gpu-01 gpu-02"), "join several by commas: gpu-01,gpu-02"),
        (("hosts", "gpu-01", "gpu-02"), "join several hosts by commas: gpu-01,gpu-02"),
        (("run", "toy.yaml", ""), "an argument is empty: is a shell variable not set"),
        (("run", "toy.yaml", "--timeout", ""), "--timeout is empty: give it a value, or leave the option out"),
        (("run", "toy.yaml", "-e", ""), "--input is empty"),
        (("run", ""), "PLAYBOOK is empty"),
        (("run", "toy.yaml", "--hosts", "gpu-01", "--inputs", "in.yaml"), "in.yaml:2:1: input port: expected a whole"),
        (("run", "toy.yaml", "--hosts", "gpu-01", "--inputs", "in.yaml"), "in.yaml:3:1: toy has no input 'prot'"),
    ],
)
def test_a_command_line_that_says_too_little_or_too_much(tmp_path, words, said):
    (tmp_path / "hosts.yaml").write_text("hosts: {gpu-01: {transport: local}, gpu-02: {transport: local}}\n")
    (tmp_path / "in.yaml").write_text("---\nport: x\nprot: 80\n")
    inputs = "inputs: {port: {about: x, type: integer, default: 80}}\n"
    (tmp_path / "toy.yaml").write_text(f"{HEAD}{inputs}diagnose:\n  - {{id: a, command: {{argv: [uptime]}}}}\n")
    told = runbook(words[0], "-i", "hosts.yaml", *words[1:], cwd=tmp_path)
    assert (told.code, told.out) == (2, "")
    assert said in told.err


@every_row(("action", "part"), [("command", "Program"), ("http", "Check"), ("components", "Component")])
def test_what_an_action_is_made_of_is_told(action, part):
    told = runbook("actions", action).out
    assert f"\nFields of a {part}\n" in told


@every_row(
    ("action", "absent"),
    [("file", ["  text ", "  filled ", "PathState"]), ("script", ["  text "]), ("restore_file", ["FileCopy"])],
)
def test_what_an_author_cannot_write_and_no_expression_reads_is_not_listed(action, absent):
    """Mutants: ``public_fields`` with what is private, or with the text of a file that another argument names."""
    told = runbook("actions", action).out
    assert "Arguments" in told
    assert [it for it in absent if it in told] == []
