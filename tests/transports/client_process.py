"""A client in a process of its own, which a test can kill."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def started(host, effect: str, text: str, timeout: float) -> subprocess.Popen:
    told = {
        "transport": host.transport, "addresses": [it.host for it in host.addresses],
        "port": host.addresses[0].port if host.addresses else 0, "user": host.user, "key": host.key,
    }  # fmt: skip
    client = Path(__file__).with_name("one_command_client.py")
    argv = [sys.executable, str(client), json.dumps(told), effect, text, str(timeout)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline() == "connected\n"
    return process


def killed(process: subprocess.Popen) -> None:
    process.kill()
    process.wait()
    assert process.stdout
    process.stdout.close()
