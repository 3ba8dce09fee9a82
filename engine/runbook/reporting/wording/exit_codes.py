"""Describe the meaning of a run's exit code."""

from __future__ import annotations

from collections.abc import Mapping

from runbook.values.result import Mode

MEANINGS: Mapping[int, str] = {
    0: "every host is healthy or resolved",
    1: "a host failed, is unresolved, or is unknown",
    2: "a mistake on the command line or in a file",
    3: "a dry run would change something",
    4: "a host could not be reached",
    5: "a limit stopped the run",
    6: "a host has changed since its plan was shown, and was left alone",
    130: "interrupted, or the plan was declined",
}


def exit_line(code: int, mode: Mode) -> str:
    """Return a line such as ``exit code 4: a host could not be reached``."""
    meaning = "every host is healthy, or has a plan" if (code, mode) == (0, Mode.PLAN) else MEANINGS.get(code)
    return f"exit code {code}: {meaning}" if meaning else f"exit code {code}"
