"""A probe taken again and again: what is asked of its samples, and what is a mistake."""

from __future__ import annotations

from dataclasses import fields
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runbook.commands.show.steps import conditions
from runbook.errors import ConfigError
from runbook.language.expressions.sampling import sampling
from runbook.language.expressions.series import ROOTS, growing, held_for
from runbook.language.expressions.templates import Scope, evaluate, value_of
from runbook.language.expressions.views import Silent, UnknownTouched
from runbook.language.loader import load_playbook
from runbook.language.static_arguments import problems_with_inputs_given
from runbook.plugins import discover
from runbook.values.sampling import Sampling, Series
from runbook.values.types import Unknown
from tests.support.tables import every_row
from tests.support.toy_actions import ACTIONS

BOOK = """\
name: toy
inputs: {n: {about: How many., type: integer, default: 3}, word: {about: What., default: zombie}}
diagnose:
  - id: seen
    procs: {word: zombie}
    samples: {times: "{{ inputs.n }}", every: 10s}
  - {id: other, procs: {word: train}}
findings:
  - {id: held, when: "seen | sustained('matches', '20s')", severity: error, say: "{{ seen.known }} of {{ seen.asked }}"}
remediate:
  - {id: stop, for: held, end: {word: zombie}}
verify:
  - {id: gone, samples: {for: 1s, every: 200ms}, procs: {word: zombie}}
"""


def load(text: str):
    return load_playbook(text, "toy.yaml", ACTIONS)


def mistakes(old: str, new: str) -> str:
    assert old in BOOK
    with pytest.raises(ConfigError) as caught:
        load(BOOK.replace(old, new))
    return str(caught.value)


SAMPLES = 'samples: {times: "{{ inputs.n }}", every: 10s}'


@every_row(
    ("old", "new", "words"),
    [
        ("remediate:\n  - {", "remediate:\n  - {samples: {times: 3}, ", "11:6: `samples` is not allowed in remediate"),
        (SAMPLES, "samples: {every: 10s}", "6:5: samples: give either `times` or `for`"),
        (SAMPLES, "samples: {times: 3, for: 10s}", "6:5: samples: give either `times` or `for`"),
        (SAMPLES, "samples: {times: 1}", "6:15: times: 1 is not a number of samples"),
        (SAMPLES, "samples: {times: 2.5}", "6:15: times: expected text or a whole number, got 2.5"),
        (SAMPLES, "samples: {times: 3, every: 0s}", "6:25: every: '0s' is too short"),
        (SAMPLES, "samples: {for: 10 minutes}", "6:15: for: '10 minutes' is not a duration"),
        (SAMPLES, "samples: {for: 10m, every: 100ms}", "6:5: samples: 6001 samples are more than the maximum of 1000"),
        (SAMPLES, "samples: {for: 2d, every: 1h}", "6:5: samples: they would take 2 d; the maximum is a day"),
        (SAMPLES, "samples: {time: 3}", "6:15: unknown key 'time' (did you mean times?)"),
        (SAMPLES, "samples: 3", "6:5: samples: expected a mapping, got 3"),
        ("inputs.n }}", "host.n }}", "6:15: 'host' cannot be used here"),
        ("inputs.n }}", "other.matches }}", "6:15: 'other' cannot be used here"),
        ("inputs.n }}", "inputs.m }}", "6:15: there is no input 'm'"),
        ("default: 3", "default: 0", "6:15: times: 0 is not a number of samples"),
        ("every: 10s", "every: 10s, while: matchs", "6:52: a sample has no field 'matchs' (did you mean matches?)"),
        ("every: 10s", "every: 10s, while: 'matches and'", "6:52: cannot be understood"),
        ("every: 200ms", "every: 200ms, while: matches", "`while` is not allowed in verify"),
        ("zombie}\n    samples", "zombie}\n    within: 3s\n    samples", "`samples` and `within` both repeat the probe"),
        ("zombie}\n    samples", "zombie}\n    scratch: true\n    samples", "a probe with `scratch: true` runs only once"),
        ("seen.known", "seen.matches", "the probe 'seen' has `samples`, each with its own fields (seen.samples[-1].matches"),
        ("seen.known", "seen.knwon", "the probe 'seen' has no field 'knwon' (did you mean known?)"),
        ("seen | sus", "other | sus", "9:16: `sustained` needs a probe with `samples`, but 'other' has none"),
        ("('matches', '20s')", "('matchez', '20s')", "9:16: a sample has no field 'matchez' (did you mean matches?)"),
        ("('matches', '20s')", "('matches and inputs.m', '20s')", "9:16: there is no input 'm'"),
        ("('matches', '20s')", "('matches and other.x', '20s')", "9:16: a sample has no field 'other'"),
        ("('matches', '20s')", "('matches', 'soon')", "9:16: sustained: 'soon' is not a duration"),
        ("('matches', '20s')", "('matches', '0s')", "9:16: sustained: '0s' is too short"),
        ("('matches', '20s')", "('matches')", "9:16: sustained: it takes one duration"),
        ("sustained('matches', '20s')", "grows('matches', '5 GB or so')", "9:16: grows: '5 GB or so' is not a size"),
        ("('matches', '20s')", "(inputs.word, '20s')", "9:16: cannot be understood: `sustained` needs its condition or field"),
        ("sustained('matches', '20s')", "list | map('series', inputs.word)", "`series` needs its condition or field"),
        ("sustained('matches', '20s')", "list | map(inputs.word)", "`map` needs the name of its filter written out"),
    ],
)  # fmt: skip
def test_a_mistake_with_samples_is_named_with_its_place(old, new, words):
    assert words in mistakes(old, new)


