"""A storm of alerts leads to one run for an episode, and every POST is answered."""

from __future__ import annotations

import pytest

from tests.bench.serve import FAULTY, storm


@pytest.mark.parametrize(
    "posts",
    [pytest.param(300, marks=pytest.mark.slow), pytest.param(5000, marks=[pytest.mark.soak, pytest.mark.longest])],
)
def test_a_storm_leads_to_one_run_for_an_episode(tmp_path, posts):
    """Mutant: an alert that is stored each time it is heard of."""
    found = storm(tmp_path, posts, phases=posts > 1000)
    assert found.statuses == {202: posts}
    assert {host for host, _ in found.runs} == set(FAULTY)
    assert set(found.runs.values()) == {1}
    assert found.memory < 250
