"""A Docker engine for the tests of one worker, empty before each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.docker_engine import Engine, engine_of_its_own


@pytest.fixture(scope="session")
def _engine() -> Iterator[Engine]:
    with engine_of_its_own() as engine:
        yield engine


@pytest.fixture
def engine(_engine: Engine) -> Iterator[Engine]:
    """A real engine with one image, base:1, and nothing else."""
    yield _engine
    _engine.clean()
