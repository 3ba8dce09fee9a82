"""The amount of output on the console."""

from __future__ import annotations

from enum import StrEnum


class Verbosity(StrEnum):
    """The amount of output; each level shows everything of the level before it, and more."""

    QUIET = "quiet"  # hosts that are not well, and nothing where all are
    NORMAL = "normal"  # every host in a few lines
    VERBOSE = "verbose"  # with evidence, every probe that has news, and each step and host as it ends
