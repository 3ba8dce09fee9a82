"""Hosts behind one gateway share one connection to it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time

import pytest

from runbook.connections.transports.ssh import gateway_connection, gateways, keepalive
from runbook.errors import ConnectionLost, Unreachable
from runbook.values.inventory import Address, HostKeys
from tests.support.sshd import free_port, make_key, start_sshd
from tests.support.waiting import soon
from tests.transports.commands import look
from tests.transports.gateway_hosts import at, behind, logins, reach, relay
from tests.transports.interrupts import pressing
from tests.transports.short_gateway import ShortGateway

pytestmark = pytest.mark.real("sshd", "root")


@pytest.fixture(scope="module")
def sshd(tmp_path_factory):
    """The hosts behind the gateways; root's shell reads no .bashrc there, which may take seconds."""
    settings = f"SetEnv HOME=/var/empty RUNBOOK_LOCK_PLACES={os.environ['RUNBOOK_LOCK_PLACES']}"
    server = start_sshd(tmp_path_factory.mktemp("target"), extra=settings)
    yield server
    server.stop()


@pytest.fixture
def gateway(tmp_path, sshd):
    """Starts sshds that lead to others, with further lines of configuration."""
    made = []

    def start(extra: str = "", **keys):
        made.append(
            start_sshd(tmp_path / f"gateway{len(made)}", f"127.0.0.{len(made) + 2}", key=sshd.key, extra=extra, **keys)
        )
        return made[-1]

    yield start
    for it in made:
        with contextlib.suppress(ProcessLookupError):
            it.stop()


