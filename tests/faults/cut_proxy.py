"""A TCP proxy on loopback that can cut every line through it, as a pulled cable or a dying gateway would."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time


class Proxy:
    """Passes everything on to *address*; ``cut`` ends all lines at once, and with *refuse* takes no new one."""

    def __init__(self, address: str, port: int) -> None:
        self._there = (address, port)
        self._server = socket.create_server((address, 0))
        self.port: int = self._server.getsockname()[1]
        self._open: list[socket.socket] = []
        self.lines = 0
        """How many lines were ever opened."""
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def cut(self, *, refuse: bool = False) -> None:
        """End every line without a good-bye (RST)."""
        if refuse:
            self._refuse()
        cut, self._open = self._open, []
        for it in cut:
            with contextlib.suppress(OSError):
                it.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                it.shutdown(socket.SHUT_RD)
            time.sleep(0.01)  # noqa: TID251 the thread that reads it lets go of it, and tells nobody
            it.close()

    def stop(self) -> None:
        """End every line, and take no new one."""
        self.cut(refuse=True)
        self._accepting.join(60)
        self.cut()

    def _refuse(self) -> None:
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                ours, _ = self._server.accept()
            except OSError:
                return
            theirs = socket.create_connection(self._there)
            self.lines += 1
            self._open += [ours, theirs]
            for one, other in ((ours, theirs), (theirs, ours)):
                threading.Thread(target=_pass_on, args=(one, other), daemon=True).start()


def _pass_on(one: socket.socket, other: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while chunk := one.recv(65536):
            other.sendall(chunk)
        other.shutdown(socket.SHUT_WR)
