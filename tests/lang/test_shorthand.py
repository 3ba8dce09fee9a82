"""What ``let``, ``defaults`` and groups of findings stand for, and what is wrong in them is said once, in its place."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runbook.codec import UNKNOWN
from runbook.errors import ConfigError
from runbook.execution.diagnosis.diagnose import names_used
from runbook.language.expressions.templates import Scope, names, render, say, value_of
from runbook.language.loader import load_playbook
from runbook.plugins import discover
from runbook.values.types import Unknown
from tests.support.toy_actions import ToyHost, site

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


JOBS = {"leftover": [{"pid": 7}, {"pid": 8}], "matches": [], "old": "own"}


@pytest.mark.parametrize(
    ("value", "written", "meant"),
    [
        ("jobs.leftover", "old", [{"pid": 7}, {"pid": 8}]),
        ("jobs.leftover", "not old and 1", False),
        ("jobs.leftover", "old[0].pid", 7),
        ("jobs.leftover[1]", "old.pid", 8),
        ("jobs.leftover | list", "old | length > 2", False),
        ("jobs.leftover or jobs.matches", "not old", False),
        ("jobs.matches or jobs.leftover", "old | length", 2),
        ("jobs.leftover", "jobs.old", "own"),
        ("jobs.leftover", "jobs['old']", "own"),
        ("jobs.leftover", "'old' in 'bold'", True),
        ("'length'", "jobs.leftover | map(attribute='pid') | join(old)", "7length8"),
        ("'pid'", "jobs.leftover | map(attribute=old) | list", [7, 8]),
        ("jobs.leftover | length ~ ' jobs'", "old | length == 6", True),
        ("jobs.leftover, 3", "old | length", 2),
        ("-3", "old + 1", -2),
        ("2 + 3", "old * 2", 10),
        ("jobs.none", "jobs.matches and old.deeper", []),
        ("{'a': 1}", "old.a", 1),
        ("jobs.leftover", "[old is answered, jobs.gone is answered]", [True, False]),
        ("jobs.gone", "[old is answered, old is not answered]", [False, True]),
    ],
)
def test_a_name_stands_for_the_value_of_its_expression(value, written, meant):
    """Mutants: ``named_values`` that gives back its tree; the value put in as text, without parentheses."""
    scope = Scope(states={"jobs": {**JOBS, "gone": {UNKNOWN: "no answer"}}}, let=(("old", value),))
    assert value_of(written, scope) == meant


@pytest.mark.parametrize("written", ["jobs | old", "jobs is old", "(old"])
def test_a_name_is_no_filter_and_no_test(written):
    with pytest.raises(ConfigError):
        value_of(written, Scope(states={"jobs": JOBS}, let=(("old", "jobs.leftover"),)))


def test_in_texts_it_stands_in_braces_only():
    text = "old: {{ old | length }} {% if old %}{{ old | join(', ', attribute='pid') }}{% endif %} old"
    book = toy("old: jobs.leftover", say=text)
    scope = Scope(states={"jobs": JOBS}, let=book.let[""])
    assert say(book.findings[0].say, scope) == "old: 2 7, 8 old"
    assert render(book.remediate[0].args["processes"], scope) == JOBS["leftover"]


def test_what_a_text_binds_itself_is_its_own():
    """Mutants: ``named_values`` without ``bound``."""
    text = "{% for old in jobs.matches %}{{ old }}{% else %}none{% endfor %} {% set x = 1 %}{{ x }}"
    assert say(text, Scope(states={"jobs": JOBS}, let=(("old", "1"), ("x", "2")))) == "none 1"


def test_a_value_may_name_those_before_it_and_a_finding_rests_on_the_probes_behind_it():
    """Mutants: ``_NamedValues`` with all values within a value; ``ProbesBehind`` without ``let``."""
    book = toy("all: jobs.matches or jobs.leftover\nold: all | selectattr('pid', 'gt', 7) | list")
    assert value_of(book.findings[0].when, Scope(states={"jobs": JOBS}, let=book.let[""])) == [{"pid": 8}]
    assert book.findings[0].probes == ("jobs",)
    assert names(book.findings[0].when, book.let[""]) == {("jobs", "matches"), ("jobs", "leftover")}


def test_what_a_value_rests_on_is_known_before_it_is_evaluated():
    """Of steps, too. Mutants: ``names_used`` without ``let``."""
    book = toy("old: jobs.leftover | list")
    assert names_used(book.remediate[0], book) == {"jobs"}


def test_a_value_is_evaluated_only_where_it_is_needed():
    """Mutants: values that are evaluated before the expression."""
    scope = Scope(
        states={"jobs": JOBS, "blind": Unknown(why="no answer")}, let=(("old", "blind.x"), ("bad", "jobs.x.y"))
    )
    assert value_of("jobs.matches and old", scope) == []
    assert value_of("jobs.matches and bad", scope) == []
    assert isinstance(value_of("old", scope), Unknown)
    with pytest.raises(ConfigError, match="there is no 'x'"):
        value_of("bad", scope)


def test_an_included_playbook_has_its_own_names():
    """Mutants: ``prefixed`` without ``let``; ``HostContext.scope`` with the names of the playbook that includes it."""
    inner = TOY.format(
        values="  old: jobs.leftover | list", when="old", say="{{ old | length }}", processes="{{ old }}"
    )
    outer = "name: outer\nlet: {old: inputs.n > 3}\ninputs: {n: {about: x, type: integer, default: 5}}\nremediate:\n  - {id: a, include: toy}\n"
    book = load_playbook(outer, "outer.yaml", discover(), lambda name, file: ("toy.yaml", inner))
    assert book.let == {"": (("old", "inputs.n > 3"),), "a": (("old", "jobs.leftover | list"),)}
    assert book.findings[0].probes == ("a_jobs",)
    context = replace(site(book, ToyHost({})), parts={"a": {}})
    assert [context.scope({}, part).let for part in ("", "a")] == [book.let[""], book.let["a"]]


def test_a_value_is_not_the_name_of_itself_or_of_a_later_one():
    scope = Scope(states={"two": {"x": 1}}, let=(("one", "two"), ("two", "two.x"), ("three", "two")))
    assert [value_of(name, scope) for name in ("one", "two", "three")] == [{"x": 1}, 1, 1]


def test_what_is_wrong_in_a_value_is_said_once_and_there():
    """However often the value is used. Mutants: ``let_of`` with what is wrong in it; ``known`` without its names."""
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
inputs:
  n: {about: x, type: integer, default: 3}
diagnose:
  - {id: jobs, processes: {patterns: [train]}}
findings:
  - {id: a, when: text | length == 6, severity: warning, say: x, advise: [x]}
"""


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
