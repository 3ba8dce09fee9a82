"""Fixtures that end what a test started."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.real_processes import SHELLS, Machine, Stage, each, shell


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """Processes of this test."""
    made = Stage(folder=tmp_path)
    yield made
    made.close()


@pytest.fixture(params=each(SHELLS))
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Machine:
    """This machine, by each kind of shell."""
    return Machine(shell=shell(request.param, tmp_path))
