"""gpu-health and the playbooks that go on from it, on hosts of a lab: the cause, what is done, and what is left alone."""

from __future__ import annotations

import shlex

import pytest

from runbook import lab
from runbook.library.kernel.facts.modules import unload
from tests.support.program import Practice, Said
from tests.support.waiting import until

pytestmark = [pytest.mark.real("lab", "sshd")]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    faults = ("gpu_lost", "mismatch", "mismatch_held", "remap_pending", "throttled", "healthy", "smi_hangs")
    asked = (
        *(f"{fault.replace('_', '-')}={fault}" for fault in faults),
        *("reloaded=mismatch", "held=mismatch_held", "maintained=remap_pending"),
    )
    it = lab.up(lab.LabOptions(directory=tmp_path_factory.mktemp("gpus") / "lab", faults=asked))
    yield Practice(it)
    lab.down(it.directory)


def present(said: Said, host: str) -> set[str]:
    found = said.host(host)["findings"]
    return {it["id"] for it in found if it["status"] == "present" and it["severity"] != "info"}


def test_each_host_has_its_cause_and_nothing_is_sent(made):
    hosts = "gpu-lost,mismatch,mismatch-held,remap-pending,throttled,healthy"
    asked = ("gpu-health", "--yes", "-e", "expect_gpus=2")
    said, hung = made.run(*asked, hosts=hosts), made.run(*asked, "--timeout", "5s", hosts="smi-hangs")
    assert (said.writes(), hung.writes()) == ([], [])
    assert present(hung, "smi-hangs") == {"hung"}
    assert {it["host"]: present(said, it["host"]) for it in said.document["hosts"]} == {
        "gpu-lost": {"lost"},
        "mismatch": {"mismatch"},
        "mismatch-held": {"mismatch"},
        "remap-pending": {"memory_waits"},
        "throttled": {"slowed"},
        "healthy": set(),
    }
    assert said.host("healthy")["verdict"] == "healthy"
    assert len(made.calls("smi-hangs")) == 1, "nvidia-smi is not asked again where it hangs"


@pytest.mark.soak
def test_what_an_engineer_reads_is_one_screen(made):
    for host, playbook in {
        "gpu-lost": "gpu-lost",
        "mismatch-held": "driver-mismatch",
        "throttled": "gpu-throttle",
    }.items():
        lines = made.run(playbook, "--dry-run", hosts=host, output="console").out.splitlines()
        screen = sum(1 + len(line) // 120 for line in lines)
        assert screen <= 50, (playbook, screen)


def test_a_lost_gpu_is_named_with_what_the_kernel_and_the_bus_say(made):
    said = made.run("gpu-lost", "--yes", hosts="gpu-lost")
    found = said.finding("gpu-lost", "lost")
    assert said.host("gpu-lost")["verdict"] == "unresolved"
    assert "0000:3d:00.0" in found["say"]
    assert "(rev ff)" in found["evidence"]["bus"][0]
    assert "GPU has fallen off the bus." in found["evidence"]["kernel"][0]
    assert said.writes() == []
    again = made.run("gpu-lost", "--dry-run", hosts="gpu-lost")
    assert present(again, "gpu-lost") == {"lost"}, "it is still the same boot"


@pytest.mark.soak
def test_a_lost_gpu_comes_back_with_a_reboot_on_demand_and_not_twice_within_a_week(tmp_path):
    """Mutants: gpu-lost without `when: inputs.reboot`; `again` without history."""
    folder = tmp_path / "lab"
    made = Practice(lab.up(lab.LabOptions(directory=folder, faults=("gpu-01=gpu_lost+slurm",))))
    try:
        asked = ("gpu-lost", "--yes", "-e", "reboot=true", "-e", "wait=60s", "-e", "within=60s")
        done = made.run(*asked)
        assert done.host("gpu-01")["verdict"] == "resolved"
        assert [done.step("gpu-01", it)["status"] for it in ("drain", "reboot", "undrain")] == ["changed"] * 3
        assert made.run(*asked).writes() == []
        (made.lab.state("gpu-01") / "rebooted").unlink()
        for file, text in {"config": "\\377\\377\\377\\377", "current_link_width": "63\\n"}.items():
            made.exec("gpu-01", f"printf '{text}' >/sys/bus/pci/devices/0000:3d:00.0/{file}")
        again = made.run(*asked)
        assert (present(again, "gpu-01"), again.writes()) == ({"again"}, [])
    finally:
        lab.down(folder)


@pytest.mark.soak
def test_the_driver_is_loaded_anew_only_on_demand_and_only_where_nothing_uses_it(made):
    """Mutants: kernel_module.decide that does not ask for users; driver-mismatch without `when: inputs.reload`."""
    hosts = "reloaded,held"
    left = made.run("driver-mismatch", "--yes", hosts=hosts)
    assert left.writes() == []
    assert [it["verdict"] for it in left.document["hosts"]] == ["unresolved"] * 2
    shown = made.run("driver-mismatch", "--dry-run", "-e", "reload=true", hosts=hosts)
    assert shown.writes() == []
    assert "unload nvidia_modeset, nvidia_uvm, nvidia" in shown.step("reloaded", "reload")["planned"]
    done = made.run("driver-mismatch", "--yes", "-e", "reload=true", hosts=hosts)
    assert done.host("reloaded")["verdict"] == "resolved"
    assert done.step("reloaded", "one_version")["status"] == "ok"
    assert done.step("held", "reload")["status"] == "blocked"
    assert "train.py" in " ".join(done.finding("held", "mismatch")["advise"])
    script = shlex.quote(unload(("nvidia",)).script)
    assert made.exec("held", f"sh -c {script} sh nvidia 2>/dev/null; echo rc=$?") == "rc=16\n"
    assert not any(it.startswith("rmmod") for it in made.calls("held")), "the script asks the kernel once more itself"
    assert made.exec("held", "rmmod nvidia 2>/dev/null; echo rc=$?") == "rc=1\n", "the pretended rmmod refuses, too"
    again = made.run("driver-mismatch", "--yes", "-e", "reload=true", hosts="reloaded")
    assert (again.host("reloaded")["verdict"], again.writes()) == ("healthy", [])
    made.exec("held", "pkill -f [-]-older")
    until(lambda: not any("--older" in line for line in made.commands("held")), "its users to end")
    ended = made.run("driver-mismatch", "--yes", "-e", "reload=true", hosts="held")
    assert ended.host("held")["verdict"] == "resolved"


@pytest.mark.soak
def test_a_row_that_waits_is_for_the_next_maintenance_and_gone_after_a_reset(made):
    said = made.run("gpu-row-remap", "--yes", hosts="maintained,healthy")
    assert present(said, "maintained") == {"pending"}
    assert said.host("healthy")["verdict"] == "healthy"
    made.exec("maintained", "nvidia-smi -pm 0 -i 0; nvidia-smi --gpu-reset -i 0; nvidia-smi -pm 1 -i 0")
    again = made.run("gpu-row-remap", "--yes", hosts="maintained")
    assert again.host("maintained")["verdict"] == "healthy"


def test_heat_is_told_with_its_numbers_and_nothing_is_set(made):
    said = made.run("gpu-throttle", "--yes", "-e", "every=200ms", hosts="throttled,healthy")
    assert said.writes() == []
    assert present(said, "throttled") == {"too_hot"}
    assert "89 degrees" in said.finding("throttled", "too_hot")["say"]
    assert said.host("healthy")["verdict"] == "healthy"
