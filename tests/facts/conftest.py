"""Real processes and a real Docker engine for the facts about them."""

from __future__ import annotations

from tests.docker_fixtures import _engine, engine
from tests.process_fixtures import machine, stage

__all__ = ["_engine", "engine", "machine", "stage"]
