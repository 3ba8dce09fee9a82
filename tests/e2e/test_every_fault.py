"""Every playbook against every fault of the lab: it sees what is its own, and nothing that is not there.

One lab has a host for each fault, and each playbook looks at all of them in a dry run.  What a playbook must find, and on
which hosts, stands in `WHAT`; a finding that is not there is a false one.
"""

from __future__ import annotations

import json

import pytest

from engine import lab
from engine.app.input_files import library
from tests.e2e.conftest import Practice, Said

pytestmark = [
    pytest.mark.faults,
    pytest.mark.real("lab", "sshd", "git", "curl", "docker", "busybox"),
    pytest.mark.timeout(600),
]

TOGETHER = {
    "leader": "leader+no_gpu",
    **{it: f"restart_loop+{it}" for it in ("unsaved", "broken_clone", "git_aware")},
}
"""Faults that are something only with others."""
NOT_REACHED = {"down", "mute"}
QUICK = {
    "training-crash": ("-e", "samples=3", "-e", "every=200ms"),
    "disk-slow": ("-e", "measure=false"),  # forty hosts that measure one disk at the same time slow it down truly
}
FAULTS = {*lab.FAULTS} - NOT_REACHED
DOCKER = {"docker", "at_work", "hung", *(it for it in FAULTS if it.startswith(("died_of", "died_silently")))}
DOCKER |= {"dies_again", "docker_full", "unbounded_logs", "no_toolkit"}
TRAINED = {"trained", "under_way", "old_crash", "update_timeout", "executor_crash", "server_crash", "silent_stop"}
TRAINED |= {"leak", "oom", "disk_errors", "disk_full"}
WAITING = {"inference_sick", "no_model", "wrong_address", "started_early", "idle", "unseen"}
WAITING |= {"outputs_read_only", "outputs_missing", "rollouts_read_only"}
"""Pipelines whose parts all live, and whose trainer waits."""
BROKEN = {"inference_died", "orchestrator_died", "no_environment", "trainer_died"}
LOOPS = {"restart_loop", "unsaved", "broken_clone"}
AT_WORK = {"busy", "selfplay"}

WHAT: dict[str, dict[str, set[str]]] = {
    "zombie-gpu": {
        "held": {"leftovers", "nameless", "respawner", "stubborn", "stuck"},
        "in_use": AT_WORK,
        "wedged": {"resettable", "wedged"},
        "elsewhere": {"elsewhere"},
        "exclusive": {"exclusive"},
        "gpu_errors": {"smi_noise"},
        "no_answer": {"smi_fails", "smi_hangs"},
    },
    "training-crash": {
        "no_log": FAULTS - TRAINED,
        "loop_no_log": FAULTS - TRAINED - LOOPS - {"git_aware"},
        **{it: {it} for it in ("update_timeout", "executor_crash", "server_crash", "silent_stop", "leak")},
        "out_of_memory": {"oom"},
        "maybe_out_of_memory": {"died_of_memory"},
        "disk_errors": {"disk_errors"},
        "disk_full": {"disk_full"},
        "loop_clone_over": LOOPS,
    },
    "restart-loop": {
        "no_log": FAULTS - TRAINED - LOOPS - {"git_aware"},
        "clone_over": LOOPS,
        "has_work": {"unsaved", "broken_clone"},
    },
    "raise-timeouts": {"short": {"short_timeouts"}, "no_config": FAULTS - TRAINED - {"short_timeouts"}},
    "disk-slow": {"full": {"disk_full"}, "errors": {"disk_errors"}},
    "pipeline-hang": {
        "dead": BROKEN,
        "inference_failed": {"inference_died"},
        "inference_down": {"inference_sick"},
        "no_model": {"no_model"},
        "no_environment": {"no_environment"},
        "wrong_address": {"wrong_address"},
        "cannot_connect": {"started_early"},
        "no_batches": {"idle"},
        "batches_unseen": {"unseen"},
        "not_writable": {"outputs_missing", "outputs_read_only"},
        "file_errors": {"rollouts_read_only"},
    },
    "component-logs": {"died": BROKEN, "trouble": BROKEN | WAITING - {"idle", "unseen"}},
    "isolate-with-fake-data": {
        "no_config": FAULTS - BROKEN - WAITING - {"pipeline", "pipeline_ended"},
        "in_the_way": BROKEN | WAITING | {"pipeline"},
        "untested": {"pipeline_ended"},
        "no_step": {"pipeline_ended"},
    },
    "stuck-node": {
        "stuck": {"stuck"},
        "inflated": {"miscounted"},
        "unmeasured": {"unmeasured"},
        "dead": {"unlisted"},
        "no_answer": {"smi_fails", "smi_hangs"},
    },
    "reset-node-jobs": {
        "running": {"selfplay", "stuck"},
        "inflated": {"miscounted", "unmeasured"},
        "not_known": {"unlisted"},
    },
    "container-death": {
        "out_of_memory": {"died_of_memory"},
        "killed": {"died_of_kill"},
        "segfault": {"died_of_segfault"},
        "gpu_out_of_memory": {"died_of_gpu_memory"},
        "disk_full": {"died_of_disk"},
        "unexplained": {"died_of_itself", "died_silently", "docker_full"},
        "no_log": {"died_silently"},
        "restarting": {"dies_again"},
        "clones_over": {"dies_again"},
        "hangs": {"hung"},
        "no_docker": FAULTS - DOCKER,
    },
    "docker-logging-setup": {"not_set": {"unbounded_logs"}, "no_docker": FAULTS - DOCKER},
    "docker-prune": {"full": {"docker_full"}},
    "disk-full": {"docker_full": {"docker_full"}},
    "runner-preflight": {
        "no_docker": FAULTS - DOCKER,
        "no_toolkit": {"no_toolkit"},
        "not_watched": FAULTS,
        "no_room": {"docker_full"},
        "gpu_memory_taken": {"leftovers"},
        "gpu_in_use": {*AT_WORK, "elsewhere", "wedged"},
        "gpu_trouble": {"resettable", "smi_noise"},
        "too_few_gpus": {"leader", "no_gpu"},
        "no_answer": {"smi_fails", "smi_hangs"},
    },
    "runner-monitor": {"no_script": FAULTS, "not_watched": FAULTS},
    "monitor": {
        "gpu_at_its_limit": {*AT_WORK, "elsewhere", "wedged"},
        "gpu_trouble": {"resettable", "smi_noise"},
        "killed": {"died_of_memory", "oom"},
        "disk_errors": {"disk_errors"},
        "gpus_unknown": {"smi_fails", "smi_hangs"},
        "containers_died": {it for it in DOCKER if it.startswith(("died_of", "died_silently"))},
        "containers_restarting": {"dies_again"},
        "disk_full": {"docker_full"},
    },
    "cleanup-stuck-nodes": {"stuck": {"leader"}, "unmeasured": {"leader"}},
}


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("every") / "lab"
    asked = [f"{_host(it)}={TOGETHER.get(it, it)}" for it in lab.FAULTS]
    made = lab.up(lab.LabOptions(directory=folder, faults=tuple(asked)))
    yield Practice(made)
    lab.down(folder)


