"""Servers that stop answering while a login is under way: nothing was refused, so that the next address is tried."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager

import paramiko
import pytest

from runbook.errors import Unreachable
from runbook.values.inventory import Address
from tests.transports.commands import look
from tests.transports.ssh_login import connected, refusal

pytestmark = pytest.mark.real("sshd", "root")


class Hanging(paramiko.ServerInterface):
    """A server that never says whether somebody may log in."""

    def __init__(self, over: threading.Event) -> None:
        self._over = over

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        self._over.wait(120)
        return paramiko.AUTH_FAILED


def in_login(connection: socket.socket, over: threading.Event) -> None:
    transport = paramiko.Transport(connection)
    transport.add_server_key(paramiko.ECDSAKey.generate())
    transport.start_server(server=Hanging(over))
    over.wait(120)
    transport.close()


def after_identification(connection: socket.socket, over: threading.Event) -> None:
    connection.sendall(b"SSH-2.0-OpenSSH_9.9\r\n")
    over.wait(120)


def before_identification(connection: socket.socket, over: threading.Event) -> None:
    over.wait(120)


STAGES = {
    in_login: "the server does not answer whether root may log in",
    after_identification: "does not come to the end of the SSH handshake in time",
    before_identification: "sends no SSH banner",
}


@contextmanager
def serving(stage):
    over = threading.Event()

    def one() -> None:
        try:
            connection, _ = listener.accept()
            with connection:
                stage(connection, over)
        except (OSError, EOFError, paramiko.SSHException):
            return

    with socket.create_server(("127.0.9.1", 0)) as listener:
        thread = threading.Thread(target=one, daemon=True)
        thread.start()
        yield Address(host="127.0.9.1", port=listener.getsockname()[1])
        over.set()
    thread.join(60)


@pytest.mark.parametrize("stage", STAGES)
def test_the_next_address_is_tried(stage, sshd, interrupt):
    """Mutants: private_keys.py goes on to the next key after a time-out; error_translation.py makes it Unreachable."""
    good = Address(host=sshd.address, port=sshd.port)
    for limit in (1, 20):  # a slow machine may need the second for the good one, too
        with serving(stage) as there:
            try:
                connection = connected(sshd.host(addresses=(there, good)), interrupt, connect_timeout=limit)
            except Unreachable as no:
                assert str(good) in str(no), "the second one was tried"
                assert limit == 1, no
                continue
            assert connection.run(look("echo", "in"))[0].stdout == "in\n"
            connection.close()
            return


@pytest.mark.parametrize("stage", STAGES)
def test_what_hangs_is_said_and_is_no_refusal(stage, sshd, interrupt):
    with serving(stage) as there:
        text = refusal(sshd.host(addresses=(there,)), interrupt, connect_timeout=1)
    assert STAGES[stage] in text
    assert "refused" not in text


def test_a_refused_login_still_ends_the_search(sshd, interrupt):
    there = Address(host=sshd.address, port=sshd.port)
    text = refusal(sshd.host(user="nobody-here", addresses=(there, there)), interrupt)
    assert text.count("was refused") == 1
