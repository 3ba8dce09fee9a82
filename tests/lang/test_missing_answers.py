"""What a finding tells: a fault, or that something is not known; by its key, or else by its condition."""

from __future__ import annotations

import pytest

from runbook.errors import ConfigError
from runbook.values.playbook import Telling
from tests.lang.load_text import load
from tests.support.tables import every_row

BOOK = """\
name: toy
about: x
let:
  silent: mem is not answered
  both: silent and 1 == 1
diagnose:
  - {{id: mem, procs: {{word: x}}}}
findings:
  - {{id: it, when: "{when}", severity: error{more}}}
"""


def tells(when: str, more: str = "") -> Telling:
    (rule,) = load(BOOK.format(when=when, more=more)).findings
    return rule.tells


@every_row(
    ("when", "told"),
    [
        ("mem.matches", "fault"),
        ("mem is answered and mem.matches", "fault"),
        ("mem is not answered", "unknown"),
        ("not (mem is answered)", "unknown"),
        ("not mem is answered", "unknown"),
        ("(mem is answered) == false", "unknown"),
        ("(mem is answered) != true", "unknown"),
        ("(mem is answered) == true and mem.matches", "fault"),
        ("mem.matches is not answered", "unknown"),
        ("host.name and mem is not answered", "unknown"),
        ("host.name or mem is not answered", "fault"),
        ("mem.matches is not answered or mem is not answered", "unknown"),
        ("not (mem is answered or mem.matches is answered)", "unknown"),
        ("not (mem is answered or host.name)", "unknown"),
        ("not (mem is answered and host.name)", "fault"),
        ("mem.matches if mem is answered else true", "fault"),
        ("false if mem is answered else true", "fault"),
        ("(mem.matches is not answered) if mem is answered else (mem is not answered)", "unknown"),
        ("silent", "unknown"),
        ("both", "unknown"),
        ("not silent and mem.matches", "fault"),
        ("mem is not answered | string", "fault"),
    ],
)
def test_a_condition_that_only_an_unanswered_probe_fulfils_tells_no_fault(when, told):
    """Mutants: any ``is not answered``; one side of an ``or``; a negation that is not carried inside."""
    assert tells(when) == told


@pytest.mark.parametrize("word", ["fault", "unknown"])
def test_what_is_written_counts_before_the_condition(word):
    assert tells("mem.matches", f", tells: {word}") == tells("mem is not answered", f", tells: {word}") == word


def test_another_word_is_a_mistake():
    with pytest.raises(ConfigError, match="tells"):
        load(BOOK.format(when="mem.matches", more=", tells: nothing"))