def _host(fault: str) -> str:
    return fault.replace("_", "-")


def _given(name: str, made: lab.Lab) -> list[str]:
    inputs = lab.inputs_of(lab.SCENARIOS[name], made.hosts) if name in lab.SCENARIOS else {}
    return [
        word
        for key, value in inputs.items()
        for word in ("-e", f"{key}={value if isinstance(value, str) else json.dumps(value)}")
    ]


def _present(said: Said) -> dict[str, set[str]]:
    """Finding to the faults on whose hosts it is there; what is only told (info) left out."""
    found: dict[str, set[str]] = {}
    for host in said.document["hosts"]:
        for it in host["findings"]:
            if it["status"] == "present" and it["severity"] != "info":
                found.setdefault(it["id"], set()).add(host["host"].replace("-", "_"))
    return found


EVERY = sorted((it.stem for it in library().glob("*.yaml")), key=lambda it: (it != "training-crash", it))
"""The one first that looks for a leak: none lasts."""


@pytest.mark.parametrize("name", EVERY)
def test_a_playbook_sees_its_own_faults_and_no_others(hosts, name):
    where = "leader" if name == "cleanup-stuck-nodes" else "all"
    said = hosts.run(name, "--dry-run", "--timeout", "10s", *QUICK.get(name, ()), *_given(name, hosts.lab), hosts=where)
    assert said.out, said.err
    assert said.writes() == []
    assert _present(said) == WHAT[name]
    verdicts = {it["host"].replace("-", "_"): it["verdict"] for it in said.document["hosts"]}
    wrong = {it for found, where in _present(said).items() for it in where if found in _errors(said)}
    assert {it for it in wrong if verdicts[it] == "healthy"} == set()
    if where == "all":
        assert {it for it, verdict in verdicts.items() if verdict == "unreachable"} == NOT_REACHED


def _errors(said: Said) -> set[str]:
    """The findings that are errors."""
    found = [it for host in said.document["hosts"] for it in host["findings"]]
    return {it["id"] for it in found if it["severity"] in ("error", "critical")}


def test_every_fault_is_seen_by_a_playbook():
    """But for hosts that are well, and for those of which something is unknown: a finding is no place for that."""
    well = {"healthy", "daemon", "trained", "under_way", "old_crash", "git_aware", "docker", "at_work"}
    unknown = {"mig", "disk_slow"}
    everywhere = (
        {"no_docker", "not_watched", "no_script", "no_config", "no_log", "loop_no_log"},
        {"died_silently", "short_timeouts"},
    )
    seen = {
        it
        for findings in WHAT.values()
        for name, where in findings.items()
        if name not in everywhere[0] or where <= everywhere[1]
        for it in where
    }
    assert set(lab.FAULTS) - NOT_REACHED - seen == well | unknown
