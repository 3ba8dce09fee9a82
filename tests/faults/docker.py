"""Docker engines that do not answer."""

from __future__ import annotations

import os
import socket

from tests.faults.environment import Place, Told
from tests.faults.files import NOT_ALMIGHTY


def _socket(place: Place, name: str) -> str:
    """A socket that takes a connection and never says a word."""
    server = socket.socket(socket.AF_UNIX)
    path = place.short / name
    server.bind(str(path))
    server.listen(50)
    place.finally_(server.close)
    return str(path)


def silent_engines(place: Place) -> Told:
    """A daemon that is down, one that hangs, and one that may not be talked to."""
    sockets = {"down": str(place.short / "nobody"), "hung": _socket(place, "hung"), "closed": _socket(place, "closed")}
    os.chown(sockets["closed"], 1, 1)
    os.chmod(sockets["closed"], 0o600)
    looks = "".join(
        f"  - id: {name}\n    timeout: 2s\n    env: {{DOCKER_HOST: 'unix://{path}'}}\n    docker_prune: {{}}\n"
        for name, path in sockets.items()
    )
    return place.run(place.playbook(f"diagnose:\n{looks}"), before=NOT_ALMIGHTY)
