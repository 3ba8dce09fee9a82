"""A directory for root and another user."""

from __future__ import annotations

from tests.support.another_user import ground

__all__ = ["ground"]
