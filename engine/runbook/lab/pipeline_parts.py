"""The parts of a simulated pipeline: a lab host runs this file as inference, orchestrator and trainer/rl/train.py.

``inference @ FILE`` answers GET /health and /v1/models; ``orchestrator @ FILE`` asks it at ``client.base_url`` before
each batch that it writes to ``output_dir/rollouts/step_N/rank_0.pt``; ``trainer/rl/train.py @ FILE`` waits for these
without end, or makes its data up where its file has a table ``fake_data_loader`` or ``data.fake``.  They print
their log.  Each starts in the pipeline's folder.  From the environment: ``SICK`` (/health is 503), ``TRIES`` (so often
the orchestrator asks), ``IDLE`` (it writes nothing), ``WAITED`` (so many seconds the trainer has waited already).
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

PACE = 0.5
KEPT = 1000
Settings = Mapping[str, Any]


def say(line: str) -> None:
    """A line of the log."""
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)


def serve(settings: Settings) -> None:
    """Be the inference server."""
    models = [{"id": each, "object": "model"} for each in (settings["model"]["name"],) if each]
    pages = {
        "/health": (503 if os.environ.get("SICK") else 200, {}),
        "/v1/models": (200, {"object": "list", "data": models}),
    }

    class Door(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, answer = pages.get(self.path, (404, {"error": "Not Found"}))
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing of what was asked."""

    address = settings["server"]["host"], settings["server"]["port"]
    say(f"INFO Starting vLLM API server on http://{address[0]}:{address[1]}")
    if not models:
        say("ERROR Could not load the model '': no such model")
    with ThreadingHTTPServer(address, Door) as server:
        say("INFO Application startup complete.")
        server.serve_forever()


def orchestrate(settings: Settings) -> None:
    """Be the orchestrator."""
    if not Path("environments", settings["environment"]["id"]).is_dir():
        raise ValueError(f"Environment '{settings['environment']['id']}' not found")
    rollouts = Path(settings["output_dir"], "rollouts")
    url, tries = settings["client"]["base_url"], int(os.environ.get("TRIES") or 0)
    say(f"INFO Starting orchestrator (async_level={settings.get('async_level', 2)}), inference at {url}")
    step = _newest(rollouts) + 1
    while True:
        try:
            _ask(url)
            if os.environ.get("IDLE"):
                say(f"INFO Waiting for the weights of step {step - 2}")
                _wait()
            _write(rollouts / f"step_{step}")
            say(f"INFO Wrote rollouts of step {step}")
            _forget(rollouts / f"step_{step - KEPT}")
            step += 1
        except (OSError, HTTPException) as error:
            say(f"ERROR {type(error).__name__}: {error}")
            tries -= 1
            if not tries:
                say("INFO Giving up")
                _wait()
        time.sleep(PACE)


def train(settings: Settings) -> None:
    """Be the trainer."""
    weights = Path("models", settings["model"]["name"])
    (weights / "config.json").read_text()
    made_up = "fake_data_loader" in settings or "fake" in settings.get("data", {})
    say(f"INFO Starting trainer from {weights}{' with made-up data' if made_up else ''}")
    rollouts = Path(settings["output_dir"], "rollouts")
    step, waited = 1 if made_up else _newest(rollouts) + 1, float(os.environ.get("WAITED") or 0)
    while True:
        if not made_up:
            say("INFO Waiting for training batch to arrive")
            if waited:
                then, waited = time.time() - waited, 0
                os.utime(sys.stdout.fileno(), (then, then))
            while not (rollouts / f"step_{step}" / "rank_0.pt").exists():
                time.sleep(PACE / 5)
        say(f"INFO Step: {step} | Loss: {2.5 / step:.4f} | Time: {PACE}s")
        step += 1
        time.sleep(PACE if made_up else 0)


def _ask(url: str) -> None:
    """Ask the inference server at *url* for its models.  Raises OSError or HTTPException when it cannot be used."""
    place = urlsplit(url)
    for page in ("/health", f"{place.path}/models"):
        connection = HTTPConnection(place.hostname or "", place.port, timeout=5)
        try:
            connection.request("GET", page)
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        if answer.status != 200:
            raise HTTPException(f"{answer.status} from {page}")
    if not json.loads(body)["data"]:
        raise HTTPException(f"{url} serves no model")


def _newest(rollouts: Path) -> int:
    return max((int(path.name.partition("_")[2]) for path in rollouts.glob("step_*")), default=0)


def _write(step: Path) -> None:
    for folder in (step.parents[1], step.parent, step):
        folder.mkdir(exist_ok=True)
    fresh = step / "rank_0.new"
    fresh.write_bytes(b"x" * 100)
    fresh.rename(step / "rank_0.pt")


def _forget(step: Path) -> None:
    with suppress(FileNotFoundError):
        (step / "rank_0.pt").unlink()
        step.rmdir()


def _wait() -> None:
    while True:
        time.sleep(1000)


def main() -> None:
    """Be the part that this file is called."""
    import tomllib

    settings = tomllib.loads(Path(sys.argv[2]).read_text())
    {"inference": serve, "orchestrator": orchestrate, "train.py": train}[Path(sys.argv[0]).name](settings)


if __name__ == "__main__":
    main()
