"""A container that ends, starts again, is replaced or was never there; and one behind an SSH host."""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from runbook.connections import transports
from runbook.errors import ConnectionLost, Unreachable
from runbook.protocols import ConnectOptions
from runbook.values.inventory import Host
from runbook.values.result import Status
from tests.support.real_processes import gone, living
from tests.support.sshd import start_sshd
from tests.support.waiting import appears, reads, soon
from tests.transports.client_process import begun, killed
from tests.transports.commands import change, look
from tests.transports.direct_steps import sent

pytestmark = pytest.mark.real("docker", "busybox")

KINDS = pytest.mark.parametrize("kind", ["docker", "kubectl"])


@pytest.fixture
def engine(containers):
    return containers[0]


@pytest.fixture
def connected(interrupt):
    """Connects to hosts, and closes the connections."""
    made = []

    def connect(host: Host):
        made.append(transports.load(host.transport).connect(host, ConnectOptions(), interrupt))
        return made[-1]

    yield connect
    for connection in made:
        connection.close()


@KINDS
@pytest.mark.parametrize("blow", ["stop", "kill", "rm", "restart"])
def test_a_container_that_goes_in_mid_change_leaves_the_change_unknown_and_sent_once(
    contained, connected, engine, kind, blow, tmp_path, mark
):
    """Mutants: ``stands`` without the container; an identity that a new start shares with the old one."""
    connection, log = connected(contained(kind)), tmp_path / "log"
    words = {"stop": ("stop", "-t", "0"), "kill": ("kill",), "rm": ("rm", "-f"), "restart": ("restart", "-t", "0")}[
        blow
    ]
    going = threading.Thread(target=lambda: appears(log) and engine.run(*words, "box"))
    going.start()
    done = sent(connection, change(f"echo x >>{log}; sleep {mark}; echo y >>{log}", timeout=250))
    going.join()
    assert (done.status, done.sent) == (Status.UNKNOWN, True)
    assert any(word in done.why for word in ("does not run", "was started again", "No such container", "not found")), (
        done.why
    )
    with pytest.raises(ConnectionLost) as caught:
        connection.run(change(f"echo z >>{log}"))
    assert not caught.value.sent
    assert gone(mark)
    assert log.read_text() == "x\n"


@KINDS
@pytest.mark.parametrize("blow", ["restart", "replace"])
def test_no_command_reaches_another_start_of_the_container_or_another_one_of_its_name(
    contained, connected, containers, kind, blow, tmp_path
):
    """Mutants: a shell that does not compare its identity; a container that is found by its name each time."""
    connection = connected(contained(kind))
    assert connection.run(look("echo", "here"))[0].stdout == "here\n"
    engine, start = containers
    if blow == "restart":
        engine("restart", "-t", "0", "box")
    else:
        start("box")
    done = sent(connection, change(f"echo x >{tmp_path}/written"))
    assert (done.status, done.sent) == (Status.UNREACHABLE, False)
    with pytest.raises(ConnectionLost):
        connection.run(look("echo", "x"))
    assert not (tmp_path / "written").exists()


@KINDS
def test_a_program_that_is_killed_on_the_way_leaves_a_write_unknown_and_a_look_ended(
    contained, connected, kind, tmp_path, mark, monkeypatch
):
    """The docker command dies, its container lives on: what it ran is told as what nobody knows the end of."""
    connection, log = connected(contained(kind)), tmp_path / "log"

    def kill() -> None:
        assert appears(log)
        for pid in living("exec -i"):
            if f"{kind}-{mark}" in Path(f"/proc/{pid}/environ").read_text(errors="replace"):
                os.kill(pid, signal.SIGKILL)

    monkeypatch.setenv("MARK", f"{kind}-{mark}")
    connection.run(look("true"))
    going = threading.Thread(target=kill)
    going.start()
    done = sent(connection, change(f"echo x >>{log}; sleep 2; echo y >>{log}", timeout=250))
    going.join()
    assert (done.status, done.sent) == (Status.UNKNOWN, True)
    assert soon(lambda: log.read_text() in ("x\n", "x\ny\n"))


@KINDS
def test_a_write_whose_client_died_is_not_stopped_by_what_it_prints(contained, kind, tmp_path):
    """Nobody reads the output of a program in a container any more: it ends all the same, once."""
    log = tmp_path / "log"
    text = f"echo begun >>{log}; sleep 1; head -c 3000000 /dev/zero; head -c 300000 /dev/zero >&2; echo ended >>{log}"
    process, _ = begun(contained(kind), "write", text, (60,), log)
    killed(process)
    assert reads(log, "begun\nended\n")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"name": "nobody"}, "docker: Error response from daemon: No such container: nobody"),
        ({"context": "nowhere"}, "docker: "),
        ({"user": "nobody-at-all"}, "docker: "),
        ({"engine": "podman"}, "podman: there is no podman on localhost"),
    ],
)
def test_why_a_container_cannot_be_entered_is_told(contained, connected, monkeypatch, fields, words, tmp_path):
    host = contained("docker")
    if fields.get("engine") == "podman":
        (tmp_path / "bin").mkdir()
        for name in ("sh", "docker", "sleep", "kill", "id"):
            (tmp_path / "bin" / name).symlink_to(f"/usr/bin/{name}")
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(Unreachable) as caught:
        connected(replace(host, container=replace(host.container, **fields)))
    assert str(caught.value).startswith(words), str(caught.value)


