"""GPUs that want a reset get one, alone and once; one that is held gets none; what a reset takes away is there again."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.real("lab", "sshd")]


def resets(lab, host: str) -> list[str]:
    return [it for it in lab.calls(host) if it.startswith("reset ")]


@pytest.mark.soak
def test_a_fault_that_only_the_kernel_tells_is_mended_once_and_everything_is_as_it_was(practice):
    """The driver is one that says of no GPU what it wants: the marker in the kernel's log ends the fault."""
    lab = practice(
        "gpu-01=uncontained+exclusive", "gpu-02=uncontained+nameless", "gpu-03=healthy", "gpu-04=driver_hang"
    )
    plan = lab.run("gpu-reset", "--dry-run")
    assert [plan.host(f"gpu-0{it}")["verdict"] for it in (1, 2, 3, 4)] == [
        "planned", "unresolved", "healthy", "unresolved",
    ]  # fmt: skip
    assert "Xid 95" in plan.finding("gpu-01", "wanted")["say"]
    assert plan.writes() == []
    asked = lab.run("gpu-reset")
    assert "needs --yes" in asked.step("gpu-01", "reset")["why"]
    said = lab.run("gpu-reset", "--yes")
    assert said.host("gpu-01")["verdict"] == "resolved", said.out
    assert resets(lab, "gpu-01") == ["reset  0"]
    state = lab.lab.state("gpu-01")
    assert [(state / it).read_text().strip() for it in ("pm.0", "pl.0", "cm.0")] == [
        "Enabled", "600.00", "Exclusive_Process",
    ]  # fmt: skip
    assert "held by pid" in said.step("gpu-02", "reset")["why"], "never with a holder alive"
    assert said.host("gpu-02")["verdict"] == "unresolved"
    assert said.finding("gpu-04", "hangs")["status"] == "present"
    assert [resets(lab, f"gpu-0{it}") for it in (2, 3, 4)] == [[], [], []]
    again = lab.run("gpu-reset", "--yes", hosts="gpu-01,gpu-03")
    assert {it["verdict"] for it in again.document["hosts"]} == {"healthy"}, again.out
    assert again.writes() == []


@pytest.mark.soak
def test_a_node_of_slurm_is_drained_first_and_resumed_only_once_the_reset_has_worked(practice):
    lab = practice("gpu-01=uncontained+slurm_job", "gpu-02=uncontained+slurm_busy")
    said = lab.run("gpu-reset", "--yes", "-e", "wait=60s", hosts="gpu-01")
    steps = {it["id"]: it["status"] for it in said.host("gpu-01")["steps"] if it["phase"] == "remediate"}
    assert steps == {"drain": "changed", "reset": "changed", "undrain": "changed"}, said.out
    assert said.host("gpu-01")["verdict"] == "resolved"
    held = lab.run("gpu-reset", "--yes", "-e", "wait=1s", hosts="gpu-02")
    steps = {it["id"]: it["status"] for it in held.host("gpu-02")["steps"] if it["phase"] == "remediate"}
    assert (steps["drain"], steps["reset"]) == ("failed", "blocked"), held.out
    assert resets(lab, "gpu-02") == []
    assert (lab.lab.state("gpu-02") / "slurm" / "flags").read_text().strip() == "DRAIN", "no new job comes"


@pytest.mark.soak
def test_a_gpu_of_which_the_driver_says_it_is_reset_and_another_only_by_name(practice):
    lab = practice("gpu-01=resettable")
    said = lab.run("gpu-reset", "--yes")
    assert said.host("gpu-01")["verdict"] == "resolved", said.out
    assert resets(lab, "gpu-01") == ["reset  0"]
    shown = lab.run("gpu-reset", "--dry-run", "-e", 'gpus=["1"]', output="console").out
    assert len(shown.splitlines()) <= 50
    named = lab.run("gpu-reset", "--yes", "-e", 'gpus=["1"]')
    assert resets(lab, "gpu-01") == ["reset  0", "reset  1"], named.out
    wrong = lab.run("gpu-reset", "--yes", "-e", 'gpus=["7"]')
    assert wrong.host("gpu-01")["verdict"] == "unresolved"
    assert "no GPU 7" in wrong.finding("gpu-01", "missing")["say"]
