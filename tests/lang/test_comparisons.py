"""A comparison that can never be true, or always fails, is a mistake with what was meant."""

from __future__ import annotations

import json

from runbook.errors import ConfigError
from runbook.language.expressions.compared_types import SIGNS, TESTS, mistakes_in_comparisons
from runbook.language.expressions.static_types import NUMBER, TEXT, Kind, Type
from runbook.language.expressions.templates import as_template
from runbook.language.loader import load_playbook
from runbook.plugins import discover
from tests.support.tables import every_row

TOY = """name: toy
inputs:
  count: {about: x, type: integer, default: 3}
  words: {about: x, type: array, items: {type: string}, default: []}
  text: {about: x, type: [string, 'null'], default: ''}
  either: {about: x, type: [string, integer], default: 3}
  any: {about: x, default: 3}
diagnose:
  - {id: jobs, processes: {patterns: ['train_\\w+']}}
  - {id: gpus, nvidia_smi: {}}
  - {id: each_of, each: [1, 2], nvidia_smi: {}}
  - {id: often, samples: {times: 2, every: 1s}, nvidia_smi: {}}
  - {id: said, command: {argv: [cat, /x], parse: json}}
  - {id: resets, gpu_reset: {}}
  - {id: boot, reboot: {}}
findings:
  - {id: used, severity: info, when: jobs.matches or gpus.count or each_of or often.samples or said.value or resets or boot}
"""
NEVER = {
    "'seconds' > '3'": "`'seconds' > '3'` compares two texts that stand there as they are: what it gives never changes (write names and numbers without quotes: `seconds > 3`?)",
    "jobs.matches > 3": "`jobs.matches > 3` always fails: jobs.matches is a list, 3 is a number (`jobs.matches | length > 3`?)",
    "3 < jobs.matches": "always fails: 3 is a number, jobs.matches is a list (`3 < jobs.matches | length`?)",
    "gpus.count == '4'": "`gpus.count == '4'` is never true: gpus.count is a number, '4' is text (write 4 without quotes)",
    "gpus.count != '4'": "is always true: gpus.count is a number, '4' is text (write 4 without quotes)",
    "'4' == gpus['count']": "is never true: '4' is text, gpus['count'] is a number (write 4 without quotes)",
    "1 < gpus.count < '4'": "`gpus.count < '4'` always fails",
    "gpus.count is gt '4'": "`gpus.count > '4'` always fails",
    "gpus.count + 1 > '4'": "the left side is a number",
    "(gpus.count if said.value else 3) > 'a'": "the left side is a number",
    "(gpus.count or 3) > 'a'": "the left side is a number",
    "boot.last == 3": "`boot.last == 3` is never true: boot.last is a mapping",
    "(gpus.count or none) > 'a'": "the left side is a number",
    "-gpus.count > 'a'": "`-gpus.count > 'a'` always fails",
    "host.name < 3": "`host.name < 3` always fails: host.name is text, 3 is a number",
    "run.id == 3": "run.id is text, 3 is a number (write '3' in quotes)",
    "host.groups == 'a'": "(`'a' in host.groups`?)",
    "3 in host.groups": "`3 in host.groups` is never true: 3 is a number, each element of host.groups is text",
    "3 not in host.groups": "`3 not in host.groups` is always true",
    "'x' in 5": "`'x' in 5` always fails: 5 is a number, and nothing is in it",
    "'x' in gpus.count": "always fails: gpus.count is a number, and nothing is in it",
    "3 in said.stdout": "always fails: 3 is a number, and only text can be in said.stdout",
    "'x' in jobs.matches": "'x' is text, each element of jobs.matches is a mapping",
    "inputs.count > 'a'": "`inputs.count > 'a'` always fails: inputs.count is a number, 'a' is text",
    "inputs.words == 'a'": "(`'a' in inputs.words`?)",
    "inputs.text > 3": "inputs.text is text, 3 is a number",
    "jobs.matches == true": "jobs.matches is a list, true is a boolean (`jobs.matches` alone is true where it is not empty)",
    "gpus.count > none": "always fails: gpus.count is a number, none is none",
    "jobs.matches | length > '3'": "jobs.matches | length is a number, '3' is text (write 3 without quotes)",
    "jobs.matches | map(attribute='seconds') | max > '3'": "the left side is a number",
    "(jobs.matches | selectattr('user') | first).seconds > '3'": "the left side is a number",
    "jobs.matches[0].seconds > '3'": "jobs.matches[0].seconds is a number",
    "jobs.leftover | selectattr('seconds', 'gt', '60') | list": "`seconds > '60'` always fails: seconds is a number, '60' is text",
    "jobs.leftover | rejectattr('user', 'equalto', 0) | list": "`user == 0` is never true: user is text, 0 is a number",
    "host.groups | select('==', 3) | list": "`each element == 3` is never true",
    "each_of > 3": "(`each_of | length > 3`?)",
    "each_of[0].count > 'a'": "each_of[0].count is a number",
    "often.samples[-1].count == '4'": "often.samples[-1].count is a number, '4' is text",
    "often.asked == '4'": "often.asked is a number, '4' is text",
    "often | sustained('count > \"a\"', '10s')": "`count > 'a'` always fails",
    "said.stdout ~ 'x' > 3": "the left side is text, 3 is a number",
    "(not gpus.count) == 'yes'": "the left side is a boolean, 'yes' is text",
    "resets.root == 'true'": "(write true without quotes)",
    "jobs.matches == 0 and gpus.count": "(`jobs.matches | length == 0`?)",
}  # fmt: skip
GOOD = (
    *("gpus.count == 4", "gpus.count > 3.5", "4 >= gpus.count", "gpus.count == none", "gpus.count == true"),
    *("said.value > 3", "said.value == 'x'", "said.value.x in said.value.y", "'a' in said.value", "3 in said.value"),
    *("host.name == 'a'", "host.rack > 3", "host.port == '3'", "host.name > 'a'", "'a' in host.name", "host == 3"),
    *("inputs.any > 3", "inputs.any == 'x'", "inputs.either == 3", "inputs.text == 'x'", "inputs.text == none"),
    *("'a' in inputs.words", "inputs.words == []", "inputs.count in [1, 2]", "said.stdout in ['a', 'b']"),
    *("jobs.matches == []", "boot.last == none", "jobs.matches | length > 3", "jobs.matches[0] in jobs.leftover", "'a' < said.stdout"),
    *("said.stdout | int > 3", "said.stdout | default(3) > 3", "(said.value or 'nobody') == 3", "'user' in jobs"),
    *("(gpus.count if said.value else 'none') == 'none'", "(said.value or gpus.count) > 'a'", "'3' > said.value"),
    *("jobs.matches | map('upper') | map(attribute='x') | first > 3", "gpus.count * said.value == 'x'"),
    *("history.last('changed') is none or history.last('changed') > 1800", "often | sustained('count > 3', '10s')"),
    *("jobs.leftover | selectattr('seconds', 'gt', 9) | list", "jobs.leftover | selectattr('user') | list"),
    *("[gpus.count, 'a'] | first == 'a'", "none in inputs.words", "'a' in [1, 'a']", "said.stdout.split(',')[0] > 3"),
    "(gpus if said.value else jobs).count > 'a'",
    "{% set gpus = [1] %}{{ gpus > 3 }}{% for jobs in [1] %}{{ jobs > 3 }}{% endfor %}",
)  # fmt: skip


