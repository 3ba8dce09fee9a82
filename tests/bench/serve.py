"""A storm of alerts over ``runbook serve``: ``python -m tests.bench.serve``.

Each POST has 200 alerts: doubles, some that flap, some without a host.  The hosts are toys of this machine, a few of which have the
fault; a rule cures them by itself.  Figures: how long answers take, also those of ``/metrics``, memory, and runs for each episode.
"""

from __future__ import annotations

import argparse
import http.client
import json
import socket
import statistics
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from runbook.watch.events import Alerted, Began, Ended
from tests.serve.serve_scene import TOKENS, ServeScene
from tests.watch.watch_scene import alerts

HOSTS = tuple(f"h{number:03}" for number in range(200))
FAULTY = HOSTS[::40]
FLAPPING = HOSTS[7::25]


@dataclass(frozen=True)
class Storm:
    """The figures of a storm; times are in seconds."""

    posts: int
    wall: float
    median: float
    p99: float
    worst: float
    metrics: float
    """The slowest answer of /metrics."""
    memory: int
    """MiB."""
    runs: dict[tuple[str, str], int]
    """The runs for each host and episode that changed it."""
    statuses: dict[int, int]
    episodes: int


@cache  # the client must not take the time of the server
def body(phase: int) -> bytes:
    """Return the payload of the POSTs of *phase*: what flaps is resolved in every second one, and begins again after it."""
    seen = [
        (host, f"2026-11-01T10:{phase // 2:02}:00Z" if host in FLAPPING else "2026-11-01T10:00:00Z",
         not (host in FLAPPING and phase % 2))
        for host in HOSTS
    ]  # fmt: skip
    made = alerts(*seen, ("elsewhere", "2026-11-01T10:00:00Z", True))
    return json.dumps({**made, "truncatedAlerts": 3}).encode()


def memory_of(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024


def metrics_take(scene: ServeScene) -> float:
    """Return the seconds that /metrics takes, asked for by a process of its own: the senders hold this one up."""
    header = f"Authorization: Bearer {TOKENS['view']}"
    words = ("curl", "-sS", "-o", "/dev/null", "-w", "%{time_total}", "-H", header, f"{scene.base}/metrics")
    return float(subprocess.run(words, check=True, capture_output=True, text=True, timeout=60).stdout)


class Client:
    """Sends its share of the POSTs over one connection."""

    def __init__(self, scene: ServeScene, numbers: Sequence[int]) -> None:
        self._scene, self._numbers = scene, numbers
        self.took: list[float] = []
        self.statuses: Counter[int] = Counter()
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._scene.port, timeout=60)
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as Alertmanager's client has it
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKENS['alert']}"}
        for number in self._numbers:
            sent = body(number // 250)
            began = time.monotonic()
            connection.request("POST", "/hooks/alertmanager", sent, headers)
            answer = connection.getresponse()
            answer.read()
            self.took.append(time.monotonic() - began)
            self.statuses[answer.status] += 1
        connection.close()


def storm(folder: Path, posts: int, clients: int = 2, *, phases: bool = True) -> Storm:
    """Let *clients* send *posts* POSTs; with *phases* the playbook is slow in the middle, then it is gone for a while."""
    scene = ServeScene(folder, hosts=HOSTS, keys={"on": "{alert: HostFaulty}", "then": "apply\nrisk: reboots"}).made()
    try:
        return _storm(scene, posts, clients, phases=phases)
    finally:
        scene.end()


def _storm(scene: ServeScene, posts: int, clients: int, *, phases: bool) -> Storm:
    for host in FAULTY:
        scene.break_host(host)
    server = scene.serve()
    senders = [Client(scene, range(number, posts, clients)) for number in range(clients)]
    toy = scene.folder / "toy.yaml"
    good, slow = toy.read_text(), 0.0
    began = time.monotonic()
    for each in senders:
        each.thread.start()
    phase = 0
    while any(each.thread.is_alive() for each in senders):
        done = sum(len(each.took) for each in senders) / posts
        now = 0 if done < 0.3 else 1 if done < 0.5 else 2 if done < 0.7 else 3
        if phases and now != phase:
            phase = now
            if phase == 2:
                toy.unlink()
            else:
                toy.write_text(good.replace("script: 'cat", "script: 'sleep 2; cat") if phase == 1 else good)
        slow = max(slow, metrics_take(scene))
        time.sleep(0.2)
    wall = time.monotonic() - began
    toy.write_text(good)
    end = time.monotonic() + 240
    while time.monotonic() < end and len({event.host for event in scene.events(Ended) if event.cured}) < len(FAULTY):
        time.sleep(1)
    took = sorted(value for each in senders for value in each.took)
    changed = {event.digest for event in scene.events(Ended) if event.changed}
    return Storm(
        posts=posts, wall=wall, median=statistics.median(took), p99=took[int(len(took) * 0.99) - 1], worst=took[-1],
        metrics=slow, memory=memory_of(server.pid), episodes=len({each.episode for each in scene.events(Alerted)}),
        runs=dict(Counter((it.host, it.episode) for it in scene.events(Began) if it.digest in changed)),
        statuses=dict(sum((each.statuses for each in senders), Counter())),
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--posts", type=int, default=5000)
    with tempfile.TemporaryDirectory(prefix="runbook-storm-") as folder:
        found = storm(Path(folder), parser.parse_args().posts)
    print(
        f"{found.posts} POSTs of 201 alerts in {found.wall:.0f} s, {found.episodes} episodes, statuses {found.statuses}"
    )
    print(
        f"answers: median {found.median * 1000:.1f} ms, p99 {found.p99 * 1000:.1f} ms, worst {found.worst * 1000:.0f} ms"
    )
    print(f"/metrics: worst {found.metrics * 1000:.0f} ms; memory of the server: {found.memory} MiB")
    print(f"runs: {len(found.runs)} hosts and episodes, at most {max(found.runs.values(), default=0)} for one")


if __name__ == "__main__":
    main()