def test_a_value_of_an_input_is_held_against_samples_before_any_connection():
    book = load(BOOK)
    (problem,) = problems_with_inputs_given(book, ACTIONS, {"": {"n": 2000, "word": "zombie"}})
    assert str(problem) == "input n: samples: 2000 samples are more than the maximum of 1000 (used at toy.yaml:4:5)"
    assert problems_with_inputs_given(book, ACTIONS, {"": {"n": 5, "word": "zombie"}}) == []


def test_samples_that_their_inputs_switch_off_may_be_senseless():
    off = BOOK.replace("    procs: {word: zombie}\n", "    when: inputs.n\n    procs: {word: zombie}\n").replace(
        "default: 3", "default: 0"
    )
    assert load(off).diagnose[0].samples["every"] == "10s"


def test_an_action_that_only_waits_has_no_samples():
    text = "name: toy\ndiagnose:\n  - {id: a, samples: {times: 3}, pause: {seconds: 1s}}\n"
    with pytest.raises(ConfigError, match=r"toy.yaml:3:13: pause cannot be sampled"):
        load_playbook(text, "toy.yaml", discover())


def test_fields_of_samples_do_not_hide_those_of_an_action():
    """``at`` is added to the fields of a State, and an expression over a sample may name inputs, host and run."""
    for action in discover().values():
        assert {"at", *ROOTS}.isdisjoint(it.name for it in fields(action.State)), action.name


@every_row(
    ("written", "asked", "whole", "due"),
    [
        ({"times": 6, "every": "10s"}, 6, 50.0, [0, 10, 20, 30, 40, 50]),
        ({"for": "25s", "every": "10s"}, 4, 25.0, [0, 10, 20, 25]),
        ({"for": "0.3s", "every": "100ms"}, 4, 0.3, [0, 0.1, 0.2, 0.3]),
        ({"times": 3}, 3, 4.0, [0, 2, 4]),
    ],
)
def test_how_many_samples_there_are_and_when(written, asked, whole, due):
    made = sampling(written, Scope())
    assert (made.asked, made.seconds) == (asked, whole)
    assert [made.due(it) for it in range(asked)] == pytest.approx(due)
    assert isinstance(made, Sampling)


def test_samples_are_told_in_a_sentence():
    looks = {it.id: conditions(it, found=True) for it in load(BOOK.replace("10s}", "10s, while: matches}")).steps}
    assert "Take {{ inputs.n }} samples, one every 10 s, as long as matches." in looks["seen"]
    assert "Take samples for 1 s, one every 0.2 s; it must be true in every sample." in looks["gone"]


# -- what is asked of samples


