"""An attribute that the elements of a probe's list do not have is a mistake, with what was meant."""

from __future__ import annotations

import pytest

from runbook.errors import ConfigError
from runbook.language.loader import load_playbook
from runbook.plugins import discover
from tests.support.tables import every_row

TOY = """name: toy
diagnose:
  - {{id: jobs, processes: {{patterns: ['train_\\w+']}}}}
  - {{id: each_of, each: [1, 2], processes: {{patterns: ['train_\\w+']}}}}
  - {{id: often, samples: {{times: 2, every: 1s}}, processes: {{patterns: ['train_\\w+']}}}}
  - {{id: said, command: {{argv: [cat, /x], parse: json}}}}
findings:
  - {{id: held, when: jobs.matches or each_of or often.samples or said.value, severity: error, say: "{{{{ {} }}}}"}}
"""


def mistakes(expression: str) -> list[str]:
    try:
        load_playbook(TOY.format(expression), "toy.yaml", discover())
    except ConfigError as error:
        return [problem.message for problem in error.problems]
    return []


@every_row(
    "expression",
    [
        "jobs.leftover | selectattr('sseconds', 'gt', 9)",
        "jobs.leftover | rejectattr('sseconds')",
        "jobs.leftover | map(attribute='sseconds')",
        "jobs.leftover | groupby('sseconds')",
        "jobs.leftover | list | sort(attribute='sseconds')",
        "jobs.leftover | selectattr('seconds') | unique(attribute='sseconds')",
        "(jobs.leftover | first).sseconds",
        "(jobs.leftover | selectattr('user') | last).sseconds",
        "jobs.leftover[0].sseconds",
        "(jobs.leftover | list)[-1].sseconds",
        "jobs['leftover'] | map(attribute='sseconds.x')",
    ],
)
def test_a_mistyped_attribute_is_named(expression):
    """Mutants: ``_attribute_of`` without one of its forms; ``_elements`` without the filters between."""
    assert mistakes(expression) == ["the elements of jobs.leftover have no 'sseconds'"]


@every_row(
    "expression",
    [
        "jobs.leftover | selectattr('seconds', 'gt', 9) | map(attribute='user') | list",
        "jobs.protected | map(attribute='process.user')",
        "jobs.shortened | map(attribute='x')",
        "(said.value | first).anything",
        "said.value.list | map(attribute='anything')",
        "each_of | map(attribute='item')",
        "each_of[0].leftover",
        "often.samples[-1].leftover",
        "jobs.leftover | map('upper') | map(attribute='anything')",
        "jobs.leftover | length",
    ],
)
def test_what_may_be_there_is_no_mistake(expression):
    assert mistakes(expression) == []


def test_what_was_meant_is_said():
    with pytest.raises(ConfigError, match="did you mean seconds"):
        load_playbook(TOY.format("jobs.leftover | map(attribute='sseconds')"), "toy.yaml", discover())
