"""The main job, on real SSH, real processes and real signals; only the GPU is pretended."""

from __future__ import annotations

import json

import pytest

from runbook.commands.input_files import library
from tests.support.waiting import soon, until

pytestmark = pytest.mark.real("lab", "sshd")

DEAD = (
    "sglang/launch_server.py --model-path",
    "torchrun --nproc_per_node=2 examples",
    "gsm8k_grpo.py --rank 1",
    "areal.launcher",
)
LIVE = ("torchrun --nproc_per_node=2 train.py --live", "train.py --rank 0", "train.py --rank 1")


@pytest.fixture
def quick(tmp_path) -> str:
    """The playbook with shorter waits, for runs of which they are not the point."""
    text = (library() / "zombie-gpu.yaml").read_text()
    for long, short in (
        ("settle: 10s", "settle: 2s"),
        ("default: 5m", "default: 0s"),
        ("gone_for: 3s", "gone_for: 1s"),
        ("within: 30s", "within: 5s"),
    ):
        assert long in text
        text = text.replace(long, short)
    (tmp_path / "zombie-gpu.yaml").write_text(text)
    return str(tmp_path / "zombie-gpu.yaml")


def there(lines: set[str], parts: tuple[str, ...]) -> list[bool]:
    return [any(part in line for line in lines) for part in parts]


def test_a_dry_run_shows_who_would_die_and_changes_nothing(practice):
    lab = practice("gpu-01=leftovers", "gpu-02=leftovers+busy", "gpu-03=nameless")
    before = {it: lab.commands(it) for it in ("gpu-01", "gpu-02", "gpu-03")}
    said = lab.run("zombie-gpu", "-e", "older_than=0s", "--dry-run")
    assert said.code == 0, said.err
    assert said.document["mode"] == "plan"
    assert said.document["totals"] == {"planned": 3}
    victims = [it["command"] for it in said.step("gpu-01", "stop_leftovers")["victims"]]
    assert there(set(victims), DEAD) == [True] * 4
    assert {it["user"] for it in said.step("gpu-01", "stop_leftovers")["victims"]} == {"root"}
    assert said.finding("gpu-02", "in_use")["status"] == "present"
    spared = [it["command"] for it in said.step("gpu-02", "stop_leftovers")["victims"]]
    assert there(set(spared), LIVE) == [False] * 3
    assert [it["command"].split()[1] for it in said.step("gpu-03", "stop_leftovers")["victims"]] == ["exporter"]
    assert said.writes() == []
    until(lambda: {it: lab.commands(it) for it in before} == before, "only what ran before")  # a watchdog naps for 1 s
    assert not [
        it for host in before for it in lab.calls(host) if "reset" in it or "-pm" in it or it.startswith("persist")
    ]


def test_in_a_pod_a_gpu_at_work_for_another_is_named_and_nothing_is_planned(practice):
    """Mutant: `elsewhere` of zombie-gpu without `used_by_unseen`."""
    lab = practice("gpu-01=pod")
    said = lab.run("zombie-gpu", "-e", "older_than=0s", "--yes")
    assert said.host("gpu-01")["verdict"] == "unresolved", said.out
    assert said.finding("gpu-01", "elsewhere")["say"].startswith(
        "in use by a process that cannot be seen from here: GPU"
    )
    assert said.finding("gpu-01", "wedged")["status"] == "absent"
    assert said.writes() == []
    assert not [call for call in lab.calls("gpu-01") if "reset" in call]


@pytest.mark.soak
def test_what_holds_a_gpu_that_the_kernel_has_lost_is_not_ended_in_the_belief_that_it_helps(practice):
    """Mutants: `gpu_jobs` without `lost`; the finding without its advice."""
    lab = practice("gpu-01=leftovers")
    for bus in ("1a", "3d"):
        lost = f"[100.000000] NVRM: Xid (PCI:0000:{bus}:00): 79, pid=1, name=x, GPU has fallen off the bus."
        lab.exec("gpu-01", f"echo '{lost}' >>/run/lab/kernel")
    before = there(lab.commands("gpu-01"), DEAD[:3])
    said = lab.run("zombie-gpu", "-e", "older_than=0s", "--yes")
    assert there(lab.commands("gpu-01"), DEAD[:3]) == before == [True] * 3
    assert said.host("gpu-01")["verdict"] == "unresolved", said.out
    found = said.finding("gpu-01", "beyond_help")
    assert found["status"] == "present"
    assert "00.0, which is lost" in found["say"]
    assert "reboot" in found["advise"][0]
    assert said.finding("gpu-01", "gpu_fault")["status"] == "present"
    victims = [one["command"] for step in said.host("gpu-01")["steps"] for one in step["victims"]]
    assert there(set(victims), DEAD[:3]) == [False] * 3