def state(*values: object, every: float = 10.0, absent: str = "") -> dict:
    """A probe with these values of ``n``; a text is the reason why one is not known."""
    samples = [{"$unknown": it} if isinstance(it, str) else {"n": it, "at": every * at} for at, it in enumerate(values)]
    missed = [{"at": at * every, "why": it} for at, it in enumerate(values) if isinstance(it, str)]
    return {"samples": samples, "asked": len(values), "known": 0, "unknown": missed, "seconds": 0.0, "absent": absent}


def told(expression: str, *values: object, **keys) -> object:
    return value_of(expression, Scope(inputs={"limit": 5}, states={"look": state(*values, **keys)}))


def test_a_condition_is_sustained_if_it_held_in_every_sample_of_that_time():
    """Mutants: a shorter time counts as well; the oldest sample is left out; one bad sample before counts for ever."""
    assert told("look | sustained('n < inputs.limit', '20s')", 9, 1, 2, 3) is True
    assert told("look | sustained('n < 5', '30s')", 9, 1, 2, 3) is False
    assert told("look | sustained('n < 5', '20s')", 1, 1, 9, 1, 1) is False, "one sample that is well resets it"
    assert told("look | sustained('n < 5', 20)", 9, 9, 9, 1, 1, 1) is True
    assert told("look | sustained('n < 5', '31s')", 1, 1, 1, 1) == Unknown(
        why="the samples cover 30 s, but 31 s are needed"
    )


def test_a_time_that_no_float_hits_is_covered_by_its_samples():
    assert told("look | sustained('n', 0.07 * 60)", *[1] * 4, every=1.4) is True
    assert told("look | sustained('n', 10.1)", *[1] * 3, every=5.05) is True


def test_an_unknown_sample_breaks_what_is_sustained_and_is_never_bridged():
    """Mutants: a gap counts as held; a gap is left out; a gap makes a known fault unknown."""
    assert told("look | sustained('n < 5', '20s')", 1, 1, "no answer", 1) == Unknown(why="no answer")
    assert told("look | sustained('n < 5', '20s')", 1, 1, 1, "no answer") == Unknown(why="no answer")
    assert told("look | sustained('n < 5', '20s')", "no answer", 1, 1, 1) is True, (
        "it is older than what is asked about"
    )
    assert told("look | sustained('n < 5', '20s')", 1, "no answer", 9) is False
    assert told("look | sustained('n < 5', '20s')", 1, 9, "no answer") is False
    blind = ["no answer"] * 3
    assert told("look | sustained('n < 5', '20s')", 9, *blind) == Unknown(why="no answer"), "it is 30 s old"
    assert told("look | sustained('n < 5', '20s')", 9, *blind[1:]) is False, "it is 20 s old"
    assert told("look | sustained('n < 5', '20s')", {"$unknown": "n/a"}, 1, 1) == Unknown(why="n/a"), "one field of it"
    assert told("look | sustained('at > 10 and not n', '20s')", {"$unknown": "n/a"}, 1, 1) is False, (
        "it was not touched"
    )
    assert told("look | sustained('n is number', '10s')", 1, 1, {"$unknown": "n/a"}) == Unknown(why="n/a")
    assert told("look | sustained('not n', '10s')", 0, 0, {"$unknown": "n/a"}) == Unknown(why="n/a")
    assert told("look | sustained('n | int < 5', '10s')", 0, 0, {"$unknown": "n/a"}) == Unknown(why="n/a")


def test_growth_never_falls_and_rises_by_so_much():
    """Mutants: a fall is let pass; standing still is growth; less than asked is enough."""
    assert told("look | grows('n')", 1, 1, 2) is True
    assert told("look | grows('n')", 2, 2, 2) is False
    assert told("look | grows('n')", 1, 5, 4) is False
    assert told("look | grows('n', 3)", 1, 2, 4) is True
    assert told("look | grows('n', 4)", 1, 2, 4) is False
    assert told("look | grows('n', '1KiB')", 0, 1000, 1024) is True
    assert told("look | grows('n', 1, 2)", 1, 1, 4) is False, "only once"
    assert told("look | grows('n * 2', 6)", 1, 2, 4) is True


