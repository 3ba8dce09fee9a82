"""One connection of each kind, for the conformance suite."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import subprocess
import sys
import uuid
from dataclasses import replace
from functools import partial
from pathlib import Path

import paramiko
import pytest

from runbook.connections import transports
from runbook.lab.ssh_server import make_key
from runbook.protocols import ConnectOptions
from runbook.values.inventory import Address, Container, Host, HostKeys
from tests.support import fake_kubectl
from tests.support.another_user import ground
from tests.support.docker_engine import engine_of_its_own
from tests.support.process_fixtures import stage
from tests.support.sshd import start_sshd
from tests.transports.cut_relay import Cutter
from tests.transports.interrupts import Pressed

__all__ = ["ground", "stage"]

ROOT = Path(__file__).parents[2]


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


@pytest.fixture(scope="session")
def own_server(tmp_path_factory):
    """The lab's own SSH server, which needs no sshd and no root, without a lab around it."""
    folder = tmp_path_factory.mktemp("own-server")
    for name in ("key", "host_key"):
        make_key(str(folder / name))
    words = (sys.executable, "-m", "runbook.lab.ssh_server", str(folder / "host_key"), str(folder / "key.pub"))
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener, (folder / "log").open("wb") as log:
        address, port = listener.getsockname()
        process = subprocess.Popen(words, stdin=listener, stdout=log, stderr=log, cwd=ROOT)
    yield Host(
        name="own", addresses=(Address(host=address, port=port),), user="root", key=str(folder / "key"), host_keys=HostKeys.IGNORE,
    )  # fmt: skip
    process.kill()
    process.wait()


@pytest.fixture(scope="session")
def mock_server(tmp_path_factory):
    """mock-ssh-server, as a host."""
    key = tmp_path_factory.mktemp("mock-server") / "key"
    paramiko.RSAKey.generate(2048).write_private_key_file(str(key))
    words = (sys.executable, "-m", "tests.transports.mock_server", "somebody", str(key))
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        port = int(process.stdout.readline())
        yield Host(
            name="mock", addresses=(Address(host="127.0.0.1", port=port),), user="somebody", key=str(key), host_keys=HostKeys.IGNORE,
        )  # fmt: skip
        process.stdin.close()


@pytest.fixture
def relayed():
    """Starts relays whose line can be cut, and ends them."""
    with contextlib.ExitStack() as relays:
        yield lambda *args, **keys: relays.enter_context(contextlib.closing(Cutter(*args, **keys)))


@pytest.fixture(scope="session")
def containers(tmp_path_factory):
    """A Docker engine, and the start of a container by name that sees /tmp of this machine."""
    with engine_of_its_own() as engine:
        engine.import_image("machine:1", every_tool=True)

        def start(name: str) -> str:
            engine.run("rm", "-f", name, check=False)
            options = (*fake_kubectl.labels(name), "--init", "-v", "/tmp:/tmp", "-v", "/var/tmp:/var/tmp")
            return engine.lives(*options, name=name, image="machine:1")

        yield engine, start


@pytest.fixture
def contained(containers, monkeypatch, tmp_path_factory):
    """Makes a host of one running container: ``contained("docker")``."""
    engine, start = containers
    monkeypatch.setenv("DOCKER_HOST", engine.host)
    programs = fake_kubectl.install(tmp_path_factory.mktemp("kubectl"))
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")

    def host(transport: str, name: str = "box") -> Host:
        start(name)
        engine_name = transport if transport == "kubectl" else "docker"
        pod = name if transport == "kubectl" else ""
        inside = Container(name="main" if pod else name, engine=engine_name, pod=pod)
        return Host(name=name, transport=transport, container=inside)

    return host


CONFINED = "test_confined_probes"
IN_PODS = ("test_conformance", "test_client_death")
"""What is tried with kubectl in the gate, too; the rest differs from docker in nothing but the words before `sh`."""
TWICE = ("test_shared_lane", "test_client_death")
"""Their tests hold on this machine in `make test`, and over SSH without sshd in `make soak`: they mostly wait."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave what is tried twice to `make soak`, and what an engine denies a container to machines: control groups, and
    mount namespaces.
    """
    params_of = {item: item.callspec.params if hasattr(item, "callspec") else {} for item in items}
    in_container = [item for item, params in params_of.items() if params.get("host") in ("docker", "kubectl")]
    denied = {item for item in in_container for mark in item.iter_markers("real") if "cgroup" in mark.args}
    denied |= {item for item in in_container if item.path.stem == CONFINED}
    items[:] = [item for item in items if item not in denied]
    for item in items:
        params = params_of[item]
        if item.path.stem in TWICE and params.get("host") == "mock-ssh-server":
            item.add_marker("soak")
        if item.path.stem not in IN_PODS and params.get("host") == "kubectl":
            item.add_marker("soak")


@pytest.fixture(
    params=[
        "local",
        "mock-ssh-server",
        pytest.param("own server", marks=pytest.mark.soak),
        pytest.param("ssh", marks=pytest.mark.real("sshd", "root")),
        pytest.param("docker", marks=pytest.mark.real("docker", "busybox")),
        pytest.param("kubectl", marks=pytest.mark.real("docker", "busybox")),
        pytest.param("busybox", marks=[pytest.mark.real("sshd", "busybox", "lab"), pytest.mark.soak]),
    ]
)
def host(request):
    if request.param == "busybox":
        return request.getfixturevalue("busybox").host()
    if request.param in ("docker", "kubectl"):
        return request.getfixturevalue("contained")(request.param)
    if request.param == "local":
        return Host(name="here", transport="local")
    if request.param == "mock-ssh-server":
        return request.getfixturevalue("mock_server")
    if request.param == "own server":
        return request.getfixturevalue("own_server")
    return request.getfixturevalue("sshd").host()


@pytest.fixture
def account():
    """Makes users of this machine: with a login shell, what sudo lets them do, a password; removed afterwards."""
    made: list[str] = []

    def make(shell: str = "/bin/bash", sudo: str = "", password: str = "") -> str:
        name = f"rb{secrets.token_hex(6)}"
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


@pytest.fixture(params=["mock-ssh-server", pytest.param("sshd", marks=pytest.mark.real("sshd", "root"))])
def door(request):
    """Makes hosts of an inventory of one SSH server: ``door(key=...)``."""
    if request.param == "mock-ssh-server":
        return partial(replace, request.getfixturevalue("mock_server"))
    return request.getfixturevalue("sshd").host


@pytest.fixture
def connection(host, interrupt):
    made = transports.load(host.transport).connect(host, ConnectOptions(connect_timeout=20), interrupt)
    yield made
    made.close()


@pytest.fixture
def mark() -> str:
    """A number of seconds that no other sleep on this machine has."""
    return f"{3000 + uuid.uuid4().int % 6000}.{uuid.uuid4().int % 10**9:09d}"


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """A home of the test's own; it has a folder .ssh, and nothing in it."""
    (tmp_path / "home" / ".ssh").mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return tmp_path / "home"
