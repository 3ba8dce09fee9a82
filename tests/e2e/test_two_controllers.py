"""Two controllers change overlapping hosts at once: each host is changed by one of them at a time, and by both."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.program import PROGRAM
from tests.support.sshd import make_key, start_sshd

pytestmark = [pytest.mark.real("sshd", "root"), pytest.mark.soak]

HOSTS = [f"gpu-{it}" for it in range(1, 6)]

BOOK = """\
name: turn
about: A change that takes half a second, and says so before and after.
inputs:
  log: {about: Where the hosts write., type: string, required: true}
remediate:
  - id: turn
    command:
      do:
        script: 'echo "begin $3" >>"$1/$2"; sleep 0.5; echo "end $3" >>"$1/$2"'
        params: ["{{ inputs.log }}", "{{ host.name }}", "{{ run.id }}"]
"""


@pytest.fixture
def inventory(tmp_path):
    """Five hosts, each of which keeps its own locks, as machines do."""
    key = make_key(tmp_path / "key")
    servers, lines = [], []
    for number, name in enumerate(HOSTS, 1):
        places = tmp_path / f"locks-{name}"
        places.mkdir(mode=0o700)
        (places / ".runbook-locks").touch()
        extra = f"SetEnv RUNBOOK_LOCK_PLACES={places}"
        servers.append(start_sshd(tmp_path / f"sshd-{name}", f"127.4.0.{number}", key=key, extra=extra))
        address = f"ssh_host: 127.4.0.{number}, ssh_port: {servers[-1].port}"
        lines.append(f"  {name}: {{{address}, ssh_user: root, ssh_key: {key}, is_ephemeral: true, gpu: none}}\n")
    (tmp_path / "hosts.yaml").write_text("hosts:\n" + "".join(lines))
    yield tmp_path / "hosts.yaml"
    for it in servers:
        it.stop()


def controller(folder: Path, inventory: Path, hosts: str) -> subprocess.Popen[str]:
    words = ("run", str(folder / "turn.yaml"), "-i", str(inventory), "--hosts", hosts, "-e", f"log={folder / 'log'}")
    return subprocess.Popen(
        (*PROGRAM, *words, "--yes"), cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        stderr=subprocess.STDOUT, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip


def test_two_controllers_change_each_host_one_after_the_other(tmp_path, inventory):
    """Mutants: lock.sh whose `lock_take` does not look; host_lock.py that goes on where the lock is busy."""
    (tmp_path / "turn.yaml").write_text(BOOK)
    (tmp_path / "log").mkdir()
    both = [controller(tmp_path, inventory, "gpu-1,gpu-2,gpu-3,gpu-4"), controller(tmp_path, inventory, "gpu-[2-5]")]
    said = [it.communicate(timeout=120)[0] for it in both]
    assert [it.returncode for it in both] == [0, 0], said
    assert any("another run is changing this host" in it for it in said), said
    seen = set()
    for host in HOSTS:
        lines = [line.split() for line in (tmp_path / "log" / host).read_text().splitlines()]
        assert [word for word, _ in lines] == ["begin", "end"] * (1 if host in ("gpu-1", "gpu-5") else 2), (host, lines)
        assert [run for _, run in lines[::2]] == [run for _, run in lines[1::2]], (host, lines)
        seen |= {run for _, run in lines}
        assert len({run for _, run in lines}) == len(lines) // 2, (host, lines)
    assert len(seen) == 2
