"""A host that really goes away: drained, rebooted once, back in another boot with its GPUs, and resumed; or honestly not."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from runbook.commands.input_files import library
from tests.support.program import PROGRAM, Practice, Said, runbook
from tests.support.waiting import until

pytestmark = [pytest.mark.real("lab", "sshd", "root"), pytest.mark.slow]

SHORT = ("-e", "wait=20s", "-e", "within=30s", "-e", "gpus_within=10s")
OUR_REASON = "runbook: node-reboot"


@pytest.fixture
def unlimited(tmp_path) -> str:
    """The playbook for many hosts at once."""
    lines = (library() / "node-reboot.yaml").read_text().splitlines()
    (tmp_path / "node-reboot.yaml").write_text("\n".join(it for it in lines if not it.startswith("limits:")))
    return str(tmp_path / "node-reboot.yaml")


def slurm(lab: Practice, host: str, name: str) -> str:
    return (lab.lab.state(host) / "slurm" / name).read_text().strip()


def reboots(lab: Practice, host: str) -> int:
    """How often it was told to, since its last boot."""
    return sum(it == "reboot" for it in lab.calls(host))


def boot_id(lab: Practice, host: str) -> str:
    return (lab.lab.state(host).parent / "boot_id").read_text().strip()


def statuses(said: Said, host: str) -> dict[str, str]:
    return {it["id"]: it["status"] for it in said.host(host)["steps"] if it["phase"] == "remediate"}


def test_a_drain_for_one_gpu_names_its_job_and_waits_for_none(practice):
    """Mutants: a drain that waits for all jobs; one that begins although there is no such GPU."""
    lab = practice("gpu-01=slurm_busy")
    wrong = lab.run("node-drain", "--yes", "-e", 'gpus=["7"]')
    assert wrong.writes() == []
    assert "there is no GPU 7 on this host; there are: 0, 1" in wrong.out
    gone = ("-e", 'gpus=["1"]', "-e", "reason=GPU 1 is lost")
    dry = lab.run("node-drain", "--dry-run", *gone)
    assert dry.writes() == []
    assert dry.step("gpu-01", "named")["why"].startswith("GPU 1 is given to job 4243 of eve: end it, or")
    assert "wait" not in dry.step("gpu-01", "drain")["planned"]
    done = lab.run("node-drain", "--yes", *gone)
    assert done.step("gpu-01", "drain")["status"] == "changed", done.out
    assert slurm(lab, "gpu-01", "flags") == "DRAIN"
    assert slurm(lab, "gpu-01", "reason").startswith("runbook: GPU 1 is lost [root@")
    assert slurm(lab, "gpu-01", "jobs").startswith("4242 RUNNING bob 0\n4243 RUNNING eve 1")
    assert lab.run("node-drain", "--yes", *gone).writes() == []


@pytest.mark.soak
def test_hosts_come_back_or_not_and_each_says_so(practice, unlimited):
    """Mutants: ``_through_restart`` left out; ``settled`` without the boot id, or without the GPUs; ``Lock.renew`` and
    ``note_again`` left out; the scheduler's ``_unproven`` that finds nothing."""
    lab = practice(
        "good=slurm_job", "poor=gpu_missing", "gone=never_back", "same=reboot_ignored", "theirs=slurm_drained",
        "held=slurm_busy",
    )  # fmt: skip
    names = ("good", "poor", "gone", "same", "theirs", "held")
    before = {it: boot_id(lab, it) for it in names}

    said = lab.run(unlimited, "--dry-run", *SHORT)
    assert said.document["totals"] == {"planned": 6}, said.out
    assert said.writes() == []
    assert {it: boot_id(lab, it) for it in names} == before

    said = lab.run(unlimited, "--yes", *SHORT)
    assert {it["host"]: it["verdict"] for it in said.document["hosts"]} == {
        "good": "resolved", "poor": "failed", "gone": "unreachable", "same": "failed", "theirs": "resolved",
        "held": "failed",
    }, said.out  # fmt: skip
    assert {it for it in names if boot_id(lab, it) != before[it]} == {"good", "poor", "theirs"}

    assert statuses(said, "good")["undrain"] == "changed"
    assert slurm(lab, "good", "flags") == ""
    assert "1 of 2 GPUs are on the PCI bus" in said.step("poor", "reboot")["why"]
    assert "stays drained: 1 of 2 GPUs respond" in said.step("poor", "undrain")["why"]
    assert "not back within 30 s" in said.step("gone", "reboot")["why"]
    assert "stays drained" in said.step("gone", "reboot")["why"]
    assert statuses(said, "gone")["undrain"] == "owed"
    assert "did not reboot within 30 s" in said.step("same", "reboot")["why"]
    assert "still in the same boot" in said.step("same", "undrain")["why"]
    assert {it: slurm(lab, it, "flags") for it in ("poor", "gone", "same")} == dict.fromkeys(
        ("poor", "gone", "same"), "DRAIN"
    )
    assert slurm(lab, "theirs", "reason").startswith("bad DIMM, ticket 4711 [alice@")
    assert "not our drain" in said.step("theirs", "undrain")["why"]
    assert "job 4242 of bob" in said.step("held", "drain")["why"]
    assert (statuses(said, "held")["reboot"], slurm(lab, "held", "flags")) == ("blocked", "")

    assert "owed-" in lab.exec("poor", "ls /run/runbook/*/")  # the note of the old boot was rebuilt

    again = lab.run(unlimited, "--yes", *SHORT, hosts="good,poor,same")
    assert again.writes() == [], again.out
    assert "was rebooted" in again.step("good", "reboot")["why"]
    assert "still in the same boot" in again.step("same", "reboot")["why"]
    assert {it["host"] for it in again.document["hosts"] if it["owed"]} == {"poor", "same"}
    assert reboots(lab, "same") == 1


