"""``runbook schema --keys``: every key of the language in words."""

from __future__ import annotations

import re

from runbook.language.playbook_schema import ONLY_IN, STEP_KEYS
from runbook.values.playbook import Phase
from tests.support.program import runbook


def test_every_key_of_a_step_is_told_with_where_it_may_stand():
    said = runbook("schema", "--keys")
    assert (said.code, said.err) == (0, "")
    text = " ".join(said.out.split())
    for key in STEP_KEYS:
        assert re.search(rf"^  {key} ", said.out, re.MULTILINE), key
    for key, phases in ONLY_IN.items():
        words = " and ".join(it.value for it in (Phase.DIAGNOSE, Phase.REMEDIATE, Phase.VERIFY) if it in phases)
        assert re.search(rf"\b{key} [A-Z][^()]*(\([^()]*\)[^()]*)*\({words} only\)", text), (key, words)


def test_every_command_has_a_whole_line_in_the_list_of_commands():
    for argv in (("--help",), ("lab", "--help")):
        listed = runbook(*argv).out.partition("Commands:\n")[2].splitlines()
        assert listed
        assert not [line for line in listed if line.endswith("...")], listed
