"""A remediation engine for GPU fleets: look, decide, do, look again."""

__version__ = "0.1.0"
