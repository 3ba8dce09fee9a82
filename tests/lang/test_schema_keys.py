"""``runbook schema --keys``: every key of the language in words."""

from __future__ import annotations

import re
from dataclasses import fields

from runbook.language.keys import FINDING, LIMITS, STEP
from runbook.values.playbook import FindingRule, Limits, Phase, Step
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


def test_every_field_of_a_step_a_finding_and_the_limits_has_its_key():
    """Mutants: keys.py whose ``retry`` has no ``read``, or whose ``for`` has no ``field``."""
    by_loader = {
        Step: {"id", "phase", "action", "args", "look_timeout", "left_out", "part", "where"},
        FindingRule: {"probes", "part", "where"},
        Limits: set(),
    }
    for (kind, others), keys in zip(by_loader.items(), (STEP, FINDING, LIMITS), strict=True):
        assert {key.field or name for name, key in keys.items() if key.read} == {
            each.name for each in fields(kind)
        } - others
