"""Templates: none reaches Python, none takes for ever, none fills the memory."""

from __future__ import annotations

import time

import pytest

from runbook.errors import ConfigError
from runbook.language.expressions.templates import Scope, evaluate, render, say, value_of
from runbook.language.expressions.views import LONGEST, UnknownTouched
from runbook.values.types import Unknown
from tests.support.tables import every_row

SCOPE = Scope(
    inputs={"text": "x" * 100, "list": [1, 2, 3], "map": {"key": "value"}}, states={"blind": Unknown(why="it is blind")}
)

ESCAPES = r"""
{{ ''.__class__.__mro__[1].__subclasses__() }}
{{ ''['\x5f\x5fclass\x5f\x5f'] }}
{{ ''['__cla' ~ 'ss__'] }}
{{ ''|attr('__class__') }}
{{ [''] | map(attribute='__class__') | list }}
{{ [''] | map('attr', '__class__') | list }}
{{ [''] | groupby('__class__') | list }}
{{ [''] | sort(attribute='__class__') }}
{{ [''] | selectattr('__class__') | list }}
{{ [''] | sum(attribute='__class__') }}
{{ "{0.__class__}".format('') }}
{{ "{0.__class__}".format_map({'0': 1}) }}
{{ self.__init__.__globals__ }}
{{ self }}
{{ self._TemplateReference__context }}
{{ cycler.__init__.__globals__.os.popen('id').read() }}
{{ joiner.__init__.__globals__ }}
{{ namespace(x=1) }}
{{ lipsum.__globals__ }}
{{ range.__globals__ }}
{{ range.mro() }}
{{ dict.mro() }}
{{ inputs.__class__ }}
{{ inputs._inner }}
{{ inputs.map._inner }}
{{ (inputs | list).__class__ }}
{{ inputs.list.append(1) }}
{{ inputs.list.sort.__self__ }}
{{ ''.join.__self__ }}
{{ _rounds }}
{{ _rounds._left }}
{{ config }}
{{ url_for.__globals__ }}
{{ request.application.__globals__ }}
{% for x in [1] %}{{ loop.__class__ }}{% endfor %}
{% for x in [1] %}{{ loop._iterable }}{% endfor %}
{% set x = ''.__class__ %}{{ x }}
{% macro f() %}{{ caller }}{% endmacro %}{{ f.__globals__ }}
{% import 'os' as os %}
{% include '/etc/passwd' %}
{% extends '/etc/passwd' %}
""".splitlines()[1:]


@every_row("text", ESCAPES)
def test_a_template_cannot_reach_python(text):
    with pytest.raises(ConfigError):
        render(text, SCOPE)


LARGE = r"""
{% for i in range(10**9) %}x{% endfor %}
{% for i in range(1000000000) %}x{% endfor %}
{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}
{% for i in range(99999) recursive %}{{ loop(range(99999)) }}{% endfor %}
{% for i in range(99999) %}{{ 'x' * 99999 }}{% endfor %}
{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(40) }}
{% set a %}{% for i in range(99999) %}{{ 'x' * 999999 }}{% endfor %}{% endset %}
{% filter upper %}x{% endfilter %}
{{ 'x' * 10000000000 }}
{{ [1] * 10000000000 }}
{{ 9**9**9 }}
{{ 'x'.ljust(10000000000) }}
{{ 'x' | center(10000000000) }}
{{ '{:1000000000}'.format(1) }}
{{ '%1000000000d' | format(1) }}
{{ '%*d' | format(1000000000, 1) }}
{{ [1] | batch(1000000000, 0) | list }}
{{ [1] | slice(1000000000) | list }}
{{ 'x' | indent(1000000000, true) }}
{{ ('x' * 999999) | replace('x', 'y' * 999999) }}
{{ ('x' * 999999).replace('x', 'y' * 999999) }}
{{ (range(99999) | list) | join('x' * 999999) }}
{{ ('x' * 999999).join(['a'] * 99999) }}
{{ 'x'.zfill(1000000000) }}
{{ 1 | round(1000000000) }}
{{ {'a': 1} | tojson(1000000000) }}
{{ ([1] * 999999 + [1] * 999999) | length }}
""".splitlines()[1:]


@every_row("text", [*LARGE, "{% set a = 'x' * 999 %}" + "{% set a = a ~ a %}" * 40 + "{{ a | length }}"])
def test_a_template_without_bounds_is_refused_within_seconds(text):
    began = time.process_time()
    with pytest.raises(ConfigError):
        render(text, SCOPE)
    assert time.process_time() - began < 60, "without bounds it is hours, or all memory"


