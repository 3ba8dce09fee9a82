"""Real processes for the facts about them."""

from __future__ import annotations

from stage_fixtures import machine, stage

__all__ = ["machine", "stage"]
