"""Why training stopped, told from real logs, file systems and processes; the kernel's messages and a slow disk are pretended."""

from __future__ import annotations

import json

import pytest

from runbook import lab
from tests.support.boot_time import booted_after_silent_stop
from tests.support.program import Practice

pytestmark = pytest.mark.real("lab", "sshd")

WORK = "/run/lab/workspace"
LOGS = f"{WORK}/AReaL/outputs/grpo/logs/root/*/*"
CAUSES = {
    "timeout": ("update_timeout", "update_timeout"),
    "executor": ("executor_crash", "executor_crash"),
    "leak": ("leak", "leak"),
    "server": ("server_crash", "server_crash"),
    "oom": ("oom+update_timeout+executor_crash", "out_of_memory"),
    "errors": ("disk_errors+update_timeout", "disk_errors"),
    "full": ("disk_full+update_timeout", "disk_full"),
    "silent": ("silent_stop", "silent_stop"),
}
"""Host to its faults, and the one error that is to be found."""

WELL = {
    "trained": "trained",
    "young": "under_way",
    "old": "old_crash",
    "leftovers": "trained+leftovers",
    "busy": "trained+busy",
    "hangs": "trained+smi_hangs",
    "nogpu": "trained+no_gpu",
}
"""Hosts on which nothing of this incident is to be found."""

OOM = """echo "[$at] oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),global_oom,task_memcg={group},task={name},pid=77,uid=0
[$at] Out of memory: Killed process 77 ({name}) total-vm:9kB, anon-rss:9kB, file-rss:0kB" """
OTHER_KILLS = {
    "atboot": f"at=30.100000; {{ {OOM.format(name='backup-agent', group='/')}; {OOM.format(name='python3', group='/')}; }}",
    "backup": f"at=$now.100000; {OOM.format(name='backup-agent', group='/user.slice')}",
    "service": f"at=$now.100000; {OOM.format(name='python3', group='/system.slice/backup.service')}",
    "xid": 'at=30.100000; echo "[$at] NVRM: Xid (PCI:0000:3b:00): 95, pid=1, name=x"',
}
"""Hosts with a fresh timeout, and what the kernel said of somebody else, or of another time."""


def given(**more) -> list[str]:
    values = {
        "trainer_logs": [f"{LOGS}/trainer.log"],
        "server_logs": [f"{LOGS}/llm_server.log"],
        "start_logs": [f"{WORK}/container.log"],
        "outputs": [f"{WORK}/outputs"],
        "measure_disk": False,  # many hosts that measure one disk at the same time slow it down truly
        "samples": 3,
        "every": "400ms",
        "leak_at_least": "1MiB",
        "leak_fills_within": 1e6,
        **more,
    }
    return [
        word
        for name, value in values.items()
        for word in ("-e", f"{name}={value if isinstance(value, str) else json.dumps(value)}")
    ]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    faults = {name: faults for name, (faults, _) in CAUSES.items()} | WELL
    faults |= {"nolog": "healthy", "looping": "restart_loop+unsaved", "slow": "trained+disk_slow"}
    faults |= dict.fromkeys(OTHER_KILLS, "update_timeout")
    folder = tmp_path_factory.mktemp("crash") / "lab"
    made = lab.up(lab.LabOptions(directory=folder, faults=tuple(f"{it}={faults[it]}" for it in faults)))
    practice = Practice(made)
    for host, text in OTHER_KILLS.items():
        practice.exec(host, f"read -r up rest </proc/uptime; now=$((${{up%.*}} - 60)); {text} >>/run/lab/kernel")
    yield practice
    lab.down(folder)


@pytest.fixture(scope="module")
def said(hosts):
    """All but the host whose nvidia-smi hangs."""
    names = ",".join(host.name for host in hosts.lab.hosts if host.name != "hangs")
    return hosts.run("training-crash", "--yes", *given(), hosts=names)


@pytest.fixture(scope="module")
def hung(hosts):
    return hosts.run("training-crash", "--yes", *given(), "--timeout", "8s", hosts="hangs")


