"""Real processes for the actions that find and end them."""

from __future__ import annotations

from tests.support.docker_fixtures import _engine, engine
from tests.support.process_fixtures import machine, stage

__all__ = ["_engine", "engine", "machine", "stage"]
