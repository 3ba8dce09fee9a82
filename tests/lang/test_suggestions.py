"""A mistake in a playbook is reported in the author's words: what was expected, what was written, and what was meant."""

from __future__ import annotations

import re

import pytest

from runbook.errors import ConfigError, Problem
from runbook.language.loader import load_playbook
from runbook.plugins import discover
from tests.support.tables import every_row

LOOK = "diagnose:\n  - id: a\n"
FINDING = "findings:\n  - id: a\n    when: 'true'\n    severity: error\n    "
INPUT = "inputs:\n  x:\n    about: y\n    "
MISTAKES = [
    (INPUT + "type: strng", "type: 'strng' is not allowed; use one of: array, boolean", "did you mean string?"),
    (INPUT + "type: str", "type: 'str' is not allowed; use one of", "write `type: string`"),
    (INPUT + "type: 5", "type: 5 is not allowed; use one of: array", ""),
    (INPUT + "minimum: a", "minimum: expected a number, got 'a'", ""),
    (INPUT + "enum: a", "enum: expected a list, got 'a'", ""),
    (INPUT + "items: string", "items: expected a mapping or true or false, got 'string'", ""),
    (INPUT + "required: yes", "required: expected true or false, got 'yes'", "write true"),
    (INPUT + "choices: [a]", "unknown keyword 'choices'", "write `enum: [one, another]`"),
    (INPUT + "register: z", "unknown keyword 'register'", "a probe is named by its `id`"),
    (INPUT + "become: true", "unknown keyword 'become'", "write it in each step"),
    (INPUT + "default: 7\n    maximum: 3", "7 is above 3", ""),
    (FINDING + "register: z", "unknown key 'register'", "a probe is named by its `id`"),
    (FINDING + "notify: z", "unknown key 'notify'", "if_changed"),
    (FINDING + "shell: z", "unknown key 'shell'", "command: {script"),
    (FINDING + "become: true", "unknown key 'become'", "write it in each step"),
    (FINDING + "retry: {times: 2}", "unknown key 'retry'", "a key of a step"),
    (FINDING + "advise: 5", "advise: expected text or a list, got 5", ""),
    (
        "findings:\n  - {id: a, when: [b, c], severity: error}",
        "when: expected text or true or false",
        "join them by `and`",
    ),
    ("limits: {register: x}", "unknown key 'register'", "a probe is named by its `id`"),
    ("limits: {when: x}", "unknown key 'when'", "a key of a step"),
    ("limits: {nonsense: x}", "unknown key 'nonsense'", "there are: deadline, batches, stop_after"),
    (LOOK + "    command: {argv: [ls], register: x}", "unknown key 'register'", "a probe is named by its `id`"),
    (LOOK + "    command: {argv: [ls], when: x}", "unknown key 'when'", "one level up"),
    (LOOK + "    command: {argv: [ls], become: yes}", "unknown key 'become'", "one level up"),
    (LOOK + "    command: {argv: [ls], ignore_errors: yes}", "unknown key 'ignore_errors'", "`ignore_failure: true`"),
    (LOOK + "    command: ls -l", "expected a mapping of arguments, got 'ls -l'", "runbook actions command"),
    (LOOK + "    command: {argv: [sleep, 5]}", "expected text, got a number (5)", 'in quotes: "5"'),
    (LOOK + "    command: {argv: [echo, true]}", "got true or false (true)", 'in quotes: "true"'),
    (LOOK + "    command: {argv: [echo, null]}", "expected text, got nothing", "in quotes"),
    (LOOK + "    command: {argv: [test, !, -e, x]}", "`!` alone is YAML syntax", ""),
    (
        LOOK + "    command: {argv: [test, !-e, x]}",
        "the tag !-e is not supported here",
        "put the whole value in quotes",
    ),
    (LOOK + "    command: {argv: [echo, {{ inputs.x }}]}", 'needs quotes: `"{{ inputs.x }}"`', ""),
    (LOOK + "    retry: {times: 0}\n    memory: {}", "times: 0 is below 1", ""),
    (LOOK + "    tags: 3\n    memory: {}", "tags: expected text or a list, got 3", ""),
    (LOOK + "    when: a && b\n    memory: {}", "`&` means nothing in an expression: write and", ""),
    (LOOK + "    when: '!a'\n    memory: {}", "`!` means nothing in an expression: write not", ""),
    (LOOK + "    when: run = 1\n    memory: {}", "`=` compares nothing: write `==`", ""),
    (LOOK + "    when: run | defalt(1)\n    memory: {}", "there is no filter `defalt`: did you mean `default`?", ""),
    (LOOK + "    when: run is defned\n    memory: {}", "there is no test `defned`: did you mean `defined`?", ""),
    (
        LOOK + "    when: '[1] | select(''defned'')'\n    memory: {}",
        "there is no test `defned`: did you mean `defined`?",
        "",
    ),
    (
        LOOK + "    when: '[1] | rejectattr(''a'', ''greater'', 1)'\n    memory: {}",
        "there is no test `greater`: did you mean `greaterthan`?",
        "",
    ),
    (
        LOOK + "    when: '[1] | map(''lengt'')'\n    memory: {}",
        "there is no filter `lengt`: did you mean `length`?",
        "",
    ),
    (FINDING + "say: '{{ run'", "is opened and not closed", ""),
    (FINDING + "say: '{% if run %}x'", "`{% if %}` is opened and not closed by `{% endif %}`", ""),
    (FINDING + "say: '{% endfor %}'", "`{% endfor %}` is not allowed here", ""),
    ("remediate:\n  - file: {path: /x, content: y, mode: 0644}", "mode: expected text", 'such as "0644"'),
    ("about: a: b", 'needs quotes: `about: "a: b"`', ""),
    ("hosts: [a", "the [ that begins here is never closed", ""),
]
OF_A_LIBRARY = re.compile(
    r"given schemas|is not of type|is not one of|does not match any|\bTrue\b|\bFalse\b|\bNone\b|<class|Undefined|token|"
    r"instances of|NoneType|jinja|Expected an expression|unexpected char"
)
"""Words that jsonschema, Jinja and Python have, and the author of a playbook has not."""


def mistakes(text: str) -> tuple[Problem, ...]:
    with pytest.raises(ConfigError) as error:
        load_playbook(f"name: toy\n{text}\n", "toy.yaml", discover())
    return error.value.problems


@every_row(("text", "words", "hint"), MISTAKES)
def test_a_mistake_says_what_was_expected_what_was_written_and_what_was_meant(text, words, hint):
    """Mutants: input_schema.py that gives jsonschema's own message; playbook_schema.py ``_none_of`` that tells of the first form only;
    arguments.py ``_meant`` without the keys of steps; syntax_errors.py that returns Jinja's message."""
    told = [it for it in mistakes(text) if words in it.message]
    assert told, mistakes(text)
    assert hint in told[0].hint, told[0]


@every_row("text", [it[0] for it in MISTAKES])
def test_no_mistake_is_told_in_the_words_of_a_library(text):
    assert [it for it in mistakes(text) if OF_A_LIBRARY.search(f"{it.message} {it.hint}")] == []
    assert all(it.line for it in mistakes(text))
