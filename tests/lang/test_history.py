"""What expressions ask of `history` is checked when the playbook is loaded, and evaluated without guessing."""

from __future__ import annotations

import pytest

from runbook.errors import ConfigError
from runbook.language.expressions.history import HistoryScope
from runbook.language.expressions.templates import Scope, evaluate, say, value_of
from runbook.language.history_calls import probes_remembered
from runbook.language.loader import load_playbook
from runbook.plugins import discover
from runbook.values.recorded_change import RecordedAnswer, RecordedChange
from runbook.values.types import Unknown
from tests.support.tables import every_row

BOOK = """\
name: toy
diagnose:
  - id: seen
    command: {argv: [id]}
  - id: many
    each: "[1, 2]"
    command: {argv: [id]}
findings:
  - {id: a, when: "WHEN", severity: error}
remediate:
  - id: fix
    command: {do: {argv: ["true"]}}
"""


class Past:
    """One run, ten seconds ago, in which `fix` changed the host; or a past that cannot be read."""

    def __init__(self, why: str = "") -> None:
        self._why = why

    def _or(self, value):
        return Unknown(why=self._why) if self._why else value

    def changes(self, host, within):
        made = [RecordedChange(run="r1", step=it, ago=10.0) for it in ("fix", "fix", "other")]
        return self._or(tuple(it for it in made if it.ago <= within and host == "h"))

    def last_change(self, host):
        return self._or(next(iter(self.changes(host, 99)), None) if not self._why else None)

    def changed_hosts(self, within):
        return self._or(frozenset())

    def answer(self, host, probe):
        state = {"value": {"step": 57, "list": [{"a": 1}]}, "stdout": "x *** y", "gap": {"$unknown": "no root"}}
        return self._or(RecordedAnswer(run="r1", state=state, ago=12.0) if probe == "seen" else None)


def scope(past=None, host: str = "h", part: str = "") -> Scope:
    return Scope(history=HistoryScope(past=past or Past(), host=host, part=part))


@every_row(
    ("expression", "value"),
    [
        ("history.runs('1m')", 1),
        ("history.runs('5s')", 0),
        ("history.changed('fix', '1m')", 1),
        ("history.changed('none_such', '1m')", 0),
        ("history.last('changed')", 10.0),
        ("history.previous('seen.value.step')", 57),
        ("history.previous('seen.value.list.0.a')", 1),
        ("history.previous('seen.value').step", 57),
        ("history.previous_at('seen')", 12.0),
        ("history.previous('other.value')", None),
        ("history.previous('other.value') is none", True),
        ("history.runs('1m') is answered", True),
    ],
)
def test_what_earlier_runs_did_is_a_value(expression, value):
    assert value_of(expression, scope()) == value


@every_row(
    "call",
    ["runs('1m')", "changed('fix', '1m')", "last('changed')", "previous('seen.value')", "previous_at('seen')"],
)
def test_a_record_that_is_not_believed_makes_every_answer_unknown(call):
    found = value_of(f"history.{call}", scope(Past("it was edited")))
    assert isinstance(found, Unknown)
    assert "it was edited" in found.why
    assert value_of(f"history.{call} is answered", scope(Past("it was edited"))) is False


@every_row("path", ["seen.stdout", "seen.gap", "seen.value.gone", "seen.value.list.1"])
def test_what_a_record_has_not_got_is_unknown(path):
    assert isinstance(evaluate(f"history.previous('{path}') == 1", scope()), Unknown)


def test_a_host_that_was_never_changed_is_said_to_be_none():
    assert value_of("history.last('changed')", scope(host="new")) is None
    assert value_of("history.runs('1m')", scope(host="new")) == 0


def test_an_included_playbook_names_its_own_steps():
    assert value_of("history.previous_at('seen')", scope(part="p")) is None


def test_a_text_prints_it():
    assert say("step {{ history.previous('seen.value.step') }}", scope()) == "step 57"


@every_row(
    ("when", "words"),
    [
        ("history.run('7d') > 1", "did you mean runs?"),
        ("history.runs('7x') > 1", "is not a duration"),
        ("history.runs(7) > 1", "needs its arguments written out"),
        ("history.runs(seen.value) > 1", "needs its arguments written out"),
        ("history.runs > 1", "needs its arguments written out"),
        ("history", "`history` is no value"),
        ("history.changed('fx', '7d') > 1", "did you mean fix?"),
        ("history.changed('fix') > 1", "needs its arguments written out"),
        ("history.previous('sen.value') == 1", "did you mean seen?"),
        ("history.previous('seen.valu') == 1", "did you mean value?"),
        ("history.previous('seen') == 1", "needs a field"),
        ("history.previous('many.value') == 1", "is a list"),
        ("history.previous_at('sen') > 1", "did you mean seen?"),
        ("history.last('change') > 1", "does not know 'change'"),
    ],
)
def test_mistakes_are_found_when_the_playbook_is_loaded(when, words):
    with pytest.raises(ConfigError) as caught:
        load_playbook(BOOK.replace("WHEN", when), "toy.yaml", discover())
    assert words in str(caught.value)
    assert "toy.yaml:9:" in str(caught.value)


@every_row(
    ("old", "new"),
    [
        ("argv: [id]", "argv: ['{{ history.runs(\"7d\") }}']"),
        ('each: "[1, 2]"', "each: history.previous('seen.value')"),
    ],
)
def test_what_is_sent_does_not_depend_on_records(old, new):
    with pytest.raises(ConfigError, match="`history` cannot be used here"):
        load_playbook(BOOK.replace("WHEN", "true").replace(old, new), "toy.yaml", discover())


def test_history_is_no_id():
    with pytest.raises(ConfigError, match="'history' is a reserved name"):
        load_playbook(BOOK.replace("WHEN", "true").replace("id: seen", "id: history"), "toy.yaml", discover())


def test_only_the_probes_that_are_asked_for_are_kept():
    book = load_playbook(BOOK.replace("WHEN", "history.previous('seen.value') == 1"), "toy.yaml", discover())
    assert probes_remembered(book) == {"seen"}