@pytest.fixture
def listener():
    """Starts what accepts connections and does with each what it is told; counts them."""
    made = []

    def start(serve):
        server = socket.create_server(("127.0.0.1", 0))
        seen: list[socket.socket] = []
        made.append(server)

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    seen.append(server.accept()[0])
                    made.append(seen[-1])
                    threading.Thread(target=serve, args=(seen[-1], len(seen)), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        return server.getsockname()[1], seen

    yield start
    made[0].shutdown(socket.SHUT_RDWR)
    for it in made:
        it.close()


NAMES = [f"far-{it}" for it in range(1, 61)]


@pytest.mark.slow
def test_sixty_hosts_get_through_a_gateway_that_takes_few_logins_and_one_session(gateway, sshd, interrupt):
    """Mutants: a connection for each host; channels counted as sessions; connections left open at the end."""
    gate = gateway("MaxStartups 3:100:3\nMaxSessions 1")
    run = reach(interrupt)
    assert run.all_said(behind(gate.host("gate"), sshd, 60)) == NAMES
    assert logins(gate) == 1
    assert len(gate.sessions()) == 1
    run.shared.close()
    assert soon(lambda: not gate.sessions())


def test_the_run_s_end_hangs_up_and_opens_nothing_more(gateway, sshd, interrupt):
    """Mutants: close() forgets the connections, or lets new ones be made."""
    gate = gateway()
    run = reach(interrupt)
    (host,) = behind(gate.host("gate"), sshd)
    assert run.said(host) == "far-1"
    assert len(gate.sessions()) == 1
    run.shared.close()
    assert soon(lambda: not gate.sessions())
    with pytest.raises(Unreachable, match="the run ended"):
        run.connected(host)
    assert soon(lambda: not gate.sessions())


def test_ssh_config_s_gateways_are_shared_too_and_a_chain_shares_what_stands_before(gateway, sshd, home, interrupt):
    """Mutants: a key without the gateway before; hops of ssh_config not shared; gone through in the other order."""
    there = f"{sshd.address}:{sshd.port}"
    second = gateway(f"PermitOpen {there}")
    first = gateway(f"PermitOpen {there} {second.address}:{second.port}")
    (home / ".ssh" / "config").write_text(
        f"Host far-1 far-2\n HostName {sshd.address}\n ProxyJump root@{first.address}:{first.port}\n"
        f"Host far-3 far-4\n HostName {sshd.address}\n"
        f" ProxyJump root@{first.address}:{first.port},root@{second.address}:{second.port}\n"
        f"Host 127.0.0.*\n IdentityFile {sshd.key}\n"
    )
    hosts = [sshd.host(f"far-{it}", addresses=(Address(host=f"far-{it}", port=sshd.port),)) for it in range(1, 5)]
    run = reach(interrupt)
    assert run.all_said(hosts, parallel=4) == NAMES[:4]
    assert (logins(first), logins(second)) == (1, 1)
    run.shared.close()
    assert soon(lambda: not first.sessions() and not second.sessions())


def test_a_chain_of_the_inventory_shares_what_stands_before_and_names_what_was_lost(gateway, sshd, interrupt):
    """Mutants: a gateway behind another one opens its own connection to it; the last gateway blamed for the first."""
    first, second = gateway(), gateway()
    one = first.host("one")
    two = second.host("two", via=one)
    run = reach(interrupt)
    hosts = [*behind(one, sshd, 2), *behind(two, sshd, 2)]
    assert run.all_said(hosts) == [*NAMES[:2], *NAMES[:2]]
    assert (logins(first), logins(second)) == (1, 1)
    assert run.said(behind(second.host("two"), sshd)[0]) == "far-1"
    assert (logins(first), logins(second)) == (1, 2)
    connection = run.connected(hosts[-1])
    first.cut()
    with pytest.raises(ConnectionLost, match=r"^the connection to the gateway one was lost: "):
        connection.run(look("echo", "in"))
    connection.close()
    run.shared.close()


def test_another_port_another_user_and_another_gateway_are_connections_of_their_own(gateway, sshd, account, interrupt):
    """Mutants: a key without the address, the port or the user."""
    port = free_port("127.0.0.2")
    one, other = gateway(f"Port {port}"), gateway()
    name = account()
    gates = [
        one.host("gate"),
        one.host("gate", addresses=(Address(host=one.address, port=port),)),
        one.host("gate", user=name),
        other.host("gate"),
    ]
    run = reach(interrupt)
    assert run.all_said([host for gate in gates for host in behind(gate, sshd, 2)]) == NAMES[:2] * 4
    assert (logins(one), logins(other)) == (3, 1)
    run.shared.close()


def test_a_gateway_that_cannot_be_connected_to_is_tried_once_and_said_alike(sshd, listener, interrupt):
    """Mutants: each host tries by itself; the reason begins with the host's own address."""
    port, seen = listener(lambda client, number: None)
    hosts = [
        *behind(at(sshd.host("gate"), port), sshd, 4),
        *behind(at(sshd.host("gate"), port), sshd, 4, addresses=(Address(host="127.0.0.8"), Address(host="127.0.0.9"))),
    ]
    said = reach(interrupt, connect_timeout=2).all_said(hosts)
    assert set(said) == {f"via the gateway gate: 127.0.0.1:{port}: it accepts connections but sends no SSH banner"}
    assert len(seen) == 1


def test_a_failed_attempt_is_the_answer_for_a_short_time_only(gateway, sshd, interrupt, monkeypatch):
    """Mutants: the failure kept for the whole run; not kept at all."""
    gate = gateway()
    gate.process.terminate()
    gate.process.wait()
    monkeypatch.setattr(gateways, "FAILED_FOR", 600.0)
    run = reach(interrupt)
    (host,) = behind(gate.host("gate"), sshd)
    refused = f"via the gateway gate: 127.0.0.2:{gate.port}: connection refused"
    assert run.said(host) == refused
    again = start_sshd(gate.folder, gate.address, gate.port, key=sshd.key)
    assert run.said(host) == refused
    monkeypatch.setattr(gateways, "FAILED_FOR", 0.0)
    assert run.said(host) == "far-1"
    run.shared.close()
    again.stop()


def test_a_gateway_that_drops_logins_is_tried_again(gateway, sshd, listener, interrupt):
    """As sshd does beyond its MaxStartups.  Mutants: no second attempt; a refused login tried again, too."""
    gate = gateway()

    def serve(client: socket.socket, number: int) -> None:
        if number < 3:
            client.sendall(b"Exceeded MaxStartups\r\n" if number == 1 else b"")
            client.close()
            return
        with socket.create_connection((gate.address, gate.port)) as there:
            threading.Thread(target=relay, args=(there, client), daemon=True).start()
            relay(client, there)

    port, seen = listener(serve)
    run = reach(interrupt)
    assert run.all_said(behind(at(gate.host("gate"), port), sshd, 3)) == NAMES[:3]
    assert len(seen) == 3
    said = run.all_said(behind(gate.host("gate", user="nobody-here"), sshd, 3))
    assert len(set(said)) == 1
    assert said[0].startswith("via the gateway gate: login as nobody-here")
    run.shared.close()
    assert (gate.folder / "log").read_text().count("Invalid user nobody-here") == 1


def test_a_changed_key_of_the_gateway_is_told_in_the_same_words_for_every_host(gateway, sshd, home, interrupt):
    """Mutants: the key of a gateway is not checked; each host asks for itself."""
    gate = gateway()
    known = home / ".config" / "runbook" / "known_hosts"
    known.parent.mkdir(parents=True)
    other = make_key(home / "other").with_suffix(".pub").read_text().split()
    known.write_text(f"[127.0.0.2]:{gate.port} {other[0]} {other[1]}\n")
    run = reach(interrupt)
    said = run.all_said(behind(gate.host("gate", host_keys=HostKeys.ACCEPT_NEW), sshd, 4))
    assert len(set(said)) == 1
    assert said[0].startswith("via the gateway gate: its host key has changed: expected SHA256:")
    assert logins(gate) == 0
    run.shared.close()


def test_a_gateway_that_forwards_nothing_says_so_and_so_does_one_that_finds_nobody(gateway, sshd, interrupt):
    """Mutants: the reason of another host's channel; the gateway's words left out."""
    closed = gateway("AllowTcpForwarding no")
    run = reach(interrupt)
    (host,) = behind(closed.host("gate"), sshd)
    assert run.said(host) == (
        f"{sshd.address}:{sshd.port}: the gateway gate refuses to connect to the host: administratively prohibited: "
        "open failed (its AllowTcpForwarding or PermitOpen may forbid it)"
    )
    nobody, never = (Address(host=sshd.address, port=free_port()) for _ in range(2))
    picky = gateway(f"PermitOpen {nobody}").host("picky")
    far = [behind(picky, sshd, 1, addresses=(it,))[0] for it in (nobody, never)]
    said = run.all_said(far * 40, parallel=16)
    assert all("connection refused" in it for it in said[::2])
    assert all("administratively prohibited" in it for it in said[1::2])
    gate = gateway().host("gate")
    away = behind(gate, sshd, 1, addresses=(nobody, Address(host="no-such-name.invalid")))[0]
    assert run.said(away).startswith(
        f"{nobody}: the gateway gate cannot connect to the host: connection refused; no-such-name.invalid: the gateway"
    )
    run.shared.close()


def test_a_gateway_that_gives_few_channels_gets_a_second_connection(sshd, interrupt):
    """Mutants: no second connection; one for each refusal."""
    gate = ShortGateway(str(sshd.key), most=3)
    run = reach(interrupt)
    kept = [run.connected(it) for it in behind(gate.host(str(sshd.key)), sshd, 5)]
    assert [it.run(look("echo", "in"))[0].stdout for it in kept] == ["in\n"] * 5
    assert gate.connections == 2
    for it in kept:
        it.close()
    run.shared.close()
    gate.stop()


@pytest.mark.soak
def test_a_shortage_that_passes_is_waited_for_and_one_that_stays_is_said(sshd, interrupt):
    """Mutants: a shortage not tried again; tried again for ever."""
    gate = ShortGateway(str(sshd.key), refused=2)
    run = reach(interrupt)
    (host,) = behind(gate.host(str(sshd.key)), sshd)
    assert run.said(host) == "far-1"
    assert (gate.connections, gate.refusals) == (1, 2)
    gate.refused = 1000
    said = reach(interrupt, connect_timeout=10).said(host)
    assert said.endswith("the gateway short refuses to connect to the host: resource shortage")
    run.shared.close()
    gate.stop()


@pytest.mark.soak
def test_an_answer_that_comes_too_late_leaves_nothing_open(sshd, interrupt):
    """Mutants: a channel that is opened after all stays open."""
    gate = ShortGateway(str(sshd.key), mute=True)
    run = reach(interrupt, connect_timeout=10)
    (host,) = behind(gate.host(str(sshd.key)), sshd)
    assert run.said(host) == f"{sshd.address}:{sshd.port}: no answer in time through the gateway short"
    (transport,) = gate.open
    gate.answers.set()
    assert soon(lambda: gate.given == 1)
    assert soon(lambda: gate.open[transport] == 0)
    run.shared.close()
    gate.stop()


def test_a_gateway_that_dies_is_named_alike_by_all_and_the_next_host_gets_a_new_connection(gateway, sshd, interrupt):
    """Mutants: the host named instead of the gateway; a dead connection used again."""
    gate = gateway()
    run = reach(interrupt)
    hosts = behind(gate.host("gate"), sshd, 4)
    kept = [run.connected(it) for it in hosts]
    for it in kept:
        it.run(look("true"))
    gate.cut()
    said = set()
    for it in kept:
        with pytest.raises(ConnectionLost) as caught:
            it.run(look("echo", "in"))
        said.add(str(caught.value))
        it.close()
    assert len(said) == 1
    assert said.pop().startswith("the connection to the gateway gate was lost: ")
    assert run.all_said(hosts) == NAMES[:4]
    assert logins(gate) == 2
    run.shared.close()


def test_a_host_that_dies_is_not_blamed_on_its_gateway(gateway, sshd, tmp_path, interrupt):
    """Mutants: every lost connection is the gateway's."""
    target = start_sshd(tmp_path / "target", "127.0.0.9", key=sshd.key)
    run = reach(interrupt)
    (host,) = behind(gateway().host("gate"), target)
    connection = run.connected(host)
    connection.run(look("true"))
    target.cut()
    with pytest.raises(ConnectionLost, match="the connection to the host was lost"):
        connection.run(look("echo", "in"))
    connection.close()
    run.shared.close()
    target.stop()


@pytest.mark.parametrize("noticed_by", ["the gateway's watch", pytest.param("a host's watch", marks=pytest.mark.soak)])
def test_a_gateway_that_falls_silent_is_named_and_not_the_hosts_behind_it(
    noticed_by, gateway, sshd, interrupt, monkeypatch
):
    """Mutants: the host's own silence is what ends the connection."""
    if noticed_by == "a host's watch":
        monkeypatch.setattr(gateway_connection, "watch", lambda *_: None)
    gate = gateway()
    monkeypatch.setattr(keepalive, "UNANSWERED", 1)
    run = reach(interrupt, keepalive=5)
    kept = [run.connected(it) for it in behind(gate.host("gate"), sshd, 3)]
    for it in kept:
        it.run(look("true"))
    (child,) = gate.sessions()
    os.kill(child, signal.SIGSTOP)
    try:
        for it in kept:
            with pytest.raises(
                ConnectionLost, match=r"^the connection to the gateway gate was lost: no answer for 5 s$"
            ):
                it.run(look("sleep", "250", timeout=250))
    finally:
        os.kill(child, signal.SIGCONT)
    for it in kept:
        it.close()
    run.shared.close()


def test_cancelling_does_not_wait_for_a_gateway(sshd, listener, interrupt, tmp_path):
    """Mutants: the hosts wait for the attempt to end."""
    port, seen = listener(lambda client, number: (tmp_path / "connected").write_text(""))
    run = reach(interrupt, connect_timeout=250)
    pressing(interrupt, 1, tmp_path / "connected")
    began = time.monotonic()
    said = run.all_said(behind(at(sshd.host("gate"), port), sshd, 4))
    run.shared.close()
    assert time.monotonic() - began < 60
    assert all("asked to" in it for it in said)
    assert len(seen) == 1


def test_keys_are_exchanged_anew_on_a_shared_connection_without_harm(gateway, sshd, interrupt):
    """A gateway that wants new keys after each 64 KiB."""
    run = reach(interrupt)
    kept = [run.connected(it) for it in behind(gateway("RekeyLimit 64K").host("gate"), sshd, 3)]
    for it in kept * 2:
        (done,) = it.run(look("head", "-c", "300000", "/dev/zero", timeout=60))
        assert len(done.stdout) == 300000
    for it in kept:
        it.close()
    run.shared.close()