def test_a_run_that_is_killed_while_the_host_is_away_is_gone_on_with_by_looking(practice):
    """Mutants: ``_rebooted`` that returns nothing; ``ChangeStarted`` without the boot id."""
    lab = practice("good=slurm")
    was = boot_id(lab, "good")
    argv = ("run", "node-reboot", "--hosts", "good", "-i", str(lab.lab.inventory), "--yes", *SHORT)
    process = subprocess.Popen((*PROGRAM, *argv), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    disk = lab.lab.state("good").parent / "disk" / "rebooted"
    until(disk.exists, "the reboot")
    process.send_signal(signal.SIGKILL)
    process.wait()
    until(lambda: boot_id(lab, "good") != was and (lab.lab.state("good") / "up").exists())
    assert slurm(lab, "good", "reason").startswith(OUR_REASON)

    said = runbook("resume", "last", "--yes", "--output", "json")
    ended = statuses(said, "good")
    assert (ended["reboot"], ended["undrain"]) == ("ok", "changed"), said.out
    assert "has rebooted since" in said.step("good", "reboot")["why"]
    assert (reboots(lab, "good"), slurm(lab, "good", "flags")) == (0, "")


@pytest.mark.soak
def test_a_plan_that_a_person_has_seen_is_what_is_done(practice, tmp_path):
    """Mutants: ``_shown_keys`` without steps that wait for their turn; ``_clear_the_way`` left out."""
    lab = practice("good=slurm")
    plan = str(tmp_path / "plan.json")
    options = ("-i", str(lab.lab.inventory))
    made = runbook("plan", "node-reboot", "--hosts", "good", *options, "-o", plan, *SHORT)
    assert "reboot the host" in made.out, made.err
    was = boot_id(lab, "good")
    done = runbook("apply", plan, "--yes", *options)
    assert done.code == 0, done.out + done.err
    assert boot_id(lab, "good") != was
    assert slurm(lab, "good", "flags") == ""
    late = runbook("run", "node-drain", "--hosts", "good", *options, "--yes", "--output", "json")
    assert late.host("good")["verdict"] == "resolved"
    back = runbook("run", "node-undrain", "--hosts", "good", *options, "--yes", "--output", "json")
    assert (back.host("good")["verdict"], slurm(lab, "good", "flags")) == ("resolved", "")
    assert Path(plan).exists()


def test_a_kubernetes_node_is_cordoned_and_only_what_we_cordoned_is_uncordoned(practice):
    lab = practice("kube=kubernetes")
    kept = lab.run("node-drain", "--yes", "-e", "wait=1s")
    assert "training/grpo-worker-0" in kept.step("kube", "drain")["why"]
    moved = lab.run("node-drain", "--yes", "-e", "wait=60s", "-e", "evict=true")
    assert moved.host("kube")["verdict"] == "resolved", moved.out
    note = lab.lab.state("kube") / "kube" / "note"
    assert note.read_text() == "runbook: node-drain\n"
    note.unlink()  # somebody else's cordon has no reason of ours
    left = lab.run("node-undrain", "--yes")
    assert (left.writes(), left.host("kube")["verdict"]) == ([], "healthy")
    note.write_text("runbook: node-drain\n")
    assert lab.run("node-undrain", "--yes").host("kube")["verdict"] == "resolved"
    assert not (lab.lab.state("kube") / "kube" / "unschedulable").exists()
