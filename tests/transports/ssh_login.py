"""Log in at a real sshd, or be refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from runbook.connections.transports import ssh
from runbook.errors import Unreachable
from runbook.protocols import ConnectOptions


def connected(host, interrupt, **options):
    return ssh.connect(host, ConnectOptions(**{"connect_timeout": 20, **options}), interrupt)


def refusal(host, interrupt, **options) -> str:
    with pytest.raises(Unreachable) as caught:
        connected(host, interrupt, **options)
    return str(caught.value)


def admitted(sshd, key: Path) -> None:
    with (sshd.welcome / "authorized_keys").open("a") as file:
        file.write(Path(f"{key}.pub").read_text())