def errors(said, host) -> list[str]:
    found = [it for it in said.host(host)["findings"] if it["severity"] in ("error", "critical")]
    return [f"{it['status']} {it['id']}" for it in found if it["status"] != "absent"]


@pytest.mark.parametrize("host", CAUSES)
def test_each_cause_is_told_from_its_own_evidence(said, host):
    _, cause = CAUSES[host]
    if host == "silent" and booted_after_silent_stop():
        assert not [it for it in errors(said, host) if it.startswith("present ")]
        assert said.finding(host, cause)["status"] == "unknown"  # what the kernel said before the boot may explain it
        assert said.finding(host, "booted_since")["status"] == "present"
        assert said.host(host)["verdict"] == "unknown"
        return
    assert errors(said, host) == [f"present {cause}"], said.err
    assert said.host(host)["verdict"] == "unresolved"
    finding = said.finding(host, cause)
    assert finding["evidence"]
    assert not [it for it in finding["evidence"].values() if str(it).startswith("unknown")]
    assert finding["advise"]


@pytest.mark.parametrize("host", WELL)
def test_where_training_is_well_nothing_is_found_and_nothing_sent(said, hung, host):
    told = hung if host == "hangs" else said
    assert errors(told, host) == (["present gpu_hung"] if host == "hangs" else [])
    assert told.host(host)["verdict"] == ("unresolved" if host == "hangs" else "healthy"), told.host(host)["steps"]
    assert (said.code, hung.code) == (1, 1)
    assert told.writes() == []


def test_the_evidence_is_the_line_the_kill_and_the_growth(said):
    (line,) = [
        it for it in said.finding("timeout", "update_timeout")["evidence"]["lines"] if "TimeoutError" in it["text"]
    ]
    assert line["file"].endswith("/trial0/trainer.log")
    assert line["line"] == 11
    (kill,) = said.finding("oom", "out_of_memory")["evidence"]["killed"]
    assert (kill["name"], kill["pid"]) == ("python3", 4242)
    assert {it["device"] for it in said.finding("errors", "disk_errors")["evidence"]["io_errors"]} == {
        "nvme1n1",
        "nvme1n1p1",
    }
    (disk,) = said.finding("full", "disk_full")["evidence"]["disks"]
    assert disk["avail"] == 0
    (grown,) = said.finding("leak", "leak")["evidence"]["processes"]
    assert grown["grown"] >= 1 << 20
    assert "CUDA out of memory" in said.finding("server", "server_crash")["say"]
    assert "Loading weights from disk done" in said.finding("silent", "silent_stop")["say"]


def test_what_is_certain_explains_what_is_only_likely(said):
    assert "explained by out_of_memory" in said.finding("oom", "executor_crash")["why"]
    assert "explained by disk_full" in said.finding("full", "update_timeout")["why"]
    assert said.finding("timeout", "silent_stop")["status"] == "absent"


def test_an_older_death_or_that_of_somebody_else_hides_no_fresh_timeout(said):
    """Mutants: `out_of_memory` by `kernel.oom`; the window without its beginning; a service's python3 taken for the job's."""
    for host in ("atboot", "backup", "service"):
        assert errors(said, host) == ["present update_timeout"], said.host(host)["findings"]
    assert "explains nothing newer" in said.finding("atboot", "killed_before")["say"]
    assert said.finding("atboot", "maybe_out_of_memory")["status"] == "absent"
    for host, name in (("backup", "backup-agent"), ("service", "python3")):
        possible = said.finding(host, "maybe_out_of_memory")
        assert (possible["status"], possible["severity"]) == ("present", "warning")
        assert possible["say"].startswith("possible, not proven: ")
        assert name in possible["say"]


def test_an_older_fault_of_a_gpu_is_told_and_hides_no_fresh_timeout(said):
    assert errors(said, "xid") == ["present gpu_fault", "present update_timeout"]
    assert " ago); it asks for" in said.finding("xid", "gpu_fault")["say"]


