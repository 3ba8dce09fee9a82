"""An SSH server for lab hosts on machines that have none.

``python -m runbook.lab.ssh_server HOST_KEY AUTHORIZED_KEYS`` runs inside the host's namespaces, accepts the lab's key
for root, and starts each command as sshd does: in a session of its own, by the login shell, its streams ended
by the connection's end and not by a signal.
"""

from __future__ import annotations

import os
import pwd
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from typing import IO

import paramiko
from paramiko.common import AUTH_FAILED, AUTH_SUCCESSFUL, OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED, OPEN_SUCCEEDED

from runbook.lab.gateway import serve

CHUNK = 64 * 1024


class _Door(paramiko.ServerInterface):
    """The rules of admission and of requests."""

    def __init__(self, allowed: frozenset[str]) -> None:
        self._allowed = allowed

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        known = username == "root" and key.get_base64() in self._allowed
        return AUTH_SUCCESSFUL if known else AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return OPEN_SUCCEEDED if kind == "session" else OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        threading.Thread(target=_run, args=(channel, command.decode(errors="surrogateescape")), daemon=True).start()
        return True


def _run(channel: paramiko.Channel, command: str) -> None:
    """Run *command*, and carry its streams."""
    shell = pwd.getpwuid(os.getuid()).pw_shell or "/bin/sh"
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        (shell, "-c", command), stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True, bufsize=0
    )
    assert process.stdin
    assert process.stdout
    assert process.stderr
    threading.Thread(target=_feed, args=(channel, process.stdin), daemon=True).start()
    carriers = [
        threading.Thread(target=_carry, args=(process.stdout, channel.sendall), daemon=True),
        threading.Thread(target=_carry, args=(process.stderr, channel.sendall_stderr), daemon=True),
    ]
    for carrier in carriers:
        carrier.start()
    for carrier in carriers:
        carrier.join()
    code = process.wait()
    with suppress(OSError, EOFError, paramiko.SSHException):
        channel.send_exit_status(code if code >= 0 else 128 - code)
        channel.close()


def _feed(channel: paramiko.Channel, stdin: IO[bytes]) -> None:
    with suppress(OSError), stdin:
        while data := channel.recv(CHUNK):
            stdin.write(data)


def _carry(stream: IO[bytes], send: object) -> None:
    with suppress(OSError, EOFError, paramiko.SSHException), stream:
        while data := os.read(stream.fileno(), CHUNK):
            assert callable(send)
            send(data)


def _serve(client: socket.socket, key: paramiko.PKey, allowed: frozenset[str]) -> None:
    transport = paramiko.Transport(client)
    transport.add_server_key(key)
    with suppress(paramiko.SSHException, EOFError, OSError):
        transport.start_server(server=_Door(allowed))


def main() -> None:
    """Serve until somebody ends us."""
    host_key, authorized = sys.argv[1:3]
    key = paramiko.ECDSAKey.from_private_key_file(host_key)
    with open(authorized, encoding="utf-8") as file:
        allowed = frozenset(line.split()[1] for line in file if line.strip())
    os.environ["PATH"] = "/run/lab/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

    def begin(client: socket.socket) -> None:
        threading.Thread(target=_serve, args=(client, key, allowed), daemon=True).start()

    serve(begin)


def make_key(path: str) -> None:
    """Write a new private key to *path*, and its public half beside it."""
    key = paramiko.ECDSAKey.generate()
    key.write_private_key_file(path)
    with open(f"{path}.pub", "w", encoding="utf-8") as file:
        file.write(f"{key.get_name()} {key.get_base64()} runbook lab\n")


if __name__ == "__main__":
    main()
