"""``runbook`` is killed while it is at work on twenty hosts: nothing runs on, nothing is done twice, nothing is forgotten.

``RUNBOOK_TEST_KILLS=50`` kills it at fifty moments instead of three.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.marked_processes import setenv, still_marked
from tests.support.program import PROGRAM, Said, runbook
from tests.support.sshd import start_sshd

pytestmark = [pytest.mark.real("sshd", "root"), pytest.mark.soak]

MOMENTS = int(os.environ.get("RUNBOOK_TEST_KILLS", "3"))
SEED = int(os.environ.get("RUNBOOK_TEST_SEED", "0")) or random.SystemRandom().randrange(10**6)
HOSTS = [f"gpu-{it:02}" for it in range(20)]

BOOK = """\
name: flip
about: Change a file for a while.
inputs:
  folder: {about: Where the files are., type: string, required: true}
diagnose:
  - {id: there, command: {script: 'grep -q old "$1/$2" && echo old', params: &file ["{{ inputs.folder }}", "{{ host.name }}"], accepts: [0, 1]}}
remediate:
  - id: change
    when: there.exit_code == 0
    command:
      check: {params: *file, script: '! grep -q old "$1/$2" || exit 1'}
      do: {params: *file, script: 'cd "$1" && cp -p "$2" "$2.kept" && echo new >"$2" && echo changed >>"$2.log"'}
  - id: linger
    after: [change]
    command:
      check: {params: *file, script: '[ -e "$1/$2.lingered" ] || exit 1'}
      do: {params: *file, script: 'sleep 1; touch "$1/$2.lingered"'}
  - id: put_back
    name: Restore the old file
    always: true
    command:
      check: {params: *file, script: '[ ! -e "$1/$2.kept" ] || exit 1'}
      do: {params: *file, script: 'cd "$1" && mv -f "$2.kept" "$2" && echo restored >>"$2.log"'}
"""


@dataclass
class Twenty:
    """Twenty hosts with a file each, which are addresses of one sshd."""

    folder: Path
    inventory: Path
    places: Path
    """Where the hosts keep their locks and notes."""

    def __post_init__(self) -> None:
        (self.folder / "flip.yaml").write_text(BOOK)
        for host in HOSTS:
            (self.folder / host).write_text("old\n")

    def argv(self) -> tuple[str, ...]:
        common = (
            "run",
            str(self.folder / "flip.yaml"),
            "-i",
            str(self.inventory),
            "--hosts",
            "all",
            "--parallel",
            "6",
        )
        return (*common, "-e", f"folder={self.folder}", "--yes", "--output", "json")

    def log(self, host: str) -> list[str]:
        path = self.folder / f"{host}.log"
        return path.read_text().split() if path.exists() else []

    def notes(self) -> set[str]:
        """The hosts that know that something is owed to them."""
        return {it.read_text().splitlines()[2] for it in self.places.glob("*/owed-*")}

    def settle(self) -> Said:
        return runbook("settle", "-i", str(self.inventory), "--yes", "--output", "json", cwd=self.folder)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fleet")
    server = start_sshd(folder / "sshd", "0.0.0.0", extra=setenv())
    login = f"ssh_port: {server.port}, ssh_user: root, ssh_key: {server.key}, is_ephemeral: true, gpu: none"
    lines = [f"  {name}: {{ssh_host: 127.3.0.{number}, {login}}}\n" for number, name in enumerate(HOSTS, 1)]
    (folder / "hosts.yaml").write_text("hosts:\n" + "".join(lines))
    yield folder / "hosts.yaml", Path(os.environ["RUNBOOK_LOCK_PLACES"])
    server.stop()


@pytest.fixture
def twenty(tmp_path, fleet):
    return Twenty(tmp_path, *fleet)


@pytest.fixture(scope="module")
def takes(tmp_path_factory, fleet) -> float:
    """Seconds that a run takes which nobody kills."""
    twenty = Twenty(tmp_path_factory.mktemp("whole"), *fleet)
    began = time.monotonic()
    said = runbook(*twenty.argv(), cwd=twenty.folder)
    assert said.code == 0, said.err
    assert all(twenty.log(host) == ["changed", "restored"] for host in HOSTS)
    return time.monotonic() - began


def records() -> dict[str, dict]:
    """What is owed by this machine's word, by host."""
    found = [json.loads(it.read_text()) for it in Path(os.environ["XDG_STATE_HOME"]).glob("runbook/owed/*")]
    return {it["host"]: it for it in found}


@pytest.mark.parametrize("moment", range(MOMENTS))
def test_kill_9_at_any_moment_over_twenty_hosts(moment, twenty, takes):
    after = random.Random(f"{SEED}-{moment}").uniform(0.3, takes * 1.05)
    process = subprocess.Popen(
        (*PROGRAM, *twenty.argv()), cwd=twenty.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    time.sleep(after)  # noqa: TID251 any moment
    process.kill()
    process.wait()
    say = f"seed {SEED}, killed after {after:.2f} s of {takes:.2f}"
    assert still_marked() == [], say
    begun = {host: twenty.log(host) for host in HOSTS}
    assert all(it in ([], ["changed"], ["changed", "restored"]) for it in begun.values()), (say, begun)
    owing = {host for host, done in begun.items() if done == ["changed"]}
    assert owing <= records().keys() & twenty.notes(), say
    assert all([step["id"] for step in it["steps"]] == ["put_back"] for it in records().values()), say
    said = twenty.settle()
    assert said.code == 0, (say, said.out, said.err)
    for host, done in begun.items():
        assert twenty.log(host) == (["changed", "restored"] if done else []), (say, host)
        assert (twenty.folder / host).read_text() == "old\n", (say, host)
    left = [it for it in said.document["hosts"] if it["host"] in records()]
    assert (left, records(), twenty.notes()) == ([], {}, set()), (say, said.err)
    assert still_marked() == [], say