def mistakes(expression: str) -> str:
    key = "say" if "{%" in expression else "when"
    finding = {"id": "held", "severity": "info", "when": "true", key: expression}
    try:
        load_playbook(f"{TOY}  - {json.dumps(finding)}\n", "toy.yaml", discover())
    except ConfigError as error:
        return str(error)
    return ""


@every_row("expression", NEVER)
def test_what_can_never_be_is_one_mistake_with_what_was_meant(expression):
    """Mutants: ``type_of`` without one of its cases; ``_fault`` without one of its; ``_of_probe`` without series."""
    said = mistakes(expression)
    assert NEVER[expression] in said
    assert said.startswith("toy.yaml:18:")
    assert len(said.splitlines()) == 1


@every_row("expression", GOOD)
def test_what_may_be_is_no_mistake(expression):
    """Mutants: ``common`` that gives the first; ``mistakes_in_comparisons`` with names that a template binds itself."""
    assert mistakes(expression) == ""


def test_a_text_that_is_none_of_a_few_is_never_there():
    names = {"probe": Type(Kind.ANY, {"kind": Type(Kind.TEXT, choices=("gpu", "nvswitch")), "n": NUMBER, "t": TEXT})}
    found = dict(mistakes_in_comparisons(as_template("probe.kind == 'gpuu' or probe.kind == 'gpu'"), names))
    assert found == {
        "`probe.kind == 'gpuu'` is never true: probe.kind is one of 'gpu', 'nvswitch'": "did you mean gpu?"
    }
    assert not dict(mistakes_in_comparisons(as_template("probe.kind != probe.t or probe.n < 3"), names))


def test_a_mistake_in_a_value_is_said_once_in_its_place():
    text = TOY.replace("diagnose:", "let:\n  many: jobs.matches > 3\ndiagnose:")
    text += "  - {id: a, severity: info, when: many, say: '{{ many }}'}\n  - {id: b, severity: info, when: many == 3}\n"
    try:
        load_playbook(text, "toy.yaml", discover())
    except ConfigError as error:
        assert [(each.line, each.message[:16]) for each in error.problems] == [(9, "`jobs.matches > ")]


def test_every_comparison_has_its_sign():
    assert set(TESTS.values()) == set(SIGNS.values()) - {"not in"}
