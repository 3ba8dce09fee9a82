"""The order of a watcher's questions: tests/data/watch/policy has a table for each, and one test walks all rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from runbook.errors import ConfigError
from runbook.language.watch_rules import load_rule
from runbook.values.watch_rule import Rule
from runbook.watch import policy
from runbook.watch.memory import Memory, Remembered, Source, Trigger
from runbook.watch.policy import QUESTIONS, Answer, Escalate, Ignore, Question, Wait, answers, decide
from tests.support.tables import every_row
from tests.watch.short_events import HOST, RULE, event, events, moment

TABLES = Path(__file__).parents[1] / "data" / "watch" / "policy"
NOW = "2027-01-15T08:00:00+00:00"
"""A Friday."""
BASE = {
    "name": RULE,
    "playbook": "stuck-node",
    "hosts": "all",
    "on": {"alert": "GpuStuck", "every": "60s"},
    "then": "propose",
    "ineffective": 0,
}
"""The rule of a row that overrides nothing."""
KEYS = {"row", "rule", "before", "trigger", "now", "answer", "until", "why", "passes", "also", "is_host_known"}
NO_TRIGGER = "no trigger"
"""The answer of a row for whose trigger there is nothing any more."""


def of_file(question: Question) -> str:
    """Return the name of the table of *question*."""
    return question.replace(" ", "_")


def every_case() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the rows of all tables, each with the name of its table."""
    for path in sorted(TABLES.glob("*.yaml")):
        for row in yaml.safe_load(path.read_text(encoding="utf-8"))["rows"]:
            yield path.stem, row


CASES = list(every_case())


def flat(lines: Any) -> Iterator[str]:
    """Yield the texts in *lines*, a list whose items may be lists: situations that several rows share."""
    for line in lines:
        yield from [line] if isinstance(line, str) else flat(line)


def rule_of(row: Mapping[str, Any]) -> Rule | None:
    """Return the rule of *row*; an override of null takes a key away."""
    overrides = row.get("rule", {})
    if overrides is None:
        return None
    tree = {key: value for key, value in {**BASE, **overrides}.items() if value is not None}
    if tree.get("then") == "probe":
        tree.pop("ineffective", None)
    return load_rule(yaml.safe_dump(tree), f"{RULE}.yaml")


def trigger_of(row: Mapping[str, Any], remembered: Remembered, now: float) -> Trigger | None:
    """Return the trigger of *row*: of a source, of an episode, or as it is written out."""
    wanted = row.get("trigger", "alert")
    if isinstance(wanted, str):
        source, _, episode = wanted.partition(" ")
        triggers = [each for each in remembered.triggers(RULE, HOST) if each.source == source]
        return next((each for each in triggers if episode in ("", each.episode)), None)
    times = {key: moment(wanted[key], now) for key in ("since", "heard") if key in wanted}
    given = {"episode": "a1", "since": now, **wanted, **times, "source": Source(wanted["source"])}
    return Trigger(rule=RULE, host=HOST, **given)


Case = tuple[Rule | None, Trigger, Memory, float]
"""The arguments of ``decide``."""


def case_of(row: Mapping[str, Any]) -> Case | None:
    """Return the arguments of ``decide`` for *row*; None if there is no trigger."""
    rule, now = rule_of(row), datetime.fromisoformat(row.get("now", NOW)).timestamp()
    remembered = Remembered([rule] if rule else [])
    for line in flat(row.get("before", ())):
        for each in events(line, now):
            remembered.take(each)
    memory = remembered.memory(RULE, HOST, is_host_known=row.get("is_host_known", True), at=now)
    trigger = trigger_of(row, remembered, now)
    return (rule, trigger, memory, now) if trigger else None


def until_of(row: Mapping[str, Any], now: float) -> float:
    """Return the time in *row* at which the wait ends."""
    text = row["until"]
    if text == "never":
        return float("inf")
    return moment(text, now) if text.startswith(("+", "-")) or text == "0" else datetime.fromisoformat(text).timestamp()


