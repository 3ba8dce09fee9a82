"""The program itself, on lab hosts."""

from __future__ import annotations

import pytest

from runbook import lab
from tests.support.docker_fixtures import _engine, engine
from tests.support.program import Practice

__all__ = ["_engine", "engine"]


@pytest.fixture
def practice(tmp_path):
    """A function that brings up lab hosts: ``practice("gpu-01=leftovers+busy", ...)``."""
    made = []

    def start(*faults: str, embedded: bool = False) -> Practice:
        folder = tmp_path / f"lab{len(made)}"
        made.append(lab.up(lab.LabOptions(directory=folder, faults=faults, embedded=embedded)))
        return Practice(made[-1])

    yield start
    for it in made:
        lab.down(it.directory)
