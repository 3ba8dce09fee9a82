"""A scene with two hosts of this machine."""

from __future__ import annotations

import pytest

from tests.past_runs.scene import Scene
from tests.support.another_user import ground

__all__ = ["ground", "scene", "scenes"]


@pytest.fixture
def scenes(tmp_path):
    """A function that makes scenes: ``scenes("limits: {approvals: 1}")``."""
    made = []

    def make(more: str = "") -> Scene:
        folder = tmp_path / f"scene{len(made)}"
        folder.mkdir(mode=0o700)
        made.append(Scene(folder, more))
        return made[-1]

    yield make
    for it in made:
        it.close()


@pytest.fixture
def scene(scenes) -> Scene:
    return scenes()