def decides(question: str, case: Case) -> bool:
    """Whether the question with the name *question* would decide if it were the first to be asked."""
    rule, trigger, memory, now = case
    assert rule
    ask = next(ask for asked, ask in QUESTIONS if asked == question)
    return not isinstance(ask(policy._Facts(rule=rule, trigger=trigger, memory=memory, now=now)), str)


def deviations(table: str, row: Mapping[str, Any]) -> Iterator[str]:
    """Yield in which ways the answer to *row* is another one."""
    if unknown := row.keys() - KEYS:
        yield f"{sorted(unknown)}: no such key"
    case = case_of(row)
    if case is None:
        yield from () if row["answer"] == NO_TRIGGER else (f"expected {row['answer']!r}, and there is no trigger",)
        return
    now = case[3]
    found: list[Answer] = [*answers(*case)]
    last = found[-1]
    got = f"{last.question}: {type(last.decision).__name__.lower()}"
    if got != row["answer"]:
        yield f"expected {row['answer']!r}, got {got!r} ({last.decision.why})"
    if row.get("why", "") not in last.decision.why:
        yield f"expected {row['why']!r} in {last.decision.why!r}"
    if isinstance(last.decision, Wait | Escalate) and "until" in row and last.decision.until != until_of(row, now):
        yield f"expected the end {row['until']}, got {last.decision.until - now:+g} s"
    if "until" in row and not isinstance(last.decision, Wait | Escalate):
        yield "only what waits has an end"
    own = [each for each in found[:-1] if of_file(each.question) == table]
    if "passes" in row and not any(
        isinstance(each.decision, Ignore) and row["passes"] in each.decision.why for each in own
    ):
        yield f"expected the question to pass on with {row['passes']!r}, got {[each.decision.why for each in own]}"
    for later in row.get("also", ()):
        order = [question for question, _ in QUESTIONS]
        if order.index(Question(later)) <= order.index(last.question) or not decides(later, case):
            yield f"{later!r} would not decide, or is not later"


@every_row(("table", "row"), CASES, ids=[f"{table}: {row['row']}" for table, row in CASES])
def test_each_row_has_its_answer(table, row):
    """Mutants: policy.py, each question with a limit moved, a condition left out, or the order of two exchanged."""
    assert list(deviations(table, row)) == []


@every_row("question", list(Question))
def test_each_question_has_rows_in_which_it_decides_and_rows_in_which_it_passes_on(question):
    rows = [row for table, row in CASES if table == of_file(question)]
    assert sum(row["answer"].startswith(f"{question}: ") for row in rows) >= 1
    assert sum("passes" in row for row in rows) >= 1 or question is Question.APPLY


def test_the_tables_are_those_of_the_questions_and_their_rows_have_names_of_their_own():
    assert {table for table, _ in CASES} == set(map(of_file, Question))
    assert len({(table, row["row"]) for table, row in CASES}) == len(CASES)
    assert len(CASES) >= 200


def test_the_questions_are_asked_in_the_order_in_which_they_are_defined():
    """Mutant: two lines of ``QUESTIONS`` exchanged."""
    assert [question for question, _ in QUESTIONS] == list(Question)


def test_each_question_before_the_one_that_decides_says_why_it_did_not():
    for table, row in CASES:
        if not (case := case_of(row)):
            continue
        *before, last = answers(*case)
        assert [each.question for each in (*before, last)] == list(Question)[: len(before) + 1], (table, row["row"])
        assert all(isinstance(each.decision, Ignore) and each.decision.why for each in before), (table, row["row"])
        assert decide(*case) == last, (table, row["row"])


@every_row("line", ["-1s nothing", "-1s present colour=red", "now present"])
def test_a_line_that_is_no_event_is_refused(line):
    with pytest.raises((KeyError, ValueError, ConfigError)):
        event(line, 0.0)
