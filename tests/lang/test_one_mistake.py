"""One mistake is one message: what only follows from it is not reported."""

from __future__ import annotations

import pytest

from runbook.errors import ConfigError
from runbook.language.loader import load_playbook
from runbook.plugins import discover
from tests.support.tables import every_row

PROBE = "diagnose:\n  - {id: jobs, processes: {patterns: [train]}}\n"
USES = """findings:
  - {id: held, when: jobs.leftover, severity: error, say: "{{ jobs.leftover | length }}", evidence: {a: jobs.matches}}
remediate:
  - {id: free, for: held, end: {processes: "{{ jobs.leftover }}"}}
  - {id: last, for: held, after: free, end: {processes: "{{ jobs.leftover }}"}}
"""
ONE = {
    "an action": (PROBE.replace("processes", "proceses") + USES, "3:16: unknown key 'proceses' (did you mean processes?)"),
    "an action that nobody knows": (PROBE.replace("processes", "xyzzy") + USES, "3:16: unknown key 'xyzzy'"),
    "a module of others": (PROBE.replace("processes: {patterns: [train]}", "shell: uptime") + USES, "3:16: unknown key 'shell' (write `command"),
    "two actions": (PROBE.replace("}}", "}, memory: {}}") + USES, "3:48: a step has one action, but this one has processes, memory"),
    "no action": ("diagnose:\n  - {id: jobs}\n" + USES, "3:5: the step names no action"),
    "an id": (PROBE.replace("id: jobs", "id: jbos") + USES, "5:16: the name 'jobs' is not defined (did you mean jbos?; also on lines 7, 8)"),
    "an id that is none": (PROBE.replace("id: jobs", "id: jo-bs") + USES, "3:6: 'jo-bs' is not an id"),
    "an id that is none, used": (PROBE.replace("id: jobs", "id: jo-bs") + USES.replace("jobs", "jo-bs"), "3:6: 'jo-bs' is not an id"),
    "no id": (PROBE.replace("id: jobs, ", "") + USES, "3:5: a probe needs an id"),
    "the key of an id": (PROBE.replace("id: jobs", "i: jobs") + USES, "3:6: unknown key 'i' (did you mean id?)"),
    "an argument": (PROBE.replace("patterns", "paterns") + USES, "3:28: processes: unknown key 'paterns' (did you mean patterns?)"),
    "an argument within": ("remediate:\n  - {id: a, command: {check: {argv: [x]}, do: {agrv: [x]}}}\n", "do: unknown key 'agrv' (did you mean argv?)"),
    "a section": (PROBE.replace("diagnose", "diagnos") + USES, "2:1: unknown key 'diagnos' (did you mean diagnose?)"),
    "the section of findings": (PROBE + USES.replace("findings", "finding"), "4:1: unknown key 'finding' (did you mean findings?)"),
    "a finding's id": (PROBE + USES.replace("id: held", "id: he-ld"), "5:6: 'he-ld' is not an id"),
    "a finding's key": (PROBE + USES.replace("severity", "serverity"), "5:37: unknown key 'serverity' (did you mean severity?)"),
    "a finding's severity": (PROBE + USES.replace("error", "eror"), "severity: 'eror' is not allowed"),
    "no id of a finding": (PROBE + USES.replace("id: held, ", ""), "5:5: 'id' is missing"),
    "a step that others name": (PROBE + USES.replace("free, for: held, end", "free, for: held, ends"), "unknown key 'ends' (did you mean end?)"),
    "a name of a step": (PROBE + USES.replace("after: free", "after: fre"), "no earlier step is called 'fre' (did you mean free?)"),
    "a name of a finding": (PROBE + USES.replace("for: held", "for: hold"), "7:16: no finding is called 'hold' (did you mean held?; also on line 8)"),
    "an input": ("inputs: {n: {abot: x, default: 3}}\n" + PROBE + USES.replace("jobs.matches", "inputs.n"), "2:14: input n: unknown key 'abot' (did you mean about?)"),
    "an input that is none": ("inputs: {n: 3}\n" + PROBE + USES.replace("jobs.matches", "inputs.n"), "2:10: n: expected a mapping"),
    "an input that is not there": ("inputs: {n: {about: x, default: 3}}\n" + PROBE + USES.replace("jobs.matches", "inputs.leftover").replace("jobs.", "inputs."), "there is no input 'leftover'"),
    "an include": (PROBE + "  - {id: other, include: nothere}\n" + USES.replace("jobs", "other_x"), "4:17: no playbook 'nothere'"),
    "arguments that are none": (PROBE.replace("{patterns: [train]}", "train") + USES, "3:16: processes: expected a mapping of arguments"),
    "a group": (PROBE + "findings:\n  - when: jbos.x\n    findings:\n      - {id: a, when: true, severity: info}\n      - {id: b, when: true, severity: info}\n", "the name 'jbos' is not defined"),
    "a text with a comma": (PROBE + "findings:\n  - {id: a, when: jobs.matches, say: no job, on two sides., severity: info}\n", '5:33: a text with a comma needs quotes within { }: `say: "no job, on two sides."`'),
    "a text with two commas": (PROBE + "findings:\n  - {id: a, when: jobs.matches, severity: info, say: no, yes, well}\n", '`say: "no, yes, well"`'),
    "a name with a comma": ("diagnose:\n  - {id: jobs, name: a, b, processes: {patterns: [train]}}\n" + USES, '3:16: a text with a comma needs quotes within { }: `name: "a, b"`'),
    "an argument with a comma": ("remediate:\n  - {id: a, note: {text: one, two}}\n", '3:20: a text with a comma needs quotes within { }: `text: "one, two"`'),
    "an input with a comma": ("inputs: {n: {about: a number, or two, default: 3}}\n" + PROBE + USES.replace("jobs.matches", "inputs.n"), '`about: "a number, or two"`'),
    "a list without brackets": (PROBE.replace("[train]", "train, infer") + USES, "3:28: several need brackets: `patterns: [train, infer]`"),
    "ids without brackets": (PROBE + USES + "verify:\n  - {id: end, after: free, last, processes: {patterns: [x1y]}}\n", "several need brackets: `after: [free, last]`"),
    "one argument too far out": ("diagnose:\n  - id: jobs\n    processes:\n    patterns: [train]\n" + USES, "5:5: 'patterns' is an argument of processes: indent it below"),
    "two too far out": ("diagnose:\n  - id: jobs\n    processes:\n    patterns: [train]\n    older_than: 3m\n" + USES, "5:5: 'patterns' and 'older_than' are arguments of processes: indent them below"),
    "three too far out": ("remediate:\n  - id: a\n    file:\n    path: /x\n    content: x\n    mode: '0644'\n", "5:5: 'path', 'content' and 'mode' are arguments of file: indent them below"),
    "a command": ("diagnose:\n  - id: jobs\n    command:\n    argv: [echo]\n", "5:5: 'argv' is an argument of command: indent it below"),
    "beside others": ("diagnose:\n  - id: jobs\n    processes:\n      patterns: [train]\n    older_than: 3m\n" + USES, "6:5: 'older_than' is an argument of processes: indent it below"),
    "beside others in one line": ("diagnose:\n  - id: jobs\n    processes: {patterns: [train]}\n    older_than: 3m\n" + USES, "5:5: 'older_than' is an argument of processes: write it within its { }"),
    "twice": ("diagnose:\n  - id: jobs\n    processes:\n      patterns: [train]\n    patterns: [x1y]\n" + USES, "6:5: 'patterns' is an argument of processes: indent it below (it has 'patterns' already)"),
}  # fmt: skip
TWO = {
    "an action and its arguments": ("diagnose:\n  - id: jobs\n    proceses:\n    patterns: [train]\n" + USES, ("unknown key 'proceses'", "'patterns' is an argument of proceses")),
    "a place and a value": ("diagnose:\n  - id: jobs\n    processes:\n    patterns: ['.*']\n" + USES, ("5:5: 'patterns' is an argument", "5:16: processes: patterns[0]: pattern '.*'")),
    "a value and a place": ("diagnose:\n  - id: jobs\n    command: uptime\n    argv: [x]\n", ("expected a mapping of arguments", "'argv' is an argument of command: indent it below")),
    "an action and a name": (PROBE.replace("processes", "proceses") + USES.replace("jobs.matches", "nobody.x"), ("'proceses'", "the name 'nobody' is not defined")),
    "an id with a comma": (PROBE.replace("id: jobs", "id: jobs, more") + USES.replace("jobs.matches", "nobody.x"), ("unknown key 'more'", "'nobody'")),
    "a section and a key in it": (PROBE + USES.replace("findings", "finding").replace("severity", "serverity"), ("4:1: unknown key 'finding'", "5:37: unknown key 'serverity'")),
    "an action twice": (PROBE.replace("processes", "proceses") + "  - {id: other, proceses: {}}\n" + USES, ("3:16:", "4:17:")),
    "no action, and a key of others": ("diagnose:\n  - {id: jobs, register: x}\n" + USES, ("names no action", "unknown key 'register'")),
    "two arguments that are missing": (PROBE.replace("patterns: [train]", "") + "  - {id: other, processes: {}}\n" + USES, ("3:16:", "4:17:")),
    "a comma and a name": (PROBE + "findings:\n  - {id: a, when: jbos.matches, say: no, no, severity: info}\n", ("the name 'jbos'", '`say: "no, no"`')),
    "what is named and a field": (PROBE.replace("id: jobs", "id: jbos") + USES.replace("jobs.matches", "jbos.mtches"), ("'jobs' is not defined", "no field 'mtches'")),
}  # fmt: skip


def mistakes(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_playbook(f"name: toy\n{text}", "toy.yaml", discover())
    return str(caught.value).splitlines()


@every_row("kind", ONE)
def test_one_mistake_is_one_message(kind):
    """Mutants: ``lost_names`` without one of its; ``once`` that joins nothing; ``repaired`` that gives the document."""
    text, words = ONE[kind]
    said = mistakes(text)
    assert len(said) == 1, said
    assert words in said[0]


@every_row("kind", TWO)
def test_two_mistakes_are_two_messages(kind):
    """Mutants: ``once`` that joins all that sounds alike; ``explains`` that is always true."""
    text, words = TWO[kind]
    said = mistakes(text)
    assert len(said) == 2, said
    assert all(any(word in line for line in said) for word in words), said


def test_what_is_no_mistake_is_left_as_it_is():
    text = "name: toy\n" + PROBE + USES
    assert [step.id for step in load_playbook(text, "toy.yaml", discover()).steps] == ["jobs", "free", "last"]
