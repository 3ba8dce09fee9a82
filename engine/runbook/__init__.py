"""Diagnose and remediate GPU fleets: probe, decide, change, probe again.

As a library: ``load``, ``plan``, ``run``, ``history`` and ``recorded`` (``runbook.commands.api``), and ``errors``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runbook.version import __version__

if TYPE_CHECKING:
    from runbook.commands.api import history, load, plan, recorded, run

__all__ = ["__version__", "history", "load", "plan", "recorded", "run"]


def __getattr__(name: str) -> Any:
    """The functions of the library, read when the first of them is asked for: a program that starts needs none."""
    if name in __all__:
        from runbook.commands import api

        return getattr(api, name)
    raise AttributeError(f"module 'runbook' has no attribute {name!r}")
