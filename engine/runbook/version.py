"""The version of runbook."""

__version__ = "0.1.0"
