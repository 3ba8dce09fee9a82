"""What ``let``, ``defaults`` and groups of findings stand for, and what is wrong in them is said once, in its place."""

from __future__ import annotations

import pytest

from runbook.errors import ConfigError
from runbook.language.loader import load_playbook
from runbook.language.shorthand import values_of, written_out
from runbook.language.yaml_source import parse_playbook
from runbook.plugins import discover

TOY = """name: toy
let:
{values}
diagnose:
  - {{id: jobs, processes: {{patterns: ['train_\\w+']}}}}
findings:
  - {{id: held, when: '{when}', severity: error, say: '{say}'}}
remediate:
  - {{id: free, for: held, end: {{processes: '{processes}'}}}}
"""


def toy(values: str, when: str = "old", say: str = "x", processes: str = "{{ old }}"):
    lines = "\n".join(f"  {line}" for line in values.split("\n"))
    text = TOY.format(values=lines, when=when.replace("'", "''"), say=say.replace("'", "''"), processes=processes)
    return load_playbook(text, "toy.yaml", discover())


def mistakes(text: str) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        load_playbook(text, "toy.yaml", discover())
    return list(map(str, raised.value.problems))


@pytest.mark.parametrize(
    ("value", "written", "meant"),
    [
        ("jobs.leftover", "old", "jobs.leftover"),
        ("jobs.leftover", "not old and 1", "not jobs.leftover and 1"),
        ("jobs.leftover", "old[0].pid", "(jobs.leftover)[0].pid"),
        ("jobs.leftover", "old.pid", "(jobs.leftover).pid"),
        ("jobs.leftover | list", "old | length > 2", "jobs.leftover | list | length > 2"),
        ("jobs.leftover or jobs.matches", "not old", "not (jobs.leftover or jobs.matches)"),
        ("jobs.leftover or jobs.matches", "old", "jobs.leftover or jobs.matches"),
        ("jobs.leftover", "jobs.old", "jobs.old"),
        ("jobs.leftover", "jobs | old", "jobs | old"),
        ("jobs.leftover", "jobs is old", "jobs is old"),
        ("jobs.leftover", '"old" in bold', '"old" in bold'),
        ("jobs.leftover", "f(old=old, a=old)", "f(old=jobs.leftover, a=jobs.leftover)"),
        ("jobs.leftover", "old == older", "jobs.leftover == older"),
        ("jobs.leftover", "(old", "(old"),
    ],
)
def test_a_name_stands_for_its_expression(value, written, meant):
    """Mutants: ``_is_free`` or ``_enclosed`` without one of their conditions; a search in the text for whole words."""
    document = parse_playbook(f"let: {{old: {value}}}\nfindings: [{{when: x}}]", "toy.yaml")
    document.value["findings"][0]["when"] = written
    assert written_out(document).value["findings"][0]["when"] == meant


def test_in_texts_it_stands_in_braces_only():
    book = toy("old: jobs.leftover", say="old: {{ old | length }} {% if old %}{{ old | join(', ') }}{% endif %} old")
    assert book.findings[0].say == (
        "old: {{ jobs.leftover | length }} {% if jobs.leftover %}{{ jobs.leftover | join(', ') }}{% endif %} old"
    )
    assert book.remediate[0].args["processes"] == "{{ jobs.leftover }}"


def test_a_value_may_name_those_before_it_and_a_finding_rests_on_the_probes_behind_it():
    book = toy("all: jobs.leftover or jobs.matches\nold: all | selectattr('devices') | list")
    assert book.findings[0].when == "(jobs.leftover or jobs.matches) | selectattr('devices') | list"
    assert book.findings[0].probes == ("jobs",)


def test_a_value_is_not_shorthand_for_itself_or_for_a_later_one():
    document = parse_playbook("let: {one: two, two: two.x, three: one}", "toy.yaml")
    assert values_of(document) == {"one": "two", "two": "two.x", "three": "two"}


