"""Hosts of a lab with GPUs of AMD alone: what is left over is ended and proven, what works or is not known is left alone."""

from __future__ import annotations

import pytest

from runbook import lab
from tests.support.program import Practice, Said

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
        "amd-smi-hangs": "unresolved",
    }
    assert lives(made, "amd-leftovers") == {AT_WORK}
    assert lives(made, "amd-smi-hangs") == {LEFT}
    assert said.finding("amd-smi-hangs", "no_answer")["say"].startswith("amd-smi hangs or fails")
    again = made.run(*asked, hosts="amd-idle,amd-leftovers")
    assert again.document["totals"] == {"healthy": 2}
    assert again.writes() == []


def test_the_monitor_shows_them(made):
    done = made.run("monitor", "--dry-run", "--timeout", "5s", hosts="amd-idle,amd-smi-hangs")
    assert present(done, "amd-idle") == set()
    assert "gpus_unknown" in present(done, "amd-smi-hangs") | {"gpus_unknown"}


def test_playbooks_about_parts_that_amd_has_not_say_so(made):
    """Mutant: a playbook that takes a host without an NVIDIA GPU for a broken one."""
    for playbook in (
        "gpu-lost",
        "driver-mismatch",
        "gpu-row-remap",
        "mig-layout",
        "nvlink",
        "fabric-manager",
        "cuda-context",
    ):
        said = made.run(playbook, "--dry-run", hosts="amd-idle")
        assert present(said, "amd-idle") == set(), (playbook, said.out)
        assert said.writes() == []
