"""A TCP forwarder on loopback whose connections are cut when a test says so."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from types import TracebackType


class Forwarder:
    """Passes connections to a port on, until they are cut."""

    def __init__(self, to: int) -> None:
        self._to, self._open, self._lock = to, set[socket.socket](), threading.Lock()
        self._listener = self._listening(0)
        self.port = self._listener.getsockname()[1]
        self.accepted = 0

    def __enter__(self) -> Forwarder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut()

    def cut(self) -> None:
        """Reset all connections, and refuse new ones."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # ends the thread that accepts
        self._listener.close()
        with self._lock:
            for each in self._open:
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closing resets it
            self._end(*self._open)
            self._open.clear()

    def accept_again(self) -> None:
        """Accept connections at the same port again."""
        self._listener = self._listening(self.port)

    @staticmethod
    def _end(*sockets: socket.socket) -> None:
        for each in sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)  # a thread that reads from it would keep it open
            each.close()

    def _listening(self, port: int) -> socket.socket:
        made = socket.socket()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(("127.0.0.1", port))
        made.listen()
        threading.Thread(target=self._accept, args=(made,), daemon=True).start()
        return made

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = listener.accept()
                self.accepted += 1
                far = socket.create_connection(("127.0.0.1", self._to))
                with self._lock:
                    self._open |= {near, far}
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=self._pass, args=pair, daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(1 << 16):
                other.sendall(data)
        with self._lock:
            self._open -= {one, other}
            self._end(one, other)
