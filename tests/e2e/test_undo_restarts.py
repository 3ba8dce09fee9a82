"""A service that was restarted because of a file is restarted when the file is back: a real systemd."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.support.program import PROGRAM, Said
from tests.support.systemd_host import boot

pytestmark = [pytest.mark.real("systemd")]

UNIT = """[Unit]
DefaultDependencies=no
[Service]
ExecStart=/bin/sh -c 'cp /run/nap.conf /run/nap.seen; exec sleep 1000'
"""
BOOK = """name: tune
remediate:
  - {id: write, file: {path: /run/nap.conf, content: "new\\n"}}
  - {id: restart, if_changed: [write], service: {name: nap, state: restarted, steady: 0s}}
"""


@pytest.fixture
def systemd():
    made = boot()
    yield made
    made.stop()


def test_the_service_runs_with_the_old_file(systemd):
    """Mutants: an undo without the restart; a restart before the file is back."""
    folder = Path(tempfile.mkdtemp(prefix="rb-undo-"))  # of root's alone, as /tmp/pytest-of-root is not inside
    try:
        (folder / "tune.yaml").write_text(BOOK)
        (folder / "hosts.yaml").write_text("hosts:\n  here: {transport: local}\n")
        systemd.write("/run/nap.conf", "old\n")
        systemd.unit("nap.service", UNIT)
        systemd.run("systemctl", "start", "nap")

        def runbook(*words: str) -> Said:
            argv = (*systemd.within, *PROGRAM, *words, "-i", str(folder / "hosts.yaml"), "--output", "json", "--yes")
            argv += ("--records", str(folder / "records"))
            done = subprocess.run(
                argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120, check=False
            )
            return Said(done.returncode, done.stdout, done.stderr)

        said = runbook("run", str(folder / "tune.yaml"), "--hosts", "here")
        assert said.code == 0, said.out + said.err
        assert systemd.run("cat", "/run/nap.seen") == "new\n"
        undone = runbook("undo", "last")
        assert undone.code == 0, undone.out + undone.err
        assert [step["status"] for step in undone.host("here")["steps"]] == ["changed", "changed"]
        assert systemd.run("cat", "/run/nap.conf", "/run/nap.seen") == "old\nold\n"
        again = runbook("undo", said.document["run"])
        assert [step["status"] for step in again.host("here")["steps"]] == ["ok", "skipped"], (
            "nothing is restarted twice"
        )
    finally:
        shutil.rmtree(folder)
