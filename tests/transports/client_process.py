"""A client in a process of its own, which a test can kill."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from tests.support.waiting import until


def started(host, effect: str, text: str, timeout: float) -> subprocess.Popen:
    told = {
        "transport": host.transport, "addresses": [it.host for it in host.addresses],
        "port": host.addresses[0].port if host.addresses else 0, "user": host.user, "key": host.key,
        "container": host.container and asdict(host.container),
    }  # fmt: skip
    client = Path(__file__).with_name("one_command_client.py")
    argv = [sys.executable, str(client), json.dumps(told), effect, text, str(timeout)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline() == "connected\n"
    return process


def begun(host, effect: str, text: str, timeouts: tuple[float, ...], there: Path) -> tuple[subprocess.Popen, float]:
    """A client whose command has made the file *there* before its timeout has passed, and that timeout."""
    for timeout in timeouts:
        process = started(host, effect, text, timeout)
        until(lambda process=process: there.exists() or process.poll() is not None, f"{there} or the end of the client")
        if there.exists():
            return process, timeout
        killed(process)
    raise AssertionError(f"not begun within {timeouts[-1]:g} s")


def killed(process: subprocess.Popen) -> None:
    process.kill()
    process.wait()
    assert process.stdout
    process.stdout.close()
