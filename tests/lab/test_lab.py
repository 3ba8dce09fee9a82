"""A lab is what it says: apart from this machine, apart from each other, and gone when it is over."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from runbook import lab
from runbook.errors import ConfigError
from tests.lab.host_shell import on
from tests.support.program import runbook
from tests.support.unprivileged import ordinary_user
from tests.support.waiting import until

pytestmark = pytest.mark.real("lab")


@pytest.fixture(params=[pytest.param("sshd", marks=pytest.mark.real("sshd")), "embedded"])
def made(request, tmp_path):
    it = lab.up(
        lab.LabOptions(
            directory=tmp_path / "lab",
            faults=("gpu-01=leftovers+busy", "gpu-02=resettable", "cpu-01=no_gpu"),
            embedded=request.param == "embedded",
        )
    )
    yield it
    lab.down(it.directory)


def test_hosts_are_apart_from_this_machine_and_from_each_other(made):
    assert on(made, "gpu-01", "hostname").strip() == "gpu-01"
    assert "sglang" not in on(made, "gpu-02", "ps -eo args")
    assert str(os.getpid()) not in on(made, "gpu-02", "ps -eo pid=").split()
    assert on(made, "gpu-01", "ls /dev/nvidia*").split() == [
        "/dev/nvidia-uvm",
        "/dev/nvidia0",
        "/dev/nvidia1",
        "/dev/nvidiactl",
    ]
    assert on(made, "cpu-01", "ls /dev/nvidia*; ls /sys/bus/pci/devices; command -v nvidia-smi") == ""
    assert (
        on(
            made,
            "gpu-01",
            'for it in docker dockerd; do [ ! -x "$(command -v $it)" ] || echo $it; done; ls /var/run/docker.sock',
        )
        == ""
    )
    assert not Path("/run/lab").exists()


def test_the_load_of_a_gpu_follows_the_processes_that_live(made):
    ask = "nvidia-smi --query-gpu=index,utilization.gpu,memory.used --format=csv,noheader,nounits"
    assert on(made, "gpu-01", ask) == "0, 0, 29004\n1, 87, 60004\n"
    on(made, "gpu-01", "pkill -f [l]aunch_server; pkill -f [-]-live; pkill -f [-]-rank")
    until(lambda: on(made, "gpu-01", ask) == "0, 0, 8004\n1, 0, 4\n")


def test_nvidia_smi_obeys_the_rules_of_the_real_one(made):
    assert "not a valid field" in on(made, "gpu-01", "nvidia-smi --query-gpu=index,nonsense --format=csv; echo rc=$?")
    refused = on(made, "gpu-01", "nvidia-smi -pm 0 -i 0 >/dev/null; nvidia-smi --gpu-reset -i 0; echo rc=$?")
    assert "00000000:1A:00.0: In use by another client" in refused
    assert refused.endswith("rc=255\n")
    assert on(made, "gpu-02", "nvidia-smi --gpu-reset -i 0; echo rc=$?").endswith("rc=255\n"), "persistence mode is on"
    freed = on(made, "gpu-02", "nvidia-smi -pm 0 -i 0 >/dev/null; nvidia-smi --gpu-reset -i 0; echo rc=$?")
    assert "was successfully reset" in freed
    assert freed.endswith("rc=0\n")
    rows = on(made, "gpu-02", "nvidia-smi --query-gpu=gpu_recovery_action --format=csv,noheader")
    assert rows == "None\nNone\n"


def test_down_leaves_no_process_no_mount_and_no_file(tmp_path):
    made = lab.up(lab.LabOptions(directory=tmp_path / "lab", faults=("gpu-01=leftovers+busy", "gpu-02=mute")))
    pids = [it.pid for it in made.hosts]
    assert lab.down(made.directory) == ("gpu-01", "gpu-02")
    assert not [it for it in pids if Path(f"/proc/{it}").exists() and Path(f"/proc/{it}/cmdline").read_text()]
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()
    assert not made.directory.exists()
    assert lab.down(made.directory) == ()


def test_two_labs_live_side_by_side(tmp_path, made):
    other = lab.up(lab.LabOptions(directory=tmp_path / "other", faults=("gpu-01=healthy",)))
    try:
        assert "sglang" in on(made, "gpu-01", "ps -eo args")
        assert "sglang" not in on(other, "gpu-01", "ps -eo args")
    finally:
        lab.down(other.directory)


def test_a_fault_that_is_none_is_an_error_with_a_suggestion(tmp_path):
    with pytest.raises(ConfigError) as caught:
        lab.up(lab.LabOptions(directory=tmp_path / "lab", faults=("gpu-01=leftover", "x y=busy", "gpu_1=busy")))
    assert "did you mean leftovers?" in str(caught.value)
    assert str(caught.value).count("not a host name") == 2


def test_a_folder_of_somebody_else_is_left_alone(tmp_path):
    (tmp_path / "precious").write_text("x")
    with pytest.raises(ConfigError):
        lab.up(lab.LabOptions(directory=tmp_path, faults=("gpu-01",)))
    assert (tmp_path / "precious").exists()


@pytest.mark.real("lab", "root", "setpriv")
@pytest.mark.soak
def test_an_ordinary_user_has_a_lab_too():
    """Mutants: hosts.py without the user namespace; with sshd, which cannot run there."""
    with ordinary_user() as user:
        words = user.words("lab", "run", "zombie-gpu", "--yes", "--output", "json", "--dir", f"{user.home}/lab",
                           "--host", "gpu-01=leftovers+busy")  # fmt: skip
        done = subprocess.run(words, capture_output=True, text=True, timeout=100, check=False)
        assert done.returncode == 0, done.stderr
        (host,) = json.loads(done.stdout)["hosts"]
        assert host["verdict"] == "resolved"
        assert {it["id"]: it["status"] for it in host["findings"]}["in_use"] == "present"
        assert not (user.home / "lab").exists()


@pytest.mark.real("lab")
def test_a_lab_that_takes_the_place_of_another_says_whom_it_ends(tmp_path):
    where = ("--dir", str(tmp_path / "lab"))
    try:
        first = runbook("lab", "up", *where, "--host", "one=healthy")
        assert "-e older_than=0s" in first.out, "or what it prints would call each new process starting"
        assert first.out.startswith("1 host up:"), first.err
        second = runbook("lab", "up", *where, "--host", "two=healthy")
        assert second.out.startswith(f"ended one (the lab in {tmp_path / 'lab'}; --dir DIR keeps two labs separate)\n")
    finally:
        runbook("lab", "down", *where)
