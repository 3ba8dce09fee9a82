"""Templates that are not compiled when they are checked, or not at all: nothing is said differently of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from runbook.errors import ConfigError
from runbook.language.expressions import templates
from runbook.language.expressions.templates import Scope, fault_in, value_of
from runbook.language.expressions.views import UnknownTouched
from runbook.values.playbook import NO_LET
from runbook.values.types import Unknown
from tests.support.tables import every_row

SCOPE = Scope(
    inputs={
        "text": "x",
        "list": [1, 2, 3],
        "map": {"key": {"deep": 1}, "items": 2},
        "none": None,
        "nan": float("nan"),
        "huge": 1 << 9999,
    },
    states={"blind": Unknown(why="it is blind"), "seen": {"gap": Unknown(why="a gap"), "value": 3}},
)

ATOMS = st.sampled_from(
    [
        "inputs.text",
        "inputs.list",
        "seen.value",
        "blind",
        "item",
        "nobody",
        "1",
        "-1",
        "-x",
        "1.5",
        "'x'",
        "none",
        "1e9",
    ]
)


def _larger(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.tuples(parts, st.sampled_from(["+", "-", "*", "/", "//", "%", "**", "~", "and", "==", "in"]), parts)
    filters = st.sampled_from(
        [
            *("length", "round(1)", "round(precision=1)", "map(attribute='key')", "join(',')", "int", "no_such_filter"),
            *("default(1, boolean=true)", "round(precision=1, precision=2)", "map('int')", "sum(start=9)", "batch(3)"),
        ]
    )
    return st.one_of(
        pairs.map(" ".join),
        st.tuples(parts, filters).map(lambda pair: f"({pair[0]}) | {pair[1]}"),
        st.tuples(parts, parts, parts).map(lambda three: "(({}) if ({}) else ({}))".format(*three)),
        st.lists(parts, max_size=3).map(lambda some: f"[{', '.join(some)}]"),
        parts.map(lambda inner: f"({inner})[:2]"),
        parts.map(lambda inner: f"({inner}).key"),
        parts.map(lambda inner: f"not ({inner})"),
        parts.map(lambda inner: f"({inner}) is no_such_test"),
    )


EXPRESSIONS = st.recursive(ATOMS, _larger, max_leaves=6)


@given(EXPRESSIONS)
def test_what_is_not_compiled_when_it_is_checked_would_have_compiled(expression):
    """Mutants: ``_is_plain`` without each of its conditions."""
    text = "{{ " + expression + " }}"
    try:
        parsed = templates._parsed(text, NO_LET)
    except Exception:
        assert fault_in(text, ())
        return
    if parsed.plain:
        templates._environment().from_string(text)
        assert not fault_in(text, ())


REFUSED = """
1 / 0
-'x'
'x' * 9999999999
(1, 2) | no_such_filter
inputs.list | no_such_filter
inputs.list | round(precision=1, precision=2)
[1, 2] | map(attribute='key', attribute='x')
inputs.text is no_such_test
[3, 1] | sort
inputs.list | round(*inputs.list)
""".strip().splitlines()


@every_row("expression", REFUSED)
def test_what_cannot_be_compiled_or_computed_is_never_plain(expression):
    """Mutants: ``_is_plain`` without each of its conditions."""
    assert not templates._parsed("{{ " + expression + " }}", NO_LET).plain


def _outcomes(text: str) -> list[object]:
    return [
        _outcome(lambda: value_of(text.strip("{} "), SCOPE)),
        _outcome(lambda: templates.render(text, SCOPE)),
        _outcome(lambda: templates.say(text, SCOPE)),
    ]


def _outcome(evaluated: Callable[[], object]) -> object:
    try:
        return evaluated()
    except (ConfigError, UnknownTouched) as error:
        return type(error), str(error)


PATHS = st.lists(
    st.sampled_from(["text", "map", "key", "deep", "items", "none", "nan", "gap", "value", "__class__", "upper", "_x"]),
    max_size=3,
)


@example("inputs", ["nan"])
@example("inputs", ["huge"])
@example("blind", [])
@example("seen", ["gap"])
@example("seen", [])
@example("inputs", ["map", "items"])
@given(st.sampled_from(["inputs", "host", "run", "item", "blind", "seen", "nobody", "range", "true"]), PATHS)
def test_a_name_with_attributes_gives_what_its_compiled_template_gives(name, attributes):
    """Mutants: ``_at`` without ``finite``, with Python's own getattr; ``_path`` of a global name."""
    text = "{{ " + ".".join([name, *attributes]) + " }}"
    quick = _outcomes(text)
    slow = text.replace("}}", "if true else 0 }}")
    assert not templates._parsed(slow, NO_LET).path
    compiled = _outcomes(slow)
    said = [str(it).replace(" if true else 0", "") for it in (quick, compiled)]
    assert said[0] == said[1]


@every_row("text", ["{{ 1e308 * 10 }}", "x {{ 1e308 * 10 }}", "{{ inputs.nan }}", "x {{ inputs.nan }}"])
def test_no_text_has_a_number_that_is_none(text):
    """Mutants: ``_finalize`` and ``_at`` without ``finite``."""
    with pytest.raises(ConfigError, match="not a finite number"):
        templates.say(text, SCOPE)
