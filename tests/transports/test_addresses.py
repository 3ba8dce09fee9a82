"""Hosts that are given by their addresses, without an inventory: over real SSH, with everything that a run leaves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.program import Said, begun, runbook
from tests.support.waiting import until

pytestmark = pytest.mark.real("sshd", "root")

PLAYBOOK = """\
name: changes
about: Changes a file, and then waits for another.
remediate:
  - id: write
    file: {{path: {folder}/changed, content: "new\\n", mode: "0644"}}
  - id: wait
    after: [write]
    command: {{check: {{script: "[ -e {folder}/went ]"}}, do: {{script: "[ -e {folder}/go ] && touch {folder}/went"}}}}
"""


FLIP = """\
name: flip
about: Changes a file for a while.
remediate:
  - id: change
    command: {{check: {{script: "[ -e {folder}/kept ]"}}, do: {{script: "touch {folder}/kept"}}}}
  - id: linger
    after: [change]
    command: {{check: {{script: "[ -e {folder}/go ]"}}, do: {{script: "while [ ! -e {folder}/go ]; do sleep 0.05; done"}}}}
  - id: put_back
    always: true
    command: {{check: {{script: "[ ! -e {folder}/kept ]"}}, do: {{script: "rm -f {folder}/kept"}}}}
"""


class Scene:
    """A home that knows the key, and a playbook."""

    def __init__(self, folder: Path, sshd) -> None:
        self.folder, self.sshd = folder, sshd
        (folder / ".ssh").mkdir(mode=0o700)
        (folder / ".ssh" / "config").write_text(f"Host *\n IdentityFile {sshd.key}\n")
        (folder / "changes.yaml").write_text(PLAYBOOK.format(folder=folder))
        (folder / "flip.yaml").write_text(FLIP.format(folder=folder))
        self.env = {"HOME": str(folder), "RUNBOOK_INVENTORY": "", "XDG_STATE_HOME": str(folder / "state")}
        self.address = f"root@{sshd.address}:{sshd.port}"
        self.changed = folder / "changed"

    def run(self, *argv: str) -> Said:
        return runbook(*argv, cwd=self.folder, **self.env)


@pytest.fixture
def scene(tmp_path, sshd) -> Scene:
    return Scene(tmp_path, sshd)


def test_a_command_runs_on_an_address_whose_host_key_is_learnt(scene):
    said = scene.run("exec", scene.address, "--read", "--output", "json", "--", "id", "-un")
    assert (said.code, said.host(scene.address)["verdict"]) == (0, "healthy"), said.out + said.err
    (known,) = (file.read_text() for file in scene.folder.rglob("known_hosts"))
    assert f"[{scene.sshd.address}]:{scene.sshd.port}" in known
    strict = scene.run("exec", scene.address, "--read", "--strict-host-keys", "--", "true")
    assert strict.code == 0, strict.out


def test_a_name_with_a_dot_is_looked_up_in_the_ssh_config(scene):
    config = scene.folder / ".ssh" / "config"
    lines = f"Host gpu.far\n HostName {scene.sshd.address}\n Port {scene.sshd.port}\n User root\n"
    config.write_text(lines + config.read_text())
    said = scene.run("exec", "gpu.far", "--read", "--output", "json", "--", "true")
    assert (said.code, [host["host"] for host in said.document["hosts"]]) == (0, ["gpu.far"]), said.err


def test_a_run_on_an_address_is_resumed_and_undone_without_an_inventory(scene):
    """Mutants: ``inventory_again`` that looks for an inventory; one that takes the first host only."""
    begun = scene.run("run", "changes.yaml", "--hosts", scene.address, "--yes", "--output", "json")
    assert (begun.code, scene.changed.read_text()) == (1, "new\n"), begun.out + begun.err
    (scene.folder / "go").touch()
    resumed = scene.run("resume", "last", "--yes", "--output", "json")
    assert (resumed.code, resumed.step(scene.address, "wait")["status"]) == (0, "changed"), resumed.out + resumed.err
    undone = scene.run("undo", begun.document["run"], "--yes")
    assert not scene.changed.exists(), undone.out + undone.err
    shown = scene.run("history")
    assert (shown.code, "undo" in shown.out) == (0, True)


def test_a_plan_for_an_address_is_applied_also_where_an_inventory_has_come_meanwhile(scene):
    """Mutant: apply.py without ``only_addresses``."""
    (scene.folder / "go").touch()
    made = scene.run("plan", "changes.yaml", "--hosts", scene.address, "-o", "plan.json")
    assert made.code == 0, made.out + made.err
    saved = json.loads((scene.folder / "plan.json").read_text())
    assert (saved["rests_on"]["inventory"], list(saved["rests_on"]["hosts"])) == ([], [scene.address])
    assert scene.address in scene.run("show", "plan.json").out
    (scene.folder / "inventory").mkdir()
    (scene.folder / "inventory" / "distributed_hosts.yaml").write_text("hosts: {gpu-01: {}}\n")
    done = scene.run("apply", "plan.json", "--yes")
    assert (done.code, scene.changed.read_text()) == (0, "new\n"), done.out + done.err


def test_every_command_that_takes_hosts_takes_addresses(scene):
    closed = f"root@{scene.sshd.address}:1"  # a playbook's worth of probes is not what this is about
    for *argv, address in (
        ("hosts", scene.address),
        ("locks", scene.address),
        ("monitor", "--once", "--hosts", closed),
        ("diagnose", "--output", "json", "--hosts", closed),
    ):
        said = scene.run(*argv, address)
        assert (said.code, address in said.out) == (4 if address == closed else 0, True), said.out + said.err
    assert "refused" in said.out


def test_what_a_killed_run_owes_to_an_address_is_settled_without_an_inventory(scene):
    """Mutant: ``_inventory`` without ``with_addresses``."""
    kept = scene.folder / "kept"
    process = begun("run", "flip.yaml", "--hosts", scene.address, "--yes", cwd=scene.folder, **scene.env)
    until(lambda: kept.exists() or process.poll() is not None, "the change")
    assert process.poll() is None
    process.kill()
    (scene.folder / "go").touch()
    settled = scene.run("settle", "--yes")
    assert (settled.code, kept.exists()) == (0, False), settled.out + settled.err
