"""A real terminal to run a program in: tmux, without anybody's settings."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from tests.support.waiting import soon

REGION = re.compile(r"^\S+: \d+ of \d+ hosts? done in ")


@dataclass(frozen=True)
class Picture:
    """What is seen at one moment, row by row."""

    rows: list[str]

    def region(self) -> list[str]:
        """The rows that follow the run; none where there are none."""
        begin = next((number for number, row in enumerate(self.rows) if REGION.match(row)), len(self.rows))
        return self.rows[begin:]

    def above(self) -> list[str]:
        """The rows before them."""
        return self.rows[: len(self.rows) - len(self.region())]


class Terminal:
    """One pane of a tmux server of its own, on which something was written before."""

    def __init__(self, columns: int, rows: int, argv: tuple[str, ...], **environment: str) -> None:
        self._name = f"runbook-test-{uuid.uuid4().hex[:12]}"
        words = " ".join(f"{name}={shlex.quote(value)}" for name, value in environment.items())
        line = f'trap : INT; seq 9; env {words} {shlex.join(argv)}; echo "ended with $?"; cat'
        size = ("-x", str(columns), "-y", str(rows))
        self._tmux("-f", "/dev/null", "new-session", "-d", *size, "sh", "-c", line)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self._tmux("kill-server", check=False)

    def screen(self, *options: str) -> list[str]:
        """What is seen, row by row, without the empty rows at the end."""
        return self._tmux("capture-pane", "-p", *options).rstrip("\n").split("\n")

    def everything(self) -> list[str]:
        """Every line since the beginning, whole where the terminal has folded it."""
        return self.screen("-S", "-", "-J")

    def resize(self, columns: int, rows: int) -> None:
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def type(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def until(self, there: Callable[[Picture], object]) -> Picture:
        """The first picture of the screen of which *there* holds; fail with the last."""
        seen = Picture([])

        def holds() -> object:
            nonlocal seen
            seen = Picture(self.screen())
            return there(seen)

        assert soon(holds), "\n".join(seen.rows)
        return seen

    def until_seen(self, words: str) -> Picture:
        return self.until(lambda it: any(words in row for row in it.rows))

    def until_ended(self) -> int:
        """Wait for the end of the program; its exit code."""
        last = self.until(lambda it: any(row.startswith("ended with ") for row in it.rows))
        (row,) = [row for row in last.rows if row.startswith("ended with ")]
        return int(row.split()[-1])

    def _tmux(self, *argv: str, check: bool = True) -> str:
        done = subprocess.run(
            ("tmux", "-L", self._name, *argv), capture_output=True, text=True, check=False,
            env={**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"},
        )  # fmt: skip
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout
