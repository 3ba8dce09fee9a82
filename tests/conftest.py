"""What every test shares: the real parts of this machine, and what was left out without them."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

LOCKS = tempfile.mkdtemp(prefix="runbook-locks-")
atexit.register(shutil.rmtree, LOCKS, ignore_errors=True)
os.environ["RUNBOOK_LOCK_PLACES"] = LOCKS  # tests that run beside each other do not wait for each other's runs
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # the program is started hundreds of times

for it in (
    signal.SIGINT,
    signal.SIGQUIT,
):  # a shell ignores them for what it starts in the background, and we hand that on
    if signal.getsignal(it) is signal.SIG_IGN:
        signal.signal(it, signal.default_int_handler if it is signal.SIGINT else signal.SIG_DFL)

PROGRAMS = {
    "sshd": "/usr/sbin/sshd",
    "fuser": "fuser",
    "lsof": "lsof",
    "sudo": "sudo",
    "busybox": "busybox",
    "strace": "strace",
    "tmux": "tmux",
    "git": "git",
    "fish": "fish",
    "tcsh": "tcsh",
    "setpriv": "setpriv",
    "curl": "curl",
    "wget": "wget",
    "sqlite3": "sqlite3",
    "docker": "dockerd",
    "patch": "patch",
    "apt": "apt-get",
}


@cache
def present(part: str) -> bool:
    """Whether this machine has that real part."""
    if part == "root":
        return os.geteuid() == 0
    if part == "docker" and not (present("lab") and shutil.which("docker")):
        return False
    if part == "systemd":
        return present("lab") and Path("/lib/systemd/systemd").exists() and shutil.which("systemctl") is not None
    if part == "lab":
        return (
            present("root")
            and subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], check=False).returncode == 0
        )
    return shutil.which(PROGRAMS[part]) is not None or Path(PROGRAMS[part]).exists()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what this machine cannot do; with RUNBOOK_TEST_ALL=1 nothing may be left out."""
    for item in items:
        parts = [part for mark in item.iter_markers("real") for part in mark.args]
        lacking = [part for part in parts if not present(part)]
        if not lacking:
            continue
        if os.environ.get("RUNBOOK_TEST_ALL") == "1":
            raise pytest.UsageError(
                f"{item.nodeid} needs {', '.join(lacking)}, and RUNBOOK_TEST_ALL=1 leaves nothing out"
            )
        item.add_marker(pytest.mark.skip(reason=f"left out: this machine has no {', '.join(lacking)}"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo) -> Iterator[None]:
    """With RUNBOOK_TEST_ALL=1, a test that leaves itself out on its way has failed."""
    report = yield
    if report.skipped and os.environ.get("RUNBOOK_TEST_ALL") == "1":
        report.outcome = "failed"
        report.longrepr = f"left out, and RUNBOOK_TEST_ALL=1 leaves nothing out: {report.longrepr}"
    return report
