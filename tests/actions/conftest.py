"""Real processes for the actions that find and end them."""

from __future__ import annotations

from stage_fixtures import machine, stage

__all__ = ["machine", "stage"]