def test_what_is_wrong_in_a_value_is_said_once_and_there():
    """However often the value is used. Mutants: ``written_out`` with what is wrong in it; ``known`` without values."""
    text = TOY.format(values="  odl: jobs.lefover\n  old: odl | list\n  more: odd", when="old or more", say="{{ old }}",
                      processes="{{ old }}")  # fmt: skip
    assert mistakes(text) == [
        "toy.yaml:3:3: the probe 'jobs' has no field 'lefover' (did you mean leftover?)",
        "toy.yaml:5:3: the name 'odd' is not defined (did you mean old?)",
    ]


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ("jobs: 1 == 1", "the id 'jobs' is taken"),
        ("held: 1 == 1", "the id 'held' is taken"),
        ("host: 1 == 1", "'host' is a reserved name in expressions"),
        ("old: 5", "old: expected text or true or false, got 5"),
        ("old: '{{ jobs.leftover }}'", "cannot be understood: write an expression without {{ }}"),
        ("old: 'jobs.leftover |'", "cannot be understood"),
        ("old: secrets.token", "cannot be used here: it would be visible"),
        ("two-words: 1 == 1", "'two-words' is not a name"),
    ],
)
def test_a_wrong_value_is_refused_in_its_place(values, wanted):
    found = mistakes(TOY.format(values=f"  {values}", when="jobs.matches", say="x", processes="{{ jobs.leftover }}"))
    assert any(it.startswith("toy.yaml:3:") and wanted in it for it in found), found


DEFAULTS = """name: toy
defaults: {become: true, timeout: 7s, retry: {times: 2}}
diagnose:
  - {id: jobs, processes: {patterns: ['train_\\w+']}}
  - {id: own, become: false, timeout: 9s, retry: {times: 5}, processes: {patterns: ['train_\\w+']}}
  - {id: there, on: controller, processes: {patterns: ['train_\\w+']}}
findings: [{id: held, when: jobs.matches or own.matches or there.matches, severity: error}]
remediate: [{id: free, for: held, end: {processes: '{{ jobs.matches }}'}}]
verify: [{id: nobody, processes: {patterns: ['train_\\w+']}}]
"""


def test_defaults_are_for_steps_that_say_nothing_themselves():
    """Mutants: ``_with_defaults`` that prefers the default; with ``retry`` of a change; as root on another machine."""
    book = load_playbook(DEFAULTS, "toy.yaml", discover())
    assert {it.id: (it.become, it.timeout, it.retry.times) for it in book.steps} == {
        "jobs": ("root", 7.0, 2),
        "own": ("", 9.0, 5),
        "there": ("", 7.0, 2),
        "free": ("root", 7.0, 0),
        "nobody": ("root", 7.0, 2),
    }


def test_an_unknown_default_is_refused():
    text = DEFAULTS.replace("timeout: 7s, ", "every: 7s, ")
    assert mistakes(text) == ["toy.yaml:2:26: unknown key 'every' (did you mean retry?)"]


GROUPS = """name: toy
diagnose:
  - {id: jobs, processes: {patterns: ['train_\\w+']}}
findings:
  - {id: before, when: jobs.zombies, severity: warning}
  - when: jobs is answered or true
    unless: before
    causes: first
    findings:
      - {id: one, when: jobs.leftover or jobs.at_work, severity: error}
      - {id: hint, when: jobs.zombies, severity: warning}
      - {id: told, when: true, severity: info}
      - {id: two, when: jobs.matches, severity: critical}
  - findings:
      - {id: plain, when: jobs.matches, severity: error}
  - {id: after, when: jobs.zombis, severity: error}
"""