@pytest.mark.soak
def test_a_run_ends_what_is_left_over_spares_what_works_and_proves_it(practice):
    lab = practice("gpu-01=leftovers", "gpu-02=leftovers+busy+daemon", "gpu-03=stubborn+nameless", "cpu-01=no_gpu")
    said = lab.run("zombie-gpu", "-e", "older_than=0s", "--yes")
    assert said.code == 0, said.out + said.err
    assert said.document["totals"] == {"resolved": 3, "healthy": 1}
    assert there(lab.commands("gpu-01"), DEAD) == [False] * 4
    assert there(lab.commands("gpu-02"), DEAD) == [False] * 4
    assert there(lab.commands("gpu-02"), (*LIVE, "nvidia-persistenced")) == [True] * 4
    assert not any("--stubborn" in it or "exporter" in it for it in lab.commands("gpu-03"))
    assert said.finding("gpu-01", "held")["status"] == "gone"
    assert said.step("gpu-01", "stop_leftovers")["verified"] is True
    again = lab.run("zombie-gpu", "-e", "older_than=0s", "--yes")
    assert again.code == 0
    assert again.document["totals"] == {"healthy": 4}
    assert again.writes() == []


@pytest.mark.soak
def test_without_a_terminal_and_without_yes_nothing_is_changed(practice, quick):
    lab = practice("gpu-01=leftovers", "gpu-02=resettable")
    said = lab.run(quick)
    assert said.host("gpu-01")["verdict"] == "unresolved"
    for host, step in (("gpu-01", "stop_leftovers"), ("gpu-02", "reset")):
        assert said.step(host, step)["status"] == "blocked"
        assert "needs --yes" in said.step(host, step)["why"]
    assert said.writes() == []
    assert there(lab.commands("gpu-01"), DEAD) == [True] * 4
    assert not any(it.startswith("reset") for it in lab.calls("gpu-02"))
    assert said.code == 1


@pytest.mark.soak
def test_a_gpu_that_wants_a_reset_gets_one_alone_and_persistence_comes_back(practice, quick):
    lab = practice("gpu-01=resettable")
    said = lab.run(quick, "--yes")
    assert said.step("gpu-01", "reset")["status"] == "changed", said.out
    assert said.host("gpu-01")["verdict"] == "resolved"
    assert [it for it in lab.calls("gpu-01") if it.startswith("reset ")] == ["reset  0"]
    assert (lab.lab.state("gpu-01") / "pm.0").read_text() == "Enabled\n"


@pytest.mark.soak
def test_a_gpu_busy_with_nobody_on_it_ends_in_honest_advice(practice, quick):
    lab = practice("gpu-01=wedged")
    said = lab.run(quick, "--yes")
    assert said.code == 1
    assert said.host("gpu-01")["verdict"] == "unresolved", said.out
    assert said.finding("gpu-01", "wedged")["status"] == "present"
    assert any("stop the whole pod" in it for it in said.finding("gpu-01", "wedged")["advise"])
    assert said.step("gpu-01", "reset")["ignored"] is True


@pytest.mark.soak
def test_what_comes_back_is_named_and_the_host_stays_unresolved(practice, quick):
    lab = practice("gpu-01=respawner")
    said = lab.run(quick, "--yes")
    assert said.code == 1
    assert said.host("gpu-01")["verdict"] == "unresolved", said.out
    step = said.step("gpu-01", "stop_leftovers")
    assert step["status"] == "failed"
    assert "again" in step["why"] or "respawn" in step["why"]


@pytest.mark.soak
def test_a_hanging_nvidia_smi_makes_the_host_unknown_and_nothing_is_killed_there(practice, quick):
    lab = practice("gpu-01=smi_hangs+leftovers", "gpu-02=leftovers")
    before = lab.commands("gpu-01")
    said = lab.run(quick, "--yes", "--timeout", "3s", hosts="gpu-01")
    assert said.code == 1
    assert said.host("gpu-01")["verdict"] == "unknown"
    assert there(lab.commands("gpu-01"), DEAD) == [True] * 4
    assert before <= lab.commands("gpu-01")
    assert soon(lambda: not any("nvidia-smi" in line for line in lab.commands("gpu-01"))), "a hung look is ended"
    assert lab.run(quick, "--yes", hosts="gpu-02").host("gpu-02")["verdict"] == "resolved"


