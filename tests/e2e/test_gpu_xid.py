"""What the kernel said about GPUs is told with who acts; nothing is touched but the process that a fault names, if asked."""

from __future__ import annotations

import pytest

from tests.support.program import scene

pytestmark = pytest.mark.real("lab", "sshd")

GIVEN = scene("gpu-xid")


def errors(said, host: str) -> list[str]:
    return [it["id"] for it in said.host(host)["findings"] if it["status"] == "present" and it["severity"] == "error"]


def test_each_gpu_is_told_by_what_it_needs_and_only_a_named_process_is_ended_and_only_if_asked(practice):
    """Mutants: `this_boot`; the step without its `when`; processes by name alone; a probe that calls nvidia-smi."""
    made = practice(
        *("lost=xid_reboot", "sick=xid_reset", "app=xid_application", "before=xid_before_boot", "well=healthy"),
    )
    made.exec("app", "cd /run/lab/jobs; HOLD= setsid ./python3 train.py --rank 4 </dev/null >/dev/null 2>&1 &")
    first = made.run("gpu-xid", "--yes", *GIVEN)
    assert first.writes() == []
    assert {it["host"]: it["verdict"] for it in first.document["hosts"]} == {
        "lost": "unresolved",
        "sick": "unresolved",
        "app": "unresolved",
        "before": "healthy",
        "well": "healthy",
    }, first.out
    assert errors(first, "lost") == ["reboot_needed"]
    said = first.finding("lost", "reboot_needed")
    assert said["say"].startswith(
        "GPU 0000:1a:00.0: the GPU has fallen off the PCI bus (Xid 79), and the driver itself"
    )
    assert [it.split(",")[0] for it in said["evidence"]["newest_first"]] == [
        "0000:3d:00.0 Xid 154",
        "0000:1a:00.0 Xid 154",
        "0000:1a:00.0 Xid 79",
    ]
    assert errors(first, "sick") == ["reset_needed"]
    assert any(
        "gpu-reset --hosts sick" in it and "0000:1a:00.0" in it
        for it in first.finding("sick", "reset_needed")["advise"]
    )
    assert errors(first, "app") == ["application_faulted"]
    assert all(made.calls(host) == [] for host in ("lost", "sick", "app")), "nvidia-smi may hang there"

    ended = made.run("gpu-xid", "--yes", *GIVEN, "-e", "end_application=true")
    assert ended.host("app")["verdict"] == "resolved", ended.out
    assert [it["command"].split()[-1] for it in ended.step("app", "end_application")["victims"]] == ["3"]
    assert {it.split()[-1] for it in made.commands("app") if "train.py" in it} == {"4"}, "another job goes on"

    made.exec("sick", "/run/lab/bin/nvidia-smi -i 0 -pm 0; /run/lab/bin/nvidia-smi --gpu-reset -i 0")
    made.exec("well", "rm /run/lab/kernel")
    again = made.run("gpu-xid", "--yes", *GIVEN)
    assert again.writes() == []
    assert {it["host"]: it["verdict"] for it in again.document["hosts"] if it["host"] in ("app", "sick", "well")} == {
        "app": "healthy",
        "sick": "healthy",
        "well": "unknown",
    }, again.out
    assert again.finding("app", "application_gone")["status"] == "present"
    assert again.finding("well", "unreadable")["status"] == "present"


def test_where_the_numbers_of_the_log_may_be_anothers_no_process_is_ended(practice):
    made = practice("app=xid_application+pod")
    said = made.run("gpu-xid", "--yes", "-e", "end_application=true")
    assert said.host("app")["verdict"] == "unknown", said.out
    assert said.writes() == []
    assert any("train.py" in it for it in made.commands("app"))


@pytest.mark.soak
def test_a_gpu_fault_that_explains_it_comes_before_what_other_playbooks_would_guess(practice):
    """Mutants: any of the four playbooks without `gpu_fault` among what supersedes its guess."""
    made = practice(
        *("leader=leader+no_gpu", "silent=silent_stop+xid_reboot", "timeout=update_timeout+xid_reboot"),
        *("jobs=stuck+xid_reboot", "parts=inference_died+xid_reset"),
    )
    quick = ("-e", "samples=3", "-e", "every=400ms")
    crash = made.run("training-crash", "--yes", *scene("training-crash"), *quick, hosts="silent,timeout")
    assert errors(crash, "silent") == ["gpu_lost", "gpu_fault"], crash.out
    assert "Most likely" not in str(crash.host("silent")["findings"][0])
    assert crash.finding("silent", "silent_stop")["status"] == "absent"
    assert "runbook run gpu-xid --hosts silent" in crash.finding("silent", "gpu_fault")["advise"][0]
    assert errors(crash, "timeout") == ["gpu_lost", "gpu_fault", "gpu_fault_then"], crash.out
    assert "has fallen off the PCI bus (Xid 79)" in crash.finding("timeout", "gpu_fault_then")["say"]

    address = next(it.address for it in made.lab.hosts if it.name == "leader")
    asks = ("-e", "leader=leader", "-e", f"url=http://{address}:8770", "-e", "older_than=0", "-e", "watch=0")
    stuck = made.run("stuck-node", "--yes", *asks, hosts="jobs")
    assert errors(stuck, "jobs") == ["gpu_fault"], stuck.out
    assert stuck.writes() == []
    assert sum("selfplay.py" in it for it in made.commands("jobs")) == 2

    hang = made.run("pipeline-hang", "--yes", *scene("pipeline-hang"), hosts="parts")
    assert errors(hang, "parts") == ["gpu_fault"], hang.out
