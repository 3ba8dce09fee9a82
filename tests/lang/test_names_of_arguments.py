"""What a probe brings under names that its own arguments give is held against them: a mistyped one is a mistake."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any, get_args

import pytest

from runbook.errors import ConfigError
from runbook.language.arguments import hints_of
from runbook.language.loader import load_playbook
from runbook.plugins import discover
from tests.support.tables import every_row

TOY = """name: toy
inputs:
  names: {{about: Signatures., type: object, default: {{any: x}}}}
  key: {{about: A key., type: string, default: a.b}}
diagnose:
  - {{id: log, log_scan: {{files: [/log], signatures: {{timed_out: 'timed out', refused: refused}}}}}}
  - {{id: logs, each: [/a, /b], log_scan: {{files: ['{{{{ item }}}}'], signatures: {{timed_out: 'timed out'}}}}}}
  - {{id: often, samples: {{times: 2, every: 1s}}, log_scan: {{files: [/log], signatures: {{timed_out: 'timed out'}}}}}}
  - {{id: given, log_scan: {{files: [/log], signatures: '{{{{ inputs.names }}}}'}}}}
  - {{id: kernel, kernel_log: {{signatures: {{stuck: 'stuck'}}}}}}
  - {{id: box, container_logs: {{container: c}}}}
  - {{id: ranks, nccl_log: {{files: [/log], errors: {{timed_out: 'timed out'}}}}}}
  - {{id: config, config_value: {{read: {{timeout: {{file: /c.yaml, key: a.b}}}}}}}}
  - {{id: patch, config_patch: {{path: /c.yaml, set: {{a.b: 1}}, at_least: {{timeout: 2}}, unset: [old]}}}}
  - {{id: health, http: {{url: 'http://h/', values: {{version: a.v}}}}}}
  - {{id: tools, package: {{programs: {{jq: jq}}}}}}
  - {{id: dropped, config_patch: {{path: /c.yaml, unset: ['{{{{ inputs.key }}}}']}}}}
findings:
  - {{id: held, when: "{}", severity: error, say: x}}
