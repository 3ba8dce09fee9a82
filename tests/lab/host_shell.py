"""Run a shell line on a host of a lab, by plain ssh."""

from __future__ import annotations

import subprocess

from runbook import lab


def on(made: lab.Lab, host: str, text: str) -> str:
    argv = lab.shell_argv(made.directory, host)
    return subprocess.run((*argv, text), capture_output=True, text=True, timeout=60, check=False).stdout
