"""The leader of a simulated job cluster: an HTTP service that reports on the hosts of the lab.

``python -m runbook.lab.cluster_leader ADDRESS NAME STATE [DESCRIPTOR...]`` runs inside a lab host; at the descriptors
other networks reach it: TCP listeners, and Unix ones that connections are passed on through.  It answers GET /status
and POST /admin/reset_node_jobs on port 8770 as a real one does, from ``STATE/peers.json``; every request is a line in
``STATE/requests``.  In ``STATE/leader.json``: ``role``, ``leader_id``, ``quiet`` (/status says no role), ``cached``
(seconds for which /status is said again as it was), ``fails`` (a status code that everything is answered with),
``zombie_nodes``.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from runbook.lab.gateway import received

PORT = 8770
ALONE = ("down", "mute")
MAX_BODY_BYTES = 65536
"""Bytes of a request's body: anybody who reaches the port may send one."""


def node(name: str, faults: Iterable[str]) -> dict[str, Any]:
    """Return a leader's view of the host *name* with *faults*."""
    has = set(faults)
    jobs = 2 if has & {"stuck", "miscounted", "selfplay", "unmeasured"} else 0
    load = 87.0 if has & {"selfplay", "busy"} else 0.0
    return {
        "node_id": name,
        "port": PORT,
        "role": "leader" if "leader" in has else "follower",
        "gpu_percent": None if "unmeasured" in has else load,
        "selfplay_jobs": jobs,
        "training_jobs": 1 if "busy" in has else 0,
        "has_gpu": "no_gpu" not in has,
        "is_cuda_gpu_node": "no_gpu" not in has,
        "is_alive": not has & {*ALONE, "unlisted"},
        "status": "dead" if has & {*ALONE, "unlisted"} else "alive",
    }


class _Cluster:
    """The memory of the leader."""

    def __init__(self, name: str, state: Path) -> None:
        self.name, self._state = name, state
        self._lock = threading.Lock()
        self._said: tuple[float, dict[str, Any]] | None = None

    def note(self, line: str) -> None:
        """Write down a request."""
        with self._lock, (self._state / "requests").open("a") as file:
            file.write(f"{line}\n")

    def settings(self) -> Mapping[str, Any]:
        """Return its settings."""
        try:
            settings: dict[str, Any] = json.loads((self._state / "leader.json").read_text())
        except FileNotFoundError:
            settings = {}
        return {
            "role": "leader",
            "leader_id": self.name,
            "cached": 5,
            "fails": 0,
            "quiet": False,
            "zombie_nodes": [],
            **settings,
        }

    def status(self) -> dict[str, Any]:
        """The answer to GET /status, as it was if that is not long ago."""
        with self._lock:
            settings = self.settings()
            if self._said and time.monotonic() - self._said[0] < settings["cached"]:
                return self._said[1]
            peers = self._peers()
            others = {name: peer for name, peer in peers.items() if name != self.name}
            said = {
                "node_id": self.name,
                "role": settings["role"],
                "leader_id": settings["leader_id"],
                "self": peers.get(self.name, {}),
                "peers": {name: other for name, other in others.items() if other["is_alive"]},
                "all_peers": others,
                "alive_peers": sum(other["is_alive"] for other in others.values()),
                "idle_detection_stats": {"zombie_nodes": settings["zombie_nodes"]},
            }
            if settings["quiet"]:
                del said["role"]
            self._said = (time.monotonic(), said)
            return said

    def reset(self, text: bytes) -> tuple[int, dict[str, Any]]:
        """The answer to POST /admin/reset_node_jobs with the body *text*."""
        settings = self.settings()
        if settings["role"] != "leader":
            return 403, {"error": "not the leader", "leader_id": settings["leader_id"]}
        try:
            name = json.loads(text)["node_id"]
        except (ValueError, KeyError, TypeError):
            return 400, {"error": "node_id is required"}
        with self._lock:
            peers = self._peers()
            if name not in peers:
                return 404, {"error": f"unknown node {name}", "available_nodes": sorted(peers)[:20]}
            before = peers[name]["selfplay_jobs"]
            peers[name] |= {"selfplay_jobs": 0, "training_jobs": 0}
            fresh = self._state / "peers.json.new"
            fresh.write_text(json.dumps(peers))
            fresh.rename(self._state / "peers.json")
        return 200, {"success": True, "node_id": name, "previous_selfplay_jobs": before, "current_selfplay_jobs": 0}

    def _peers(self) -> dict[str, Any]:
        peers: dict[str, Any] = json.loads((self._state / "peers.json").read_text())
        return peers


def serve(address: str, name: str, state: Path, descriptors: Iterable[int] = ()) -> None:
    """Answer until the host is ended."""
    cluster = _Cluster(name, state)

    class Door(BaseHTTPRequestHandler):
        timeout = 30  # seconds for which a request may come to a halt

        def do_GET(self) -> None:
            cluster.note(f"GET {self.path}")
            known = self.path.partition("?")[0] == "/status"
            self._say(*((200, cluster.status()) if known else (404, {"error": "no such page"})))

        def do_POST(self) -> None:
            size = self.headers.get("Content-Length") or "0"
            if not (size.isascii() and size.isdigit() and len(size) < 10 and int(size) <= MAX_BODY_BYTES):
                self.close_connection = True
                self._say(413, {"error": f"send a body of at most {MAX_BODY_BYTES} bytes, with its Content-Length"})
                return
            text = self.rfile.read(int(size))
            cluster.note(f"POST {self.path} {text.decode(errors='replace')}")
            known = self.path == "/admin/reset_node_jobs"
            self._say(*(cluster.reset(text) if known else (404, {"error": "no such page"})))

        def _say(self, status: int, answer: Mapping[str, Any]) -> None:
            if fails := cluster.settings()["fails"]:
                status, answer = fails, {"error": "out of order"}
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing: requests are written down elsewhere."""

    with ThreadingHTTPServer((address, PORT), Door) as server:
        for descriptor in descriptors:
            threading.Thread(target=_also, args=(server, socket.socket(fileno=descriptor)), daemon=True).start()
        (state / "leads").touch()
        server.serve_forever()


def _also(server: ThreadingHTTPServer, listener: socket.socket) -> None:
    """Have *server* answer what comes in at *listener*, too."""
    while True:
        try:
            passed_on = listener.family == socket.AF_UNIX
            connection = received(listener) if passed_on else listener.accept()[0]
        except OSError:
            continue
        server.process_request(connection, (server.server_name, 0))


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2], Path(sys.argv[3]), map(int, sys.argv[4:]))