@pytest.mark.parametrize("fault", [pytest.param("smi_fails", marks=pytest.mark.soak), "smi_noise"])
def test_an_nvidia_smi_that_complains_is_never_health(practice, quick, fault):
    lab = practice(f"gpu-01={fault}")
    said = lab.run(quick, "--yes")
    assert said.code == 1
    assert said.host("gpu-01")["verdict"] in ("unknown", "unresolved")
    assert said.writes() == []


@pytest.mark.soak
def test_one_host_down_and_one_mute_delay_nobody_and_are_named(practice, quick):
    lab = practice("gpu-01=leftovers", "gpu-02=down", "gpu-03=mute", "gpu-04=healthy")
    said = lab.run(quick, "--yes", "--connect-timeout", "10s")
    assert said.code == 4
    assert said.document["totals"] == {"unreachable": 2, "resolved": 1, "healthy": 1}
    assert "connection refused" in said.host("gpu-02")["error"]
    assert "banner" in said.host("gpu-03")["error"]
    assert {it["status"] for it in said.host("gpu-02")["steps"]} == {"unreachable"}
    assert said.host("gpu-04")["seconds"] < 60


@pytest.mark.soak
def test_spare_busy_false_ends_what_is_at_work_too(practice, quick):
    lab = practice("gpu-01=busy")
    said = lab.run(quick, "--yes", "-e", "spare_busy=false")
    assert there(lab.commands("gpu-01"), LIVE) == [False] * 3, said.out
    assert said.code == 0


def test_the_server_that_is_started_as_a_test_must_answer(practice):
    lab = practice("gpu-01=healthy")
    argv = ["python3", "-m", "http.server", "30000", "--bind", "127.0.0.1", "--directory", "/tmp/sglang"]
    asked = ("-e", f"server_argv={json.dumps(argv)}", "-e", "server_url=http://127.0.0.1:30000/")
    lab.exec("gpu-01", "mkdir /tmp/sglang")
    said = lab.run("try-server", "--yes", *asked)
    assert said.host("gpu-01")["verdict"] == "resolved", said.out
    assert said.step("gpu-01", "answers")["status"] == "ok"
    assert there(lab.commands("gpu-01"), ("http.server 30000",)) == [True]
    again = lab.run("try-server", "--yes", *asked)
    assert (again.host("gpu-01")["verdict"], again.writes()) == ("healthy", [])


JOB = """# four GPUs
allocation_mode: "sglang.d1t1p1+d3t1p1"  # three trainers
train_dataset:
  batch_size: 8
path: ${actor.path}
"""


@pytest.mark.soak
def test_a_bad_gpu_is_taken_out_of_the_allocation_when_asked_and_the_batch_must_fit(practice):
    """Row S0-21."""
    lab = practice("gpu-01=healthy")
    config = lab.lab.shared / "job.yaml"
    config.write_text(JOB)
    asked = ("reallocate-gpus", "--yes", "-e", "config=/run/lab/shared/job.yaml", "-e")
    said = lab.run(*asked, "allocation_mode=sglang.d1t1p1+d3t1p1")
    assert said.host("gpu-01")["verdict"] == "unresolved"
    assert "8 is not divisible by the 3 trainers" in said.finding("gpu-01", "uneven_batch")["say"]
    assert said.writes() == []
    assert config.read_text() == JOB

    said = lab.run(*asked, "allocation_mode=sglang.d1t1p1+d2t1p1")
    assert said.host("gpu-01")["verdict"] == "resolved"
    assert config.read_text() == JOB.replace("+d3", "+d2")
    said = lab.run(*asked, "allocation_mode=sglang.d1t1p1+d3t1p1", "-e", "batch_size=6")
    assert said.host("gpu-01")["verdict"] == "resolved"
    assert config.read_text() == JOB.replace("batch_size: 8", "batch_size: 6")
    again = lab.run(*asked, "allocation_mode=sglang.d1t1p1+d3t1p1", "-e", "batch_size=6")
    assert again.host("gpu-01")["verdict"] == "healthy"
    assert again.writes() == []


@pytest.mark.soak
def test_the_console_says_the_same_to_people(practice):
    lab = practice("gpu-01=leftovers", "gpu-02=healthy", "gpu-03=healthy", "gpu-04=down")
    said = lab.run("zombie-gpu", "-e", "older_than=0s", "--dry-run", output="console")
    assert "gpu-[02-03]: healthy" in said.out
    assert "would change stop_leftovers" in said.out
    assert "connection refused" in said.out
    assert "1 unreachable, 1 planned, 2 healthy" in said.out


