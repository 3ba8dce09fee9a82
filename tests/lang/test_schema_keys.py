"""``runbook schema --keys``: every key of the language in words."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest
from jsonschema import Draft202012Validator

from runbook.errors import ConfigError
from runbook.language.keys import FINDING, INPUT, LIMITS, SECRET, STEP, recorded_options
from runbook.language.loader import load_playbook
from runbook.language.schema_export import exported_schema
from runbook.plugins import discover
from runbook.secrets.documents import SOURCES
from runbook.values.playbook import FindingRule, Input, Limits, Phase, Step
from tests.support.program import runbook


def test_every_key_of_a_step_is_told_with_where_it_may_stand():
    said = runbook("schema", "--keys")
    assert (said.code, said.err) == (0, "")
    text = " ".join(said.out.split())
    for key in STEP:
        assert re.search(rf"^  {key} ", said.out, re.MULTILINE), key
    for key, phases in ((name, key.phases) for name, key in STEP.items() if 0 < len(key.phases) < len(Phase)):
        words = " and ".join(it.value for it in (Phase.DIAGNOSE, Phase.REMEDIATE, Phase.VERIFY) if it in phases)
        assert re.search(rf"\b{key} [A-Z][^()]*(\([^()]*\)[^()]*)*\({words} only\)", text), (key, words)


def test_every_command_has_a_whole_line_in_the_list_of_commands():
    for argv in (("--help",), ("lab", "--help")):
        listed = runbook(*argv).out.partition("Commands:\n")[2].splitlines()
        assert listed
        assert not [line for line in listed if line.endswith("...")], listed


def test_every_field_of_a_step_a_finding_an_input_and_the_limits_has_its_key():
    """Mutants: keys.py whose ``retry`` has no ``read``, or whose ``for`` has no ``field``."""
    by_loader = {
        Step: {"id", "phase", "action", "args", "look_timeout", "left_out", "part", "where"},
        FindingRule: {"probes", "part", "where"},
        Limits: set(),
        Input: {"name", "schema", "where"},
    }
    for (kind, others), keys in zip(by_loader.items(), (STEP, FINDING, LIMITS, INPUT), strict=True):
        assert {key.field or name for name, key in keys.items() if key.read} == {
            each.name for each in fields(kind)
        } - others


def test_the_sources_of_secrets_have_their_keys():
    """Mutants: keys.py without ``keyring``."""
    assert [name for name in SECRET if name != "description"] == list(SOURCES)


def test_a_saved_plan_records_the_options_that_it_always_had():
    """Mutants: keys.py whose ``order`` has no ``options``, or whose ``tags`` are not ``several``."""
    assert recorded_options(lists=True) == ("tags", "skip_tags")
    texts = {"timeout", "deadline", "host_deadline", "max_unavailable", "stop_after"}
    assert set(recorded_options(lists=False)) == texts | {"batches", "pause_between", "order"}


def test_a_default_is_for_sections_in_which_a_step_may_have_the_key():
    """Mutants: keys.py whose ``retry`` is for changes; shorthand.py ``_with_defaults`` that asks only ``has_default``."""
    assert {name for name, key in STEP.items() if key.has_default} == {"become", "timeout", "retry"}
    assert {name for name, key in STEP.items() if key.of_include} == {"id", "name", "include", "inputs"}
    assert Phase.REMEDIATE not in STEP["retry"].phases


USES = """name: toy
inputs: {n: {about: x, type: integer, default: 3}}
let:
  most: inputs.n
  size: jobs.matches | length
  kind: host.name
diagnose:
  - {id: jobs, processes: {patterns: [train]}}
  - {id: often, processes: {patterns: [train]}, samples: {times: 3, while: zombies | length < most}}
findings:
  - {id: a, severity: info, when: across.found, say: x, across: {value: size, by: kind}}
  - {id: b, severity: info, when: across.found, say: x, across: size}
"""


def test_a_name_of_let_is_known_in_every_key_that_has_an_expression():
    """Mutants: keys.py whose ``samples`` have no expression ``while``, or whose ``across`` has none."""
    text = USES.replace("when: across.found", "when: across.value > 1")
    assert str(load_playbook(text, "toy.yaml", discover()).diagnose[1].samples["while"])
    with pytest.raises(ConfigError) as raised:
        load_playbook(text.replace("most: inputs.n", "more: inputs.n"), "toy.yaml", discover())
    assert "'most'" in str(raised.value)


def test_editors_want_a_number_or_a_time_of_samples():
    """Mutants: keys.py whose ``samples`` have nothing for editors; schema_export.py ``_told`` without that."""
    schema = exported_schema(discover())["properties"]["diagnose"]["items"]["else"]["properties"]["samples"]
    given = ({"times": 3}, {"for": "9s"}, {"every": 1}, {"times": 3, "for": "9s"})
    assert [Draft202012Validator(schema).is_valid(each) for each in given] == [True, True, False, False]


def test_several_ids_of_a_finding_within_braces_need_brackets():
    """Mutants: repairs.py ``_keys_of`` without the keys of which several may be meant."""
    text = "name: toy\nfindings:\n  - {id: c, when: true, severity: info, unless: a, b}\n"
    with pytest.raises(ConfigError) as raised:
        load_playbook(text, "toy.yaml", discover())
    assert "several need brackets: `unless: [a, b]`" in str(raised.value)
