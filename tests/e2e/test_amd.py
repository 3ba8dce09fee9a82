"""Hosts of a lab with GPUs of AMD alone: what is left over is ended and proven, what works or is not known is left alone."""

from __future__ import annotations

import pytest

from runbook import lab
from tests.support.program import Practice, Said, runbook

pytestmark = pytest.mark.real("lab", "sshd")

LEFT, AT_WORK = "sglang/launch_server.py", "torchrun"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    asked = tuple(f"{fault.replace('_', '-')}={fault}" for fault in lab.FAULTS if fault.startswith("amd_"))
    it = lab.up(lab.LabOptions(directory=tmp_path_factory.mktemp("amd") / "lab", faults=asked))
    yield Practice(it)
    lab.down(it.directory)


def lives(made: Practice, host: str) -> set[str]:
    """Which of the jobs live on *host*."""
    commands = made.commands(host)
    return {job for job in (LEFT, AT_WORK) if any(job in it for it in commands)}


def present(said: Said, host: str) -> set[str]:
    found = said.host(host)["findings"]
    return {it["id"] for it in found if it["status"] == "present" and it["severity"] != "info"}


def test_each_gpu_has_its_word(made):
    """Mutants: a driver of AMD that is taken for none; an amd-smi that hangs and is asked again."""
    said = made.run("gpu-health", "--dry-run", "--timeout", "5s")
    assert {it["host"]: present(said, it["host"]) for it in said.document["hosts"]} == {
        "amd-idle": set(),
        "amd-leftovers": set(),
        "amd-smi-hangs": {"hung"},
        "amd-errors": {"memory_errors"},
    }
    assert said.host("amd-idle")["verdict"] == "healthy"
    assert "2 of 2 GPUs healthy" in said.finding("amd-idle", "summary")["say"]


def test_what_is_left_over_is_ended_and_a_job_at_work_is_spared(made):
    """Mutants: /dev/kfd that any idle GPU stands for; a host whose amd-smi hangs, and that is cleaned all the same."""
    hosts = "amd-idle,amd-leftovers,amd-smi-hangs"
    asked = ("zombie-gpu", "-e", "older_than=0s", "--timeout", "10s", "--yes")
    said = made.run(*asked, hosts=hosts)
    (stop,) = (it for it in said.host("amd-leftovers")["steps"] if it["id"] == "stop_leftovers")
    assert [LEFT in it["command"] for it in stop["victims"]] == [True], said.out
    assert (stop["status"], stop["verified"]) == ("changed", True)
    assert {it["host"]: it["verdict"] for it in said.document["hosts"]} == {
        "amd-idle": "healthy",
        "amd-leftovers": "resolved",
        "amd-smi-hangs": "unknown",
    }
    assert lives(made, "amd-leftovers") == {AT_WORK}
    assert lives(made, "amd-smi-hangs") == {LEFT}
    assert said.finding("amd-smi-hangs", "no_answer")["say"].startswith("amd-smi hangs or fails")
    again = made.run(*asked, hosts="amd-idle,amd-leftovers")
    assert again.document["totals"] == {"healthy": 2}
    assert again.writes() == []


def test_a_diagnosis_of_all_playbooks_names_the_one_cause(made):
    """Mutants: a playbook that takes what AMD never reports for a gap, or a host without NVIDIA's driver for a fault."""
    where = ("-i", str(made.lab.inventory), "--hosts", "amd-idle,amd-errors,amd-smi-hangs", "--timeout", "5s")
    said = runbook("diagnose", *where, "--output", "json")
    causes = {
        it["host"]: it["cause"] and (it["cause"]["playbook"], it["cause"]["finding"]) for it in said.document["hosts"]
    }
    assert causes == {
        "amd-idle": None,
        "amd-errors": ("gpu-health", "memory_errors"),
        "amd-smi-hangs": ("gpu-health", "hung"),
    }
    assert {it["host"]: it["verdict"] for it in said.document["hosts"]}["amd-idle"] == "healthy"


def test_what_is_nvidias_alone_is_not_done_to_them(made):
    for playbook in (
        "gpu-reset",
        "gpu-row-remap",
        "driver-mismatch",
        "mig-layout",
        "nvlink",
        "fabric-manager",
        "gpu-lost",
    ):
        said = made.run(playbook, "--yes", hosts="amd-idle")
        found = {it["id"] for it in said.host("amd-idle")["findings"] if it["status"] != "absent"}
        assert found <= {"other_vendor", "not_checked", "summary"}, (playbook, said.out)
        assert (said.host("amd-idle")["verdict"], said.writes()) == ("healthy", []), (playbook, said.out)
