"""A rule that listens to the cures of another: probation."""

from __future__ import annotations

import pytest

from runbook.errors import ConfigError
from runbook.language.watch_rules import load_rule
from tests.watch.virtual_fleet import SimulatedHost, VirtualFleet

CURE = "name: cure\nplaybook: p\nhosts: all\non: {every: 60s}\nthen: apply\nrisk: reboots\n"
BACK = "name: back\nplaybook: q\nhosts: all\non: {cured_by: cure, after: 6h}\nthen: apply\nrisk: reboots\n"
HOUR = 3600.0


def fleet(*hosts):
    rules = [load_rule(CURE, "cure.yaml"), load_rule(BACK, "back.yaml")]
    return VirtualFleet(rules, {name: SimulatedHost() for name in hosts})


def ill(made, host):
    made.hosts[host].faulty = True


def test_a_cured_host_is_looked_at_again_after_its_probation_and_only_then():
    """Mutant: a trigger without its delay."""
    made = fleet("a", "b")
    made.at(100, lambda: ill(made, "a"))
    made.run_until(HOUR)
    assert len(made.runs("a")) == 1
    made.at(6.5 * HOUR - 200, lambda: None)
    made.run_until(6 * HOUR)
    assert [event.rule for event in made.kept if getattr(event, "kind", "") == "answered"].count("back") == 1
    made.run_until(7 * HOUR)
    assert [event for event in made.kept if event.kind == "answered" and event.rule == "back"][-1].question == "probe"


def test_a_host_that_falls_ill_again_is_not_on_probation_any_more():
    made = fleet("a")
    made.hosts["a"].cures = True
    made.at(100, lambda: ill(made, "a"))
    made.at(3 * HOUR, lambda: ill(made, "a"))
    made.run_until(6.9 * HOUR)
    answers = [event for event in made.kept if event.kind == "answered" and event.rule == "back"]
    assert {answer.question for answer in answers} == {"firing"}
    assert len(made.runs("a")) == 2


def test_mistakes():
    with pytest.raises(ConfigError, match="after: it is the time since a run"):
        load_rule("name: x\nplaybook: p\nhosts: all\non: {every: 60s, after: 1h}\n", "x.yaml")
    with pytest.raises(ConfigError, match="cannot listen to itself"):
        load_rule("name: x\nplaybook: p\nhosts: all\non: {cured_by: x}\n", "x.yaml")