@every_row(
    ("text", "value"),
    [
        ("{% for it in inputs.list %}{{ it }} {% if loop.last %}!{% endif %}{% endfor %}", "1 2 3 !"),
        ("{% set n = inputs.list | length %}{{ n }} things", "3 things"),
        ("{{ 'a' ~ inputs.list[0] ~ true }}", "a1True"),
        ("{{ '%05.1f MiB' | format(2.25) }}", "002.2 MiB"),
        ("{{ inputs.text | replace('x', 'ab') | length }}", 200),
        ("{{ 'a-b'.split('-') }}", ["a", "b"]),
        ("{{ inputs.list | map('string') | join(', ') }}", "1, 2, 3"),
        ("{{ range(3) | list }}", [0, 1, 2]),
        ("{{ inputs.list + [4] }}", [1, 2, 3, 4]),
        ("{{ inputs.map.key.upper() }}", "VALUE"),
        ("{{ [{'age': 700000}, {'age': 5}] | selectattr('age', 'ge', 600000) | list }}", [{"age": 700000}]),
        ("{{ inputs.list | reject('gt', 10000000) | list }}", [1, 2, 3]),
    ],
)
def test_what_people_write_works(text, value):
    assert render(text, SCOPE) == value


@every_row("text", ["{{ blind ~ 'x' }}", "{% for it in blind %}{% endfor %}", "{{ '%s' | format(blind) }}"])
def test_what_no_look_could_answer_is_unknown_also_within_a_larger_text(text):
    with pytest.raises(UnknownTouched, match="it is blind"):
        render(text, SCOPE)
    assert "unknown" in say(text, SCOPE)


def test_an_expression_is_bounded_too():
    with pytest.raises(ConfigError):
        value_of("range(99999) | map('center', 99999) | list", SCOPE)
    assert len(str(value_of("'x' * 99999", SCOPE))) < LONGEST


@every_row(
    "call", ["format(1)", "format_map({})", "center(9)", "zfill(9)", "expandtabs(9)", "encode()", "translate({})"]
)
def test_a_text_has_only_methods_that_make_nothing_larger_than_what_they_are_given(call):
    with pytest.raises(ConfigError, match="a text has no"):
        render("{{ '{:9}'." + call + " }}", SCOPE)


GAPS = Scope(
    states={
        "look": {"rows": [{"name": "a", "age": {"$unknown": "no clock"}}], "row": {"age": {"$unknown": "no clock"}}}
    }
)


def test_evidence_tells_what_is_known_and_names_the_gaps_in_it():
    """Mutants: one unknown field of a row making all of the evidence unknown."""
    assert value_of("look.rows", GAPS, gaps=True) == [{"name": "a", "age": "unknown: no clock"}]
    assert value_of("look", GAPS, gaps=True) == {
        "rows": [{"name": "a", "age": "unknown: no clock"}],
        "row": {"age": "unknown: no clock"},
    }
    assert value_of("look.rows", GAPS) == Unknown(why="no clock")
    assert value_of("look.row.age", GAPS, gaps=True) == Unknown(why="no clock")


def test_a_list_is_there_whatever_is_not_known_within_it_and_what_is_touched_still_counts():
    assert evaluate("look.rows", GAPS) is True
    assert evaluate("look.rows | selectattr('name', 'equalto', 'a') | list", GAPS) is True
    assert evaluate("look.rows | selectattr('name', 'equalto', 'b') | list", GAPS) is False
    assert evaluate("look.rows | selectattr('age') | list", GAPS) == Unknown(why="no clock")
    assert evaluate("look.row.age", GAPS) == Unknown(why="no clock")


@every_row(
    "expression",
    ["not blind", "blind == []", "blind != 1", "blind | length == 0", "blind | int < 3", "blind < 3", "blind - 1 < 3", "1 in gaps.list",
     "gaps.list | max > 1", "gaps.list | sum > 1", "blind and false", "blind | default('', true) == ''", "1 if blind else 2"],
)  # fmt: skip
def test_law_6_a_look_without_an_answer_is_neither_true_nor_false_nor_equal_to_anything(expression):
    """Mutants: a `Silent` that is true, as any other object."""
    looks = {"blind": Unknown(why="no clock"), "gaps": {"list": [{"$unknown": "no clock"}, 1]}}
    assert evaluate(expression, Scope(states=looks)) == Unknown(why="no clock")


def test_a_key_that_is_missing_is_named_with_those_that_are_there():
    scope = Scope(states={"status": {"peers": {"gpu-01": 1}, "none": {}}})
    with pytest.raises(ConfigError, match=r"there is no 'leader' \(there is gpu-01\)"):
        evaluate("status.peers['leader'] > 0", scope)
    with pytest.raises(ConfigError, match=r"there is no 'leader' \(it is empty\)"):
        evaluate("status.none.leader.jobs > 0", scope)


def test_whether_a_look_answered_may_be_asked_of_one_that_did_not():
    scope = Scope(states={"gpus": Unknown(why="it hangs"), "seen": {"count": 0}})
    assert evaluate("gpus is not answered", scope) is True
    assert evaluate("seen is not answered", scope) is False
    assert evaluate("seen is answered and gpus is answered", scope) is False