def test_growth_wants_three_known_samples_and_an_unknown_one_never_counts_as_growth():
    """Mutants: two are enough; gaps are left out; unknown is false."""
    assert told("look | grows('n')", 1, 2) == Unknown(why="growth needs 3 known samples, but only 2 of 2 are known")
    assert told("look | grows('n')", 1, "gone", 2) == Unknown(
        why="growth needs 3 known samples, but only 2 of 3 are known: gone"
    )
    assert told("look | grows('n')", 1, 2, "gone", 3, 4) == Unknown(why="1 of 5 samples not known: gone")
    assert told("look | grows('n')", 1, 5, "gone", 3, 4) is False, "it has fallen, whatever was between"


def test_what_is_proven_not_to_be_there_neither_grows_nor_goes_on():
    assert told("look | grows('n')", absent="no NVIDIA GPU") is False
    assert told("look | sustained('n == 0', '10s')", absent="no NVIDIA GPU") is False
    assert told("look | series('n')", absent="no NVIDIA GPU") == []


def test_values_over_time_show_their_gaps():
    looks = {"look": state(1, "no answer", 3)}
    assert value_of("look | series('n')", Scope(states=looks), gaps=True) == [1, "unknown: no answer", 3]
    assert told("look | series('n + inputs.limit') | max", 1, 2, 3) == 8
    assert told("[look, look] | map('grows', 'n') | list", 1, 2, 3) == [True, True]


def test_samples_themselves_are_unknown_where_they_are_touched():
    """A plain filter over samples cannot pass over those that are not known."""
    assert told("look.samples[-1].n", 1, 2, 3) == 3
    assert told("look.samples[-1].n", 1, 2, "no answer") == Unknown(why="no answer")
    assert told("not look.samples | selectattr('n', 'gt', 5) | list", 1, "no answer", 3) == Unknown(why="no answer")


@every_row("expression", ["inputs | series('limit')", "look.samples | grows('n')", "look | grows('at < n')"])
def test_what_has_no_samples_is_a_mistake(expression):
    with pytest.raises(ConfigError):
        told(expression, 1, 2, 3)


def test_a_condition_that_cannot_be_evaluated_makes_a_finding_unknown():
    with pytest.raises(ConfigError, match="a list cannot be compared with a number"):
        evaluate("look | sustained('n < 5', '10s')", Scope(states={"look": state([], 1, 2)}))


GAP = Silent("gap")


def answer(function, *args):
    try:
        return function(*args)
    except UnknownTouched:
        return None


@given(st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=6), st.integers(1, 5))
def test_law_6_no_unknown_sample_could_change_what_is_said_to_be_sustained(values, span):
    """Whatever the missing samples would have shown: where the answer is known, it is the same."""
    said = answer(held_for, [(float(at), GAP if it is None else it) for at, it in enumerate(values)], float(span))
    for fill in product([True, False], repeat=values.count(None)):
        rest = iter(fill)
        whole = [(float(at), next(rest) if it is None else it) for at, it in enumerate(values)]
        known = answer(held_for, whole, float(span))
        assert said is None or known is said
        assert known is None or known is (all(it for at, it in whole if at >= len(whole) - 1 - span))


@given(st.lists(st.sampled_from([0, 1, 2, None]), min_size=1, max_size=6), st.integers(0, 3), st.integers(0, 3))
def test_law_6_no_unknown_sample_could_change_what_is_said_to_grow(values, at_least, rises):
    said = answer(growing, [GAP if it is None else it for it in values], at_least, rises)
    for fill in product([0, 1, 2], repeat=values.count(None)):
        rest = iter(fill)
        whole = [next(rest) if it is None else it for it in values]
        assert said is None or answer(growing, whole, at_least, rises) is said


def test_what_a_sampled_look_gives_is_what_the_language_knows():
    assert [it.name for it in fields(Series) if not it.metadata.get("private")] == list(state(1))


def test_what_a_host_said_is_no_expression_however_it_is_passed():
    """Mutants: sandbox.py letting `*` through."""
    for call in ("map(*other.word)", "map('series', **other)", "map('sustained', *other.word)"):
        said = mistakes("seen | sustained('matches', '20s')", f"[seen] | {call} | list")
        assert "needs its arguments written out" in said
