"""Playbooks as people write them, wrong in every way."""

from __future__ import annotations

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runbook.errors import ConfigError
from runbook.language.loader import load_playbook
from runbook.values.playbook import Severity
from tests.support.tables import every_row
from tests.support.toy_actions import ACTIONS

GOOD = """\
name: toy
about: Ends what is called zombie.
hosts: all
inputs:
  word: {about: What to end., type: string, minLength: 2, default: zombie}
diagnose:
  - id: seen
    procs: {word: "{{ inputs.word }}"}
findings:
  - id: held
    when: seen.matches
    severity: error
    say: "{{ seen.matches | length }} left"
    settle: 10s
    advise: [Call somebody.]
remediate:
  - id: stop
    for: held
    end: {word: "{{ inputs.word }}"}
verify:
  - procs: {word: zombie}
    within: 5s
limits: {deadline: 2m}
"""


def mistakes(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load_playbook(text, "toy.yaml", ACTIONS)
    return [str(it) for it in caught.value.problems]


def test_a_good_playbook_says_what_it_says():
    book = load_playbook(GOOD, "toy.yaml", ACTIONS)
    (rule,) = book.findings
    assert (rule.severity, rule.settle, rule.probes, rule.advise) == (
        Severity.ERROR,
        10.0,
        ("seen",),
        ("Call somebody.",),
    )
    assert book.remediate[0].for_ == ("held",)
    assert book.verify[0].within == 5.0
    assert book.limits.deadline == 120.0
    assert book.diagnose[0].where.line == 7


def test_eight_mistakes_are_reported_at_once_each_with_its_place_and_what_was_meant():
    text = """\
name: toy
hosst: all
diagnose:
  - id: seen
    procz: {word: zombie}
  - id: also
    procs: {wrod: zombie}
findings:
  - id: held
    when: also.matchs
    severity: eror
remediate:
  - id: stop
    for: helt
    end: {word: "{{ inptus.word }}"}
  - id: stop
    retry: {times: 3}
    end: {word: zombie}
"""
    found = mistakes(text)
    expected = [
        ("toy.yaml:2:1", "hosst", "hosts"),
        ("toy.yaml:5:5", "procz", "procs"),
        ("toy.yaml:7:13", "wrod", "word"),
        ("toy.yaml:10:5", "matchs", "matches"),
        ("toy.yaml:11:5", "eror", "error"),
        ("toy.yaml:14:5", "helt", "held"),
        ("toy.yaml:15:11", "inptus", "inputs"),
        ("toy.yaml:16:5", "stop", "line 13"),
        ("toy.yaml:17:5", "a write is sent once", "if_failed"),
    ]
    for place, wrong, meant in expected:
        assert any(it.startswith(place) and wrong in it and meant in it for it in found), (place, wrong, meant, found)


@every_row(
    ("before", "after", "words"),
    [
        ("name: toy", "name: other", "its file 'toy.yaml'"),
        ("name: toy", "name: toy\nname: toy", "is given twice"),
        ("    for: held", "    for: held\n    each: inputs.wort", "did you mean word?"),
        ("    for: held", "    for: held\n    scratch: true", "is not allowed in remediate"),
        ("    for: held", "    for: held\n    cwd: /tmp", "is only for commands"),
        ("    for: held", "    after: stop", "no earlier step"),
        ("  - id: seen", "  - name: look", "needs an id"),
        ("limits: {deadline: 2m}", "limits: {attempt: 1}", "did you mean attempts?"),
        ("limits: {deadline: 2m}", "limits: {deadline: soon}", "is not a duration"),
        ("severity: error", "severity: yes", "use one of"),
        ("when: seen.matches", "when: '{{ seen.matches }}'", "without {{ }}"),
        ("when: seen.matches", "when: seen.matches and", "cannot be understood"),
        ("when: seen.matches", "when: stop.matches", "cannot be used here"),
        ("default: zombie", "default: z", "default of word"),
        ("default: zombie", "type: nonsense, default: zombie", "is given twice"),
        ("{word: zombie}", "{word: 5}", "expected text"),
        ("    end: {word", "    procs: {word", "belongs under diagnose"),
        ("    end: {word", "    restart: {}\n    end: {word", "one action"),
        ("  - procs: {word: zombie}", "  - restart: {}", "asserts nothing"),
        ('say: "{{ seen.matches | length }} left"', 'say: "{{ seen.nope }}"', "no field"),
        ("[Call somebody.]", "!!python/object:os.system [x]", "is not supported here"),
    ],
)
def test_a_mistake_is_named(before, after, words):
    assert before in GOOD
    found = mistakes(GOOD.replace(before, after))
    assert any(words in it for it in found), found


@every_row("text", ["", "[]", "a", "- x", "\0", "a: b: c", "{", "&a [*a]", "x: *x", "? [a]\n: b", "--- a\n--- b"])
def test_what_is_no_playbook_is_a_config_error(text):
    assert mistakes(text)


def test_bombs_do_not_go_off():
    laughs = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [{','.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(9)
    )
    assert any("more than" in it for it in mistakes(laughs))
    assert mistakes("[" * 100_000)
    assert mistakes("- " * 50_000)
    assert mistakes("{a: " * 10_000)
    assert mistakes("x" * 2_000_000)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet=string.printable + "\0é\ud800", max_size=200))
def test_any_text_as_a_playbook_is_nothing_but_a_config_error(text):
    with pytest.raises(ConfigError):
        load_playbook(text, "toy.yaml", ACTIONS)


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(
        ["{{ seen.matches }}", "{{", "{% for x in seen %}", "seen", "10s", "held", "zombie", "{{ inputs.word }}"]
    )
)
keys = st.sampled_from(
    [
        "name",
        "inputs",
        "diagnose",
        "findings",
        "remediate",
        "verify",
        "limits",
        "id",
        "when",
        "for",
        "after",
        "procs",
        "end",
        "restart",
        "word",
        "severity",
        "say",
        "advise",
        "unless",
        "env",
        "become",
        "default",
        "type",
        "about",
    ]
) | st.text(max_size=4)
trees = st.recursive(
    scalars, lambda it: st.lists(it, max_size=4) | st.dictionaries(keys, it, max_size=5), max_leaves=30
)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.dictionaries(keys, trees, max_size=8))
def test_any_tree_as_a_playbook_is_good_or_a_config_error(tree):
    import yaml

    try:
        load_playbook(yaml.safe_dump(tree), "toy.yaml", ACTIONS)
    except ConfigError as error:
        assert error.problems


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_playbook_with_anything_done_to_it_is_good_or_a_config_error(data):
    at = data.draw(st.integers(0, len(GOOD)))
    until = min(len(GOOD), at + data.draw(st.integers(0, 12)))
    text = GOOD[:at] + data.draw(st.text(alphabet="{}[]:-&*!%|>'\" \n\tabz019._", max_size=6)) + GOOD[until:]
    try:
        load_playbook(text, "toy.yaml", ACTIONS)
    except ConfigError as error:
        assert all(it.line for it in error.problems)


def test_an_unknown_name_between_other_words_is_a_mistake_with_its_place():
    from runbook.plugins import discover

    text = 'name: it\nremediate:\n- note: {text: "port {{ inputs.prot }}"}\n'
    with pytest.raises(ConfigError, match=r"it\.yaml:3:\d+: .*prot"):
        load_playbook(text, "it.yaml", discover())
