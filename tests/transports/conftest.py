"""One connection of each kind, for the conformance suite."""

from __future__ import annotations

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


@pytest.fixture(params=["local", pytest.param("ssh", marks=pytest.mark.real("sshd", "root"))])
def host(request):
    if request.param == "local":
        return Host(name="here", transport="local")
    return request.getfixturevalue("sshd").host()


@pytest.fixture
def connection(host, interrupt):
    made = transports.load(host.transport).connect(host, ConnectOptions(connect_timeout=5), interrupt)
    yield made
    made.close()
