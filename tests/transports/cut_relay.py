"""A TCP relay between us and an sshd that cuts a connection after so many bytes in one direction."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from typing import Literal

Direction = Literal["up", "down"]


class Cutter:
    """Relays from a port of its own; counts what passes, and cuts once (or every time) where it is told to."""

    def __init__(
        self,
        target: tuple[str, int],
        *,
        after: int = -1,
        direction: Direction = "up",
        manner: Literal["reset", "close"] = "reset",
        always: bool = False,
    ) -> None:
        self._target, self._after, self._direction = target, after, direction
        self._manner, self._always = manner, always
        self._lock = threading.Lock()
        self.frozen, self.over = threading.Event(), threading.Event()
        self._open: list[socket.socket] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self.passed = {"up": 0, "down": 0}
        """Bytes relayed, of all connections."""
        self.cuts = 0
        self.connections = 0
        self._relays: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def close(self) -> None:
        """Take no more, and end what there is."""
        self.over.set()
        self._refuse()
        for it in self._open:
            with contextlib.suppress(OSError):
                it.shutdown(socket.SHUT_RDWR)
        for relay in self._relays:
            relay.join(60)
        for it in self._open:
            it.close()

    def _refuse(self) -> None:
        """Take no more; a close alone wakes nobody who waits in accept."""
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._accepting.join(60)
        self._server.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._server.accept()
                self._open.append(near)
                far = socket.create_connection(self._target)
                self.connections += 1
                self._open.append(far)
                for source, sink, way in ((near, far, "up"), (far, near, "down")):
                    self._relays.append(threading.Thread(target=self._relay, args=(source, sink, way), daemon=True))
                    self._relays[-1].start()

    def _relay(self, source: socket.socket, sink: socket.socket, way: Direction) -> None:
        passed = 0
        with contextlib.suppress(OSError):
            while True:
                if self._due(way, passed):
                    return self._cut(source, sink)
                room = self._after - passed if self._armed(way) else 65536
                data = source.recv(min(65536, room))
                if not data:
                    break
                if self.frozen.is_set():
                    self.over.wait()
                sink.sendall(data)
                passed += len(data)
                self.passed[way] += len(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
        return None

    def _armed(self, way: Direction) -> bool:
        return way == self._direction and self._after >= 0 and (self._always or not self.cuts)

    def _due(self, way: Direction, passed: int) -> bool:
        with self._lock:
            due = self._armed(way) and passed >= self._after
            self.cuts += due
            return due

    def _cut(self, *ends: socket.socket) -> None:
        for it in ends:
            with contextlib.suppress(OSError):
                if self._manner == "reset":
                    it.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    it.shutdown(socket.SHUT_RD)  # the other thread may sit in recv, and hold it open
                    it.close()
                else:
                    it.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        """Cut what is open now, and take no more."""
        self._refuse()
        self._cut(*self._open)

    def freeze(self) -> None:
        """From now on nothing passes, and nobody is told."""
        self.frozen.set()
