"""Who we say we are: keys in files and in an agent; and who leads to a host."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from runbook.connections.transports import ssh
from runbook.connections.transports.ssh import host_key_check, private_keys
from runbook.connections.transports.ssh.bounded_transport import BoundedTransport
from runbook.connections.transports.ssh.private_keys import Agent
from runbook.values.inventory import Address, Host, HostKeys
from tests.support.real_processes import gone, shows_up
from tests.support.sshd import free_port, make_key, start_sshd
from tests.support.tables import every_row
from tests.support.waiting import appears, soon
from tests.transports.client_process import killed, started
from tests.transports.commands import change, look
from tests.transports.ssh_login import admitted, connected, refusal

pytestmark = pytest.mark.real("sshd", "root")


@pytest.fixture
def agent(home, tmp_path, monkeypatch):
    """A real ssh-agent, and a way to hand it keys."""
    sock = tmp_path / "agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(sock)], stdout=subprocess.DEVNULL)
    assert appears(sock)
    monkeypatch.setenv("SSH_AUTH_SOCK", str(sock))

    def add(key: Path, passphrase: str = "") -> None:
        asks = tmp_path / "asks"
        asks.write_text(f"#!/bin/sh\necho '{passphrase}'\n")
        asks.chmod(0o700)
        env = {**os.environ, "SSH_ASKPASS": str(asks), "SSH_ASKPASS_REQUIRE": "force"}
        subprocess.run(["ssh-add", "-q", str(key)], check=True, env=env, stdin=subprocess.DEVNULL)

    yield add
    process.terminate()
    process.wait()


def says_in(connection) -> None:
    assert connection.run(look("echo", "in"))[0].stdout == "in\n"
    connection.close()


def test_a_key_that_only_the_agent_can_open_lets_us_in(agent, sshd, interrupt, tmp_path):
    locked = make_key(tmp_path / "locked", passphrase="secret words")
    admitted(sshd, locked)
    agent(locked, "secret words")
    says_in(connected(sshd.host(key=str(locked)), interrupt))
    assert ssh.locked([sshd.host(key=str(locked))]) == ()
    says_in(connected(sshd.host(key=""), interrupt))


def test_an_agent_full_of_keys_does_not_use_up_the_tries_of_the_one_that_is_named(agent, sshd, interrupt, tmp_path):
    for number in range(8):
        agent(make_key(tmp_path / f"other{number}"))
    says_in(connected(sshd.host(), interrupt))
    locked = make_key(tmp_path / "locked", kind="rsa", passphrase="secret words")
    admitted(sshd, locked)
    agent(locked, "secret words")
    says_in(connected(sshd.host(key=str(locked)), interrupt))
    assert "login as root was refused" in refusal(sshd.host(key=""), interrupt)


@pytest.fixture
def mute(home, tmp_path, monkeypatch):
    """An agent that takes connections and never answers; what it was asked."""
    sock, asked, over = tmp_path / "mute", [], threading.Event()
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(sock))
    server.listen(8)
    monkeypatch.setenv("SSH_AUTH_SOCK", str(sock))

    def serve() -> None:
        with suppress(OSError):
            while True:
                asked.append(server.accept()[0])

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield asked
    over.set()
    server.shutdown(socket.SHUT_RDWR)
    server.close()
    thread.join()
    for each in asked:
        each.close()


def test_an_agent_that_does_not_answer_is_not_asked_where_a_key_needs_none(mute, sshd, interrupt, tmp_path):
    """Mutant: ``authenticate`` or ``locked`` that asks first."""
    key = make_key(tmp_path / "key")
    admitted(sshd, key)
    says_in(connected(sshd.host(key=str(key)), interrupt))
    assert ssh.locked([sshd.host(key=str(key))]) == ()
    assert mute == []


def test_an_agent_that_does_not_answer_is_named_and_is_not_waited_for(mute, sshd, interrupt, tmp_path):
    """Mutants: ``Agent`` without a limit (then this never ends); one whose fault is not said."""
    says = f"the agent at SSH_AUTH_SOCK ({os.environ['SSH_AUTH_SOCK']}) does not answer within 1 s"
    text = refusal(sshd.host(key=""), interrupt, connect_timeout=1)
    assert f"login as root was refused (no key was offered: {says})" in text
    assert len(mute) == 1
    text = refusal(sshd.host(key=str(make_key(tmp_path / "stranger"))), interrupt, connect_timeout=1)
    assert f"was refused ({says})" in text
    text = refusal(
        sshd.host(key=str(make_key(tmp_path / "locked", passphrase="secret words"))), interrupt, connect_timeout=1
    )
    assert "no agent holds it" in text
    assert says in text


def test_an_agent_that_is_gone_is_named(home, sshd, interrupt, tmp_path, monkeypatch):
    """Mutant: ``Agent.held`` that passes over what the connection to it says."""
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "gone"))
    text = refusal(sshd.host(key=""), interrupt)
    says = f"the agent at SSH_AUTH_SOCK ({tmp_path}/gone) does not answer (no such file or directory)"
    assert f"(no key was offered: {says})" in text
    monkeypatch.delenv("SSH_AUTH_SOCK")
    assert "agent" not in refusal(sshd.host(key=""), interrupt)


def test_an_agent_that_hangs_before_it_signs_is_named(agent, sshd, interrupt, tmp_path, monkeypatch):
    """Mutants: ``Agent`` whose limit ends with the list of its keys; ``_offer_all`` that blames the host."""
    key = make_key(tmp_path / "key")
    admitted(sshd, key)
    agent(key)
    real = Agent._send_message

    def hanging(self, msg):
        if len(bytes(msg)) > 1:  # no question for the list
            self._conn.close()
            self._conn, other = socket.socketpair()
            self._conn.settimeout(self._within)
            theirs.append(other)
        return real(self, msg)

    theirs = []
    monkeypatch.setattr(Agent, "_send_message", hanging)
    text = refusal(sshd.host(key=""), interrupt, connect_timeout=1)
    for other in theirs:
        other.close()
    assert "login as root was refused (the agent at SSH_AUTH_SOCK" in text
    assert "does not answer within 1 s" in text


@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
def test_an_encrypted_key_wants_its_passphrase_and_takes_it_from_the_options(kind, home, sshd, interrupt, tmp_path):
    locked = make_key(tmp_path / "locked", kind=kind, passphrase="secret words")
    admitted(sshd, locked)
    host = sshd.host(key=str(locked))
    assert ssh.locked([host, sshd.host()]) == (str(locked),)
    text = refusal(host, interrupt)
    assert f"the key {locked} is encrypted, and no agent holds it (ssh-add {locked})" in text
    says_in(connected(host, interrupt, passphrases={str(locked): "secret words"}))
    text = refusal(host, interrupt, passphrases={str(locked): "wrong words"})
    assert f"the passphrase given for {locked} does not open it" in text
    assert "wrong words" not in text


def test_a_key_is_opened_once_for_all_hosts_and_anew_when_its_file_changes(tmp_path):
    path = make_key(tmp_path / "locked", passphrase="secret words")
    first = private_keys._loaded(str(path), "secret words")
    assert private_keys._loaded(str(path), "secret words") is first
    with pytest.raises(private_keys._Locked):
        private_keys._loaded(str(path), "other words")
    path.write_bytes(make_key(tmp_path / "other", passphrase="secret words").read_bytes())
    assert private_keys._loaded(str(path), "secret words").asbytes() != first.asbytes()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("ssh-ed25519 AAAA nobody", "holds no private key in a format that is known"),
        ("PuTTY-User-Key-File-3: ssh-ed25519", "holds no private key in a format that is known"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n", "holds no private key"),
        ("", "holds no private key"),
        (None, "no such file or directory"),
    ],
)
def test_a_file_that_is_no_key_is_named_and_so_is_one_that_is_not_there(
    content, words, home, sshd, interrupt, tmp_path
):
    key = tmp_path / "key"
    if content is not None:
        key.write_text(content)
    text = refusal(sshd.host(key=str(key)), interrupt)
    assert text.startswith(f"{sshd.address}:{sshd.port}: login as root with {key} was refused ({key}")
    assert words in text


def test_a_wrong_user_and_a_key_that_ssh_config_names(home, sshd, interrupt):
    assert "login as nobody-here" in refusal(sshd.host(user="nobody-here"), interrupt)
    (home / ".ssh" / "config").write_text(
        f"Host gpu-x\n HostName {sshd.address}\n Port {sshd.port}\n User root\n IdentityFile {sshd.key}\n"
    )
    host = Host(name="gpu-x", host_keys=HostKeys.IGNORE)
    says_in(connected(host, interrupt))


def test_a_broken_ssh_config_is_said_and_breaks_nothing_else(home, sshd, interrupt):
    (home / ".ssh" / "config").write_text("Host x\n Nonsense\n")
    assert "your ssh_config cannot be read" in refusal(sshd.host(), interrupt)


def cipher(monkeypatch, host, interrupt) -> str:
    """The cipher of a new connection to *host*."""
    made: list[BoundedTransport] = []

    class Kept(BoundedTransport):
        def __init__(self, *args, **keys):
            super().__init__(*args, **keys)
            made.append(self)

    monkeypatch.setattr(host_key_check, "BoundedTransport", Kept)
    says_in(connected(host, interrupt))
    return made[-1].remote_cipher


@every_row(
    ("written", "used"),
    [
        ("", "aes128-gcm@openssh.com"),
        ("aes256-ctr,aes128-gcm@openssh.com", "aes256-ctr"),
        ("-*gcm*", "aes128-ctr"),
        ("^aes192-ctr", "aes192-ctr"),
        ("+3des-cbc", "aes128-gcm@openssh.com"),
    ],
)
def test_a_cipher_that_checks_itself_comes_first_unless_ssh_config_chooses(
    written, used, home, sshd, interrupt, monkeypatch
):
    """Mutants: ``_preferred_ciphers`` as paramiko has them; ``chosen`` without a sign; in the order of those known."""
    (home / ".ssh" / "config").write_text(f"Host *\n Ciphers {written}\n" if written else "")
    assert cipher(monkeypatch, sshd.host(), interrupt) == used


def test_ciphers_that_nobody_has_are_said(home, sshd, interrupt):
    (home / ".ssh" / "config").write_text("Host *\n Ciphers chacha20-poly1305@openssh.com\n")
    assert "Ciphers of your ssh_config names none of aes128-gcm@openssh.com" in refusal(sshd.host(), interrupt)


@pytest.fixture
def jump(tmp_path, sshd):
    server = start_sshd(tmp_path / "jump", "127.0.0.2", key=sshd.key)
    yield server
    server.stop()


@pytest.fixture(params=["ssh_config", "inventory"])
def behind(request, jump, sshd, home):
    """A host that is reached by *jump*, named in either place."""
    far = {"host_keys": HostKeys.IGNORE}
    if request.param == "inventory":
        return sshd.host("far", via=jump.host("gate", host_keys=HostKeys.ACCEPT_NEW), **far)
    (home / ".ssh" / "config").write_text(
        f"Host far\n HostName {sshd.address}\n ProxyJump root@127.0.0.2:{jump.port}\n"
        f"Host 127.0.0.2\n IdentityFile {sshd.key}\n"
    )
    return sshd.host("far", addresses=(Address(host="far", port=sshd.port),), **far)


def known(home: Path) -> Path:
    return home / ".config" / "runbook" / "known_hosts"


def test_a_jump_host_is_gone_through_its_key_kept_and_nothing_of_it_stays(behind, jump, home, interrupt):
    connection = connected(behind, interrupt)
    assert len(jump.sessions()) == 1
    assert connection.run(change("echo in"))[0].stdout == "in\n"
    assert [it.split()[0] for it in known(home).read_text().splitlines()] == [f"[127.0.0.2]:{jump.port}"]
    connection.close()
    assert soon(lambda: not jump.sessions())
    connected(behind, interrupt, strict_host_keys=True).close()


def test_a_jump_host_with_another_key_than_before_leads_nowhere(behind, jump, home, interrupt):
    known(home).parent.mkdir(parents=True)
    other = make_key(home / "other").with_suffix(".pub").read_text().split()
    known(home).write_text(f"[127.0.0.2]:{jump.port} {other[0]} {other[1]}\n")
    text = refusal(behind, interrupt)
    assert "via the gateway" in text
    assert "its host key has changed" in text
    known(home).write_text("")
    assert "its host key is not known" in refusal(behind, interrupt, strict_host_keys=True)
    assert soon(lambda: not jump.sessions())


def test_what_a_jump_host_cannot_reach_and_a_jump_host_that_is_not_there_are_told_apart(behind, jump, sshd, interrupt):
    nobody = Address(host="127.0.0.9", port=free_port("127.0.0.9"))
    away = Host(name="far", addresses=(nobody,), user="root", key=str(sshd.key), via=jump.host("gate"))
    assert "the gateway gate cannot connect to the host: connection refused" in refusal(away, interrupt)
    gone_gate = jump.host("gate", addresses=(nobody,))
    text = refusal(Host(name="far", addresses=(Address(host="127.0.0.8"),), via=gone_gate), interrupt)
    assert "via the gateway gate: 127.0.0.9" in text
    assert "connection refused" in text


def test_kill_9_of_our_side_ends_what_runs_behind_a_jump_host(home, jump, sshd, tmp_path, mark):
    (home / ".ssh" / "config").write_text(
        f"Host far\n HostName {sshd.address}\n ProxyJump root@127.0.0.2:{jump.port}\n"
        f"Host 127.0.0.2\n IdentityFile {sshd.key}\n"
    )
    far = sshd.host("far", addresses=(Address(host="far", port=sshd.port),))
    process = started(far, "read", f"trap '' TERM; echo > {tmp_path}/begun; sleep {mark}; sleep {mark}", 60)
    assert appears(tmp_path / "begun")
    assert shows_up(mark)
    killed(process)
    assert gone(mark)
    assert soon(lambda: not jump.sessions())


def test_a_proxy_command_survives_ctrl_c_and_goes_when_the_line_does(home, sshd, interrupt, tmp_path):
    relay = tmp_path / "relay"
    relay.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec ssh -i {sshd.key} -p {sshd.port} -o BatchMode=yes"
                     f" -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -W \"$1\" root@{sshd.address}\n")  # fmt: skip
    relay.chmod(0o700)
    (home / ".ssh" / "config").write_text(f"Host far\n ProxyCommand {relay} {sshd.address}:%p 2>/dev/null | cat\n")
    connection = connected(sshd.host("far", addresses=(Address(host="far", port=sshd.port),)), interrupt)
    assert connection.run(look("echo", "in"))[0].stdout == "in\n"
    pid = int((tmp_path / "pid").read_text())
    assert os.getsid(pid) != os.getsid(0)
    connection.close()
    assert soon(lambda: not Path(f"/proc/{pid}/cmdline").exists())
