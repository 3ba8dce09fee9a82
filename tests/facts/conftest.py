"""Real processes for the facts about them."""

from __future__ import annotations

from process_fixtures import machine, stage

__all__ = ["machine", "stage"]
