"""The timer that `playbooks/README.md` prints is one that systemd takes, and what it starts begins."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "playbooks" / "README.md"
PROGRAM, INVENTORY = "/opt/runbook/bin/runbook", "/etc/runbook/distributed_hosts.yaml"


def units() -> dict[str, str]:
    """The name of each unit, and its text."""
    (text,) = re.findall(r"```ini\n(# stuck-node\.service\n.*?)```", PAGE.read_text(), re.DOTALL)
    parts = re.split(r"^# (stuck-node\.\w+)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.fixture
def folder(tmp_path):
    program = tmp_path / "runbook"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m runbook "$@"\n')
    program.chmod(0o755)
    inventory = tmp_path / "hosts.yaml"
    inventory.write_text("hosts:\n  HOST: {transport: local}\n  one: {transport: local, gpu: H100}\n")
    for name, text in units().items():
        assert name.endswith(".timer") or (PROGRAM in text and INVENTORY in text)
        (tmp_path / name).write_text(text.replace(PROGRAM, str(program)).replace(INVENTORY, str(inventory)))
    return tmp_path


@pytest.mark.real("systemd")
def test_systemd_takes_the_units(folder):
    files = [str(folder / name) for name in units()]
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *files], capture_output=True, text=True, check=False
    )
    assert (done.returncode, [line for line in done.stderr.splitlines() if "stuck-node" in line]) == (0, [])


def test_what_it_starts_begins_without_a_shell_s_path(folder):
    (line,) = re.findall(r"^ExecStart=(.*)$", (folder / "stuck-node.service").read_text(), re.MULTILINE)
    argv = shlex.split(line)
    env = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)}
    begun = [*argv[: argv.index("--yes")], *argv[argv.index("--yes") + 1 :], "--dry-run", "--output", "json"]
    done = subprocess.run(begun, capture_output=True, text=True, check=False, env=env, cwd="/")
    assert (done.returncode, '"host": "one"' in done.stdout) == (1, True), done.stderr