@pytest.mark.parametrize(("word", "state"), [("pause", "paused"), ("stop", "exited"), ("kill", "exited")])
def test_a_container_that_does_not_run_is_told(contained, connected, engine, word, state):
    host = contained("docker")
    engine(word, *(["-t", "0"] if word == "stop" else []), "box")
    with pytest.raises(Unreachable, match=f"the container box does not run: it is {state}"):
        connected(host)
    if word == "pause":
        engine("unpause", "box")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"pod": "nobody"}, 'kubectl: Error from server (NotFound): pods "nobody" not found'),
        ({"namespace": "other"}, 'kubectl: Error from server (NotFound): pods "box" not found'),
        ({"context": "nowhere"}, 'kubectl: error: context "nowhere" does not exist'),
        ({"name": "sidecar"}, "the pod box has no container sidecar; there are: main"),
    ],
)
def test_why_a_pod_cannot_be_entered_is_told(contained, connected, fields, words):
    host = contained("kubectl")
    with pytest.raises(Unreachable) as caught:
        connected(replace(host, container=replace(host.container, **fields)))
    assert str(caught.value).startswith(words), str(caught.value)


@KINDS
def test_no_other_container_of_the_listed_ones_name_is_entered(contained, connected, engine, kind):
    """Mutants: ``container_id`` that is not compared; that must be the whole id."""
    from tests.support import fake_kubectl

    host = contained(kind)
    found = engine("inspect", "--format", "{{.Id}}", "box").strip()
    right = (fake_kubectl.FIRST_UID,) if kind == "kubectl" else (found, found[:12])
    for word in right:
        assert connected(replace(host, container=replace(host.container, id=word))).run(look("true"))[0].exit_code == 0
    with pytest.raises(
        Unreachable, match=f"box has the id {right[0][:13]}, and the inventory says 000000000000: it was"
    ):
        connected(replace(host, container=replace(host.container, id="0" * 12)))


def test_a_pod_with_several_containers_is_entered_by_name_only(contained, connected, engine):
    """Mutant: the first one, as kubectl takes it."""
    from tests.support import fake_kubectl

    host = contained("kubectl")
    engine(
        "run",
        "-d",
        "--name",
        "side",
        *fake_kubectl.labels("box", "aside"),
        "--network",
        "none",
        "base:1",
        "sleep",
        "900",
    )
    try:
        with pytest.raises(Unreachable, match="several containers: name one with `container:`; there are: aside, main"):
            connected(replace(host, container=replace(host.container, name="")))
        assert connected(host).run(look("echo", "here"))[0].stdout == "here\n"
    finally:
        engine("rm", "-f", "side")


def test_an_image_without_a_shell_is_told(contained, connected, engine):
    host = contained("docker")
    engine("exec", "box", "rm", "/bin/sh")
    with pytest.raises(Unreachable, match=r"docker: .*exec.*sh"):
        connected(host)


@pytest.mark.real("sshd", "root")
@KINDS
def test_a_container_behind_an_ssh_host(contained, connected, engine, kind, tmp_path, mark, monkeypatch):
    """The engine is the host's, not this machine's."""
    host = contained(kind)
    places = os.environ.get("RUNBOOK_LOCK_PLACES", "")
    settings = f"SetEnv DOCKER_HOST={engine.host} PATH={os.environ['PATH']} RUNBOOK_LOCK_PLACES={places}"
    monkeypatch.delenv("DOCKER_HOST")
    server = start_sshd(tmp_path / "sshd", extra=settings)
    try:
        connection = connected(replace(host, via=server.host("node")))
        assert connection.run(look("cat", "/etc/passwd"))[0].stdout == "root:x:0:0:root:/root:/bin/sh\n"
        going = threading.Thread(target=lambda: appears(tmp_path / "begun") and server.cut())
        going.start()
        with pytest.raises(ConnectionLost):
            connection.run(change(f"echo >{tmp_path}/begun; sleep 2; echo x >>{tmp_path}/log; : {mark}", timeout=60))
        going.join()
        assert reads(tmp_path / "log", "x\n")
        server.stop()
        with pytest.raises(Unreachable, match="node, which has the container"):
            connected(replace(host, via=server.host("node")))
    finally:
        if server.process.poll() is None:
            server.stop()


@KINDS
def test_a_look_in_a_container_is_ended_there_when_its_time_is_up(contained, connected, kind, mark):
    connection = connected(contained(kind))
    (done,) = connection.run(look("sleep", mark, timeout=1.0))
    assert done.timed_out
    assert gone(mark)


def test_the_machine_itself_is_the_default(contained, connected):
    host = contained("docker")
    assert host.via is None
    assert connected(host).run(look("hostname"))[0].exit_code == 0


@KINDS
@pytest.mark.parametrize("blow", ["restart", "replace"])
def test_a_run_that_connects_again_takes_no_other_container(contained, connected, containers, interrupt, kind, blow):
    """Mutants: a run that does not remember what it has entered; one that remembers it for another host."""
    host, shared = contained(kind), transports.SharedConnections()
    options = ConnectOptions(shared=shared)
    transport = transports.load(host.transport)
    transport.connect(host, options, interrupt).close()
    transport.connect(host, options, interrupt).close()
    engine, start = containers
    if blow == "restart":
        engine("restart", "-t", "0", "box")
    else:
        start("box")
    with pytest.raises(Unreachable, match="the container was started again, or replaced"):
        transport.connect(host, options, interrupt)
    transport.connect(replace(host, name="other"), options, interrupt).close()
    shared.close()
