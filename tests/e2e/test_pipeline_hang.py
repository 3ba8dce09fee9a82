"""A pipeline whose trainer waits for batches: over real SSH, with real files, processes and an HTTP server."""

from __future__ import annotations

import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from engine import lab
from tests.e2e.conftest import Practice, Said

pytestmark = pytest.mark.real("lab", "sshd", "curl")

PARTS = {
    "inference": "inference @ infer.toml",
    "orchestrator": "orchestrator @ orch.toml",
    "trainer": "trainer/rl/train.py @ t",
}
WAITING = "INFO step 3 done\nINFO Waiting for training batch to arrive\n"
ORCH = '# The orchestrator.\nbatch_size = 512  # samples\n\n[client]\nbase_url = "{url}/v1"\n\n[sampling]\nmax_tokens = 1024'


class Inference(BaseHTTPRequestHandler):
    """An inference server that is well."""

    def do_GET(self) -> None:
        body = json.dumps({"data": [{"id": "model"}]} if self.path == "/v1/models" else {}).encode()
        self.send_response(200 if self.path in ("/health", "/v1/models") else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


def begin(made: Practice, host: str, *parts: str) -> None:
    """Let *parts* of a pipeline live on *host*."""
    made.exec(
        host,
        "cd /run/lab/jobs && mkdir -p trainer/rl && cp job trainer/rl/train.py && cp job inference && cp job orchestrator",
    )
    for it in parts:
        made.exec(host, f"cd /run/lab/jobs; setsid ./python3 {PARTS[it]} </dev/null >/dev/null 2>&1 &")


class Place:
    """The files of one pipeline."""

    def __init__(self, folder: Path, url: str, age: float = 0.0, configured: str = "") -> None:
        self.folder, self.url = folder, url
        (folder / "run/rollouts/step_9").mkdir(parents=True)
        (folder / "run/rollouts/step_10").mkdir()
        (folder / "run/rollouts/step_10/rank_0.pt").write_text("x")
        self.log, self.config = folder / "trainer.log", folder / "orch.toml"
        self.orchestrator = folder / "orchestrator.log"
        self.log.write_text(WAITING)
        self.orchestrator.write_text("INFO started\n")
        self.config.write_text(ORCH.format(url=configured or url))
        os.utime(self.log, (time.time() - age, time.time() - age))

    def options(self, *more: str) -> tuple[str, ...]:
        given = {
            "run_dir": f"{self.folder}/run",
            "trainer_log": json.dumps([str(self.log)]),
            "orchestrator_log": json.dumps([str(self.orchestrator)]),
            "orch_config": str(self.config),
            "outputs": str(self.folder),
            "url": self.url,
            "watch": "1s",
        }
        return (*(word for name, it in given.items() for word in ("-e", f"{name}={it}")), *more)


@pytest.fixture(scope="module")
def seen(tmp_path_factory) -> dict[str, tuple[Place, Said]]:
    """What was said of pipelines with one fault each, by its name; looked at side by side."""
    folder = tmp_path_factory.mktemp("pipelines")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Inference)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    hosts = ("gpu-01=healthy", "gpu-02=healthy", "gpu-03=healthy", "gpu-04=leftovers", "gpu-05=healthy")
    made = Practice(lab.up(lab.LabOptions(directory=folder / "lab", faults=hosts)))
    try:
        for it in ("gpu-01", "gpu-03", "gpu-05"):
            begin(made, it, *PARTS)
        begin(made, "gpu-02", "inference", "trainer")
        long = 3600.0
        places = {
            "fresh": (Place(folder / "fresh", url), "gpu-01", ()),
            "dead": (Place(folder / "dead", url, long), "gpu-02", ()),
            "down": (Place(folder / "down", "http://127.0.0.1:9", long), "gpu-01", ()),
            "address": (Place(folder / "address", url, long, "http://elsewhere:8000"), "gpu-03", ()),
            "synchronous": (Place(folder / "synchronous", url, long), "gpu-05", ("-e", 'repair=["synchronous"]')),
            "nothing": (Place(folder / "nothing", url), "gpu-04", ()),
            "no_log": (Place(folder / "no_log", url), "gpu-01", ("-e", f'trainer_log=["{folder}/none.log"]')),
            "environment": (Place(folder / "environment", url, long), "gpu-01", ()),
            "missing": (Place(folder / "missing", url), "gpu-04", ("-e", f"outputs={folder}/missing/outputs")),
        }
        places["environment"][0].orchestrator.write_text("ValueError: environment 'wordle' not found\n")
        with ThreadPoolExecutor(4) as pool:
            runs = {
                name: pool.submit(made.run, "pipeline-hang", "--yes", *place.options(*more), hosts=host)
                for name, (place, host, more) in places.items()
            }
            said = {name: (places[name][0], it.result()) for name, it in runs.items()}
        yield said
    finally:
        lab.down(folder / "lab")
        server.shutdown()
        server.server_close()


def present(said: Said) -> list[str]:
    (host,) = said.document["hosts"]
    return [it["id"] for it in host["findings"] if it["status"] == "present" and it["severity"] != "info"]


def verdict(said: Said) -> str:
    return said.document["hosts"][0]["verdict"]


@pytest.mark.parametrize("name", ["fresh", "nothing"])
def test_a_pipeline_that_goes_on_and_a_host_without_one_are_healthy(seen, name):
    said = seen[name][1]
    assert (verdict(said), present(said), said.writes()) == ("healthy", [], []), said.out


@pytest.mark.parametrize(
    ("name", "cause", "words"),
    [
        ("dead", "dead", "the orchestrator has ended"),
        ("down", "inference_down", "127.0.0.1:9"),
        ("environment", "no_environment", "not installed"),
    ],
)
def test_one_cause_is_named_and_nothing_is_changed(seen, name, cause, words):
    said = seen[name][1]
    assert (verdict(said), present(said)) == ("unresolved", [cause]), said.out
    finding = next(it for it in said.document["hosts"][0]["findings"] if it["id"] == cause)
    assert words in finding["say"]
    assert said.writes() == []


def test_a_wrong_address_is_corrected_in_its_line_and_the_rest_asks_for_a_restart(seen):
    place, said = seen["address"]
    assert place.config.read_text() == ORCH.format(url=place.url), said.out
    assert said.finding("gpu-03", "wrong_address")["status"] == "gone"
    assert present(said) == ["no_batches"]
    assert len(said.writes()) == 1


def test_the_asynchrony_is_taken_out_before_the_first_table(seen):
    place, said = seen["synchronous"]
    before, added = ORCH.format(url=place.url), place.config.read_text()
    assert added.replace("async_level = 0\n", "") == before, said.out
    assert added.index("async_level = 0") < added.index("[client]")
    assert "step is 10" in said.finding("gpu-05", "no_batches")["say"]


def test_without_a_log_nothing_is_known(seen):
    said = seen["no_log"][1]
    assert verdict(said) == "unknown", said.out
    assert said.writes() == []


def test_a_directory_that_is_not_there_is_made(seen):
    place, said = seen["missing"]
    assert verdict(said) == "resolved", said.out
    assert (place.folder / "outputs").is_dir()