"""

WRONG = {
    "log.counts.timedout > 5": "log.counts has no 'timedout' (did you mean timed_out?)",
    "log.counts['timedout'] > 5": "log.counts has no 'timedout' (did you mean timed_out?)",
    "log.counts.get('timedout')": "log.counts has no 'timedout' (did you mean timed_out?)",
    "log.counts.timedout is defined": "log.counts has no 'timedout'",
    "log.counts.timedout | default(0) > 5": "log.counts has no 'timedout'",
    "(log).counts.timedout": "log.counts has no 'timedout'",
    "log.counts.xyz": "log.counts has no 'xyz' (there are: timed_out, refused)",
    "'timedout' in log.found": "is never true: log.found can have only 'timed_out', 'refused' (did you mean timed_out?)",
    "'timedout' not in log.found": "is always true: log.found can have only",
    "'timedout' in log.counts": "is never true: log.counts can have only",
    "log.found | first == 'timedout'": "is never true: log.found | first is one of 'timed_out', 'refused'",
    "log.matches | selectattr('signature', 'eq', 'timedout')": "signature is one of 'timed_out', 'refused'",
    "log.matches[0].signature == 'timedout'": "is one of 'timed_out', 'refused' (did you mean timed_out?)",
    "log.last.text": "log.last is a list, without 'text' (log.last[0].text, or log.last | map(attribute='text'))",
    "log.counts.timed_out.number": "log.counts.timed_out is a number, without 'number'",
    "log['counts']['timedout']": "log['counts'] has no 'timedout'",
    "log.found.timed_out": "log.found is a list, without 'timed_out'",
    "'timedout' in log.matches | map(attribute='signature') | list": "have only 'timed_out', 'refused'",
    "logs[0].counts.timedout": "logs[0].counts has no 'timedout'",
    "logs | map(attribute='counts.timedout') | sum": "`counts.timedout`: there is no 'timedout' (did you mean timed_out?)",
    "logs | selectattr('counts.timedout')": "`counts.timedout`: there is no 'timedout'",
    "often.samples[-1].counts.timedout": "has no 'timedout'",
    "often | sustained('counts.timedout > 5', '10s')": "counts has no 'timedout' (did you mean timed_out?)",
    "kernel.counts.stack": "kernel.counts has no 'stack'",
    "'stack' in kernel.found": "kernel.found can have only 'stuck'",
    "kernel.matches | selectattr('signature', 'eq', 'stack')": "signature is one of 'stuck'",
    "box.counts.cuda_eror": "box.counts has no 'cuda_eror' (did you mean cuda_error?)",
    "ranks.errors | selectattr('name', 'eq', 'timedout')": "name is one of 'timed_out'",
    "config.values.timeuot": "config.values has no 'timeuot' (did you mean timeout?)",
    "'timeuot' in config.missing": "config.missing can have only 'timeout'",
    "patch.values.timeuot": "patch.values has no 'timeuot' (did you mean timeout?)",
    "'timeuot' in patch.needs": "patch.needs can have only 'a.b', 'timeout', 'old'",
    "health.values.versoin": "health.values has no 'versoin' (did you mean version?)",
    "'jr' in tools.lacking": "tools.lacking can have only 'jq'",
}
RIGHT = (
    "log.counts.timed_out > 5 and log.counts['refused'] and log.counts.get('refused') and 'refused' in log.found",
    "log.counts.items() | list and log.counts | length and log.counts.values() | sum > 3",
    "given.counts.whatever and 'whatever' in given.found and 'a.b' in dropped.surplus",
    "box.counts.cuda_error and kernel.counts.stuck and often.samples[-1].counts.timed_out",
    "config.values.timeout > 3 and patch.values['a.b'] == 1 and 'old' in patch.surplus and health.values.version",
    "log.matches | selectattr('signature', 'in', ['timed_out']) | list and health.json.anything.at.all",
    "logs | map(attribute='counts.timed_out') | sum and log.last[0].text and log.last | map(attribute='age') | list",
)


def mistakes(expression: str) -> list[str]:
    try:
        load_playbook(TOY.format(expression), "toy.yaml", discover())
    except ConfigError as error:
        return [str(problem) for problem in error.problems]
    return []


@every_row("expression", WRONG)
def test_a_name_that_no_argument_gives_is_a_mistake_with_its_place(expression):
    """Mutants: named_keys.py ``_taken`` without one of its forms, or ``_fault_in_path``; compared_types.py without
    ``_names_in``; field_types.py ``_with_names`` without one kind; a field without its ``named_by``.
    """
    (said,) = mistakes(expression)
    assert said.startswith("toy.yaml:19:")
    assert WRONG[expression] in said


@every_row("expression", RIGHT)
def test_a_name_that_an_argument_gives_or_may_give_is_none(expression):
    """Mutants: field_types.py ``_names_given`` taking a template for no names; named_keys.py without ``called``."""
    assert mistakes(expression) == []


def marked(kind: Any) -> list[str]:
    """The arguments that the fields of *kind*, and of what is in them, are named by."""
    if not is_dataclass(kind):
        return [name for inner in get_args(kind) for name in marked(inner)]
    own = [name for each in fields(kind) for name in each.metadata.get("named_by", ())]
    return own + [name for hint in hints_of(kind).values() for name in marked(hint)]


def test_fields_are_named_by_arguments_that_there_are():
    for action in discover().values():
        assert {*marked(action.State)} <= {each.name for each in fields(action.Args)}, action.name


def test_a_value_of_let_and_a_text_are_held_against_the_names_too():
    value = TOY.replace("diagnose:", 'let: {{few: "log.counts.timedout"}}\ndiagnose:', 1).format("few")
    text = TOY.replace("say: x", "say: '{{{{ log.counts.timedout }}}} x'").format("log.found")
    for made in (value, text):
        with pytest.raises(ConfigError) as caught:
            load_playbook(made, "toy.yaml", discover())
        assert "log.counts has no 'timedout' (did you mean timed_out?)" in str(caught.value)
