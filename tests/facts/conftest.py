"""Real processes and a real Docker engine for the facts about them."""

from __future__ import annotations

from tests.support.docker_fixtures import _engine, engine
from tests.support.process_fixtures import machine, stage

__all__ = ["_engine", "engine", "machine", "stage"]
