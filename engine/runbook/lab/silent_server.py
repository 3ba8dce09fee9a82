"""A server that accepts connections and says nothing: ``python -m runbook.lab.silent_server ADDRESS PORT``."""

from __future__ import annotations

import socket
import sys


def main() -> None:
    """Accept, and keep what was accepted."""
    kept = []
    with socket.create_server((sys.argv[1], int(sys.argv[2]))) as server:
        while True:
            kept.append(server.accept())


main()
