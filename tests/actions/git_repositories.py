"""Repositories on this machine, made with a real git."""

from __future__ import annotations

import subprocess
from pathlib import Path


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-C", folder, *words],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip()


class Origin:
    def __init__(self, folder: Path) -> None:
        self.folder, self.url = folder, f"file://{folder}"
        folder.mkdir()
        git(folder, "init", "-q", "-b", "main")
        self.first = self.commit("one")
        git(folder, "tag", "-a", "-m", "x", "v1")

    def commit(self, text: str) -> str:
        (self.folder / "file").write_text(text)
        git(self.folder, "add", "file")
        git(self.folder, "commit", "-q", "-m", text)
        return git(self.folder, "rev-parse", "HEAD")