def test_what_is_recommended_first_is_what_is_most_likely_to_help(said):
    advise = said.finding("timeout", "update_timeout")["advise"]
    assert "raise-timeouts" in advise[0]
    assert "timeout=120" in advise[1]
    assert "disk-slow" in advise[2]
    assert "except Exception" in advise[-2]
    assert "regular instance" in advise[-1]
    assert said.step("timeout", "raise_timeouts")["status"] == "ok"
    assert said.step("trained", "raise_timeouts")["status"] == "skipped"


def test_a_restart_loop_comes_before_everything_else(said):
    assert errors(said, "looping") == ["present loop_clone_over"], said.err
    assert said.host("looping")["verdict"] == "unresolved"
    assert "restart loop, not a crash" in said.finding("looping", "loop_clone_over")["say"]
    assert "runbook run restart-loop" in " ".join(said.finding("looping", "loop_clone_over")["advise"])
    assert said.finding("looping", "silent_stop")["status"] == "absent"


def test_no_log_is_not_a_clean_one(said):
    assert said.host("nolog")["verdict"] == "unknown"
    assert "unknown update_timeout" in errors(said, "nolog")
    assert "no log: " in said.finding("nolog", "no_log")["say"]


def test_words_of_trouble_are_counted_and_judge_nobody(said):
    words = said.finding("trained", "words")
    assert words["severity"] == "info"
    assert "request_timeout: 3600" in words["evidence"]["server"][0]["text"]
    assert "trainer 0 lines, server 1" in words["say"]


def test_a_slow_disk_is_measured_if_asked(hosts, said):
    assert said.host("slow")["verdict"] == "healthy"
    size = ("-e", "size=20MiB", "-e", "leave=1MiB", "-e", f'paths=["{WORK}/outputs"]')
    measured = hosts.run("disk-slow", "--yes", *size, hosts="slow,trained,full,errors")
    assert measured.code == 1
    assert errors(measured, "slow") == ["present slow"]
    assert "writes 20.0 MB/s" in measured.finding("slow", "slow")["say"]
    assert errors(measured, "full") == ["present full"]
    assert errors(measured, "errors") == ["present errors"]
    assert measured.host("trained")["verdict"] == "healthy", measured.out
    assert measured.writes() == []
    assert hosts.exec("slow", f"ls -A {WORK}/outputs") == ""
    (disk,) = measured.finding("slow", "slow")["evidence"]["speed"]
    assert disk["item"] == f"{WORK}/outputs"


def test_there_is_no_measuring_where_the_file_would_not_fit(hosts):
    said = hosts.run("disk-slow", "-e", f'paths=["{WORK}/outputs"]', "-e", "leave=900GiB", hosts="trained")
    assert said.host("trained")["verdict"] == "unknown"
    assert "would leave less" in said.step("trained", "speed")["why"]


@pytest.mark.soak
def test_a_slow_disk_explains_a_timeout_in_the_same_run(hosts):
    asked = given(measure_disk=True)
    said = hosts.run("training-crash", "--yes", *asked, hosts="slow")
    assert errors(said, "slow") in (["present disk_slow"], ["unknown disk_slow"]), (
        "unknown where there is not 2 GiB of room"
    )


@pytest.mark.slow
@pytest.mark.soak
def test_what_kind_of_machine_it_stopped_on_is_written_down_and_read_back(hosts):
    """Mutants: `write_down` that writes over the file; `tried_before` that reads only its last line."""
    for kind in ("spot", "regular"):
        said = hosts.run("training-crash", "--yes", *given(instance=kind), hosts="xid")
        assert said.step("xid", "write_down")["status"] == "changed", said.out
    told = said.finding("xid", "tried_before")
    assert "on a spot instance" in told["say"]
    assert "on a regular instance" in told["say"]
    assert told["advise"] == ["It stopped on a regular instance too, so the cause is not a reclaimed spot instance."]
