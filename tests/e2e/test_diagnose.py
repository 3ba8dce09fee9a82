"""`runbook diagnose` on hosts of the lab: the cause, or the playbook that cures it; a healthy host is healthy."""

from __future__ import annotations

import json

import pytest

from runbook.commands.input_files import library
from tests.support.program import runbook

pytestmark = pytest.mark.real("lab", "sshd")

WANTED = {
    "leftovers": ("zombie-gpu", "held"),
    "gpu_lost": ("gpu-lost", "lost"),
    "mismatch": ("driver-mismatch", "mismatch"),
    "fabric_down": ("fabric-manager", "stopped"),
    "shm_full": ("shm-full", "full"),
    "ib_down": ("ib-link", "down"),
}


def test_each_fault_leads_to_its_playbook_and_nothing_is_changed(practice, tmp_path):
    (tmp_path / "playbooks").mkdir()  # the jobs of a lab are seconds old, and are no leftovers yet
    text = (library() / "zombie-gpu.yaml").read_text()
    assert "default: 5m" in text
    (tmp_path / "playbooks" / "zombie-gpu.yaml").write_text(text.replace("default: 5m", "default: 0s"))
    lab = practice(*(f"{it.replace('_', '-')}={it}" for it in WANTED), "well=healthy", "cpu=no_gpu", "gone=down")
    before = lab.commands("leftovers")
    said = runbook(
        "diagnose", "-i", str(lab.lab.inventory), "--hosts", "all", "--output", "json", timeout=200, cwd=tmp_path
    )
    seen = {it["host"].replace("-", "_"): it for it in json.loads(said.out)["hosts"]}
    causes = {name: (it["cause"]["playbook"], it["cause"]["finding"]) for name, it in seen.items() if it["cause"]}
    assert causes == WANTED, said.out
    assert {name: it["verdict"] for name, it in seen.items() if not it["cause"]} == {
        "well": "healthy",
        "cpu": "healthy",
        "gone": "unreachable",
    }
    line = f"runbook run zombie-gpu --hosts leftovers -i {lab.lab.inventory} --dry-run"
    assert seen["leftovers"]["cause"]["next"] == line
    assert "refused" in seen["gone"]["why"]
    assert said.code == 1
    assert before <= lab.commands("leftovers")
    assert not [call for call in lab.calls("leftovers") if "reset" in call]


def test_hosts_have_to_be_named(tmp_path):
    (tmp_path / "hosts.yaml").write_text("hosts: {here: {transport: local}}\n")
    said = runbook("diagnose", "-i", str(tmp_path / "hosts.yaml"))
    assert (said.code, "name them with --hosts" in said.err) == (2, True)
