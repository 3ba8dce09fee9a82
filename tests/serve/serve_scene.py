"""``runbook serve`` as a program of its own, over toy hosts of this machine."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
from dataclasses import dataclass, field
from typing import Any

from runbook.commands.serve.access import token_digest
from tests.support.program import PROGRAM
from tests.support.sshd import free_port
from tests.support.waiting import until
from tests.watch.watch_scene import WatchScene

TOKENS = {role: f"a-token-of-the-role-{role}" for role in ("alert", "view", "approve", "admin")}


@dataclass
class ServeScene(WatchScene):
    """A watcher with a web server; each role has a token, and the person is called as the role."""

    port: int = 0
    programs: list[subprocess.Popen[bytes]] = field(default_factory=list)
    settings: str = ""
    """Further lines of the settings."""
    words: tuple[str, ...] = ()
    """Further words of the command line."""

    def made(self) -> ServeScene:
        super().made()
        self.port = free_port()
        rows = [f"  - {{name: {role}, role: {role}, digest: {token_digest(text)}}}" for role, text in TOKENS.items()]
        lines = [f"listen: 127.0.0.1:{self.port}", "tokens:", *rows, self.settings, ""]
        config = self.folder / "serve.yaml"
        config.write_text("\n".join(lines))
        config.chmod(0o600)
        return self

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def serve(self) -> subprocess.Popen[bytes]:
        """Start the server, and wait until it answers."""
        options = self.options
        words = ("serve", "--config", str(self.folder / "serve.yaml"), "--rules", options.rules[0], "--state", options.state,
                 "-i", options.choosing.inventory[0], "--records", options.recording.records or "", *self.words)  # fmt: skip
        environment = {**os.environ, "XDG_STATE_HOME": str(self.folder / "home")}
        with (self.folder / "serve.log").open("ab") as log:
            process = subprocess.Popen(
                [*PROGRAM, *words], env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder
            )
        self.programs.append(process)
        until(lambda: process.poll() is not None or self.answers(), "the server")
        assert process.poll() is None, (self.folder / "serve.log").read_text()
        return process

    def answers(self) -> bool:
        try:
            return self.call("GET", "/healthz")[0] == 200
        except OSError:
            return False

    def call(self, method: str, path: str, body: Any = None, role: str = "") -> tuple[int, str]:
        """Send a request, and return the status and the body of the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        headers = {"Content-Type": "application/json"}
        if role:
            headers["Authorization"] = f"Bearer {TOKENS[role]}"
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None, headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def inbox(self) -> list[dict[str, Any]]:
        return json.loads(self.call("GET", "/api/inbox", role="view")[1])["plans"]

    def end(self) -> None:
        for process in self.programs:
            process.terminate()
        for process in self.programs:
            process.wait(60)
        super().end()