def test_findings_of_a_group_share_its_condition_and_stand_in_the_order_of_cause():
    """Mutants: ``_of_group`` without the guard; that lets warnings explain; without the order; places not moved."""
    assert mistakes(GROUPS) == ["toy.yaml:16:17: the probe 'jobs' has no field 'zombis' (did you mean zombies?)"]
    book = load_playbook(GROUPS.replace("zombis", "zombies"), "toy.yaml", discover())
    assert {it.id: (it.unless, it.where.line) for it in book.findings} == {
        "before": ((), 5),
        "one": (("before",), 10),
        "hint": (("before", "one"), 11),
        "told": (("before",), 12),
        "two": (("before", "one"), 13),
        "plain": ((), 15),
        "after": ((), 16),
    }
    assert [it.when for it in book.findings[1:6]] == [
        "(jobs is answered or true) and (jobs.leftover or jobs.at_work)",
        "(jobs is answered or true) and (jobs.zombies)",
        "(jobs is answered or true) and (true)",
        "(jobs is answered or true) and (jobs.matches)",
        "jobs.matches",
    ]


@pytest.mark.parametrize(
    ("written", "wrong", "wanted"),
    [
        ("causes: first", "causes: all", "toy.yaml:8:5: causes: 'all' is not allowed; use one of: first"),
        ("causes: first", "cause: first", "toy.yaml:8:5: unknown key 'cause' (did you mean causes?)"),
        ("{id: plain, when: jobs.matches, severity: error}", "{id: plain}", "toy.yaml:15:9: 'when' is missing"),
        ("when: jobs is answered or true", "when: job is answered", "toy.yaml:6:5: the name 'job' is not defined"),
    ],
)
def test_a_wrong_group_is_refused_in_its_place(written, wrong, wanted):
    text = GROUPS.replace("zombis", "zombies").replace(written, wrong)
    assert any(it.startswith(wanted) for it in mistakes(text)), mistakes(text)


UNBALANCED = """
name: toy
let:
  text: jobs.leftover | length ~ ' jobs'
  pair: jobs.leftover, 3
  negative: -inputs.n
  answered: jobs.leftover
inputs:
  n: {about: x, type: integer, default: 3}
diagnose:
  - {id: jobs, processes: {patterns: [train]}}
findings:
  - {id: a, when: text | length == 6, severity: warning, say: x, advise: [x]}
  - {id: b, when: pair | length == 2, severity: warning, say: x, advise: [x]}
  - {id: c, when: negative + 1 < 0, severity: warning, say: x, advise: [x]}
  - {id: d, when: jobs.leftover is not answered or answered, severity: warning, say: "{% for pair in jobs.leftover %}{{ pair }}{% endfor %}", advise: [x]}
"""


def test_a_value_keeps_its_parts_together_beside_any_operator():
    """Mutants: ``binds_tightly`` that takes `~`, a tuple or a minus for one thing; ``_is_free`` of a test or a loop's name."""
    book = load_playbook(UNBALANCED, "toy.yaml", discover())
    assert [it.when for it in book.findings] == [
        "(jobs.leftover | length ~ ' jobs') | length == 6",
        "(jobs.leftover, 3) | length == 2",
        "(-inputs.n) + 1 < 0",
        "jobs.leftover is not answered or jobs.leftover",
    ]
    assert book.findings[3].say == "{% for pair in jobs.leftover %}{{ pair }}{% endfor %}"


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("jobs.leftover) + (jobs.matches", "cannot be understood: unexpected ')'"),
        ("other | list", "a value may name only those before it, and other is not"),
        ("value + [1]", "a value may name only those before it, and value is not"),
    ],
)
def test_what_is_wrong_in_a_value_by_itself_is_said_there(value, wanted):
    text = UNBALANCED.replace("let:\n", f"let:\n  value: '{value}'\n  other: jobs.matches\n").replace(
        "when: text |", "when: value | list | length and text |"
    )
    assert [it for it in mistakes(text) if "unused" not in it] == [
        it for it in mistakes(text) if it.startswith(f"toy.yaml:4:3: {wanted}")
    ]
    assert mistakes(text)


def test_a_groups_condition_is_one_by_itself():
    """Mutants: ``fault_in_expression`` of the expression in parentheses only."""
    text = GROUPS.replace("zombis", "zombies").replace(
        "when: jobs is answered or true", "when: 'jobs.matches) or (true'"
    )
    assert mistakes(text) == ["toy.yaml:6:5: cannot be understood: unexpected ')' (in: jobs.matches) or (true)"]
