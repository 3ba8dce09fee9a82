"""One connection of each kind, for the conformance suite."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from sshd import start_sshd

from engine import transports
from engine.ports import ConnectOptions
from engine.values.inventory import Host


class Pressed:
    """An interrupt that a test sets."""

    def __init__(self) -> None:
        self.pressed = 0

    def level(self) -> int:
        return self.pressed


@pytest.fixture(scope="session")
def sshd(tmp_path_factory):
    server = start_sshd(tmp_path_factory.mktemp("sshd"))
    yield server
    server.stop()


@pytest.fixture
def interrupt():
    return Pressed()


@pytest.fixture(scope="session")
def busybox(tmp_path_factory):
    """A host that has no program but those of busybox."""
    server = start_sshd(tmp_path_factory.mktemp("busybox"), bare=True)
    yield server
    server.stop()


@pytest.fixture(
    params=[
        "local",
        pytest.param("ssh", marks=pytest.mark.real("sshd", "root")),
        pytest.param("busybox", marks=pytest.mark.real("sshd", "busybox", "lab")),
    ]
)
def host(request):
    if request.param == "busybox":
        return request.getfixturevalue("busybox").host()
    if request.param == "local":
        return Host(name="here", transport="local")
    return request.getfixturevalue("sshd").host()


@pytest.fixture
def account():
    """Makes users of this machine: with a login shell, what sudo lets them do, a password; removed afterwards."""
    made: list[str] = []

    def make(shell: str = "/bin/bash", sudo: str = "", password: str = "") -> str:
        name = f"rb{os.getpid()}-{len(made)}"
        made.append(name)
        subprocess.run(["useradd", "-m", "-s", shell, "-p", "*", name], check=True)
        if password:
            subprocess.run(["chpasswd"], input=f"{name}:{password}\n", text=True, check=True)
        if sudo:
            Path(f"/etc/sudoers.d/{name}").write_text(f"{name} ALL=(ALL) {sudo}\n")
        return name

    yield make
    for name in made:
        Path(f"/etc/sudoers.d/{name}").unlink(missing_ok=True)
        subprocess.run(["userdel", "-rf", name], capture_output=True, check=False)


@pytest.fixture
def connection(host, interrupt):
    made = transports.load(host.transport).connect(host, ConnectOptions(connect_timeout=5), interrupt)
    yield made
    made.close()
