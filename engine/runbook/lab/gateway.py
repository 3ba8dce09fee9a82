"""Forward connections into a lab host, which has its own network namespace.

As a program (``door SSHD CONFIG``, run from a copy, without this package) it is the first process of a host: it starts
sshd for each connection, and reaps what has ended.  A socket stays in the network in which it was made, whoever holds
it.  So the listener that hosts are reached by from this machine is made by ``lab up`` and inherited as stdin; what a
host opens to another one's address is accepted right there, and passed on through that one's Unix socket in WAYS.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

WAYS = "/run/lab/ways"
"""Where each host has a Unix socket for each address and port of its own that the other hosts may connect to."""
ROUTES = "/run/lab/routes"
"""Lines such as ``127.70.1.2 8770``: addresses and ports that other hosts may reach; ``0.0.0.0`` for all hosts."""
UP = "/run/lab/state/up"
PATIENCE = 1.0
"""Seconds within which a connection must have been passed on."""

Begin = Callable[[socket.socket], None]


def received(way: socket.socket) -> socket.socket:
    """The next connection that another host passes on through *way*.  Raises OSError."""
    sender, _ = way.accept()
    with sender:
        sender.settimeout(PATIENCE)
        _, descriptors, _, _ = socket.recv_fds(sender, 1, 1)
    if not descriptors:
        raise OSError("nothing was passed on")
    return socket.socket(fileno=descriptors[0])


def serve(begin: Begin, *, reap: bool = False) -> None:
    """Give each connection for this host to *begin*; does not return.  Raises OSError where it cannot listen."""
    with selectors.DefaultSelector() as waiting:
        outside = socket.socket(fileno=os.dup(0))
        waiting.register(outside, selectors.EVENT_READ, partial(_accept, outside, begin))
        if number := os.environ.get("LAB_WAY"):
            way = socket.socket(fileno=int(number))
            os.set_inheritable(int(number), False)
            waiting.register(way, selectors.EVENT_READ, lambda: begin(received(way)))
        for address, port in _routes():
            other = socket.create_server((address, port), backlog=128)
            waiting.register(other, selectors.EVENT_READ, partial(_accept, other, _pass_on))
        if reap:
            _reap_at_once(waiting)
        with suppress(FileNotFoundError), open(UP, "w", encoding="ascii"):  # in a lab host, the lab waits for it
            pass
        while True:
            for key, _ in waiting.select():
                try:
                    key.data()
                except OSError:
                    time.sleep(0.01)  # out of descriptors or processes: no busy loop


def _routes() -> list[tuple[str, int]]:
    try:
        with open(ROUTES, encoding="ascii") as file:
            return [(word.split()[0], int(word.split()[1])) for word in file]
    except FileNotFoundError:
        return []


def _accept(listener: socket.socket, begin: Begin) -> None:
    begin(listener.accept()[0])


def _pass_on(connection: socket.socket) -> None:
    """Give *connection* to the host whose address was asked for; where nobody takes it, it is closed."""
    with connection, socket.socket(socket.AF_UNIX) as way:
        address, port = connection.getsockname()
        way.settimeout(PATIENCE)
        way.connect(f"{WAYS}/{address}:{port}")
        socket.send_fds(way, [b"."], [connection.fileno()])


def _reap_at_once(waiting: selectors.BaseSelector) -> None:
    """Have a signal end the wait, so that what has ended is reaped right then."""
    signal.signal(signal.SIGCHLD, lambda *_: None)  # thousands at once would nest a handler that does more
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setblocking(False)
    signal.set_wakeup_fd(theirs.detach(), warn_on_full_buffer=False)
    waiting.register(ours, selectors.EVENT_READ, lambda: _reap(ours))


def _reap(signals: socket.socket) -> None:
    with suppress(BlockingIOError):
        signals.recv(4096)
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def main() -> None:
    """Be the first process of a lab host, and start sshd for each connection."""
    sshd, config = sys.argv[1:3]
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    environment = {name: text for name, text in os.environ.items() if not name.startswith("LAB_")}

    def begin(connection: socket.socket) -> None:
        with connection:
            number = connection.fileno()
            streams = [(os.POSIX_SPAWN_DUP2, number, each) for each in (0, 1)]
            argv = (sshd, "-i", "-e", "-f", config)
            os.posix_spawn(sshd, argv, environment, file_actions=streams, setsigdef=[signal.SIGPIPE])

    serve(begin, reap=True)


if __name__ == "__main__":
    main()
