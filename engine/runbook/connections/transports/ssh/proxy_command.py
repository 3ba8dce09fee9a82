"""Run a ProxyCommand, and exchange data with it over a socket."""

from __future__ import annotations

import os
import socket
import subprocess


class ProxyCommand(socket.socket):
    """A ProxyCommand that is connected to a socket; secrets are in its environment, never on its command line.

    It runs in its own session, so that Ctrl-C does not cut the connection of a write that is in flight.
    """

    def __init__(self, command: str, env: tuple[tuple[str, str], ...]) -> None:
        ours, its = socket.socketpair()
        super().__init__(ours.family, ours.type, ours.proto, fileno=ours.detach())
        with its:
            self.process = subprocess.Popen(
                ("/bin/sh", "-c", f"exec {command}"), stdin=its.fileno(), stdout=its.fileno(),
                stderr=subprocess.DEVNULL, env={**os.environ, **dict(env)}, start_new_session=True,
            )  # fmt: skip

    def end(self) -> None:
        """Close the socket, and end the program."""
        self.close()
        self.process.terminate()
        try:
            self.process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
