"""Run commands on this machine, with the same sessions as over SSH."""

from __future__ import annotations

import os
import select
import subprocess

from runbook.connections.sessions.channel import Opener
from runbook.connections.sessions.connection import SessionConnection
from runbook.errors import ConnectionLost
from runbook.protocols import Connection, ConnectOptions, Interrupt
from runbook.values.inventory import Host

CHUNK = 256 * 1024


class _Process:
    """A shell in its own session, as sshd would start it."""

    def __init__(self, line: str) -> None:
        self._process = subprocess.Popen(
            ("/bin/sh", "-c", line),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )
        assert self._process.stdin
        assert self._process.stdout
        assert self._process.stderr
        self._stdin, self._out, self._err = self._process.stdin, self._process.stdout, self._process.stderr
        self._open = {self._out.fileno(), self._err.fileno()}

    def send(self, data: bytes) -> None:
        """Write all of *data* to the shell's stdin."""
        try:
            while data:
                data = data[self._stdin.write(data) or 0 :]
        except OSError as error:
            raise ConnectionLost("the local shell is gone") from error

    def receive(self, seconds: float) -> tuple[bytes, bytes, bool]:
        """See ``runbook.connections.sessions.channel.Channel``."""
        if not self._open:
            return b"", b"", True
        ready, _, _ = select.select(list(self._open), (), (), seconds)
        got = {fd: os.read(fd, CHUNK) for fd in ready}
        self._open -= {fd for fd, data in got.items() if not data}
        return got.get(self._out.fileno(), b""), got.get(self._err.fileno(), b""), not self._open

    def close(self) -> None:
        """Close the streams of the shell; a shell that reads its stdin ends then."""
        for stream in (self._stdin, self._out, self._err):
            try:
                stream.close()
            except OSError:
                continue
        try:
            self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self._process.returncode = 0  # a write that runs on; it is no longer ours to wait for


class _Machine:
    """The connection to this machine, which is never lost."""

    def open(self, line: str) -> _Process:
        """Start a shell that runs *line*."""
        return _Process(line)

    def stands(self) -> bool:
        """Return True: this machine is always there."""
        return True

    def lost_because(self) -> str:
        """Return an empty text: this connection is never lost."""
        return ""

    def close(self) -> None:
        """Do nothing: there is no connection to close."""


def opener(host: Host, options: ConnectOptions, interrupt: Interrupt) -> Opener:
    """Return what starts shells on this machine."""
    return _Machine()


def connect(host: Host, options: ConnectOptions, interrupt: Interrupt) -> Connection:
    """Return a connection to this machine, whatever addresses *host* has."""
    return SessionConnection(
        _Machine(), interrupt, options.become_password, host.name, shell_within=options.shell_within
    )
