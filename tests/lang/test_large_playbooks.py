"""Long playbooks: what ``check`` does grows with the number of steps, not with its square."""

from __future__ import annotations

import re
import sys
from types import FrameType

import pytest

from runbook.errors import ConfigError
from runbook.language.expressions.templates import Scope
from runbook.language.lint.linter import warnings_in
from runbook.language.loader import load_playbook
from runbook.plugins import discover
from runbook.text.suggestions import MOST_NAMED, suggest
from tests.support.long_playbook import long_playbook


def calls_in(many: int) -> int:
    """How many functions are called, C's among them, when a playbook of *many* steps is checked and warned about."""
    actions = discover()
    text = re.sub(r"(look|found|act|job)_", rf"\1_{many}_", long_playbook(many))  # nothing of it was seen before
    calls = 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        warnings_in(load_playbook(text, "long.yaml", actions), text, actions)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.slow
def test_what_check_does_grows_with_the_steps():
    """Mutants: static_arguments.py taking every probe again for each step."""
    calls_in(50)
    few, some, many = (calls_in(it) for it in (100, 300, 500))
    assert many - some < 1.03 * (some - few), (few, some, many)  # without what is done once, whatever their number


def test_a_wrong_name_is_held_against_a_bounded_number_of_names():
    """Mutants: name_resolution.py without its bound; all names listed."""
    with pytest.raises(ConfigError) as caught:
        load_playbook(long_playbook(80, wrong=True), "long.yaml", discover())
    assert "did you mean look_0?" in str(caught.value)
    assert suggest("qqq", [f"name_{number}" for number in range(MOST_NAMED + 7)]).endswith("name_99, and 7 more")


def test_a_template_is_given_those_of_many_looks_that_it_mentions():
    """Mutant: templates.py filling in names that nothing mentions."""
    looks = {f"look_{number}": {"n": number} for number in range(500)}
    assert set(Scope(states=looks).names(["look_7", "nobody"])) == {"inputs", "host", "run", "item", "look_7"}