@every_row(
    ("expression", "value"),
    [
        ("look.row.age is answered", False),
        ("look.row.age is not answered", True),
        ("look.row.age.years is answered", False),
        ("look.row.name is answered", True),
        ("look.row is answered", True),
        ("blind.row.age is answered", False),
        ("look.row.age is answered and look.row.age > 7", False),
        ("look.rows | map(attribute='name') | first is answered", True),
        ("look.row.name.upper() is answered", True),
    ],
)
def test_whether_a_field_is_known_may_be_asked_of_one_that_is_not(expression, value):
    """Mutants: the whole operand read as ever; ``known`` left in the way; the last field alone read without touching."""
    looks = {
        "blind": Unknown(why="no"),
        "look": {"rows": [{"name": "a"}], "row": {"name": "a", "age": {"$unknown": "?"}}},
    }
    assert evaluate(expression, Scope(states=looks)) is value


@every_row("expression", ["look.age is answered", "look.row.age is answered", "look._inner is answered"])
def test_a_mistyped_field_is_no_answer_that_is_missing(expression):
    with pytest.raises(ConfigError):
        evaluate(expression, Scope(states={"look": {"row": {"name": "a"}}}))


def test_asking_whether_a_field_is_known_lets_nobody_touch_it():
    """What is asked within a larger operand is read as ever."""
    scope = Scope(states={"look": {"age": {"$unknown": "no clock"}}})
    for touching in (
        "(look.age or 1) is answered",
        "(look.age + 1) is answered",
        "look.age is defined",
        "[look.age] | first > 1",
    ):
        assert evaluate(touching, scope) == Unknown(why="no clock"), touching


STATUS = Scope(
    inputs={"below": 5},
    host={"name": "gpu-04"},
    states={
        "status": {"json": {"peers": {"gpu-04": {"gpu_percent": None, "jobs": 2}}}},
        "memory": {"total": None, "kind": "ram", "rest": None},
    },
)


@every_row(
    ("expression", "words"),
    [
        (
            "memory.total < 5",
            "memory.total has no value (null), in what memory saw (in: ",
        ),
        ("memory.total + 1 > 3", "memory.total has no value (null), in what memory saw"),
        ("memory.kind < 5", "a text cannot be compared with a number, in what memory saw"),
        (
            "status.json.peers[host.name].gpu_percent < 3",
            "status.json.peers[host.name].gpu_percent has no value (null)",
        ),
        (
            "[status.json.peers[host.name]] | selectattr('gpu_percent', 'lt', inputs.below) | list",
            "gpu_percent has no value (null), in what status saw",
        ),
        (
            "status.json.peers | dictsort | map(attribute=1) | selectattr('gpu_percent', 'lt', 3) | list",
            "gpu_percent has no value (null), in what status saw",
        ),
        ("memory.nope > 1", "there is no 'nope' (there is total, kind, rest), in what memory saw"),
    ],
)
def test_an_expression_that_fails_names_the_value_and_the_look(expression, words):
    with pytest.raises(ConfigError) as caught:
        evaluate(expression, STATUS)
    assert str(caught.value).startswith(words)
    assert "NoneType" not in str(caught.value).replace("`", "")
    assert f"(in: `{expression}`)" in str(caught.value), "as the author wrote it"


def test_a_value_that_is_missing_elsewhere_is_not_blamed():
    with pytest.raises(ConfigError) as caught:
        evaluate("memory.kind < 5 or memory.rest", STATUS)
    assert "null" not in str(caught.value)


@every_row(
    "expression",
    [
        "look.rows | select('none') | list",
        "look.rows | select('string') | list",
        "look.rows | reject('number') | list",
        "look.rows | select('equalto', 2) | list",
        "{'a': 2} in look.things",
        "look.things == [{'a': 1}, {'a': 3}]",
        "look.things | selectattr('a', 'none') | list",
    ],
)
def test_what_is_not_known_is_no_text_and_none_and_equal_to_nothing_only_where_that_is_known(expression):
    """Mutants: sandbox.py with the tests of Jinja as they are; views.py comparing what lies inside."""
    gap = Unknown(why="no answer")
    looks = {"look": {"rows": [1, gap, None], "things": [{"a": 1}, {"a": gap}]}}
    assert value_of(expression, Scope(states=looks)) == gap


def test_what_is_known_to_differ_differs_whatever_else_is_not_known():
    looks = {"look": {"things": [{"a": 1, "b": Unknown(why="no answer")}]}}
    assert value_of("look.things == [{'a': 2, 'b': 1}]", Scope(states=looks)) is False
    assert value_of("look.things == [{'a': 1}]", Scope(states=looks)) is False
    assert value_of("look.things[0] == {'a': 1, 'b': 1}", Scope(states=looks)) == Unknown(why="no answer")
