"""Run the program as an ordinary user, wherever it and its Python lie: by way of mounts that only that run sees."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

import runbook

NOBODY = 65534


@dataclass(frozen=True)
class Ordinary:
    """A user without rights, whose home is *home*."""

    folder: Path

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def words(self, *argv: str) -> list[str]:
        """What starts the program with *argv* as that user."""
        project, python = Path(runbook.__file__).parents[2], Path(os.path.realpath(sys.executable)).name
        places = {
            "python": sys.base_prefix,
            "site": Path(yaml.__file__).parents[1],
            "engine": project / "engine",
            "playbooks": project / "playbooks",
        }
        mounts = " && ".join(f"mount --bind {shlex.quote(str(it))} {self.folder}/{name}" for name, it in places.items())
        program = shlex.join([f"{self.folder}/python/bin/{python}", "-m", "runbook", *argv])
        steps = (
            f"mount --make-rprivate / && {mounts} && cd {self.home} && export HOME={self.home} PYTHONDONTWRITEBYTECODE=1 "
            f"PYTHONPATH={self.folder}/engine:{self.folder}/site && unset XDG_STATE_HOME && "
            f"exec setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups {program}"
        )
        return ["unshare", "--mount", "sh", "-c", steps]


@contextlib.contextmanager
def ordinary_user() -> Iterator[Ordinary]:
    """Such a user, for a while."""
    folder = Path(tempfile.mkdtemp(prefix="runbook-ordinary-"))
    try:
        folder.chmod(0o755)
        for name in ("python", "site", "engine", "playbooks", "home"):
            (folder / name).mkdir()
        os.chown(folder / "home", NOBODY, NOBODY)
        yield Ordinary(folder)
    finally:
        shutil.rmtree(folder)