@pytest.mark.soak
def test_the_embedded_server_will_do_where_there_is_no_sshd(practice, quick):
    lab = practice("gpu-01=leftovers+busy", "gpu-02=smi_hangs+leftovers", embedded=True)
    assert lab.run(quick, "--yes", "--timeout", "3s", hosts="gpu-02").host("gpu-02")["verdict"] == "unknown"
    said = lab.run(quick, "--yes", hosts="gpu-01")
    assert said.host("gpu-01")["verdict"] == "resolved", said.out
    assert there(lab.commands("gpu-01"), DEAD) == [False] * 4
    assert there(lab.commands("gpu-01"), LIVE) == [True] * 3
    assert soon(lambda: not any("nvidia-smi" in line for line in lab.commands("gpu-02")))


@pytest.mark.soak
@pytest.mark.real("strace")
def test_a_recording_of_every_process_of_a_dry_run_shows_nothing_that_writes(practice, tmp_path):
    """Every program that starts on the host while it is planned, as the kernel sees it (strace on its sshd)."""
    import subprocess

    lab = practice("gpu-01=leftovers+busy")
    (host,) = lab.lab.hosts
    children = subprocess.run(["pgrep", "-P", str(host.pid)], capture_output=True, text=True, check=True).stdout.split()
    calls = "trace=execve,kill,unlink,unlinkat,rename,renameat2,mkdir,mount"
    with (tmp_path / "attached").open("w") as told:
        argv = ["strace", "-f", "-e", calls, "-o", str(tmp_path / "trace"), "-p", children[0]]
        tracer = subprocess.Popen(argv, stderr=told)
    until(lambda: "attached" in (tmp_path / "attached").read_text(), "strace to attach itself")
    assert lab.run("zombie-gpu", "-e", "older_than=0s", "--dry-run").code == 0
    tracer.terminate()
    tracer.wait()
    trace = (tmp_path / "trace").read_text()
    started = {
        line.split('execve("', 1)[1].split('"')[0].rpartition("/")[2]
        for line in trace.splitlines()
        if "execve(" in line and "= 0" in line
    }
    assert "nvidia-smi" in started
    harmless = {
        "sh", "bash", "dash", "nvidia-smi", "ls", "grep", "sed", "cut", "cat", "tr", "sleep", "id", "ps", "head", "tail", "awk",
        "mawk", "stat", "readlink", "find", "od", "wc", "sort", "dirname", "basename", "env", "xargs", "printf", "uname", "getconf",
        "groups", "sshd", "sshd-session", "timeout", "date", "dmesg", "journalctl", "lspci",
        "modinfo", "ldconfig",
    }  # fmt: skip
    assert started - harmless == set()
    assert not [it for it in trace.splitlines() if " kill(" in it and "SIGKILL" in it]


INCIDENT = "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable"
LADDER = ("cuda-context", "whole pod", "reallocate-gpus", "another machine or GPU instance type", "support")


def test_the_incident_in_a_log_is_never_called_healthy_and_has_the_ladder_of_the_document(practice):
    """Mutants: `unexplained` without `refused`; `explained` with what is spared; `explained` without `run.changed`."""
    hosts = {"idle": "healthy", "pod": "pod", "alone": "exclusive", "server": "idle_service", "left": "leftovers"}
    lab = practice(*(f"{name}={fault}" for name, fault in hosts.items()))
    for name in hosts:
        lab.exec(name, f"echo '{INCIDENT}' >/root/job.log")
    options = ("-e", "older_than=0s", "-e", 'logs=["/root/job.log"]')
    said = lab.run("zombie-gpu", *options, "--dry-run")
    assert {name: said.host(name)["verdict"] for name in hosts} == {
        **dict.fromkeys(hosts, "unresolved"),
        "left": "planned",
    }, said.out
    for name, finding in (
        ("idle", "unexplained"),
        ("alone", "unexplained"),
        ("server", "unexplained"),
        ("pod", "elsewhere"),
    ):
        found = said.finding(name, finding)
        assert found["status"] == "present"
        wanted = LADDER if finding == "unexplained" else LADDER[1:]
        assert [word for word in wanted if not any(word in it for it in found["advise"])] == []
    assert any("-c DEFAULT" in it for it in said.finding("alone", "unexplained")["advise"])
    assert not any("-c DEFAULT" in it for it in said.finding("idle", "unexplained")["advise"])
    cured = lab.run("zombie-gpu", *options, "--yes", hosts="left")
    assert cured.host("left")["verdict"] == "resolved", "what was ended explains the old line in the log"
