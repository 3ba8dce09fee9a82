"""ib-link and nccl-timeout on hosts of a lab: who is the cause, who its victims, and nothing is sent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runbook import lab
from tests.support.program import Practice, Said

pytestmark = [pytest.mark.real("lab", "sshd")]
SINCE = float(Path("/proc/uptime").read_text().split()[0]) / 2
"""Seconds for which the kernel's log of this machine, which is the hosts', is there, however short it has been up."""
LOGS = ("-e", f"logs={json.dumps(['/run/lab/workspace/nccl/*.log'])}", "-e", f"since={SINCE:.0f}s")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    asked = tuple(f"{it.replace('_', '-')}={it}" for it in ("ib_down", "nccl_waits", "nccl_cause", "healthy"))
    it = lab.up(lab.LabOptions(directory=tmp_path_factory.mktemp("fabric") / "lab", faults=asked))
    yield Practice(it)
    lab.down(it.directory)


def present(said: Said) -> dict[str, dict[str, str]]:
    return {
        host["host"]: {it["id"]: it["say"] for it in host["findings"] if it["status"] == "present"}
        for host in said.document["hosts"]
    }


def verdicts(said: Said) -> dict[str, str]:
    return {it["host"]: it["verdict"] for it in said.document["hosts"]}


def test_the_host_whose_link_is_down_and_the_one_that_is_slower_are_named(made):
    said = made.run("ib-link", "--yes")
    assert said.writes() == []
    assert verdicts(said) == {
        "ib-down": "unresolved", "nccl-waits": "healthy", "nccl-cause": "unresolved", "healthy": "unresolved",
    }  # fmt: skip
    found = present(said)
    assert found["ib-down"].keys() == {"down", "flaps"}
    assert "mlx5_1/1: DOWN, Polling, lost its link 5 times" in found["ib-down"]["down"]
    assert "4 times within 10m" in found["ib-down"]["flaps"]
    assert "Cable unplugged" in said.finding("ib-down", "down")["evidence"]["unplugged"][0]
    assert found["nccl-cause"] == {
        "slower": "the ports carry 1400 Gb/s together (mlx5_2/1: 200 Gb/s), and 1600 on nccl-waits"
    }
    assert found["nccl-waits"] == {}
    assert found["healthy"] == {
        "no_card": "no InfiniBand or RoCE port at all, and 3 of 4 hosts have some: its cards are gone, or it is built otherwise"
    }


def test_one_host_alone_is_not_compared_and_its_lost_link_is_named_all_the_same(made):
    assert verdicts(made.run("ib-link", "--dry-run", hosts="ib-down")) == {"ib-down": "unresolved"}
    assert verdicts(made.run("ib-link", "--dry-run", hosts="nccl-cause")) == {"nccl-cause": "healthy"}


def test_the_cause_of_a_timeout_is_the_full_disk_of_another_host_and_not_its_slow_link(made):
    said = made.run("nccl-timeout", "--yes", *LOGS)
    assert said.writes() == []
    found = present(said)
    assert "No space left on device" in found["nccl-cause"]["did_not_report"]
    assert "those of nccl-waits waited" in found["nccl-cause"]["did_not_report"]
    assert "2 ranks of this host only waited, 600 s in ALLREDUCE 1580, for nccl-cause" in found["nccl-waits"]["victim"]
    assert verdicts(said)["nccl-waits"] == "healthy"
    assert verdicts(said)["nccl-cause"] == "unresolved"
    assert found["healthy"].keys() == {"no_log"}
    alone = made.run("nccl-timeout", "--dry-run", *LOGS, hosts="nccl-waits")
    assert present(alone)["nccl-waits"].keys() == {"timed_out"}


def test_what_an_engineer_reads_is_one_screen(made):
    for playbook, given in {"ib-link": (), "nccl-timeout": LOGS}.items():
        lines = made.run(
            playbook, "--dry-run", *given, output="console", hosts="nccl-waits,nccl-cause"
        ).out.splitlines()
        assert sum(1 + len(line) // 120 for line in lines) <= 50, (playbook, lines)
