"""Getting in: addresses, keys, and what a login that fails says; by mock-ssh-server, and by sshd."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import paramiko
import pytest

from runbook.values.inventory import Address
from tests.support.sshd import free_port
from tests.transports.commands import look, script
from tests.transports.ssh_login import connected, refusal


def other_key(path: Path, passphrase: str | None = None) -> str:
    """A key that opens no door."""
    paramiko.RSAKey.generate(2048).write_private_key_file(str(path), password=passphrase)
    return str(path)


def test_a_key_lets_us_in_to_run_commands(door, interrupt):
    connection = connected(door(), interrupt)
    (done,) = connection.run(script("cat; echo aside >&2; exit 5", stdin="by standard input"))
    assert (done.exit_code, done.stdout, done.stderr) == (5, "by standard input", "aside\n")
    connection.close()


def test_the_next_address_is_tried_when_one_does_not_answer(door, interrupt, monkeypatch):
    asked = socket.getaddrinfo

    def resolved(name, *args, **keys):
        if str(name).endswith(".invalid"):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return asked(name, *args, **keys)

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    nobody = Address(host="127.0.0.9", port=free_port("127.0.0.9"))
    connection = connected(door(addresses=(nobody, *door().addresses)), interrupt)
    assert connection.run(look("echo", "in"))[0].stdout == "in\n"
    connection.close()
    text = refusal(door(addresses=(nobody, Address(host="no-such-host.invalid"))), interrupt)
    assert f"{nobody}: connection refused" in text
    assert "no-such-host.invalid: the name cannot be resolved" in text


def test_a_refused_key_is_final_and_says_who(door, interrupt, tmp_path):
    twice = door().addresses * 2
    host = door(addresses=twice, key=other_key(tmp_path / "other"))
    assert refusal(host, interrupt).count(f"login as {host.user}") == 1


def test_an_encrypted_key_without_an_agent_is_named(door, interrupt, tmp_path, monkeypatch):
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    assert "is encrypted" in refusal(door(key=other_key(tmp_path / "locked", "secret words")), interrupt)


def test_a_server_without_a_banner_costs_one_connect_timeout(door, interrupt):
    with socket.create_server(("127.0.0.1", 0)) as mute:
        taken: list = []
        threading.Thread(target=lambda: taken.append(mute.accept()), daemon=True).start()
        port = mute.getsockname()[1]
        text = refusal(door(addresses=(Address(host="127.0.0.1", port=port),)), interrupt, connect_timeout=2)
        assert "banner" in text
        mute.setblocking(False)
        with pytest.raises(BlockingIOError):  # nobody has come a second time
            mute.accept()
        for line, _ in taken:
            line.close()
