"""Every playbook against every fault of the lab: it sees what is its own, and nothing that is not there.

One lab has a host for each fault, and each playbook looks at all of them in a dry run.  What a playbook must find, and on
which hosts, stands in `WHAT`; a finding that is not there is a false one.
"""

from __future__ import annotations

import json
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from runbook import lab
from runbook.commands.input_files import library
from tests.support.boot_time import booted_after_silent_stop
from tests.support.program import Practice, Said

pytestmark = [
    pytest.mark.faults,
    pytest.mark.real("lab", "sshd", "git", "curl", "docker", "busybox"),
]

TOGETHER = {
    "leader": "leader+no_gpu",
    **{it: f"restart_loop+{it}" for it in ("unsaved", "broken_clone", "git_aware")},
}
"""Faults that are something only with others."""
NOT_REACHED = {"down", "mute"}
MANY = ("--parallel", "32")
"""For playbooks that wait more than they compute."""
QUICK = {
    "pipeline-hang": ("--scratch",),
    "gpu-hang": MANY,
    **dict.fromkeys(("zombie-gpu", "monitor"), ("-e", "older_than=0s")),  # the jobs of a lab are seconds old
    # an engine at work may grow for some seconds
    "training-crash": (*MANY, "-e", "samples=6", "-e", "every=1s"),
    "gpu-throttle": (*MANY, "-e", "samples=2", "-e", "every=5s"),
    "disk-slow": ("-e", "measure=false"),  # forty hosts that measure one disk at the same time slow it down truly
}
FAULTS = {*lab.FAULTS} - NOT_REACHED
DOCKER = {"docker", "at_work", "hung", *(it for it in FAULTS if it.startswith(("died_of", "died_silently")))}
DOCKER |= {"dies_again", "docker_full", "unbounded_logs", "no_toolkit", "lost_gpu", "docker_dead"}
TRAINED = {"trained", "under_way", "old_crash", "update_timeout", "executor_crash", "server_crash", "silent_stop"}
TRAINED |= {"leak", "oom", "disk_errors", "disk_full"}
WAITING = {"inference_sick", "no_model", "wrong_address", "started_early", "idle", "unseen"}
WAITING |= {"outputs_read_only", "outputs_missing", "rollouts_read_only"}
"""Pipelines whose parts all live, and whose trainer waits."""
BROKEN = {"inference_died", "orchestrator_died", "no_environment", "trainer_died"}
NCCL = {"nccl_waits", "nccl_cause"}
LOOPS = {"restart_loop", "unsaved", "broken_clone"}
AT_WORK = {"busy", "selfplay"}
LEFT = {"slurm_ended", "slurm_cancelled", "left_by_service", "left_by_container", "inside_container", "launched"}
"""A process whose owner has gone, or whose launcher alone lives, and idles."""
OWNED = {"slurm_allocated", "slurm_adopted", "idle_service", "idle_container", "idle_pod", "terminal_job", "notebook"}
"""A process that idles, and whose owner lives."""
SERVERS = {"idle_server", "idle_engine"}
LISTED = (LEFT | OWNED | {"slurm_silent", "strange_container"}) - {"launched", "terminal_job", "notebook"}
"""Those of them that nvidia-smi lists with memory, and two processes whose owner cannot be known."""
STUCK_DRIVER = {"driver_hang", "lock_held"}
"""nvidia-smi hangs in the driver."""
SICK = {"xid_reboot", "xid_reset", "gpu_lost", "remap_failed"}
"""Hosts with a GPU that the kernel reports broken, and nvidia-smi, too."""
MISMATCH = {"mismatch", "mismatch_held"}
LOST = {"gpu_lost", "smi_noise", "xid_reboot"}
NO_SMI = {"smi_fails", "smi_hangs", *STUCK_DRIVER, *MISMATCH}
AMD = {"amd_idle", "amd_leftovers", "amd_errors"}
"""Hosts with GPUs of AMD whose amd-smi answers."""
NO_LIST = {*NO_SMI, "amd_smi_hangs"}
"""Neither nvidia-smi nor amd-smi answers."""

HEALTH = {
    "hung": {"smi_hangs", "amd_smi_hangs", *STUCK_DRIVER},
    "memory_errors": {"amd_errors"},
    "mismatch": MISMATCH,
    "no_driver": {"smi_fails"},
    "lost": LOST,
    "needs_reset": {"resettable", "xid_reset"},
    "needs_service": {"remap_failed"},
    "memory_waits": {"remap_pending"},
    "narrow": {"narrow_link"},
    "not_in_fabric": {"fabric_down"},
    "slowed": {"throttled"},
    "machine_hangs": STUCK_DRIVER,
    "file_server": {"nfs_hang"},
    "fault": {"uncontained", "xid_reboot", "xid_reset", "remap_failed", "driver_hang"},
}
INCLUDED = {f"gpu_{finding}": faults for finding, faults in HEALTH.items()}
"""What the playbooks find that include gpu-health."""

WHAT: dict[str, dict[str, set[str]]] = {
    "zombie-gpu": {
        **INCLUDED,
        "held": {"leftovers", "nameless", "respawner", "stubborn", "stuck", "xid_application", "amd_leftovers", *LEFT},
        "owned": OWNED,
        "serving": SERVERS,
        "in_use": {*AT_WORK, "amd_leftovers"},
        "wedged": {"resettable", "wedged", "xid_reset", "dead_context"},
        "elsewhere": {"elsewhere", "pod"},
        "exclusive": {"exclusive"},
        "no_answer": NO_LIST,
    },
    "cuda-context": {"no_probe": FAULTS},  # no host of the lab has a torch
    "gpu-xid": {
        "driver_fault": MISMATCH,
        "reboot_needed": {"xid_reboot", "gpu_lost"},
        "reset_needed": {"xid_reset", "driver_hang", "remap_failed", "uncontained"},
        "application_faulted": {"xid_application"},
    },
    "gpu-health": HEALTH,
    "fabric-manager": {"stopped": {"fabric_down"}, "not_known": LOST, "no_answer": NO_SMI},
    "nvlink": {"inactive": {"link_down"}, "growing": {"link_down"}, "not_known": LOST, "no_answer": NO_SMI},
    "mig-layout": {"empty": {"mig"}, "not_known": LOST, "no_answer": NO_SMI},
    "gpu-lost": {"lost": LOST, "no_answer": NO_LIST},
    "driver-mismatch": {
        "mismatch": MISMATCH,
        "other_failure": {"smi_fails"},
        "hung": {"smi_hangs", "amd_smi_hangs", *STUCK_DRIVER},
    },
    "gpu-row-remap": {
        "pending": {"remap_pending"},
        "failed": {"remap_failed"},
        "not_known": LOST,
        "no_answer": NO_LIST,
        "errors": {"amd_errors"},
    },
    "gpu-throttle": {"too_hot": {"throttled"}, "not_known": LOST, "no_answer": NO_LIST},
    "training-crash": {
        **INCLUDED,
        "no_log": FAULTS - TRAINED,
        **{it: {it} for it in ("update_timeout", "executor_crash", "server_crash", "silent_stop", "leak")},
        "out_of_memory": {"oom"},
        "maybe_out_of_memory": {"died_of_memory"},
        "disk_errors": {"disk_errors"},
        "disk_file_server": {"nfs_hang"},
        "disk_full": {"disk_full"},
        "loop_clone_over": LOOPS,
    },
    "restart-loop": {
        "no_log": FAULTS - TRAINED - LOOPS - {"git_aware"},
        "clone_over": LOOPS,
        "has_work": {"unsaved", "broken_clone"},
    },
    "raise-timeouts": {"short": {"short_timeouts"}, "no_config": FAULTS - TRAINED - {"short_timeouts"}},
    "disk-slow": {"full": {"disk_full"}, "errors": {"disk_errors"}, "file_server": {"nfs_hang"}},
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
        "no_answer": NO_LIST,
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
        "unexplained": {"died_of_itself", "died_silently"},
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
        "gpu_memory_taken": {"leftovers", "stuck", *LISTED},
        "gpu_in_use": {*AT_WORK, "amd_leftovers", "elsewhere", "wedged", "pod", "dead_context"},
        "gpu_used_by_unseen": {"elsewhere", "pod"},
        "disk_errors": {"disk_errors"},
        "file_server": {"nfs_hang"},
        **INCLUDED,
        "too_few_gpus": {"leader", "no_gpu"},
        "network_fault": {"ib_down"},
    },
    "runner-monitor": {"no_script": FAULTS, "not_watched": FAULTS},
    "monitor": {
        "gpu_at_its_limit": {*AT_WORK, "amd_leftovers", "elsewhere", "pod"},
        "gpu_wedged": {"wedged", "resettable", "xid_reset", "dead_context"},
        "gpu_used_by_unseen": {"elsewhere", "pod"},
        **INCLUDED,
        "gpu_leftovers": {
            "leftovers",
            "nameless",
            "respawner",
            "stubborn",
            "stuck",
            "xid_application",
            "amd_leftovers",
            *LEFT,
        },
        "killed": {"died_of_memory", "oom"},
        "disk_errors": {"disk_errors"},
        "file_server": {"nfs_hang"},
        "network_fault": {"ib_down"},
        "containers_died": {it for it in DOCKER if it.startswith(("died_of", "died_silently"))},
        "containers_restarting": {"dies_again"},
        "disk_full": {"docker_full"},
    },
    "gpu-reset": {
        "wanted": {"resettable", "uncontained", "xid_reset", "remap_pending", "remap_failed"},
        "only_a_reboot": LOST,
        "hangs": STUCK_DRIVER,
        "no_answer": {"smi_fails", "smi_hangs", "amd_smi_hangs", *MISMATCH},
        "other_vendor": AMD,
    },
    "gpu-hang": {"hangs": STUCK_DRIVER, "firmware": {"xid_reset"}, "waits_elsewhere": {"nfs_hang"}},
    "node-evidence": {"hangs": STUCK_DRIVER, "no_answer": {"smi_fails", "smi_hangs", "amd_smi_hangs", *MISMATCH}},
    **{it: {} for it in ("node-drain", "node-reboot", "node-undrain")},  # pieces that have steps, and no findings
    "nfs-hang": {"server_silent": {"nfs_hang"}},
    "shm-full": {"full": {"shm_full"}},
    "time-sync": {"not_synchronized": {"clock_unsynced"}},
    "host-oom": {"host_out": {"oom"}, "container_out": {"died_of_memory"}},
    "docker-recover": {"dead": {"docker_dead"}},
    "container-lost-gpu": {"lost": {"lost_gpu"}, "host_first": NO_LIST},
    "ib-link": {"down": {"ib_down"}, "flaps": {"ib_down"}, "slower": {"nccl_cause"}},
    "nccl-timeout": {"no_log": FAULTS - NCCL, "did_not_report": {"nccl_cause"}, "victim": {"nccl_waits"}},
    "cleanup-stuck-nodes": {"stuck": {"leader"}, "unmeasured": {"leader"}},
}


BOOTED_LATE = booted_after_silent_stop()
AT_ONCE = 5
"""Playbooks that look at the hosts at the same time: each waits for the host that does not answer."""
PARALLEL = "12"
"""Hosts of each at the same time: more would take as long on two cores, and each probe three times as long."""


@pytest.fixture(scope="module")
def dry_runs(hosts, request):
    """The dry run of each playbook that is asked for, begun in the order of `EVERY`."""
    asked = {
        it.callspec.params["name"] for it in request.session.items if "dry_runs" in getattr(it, "fixturenames", ())
    }
    with ThreadPoolExecutor(AT_ONCE) as pool:
        runs: dict[str, Future[Said]] = {name: pool.submit(_dry_run, hosts, name) for name in EVERY if name in asked}
        yield runs
        for run in runs.values():
            run.cancel()


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("every") / "lab"
    asked = [f"{_host(it)}={TOGETHER.get(it, it)}" for it in lab.FAULTS]
    made = lab.up(lab.LabOptions(directory=folder, faults=tuple(asked)))
    yield Practice(made)
    lab.down(folder)


def _host(fault: str) -> str:
    return fault.replace("_", "-")


def _where(name: str) -> str:
    return "leader" if name == "cleanup-stuck-nodes" else "all"


def _dry_run(hosts: Practice, name: str) -> Said:
    """In a process of its own: the server of runs takes one at a time."""
    given = ("--dry-run", "--timeout", "15s", "--parallel", PARALLEL, *QUICK.get(name, ()), *_given(name, hosts.lab))
    return hosts.run(name, *given, hosts=_where(name), timeout=500, PYTHONUNBUFFERED="1")


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


def _differences(said: Said, wanted: dict[str, set[str]]) -> list[str]:
    """Each finding on a host that is too much or missing, with the steps there that did not look at everything."""
    seen = _present(said)
    there = {(finding, fault) for finding, faults in seen.items() for fault in faults}
    asked = {(finding, fault) for finding, faults in wanted.items() for fault in faults}
    return [
        f"{finding} on {fault} is {'too much' if (finding, fault) in there else 'missing'}: "
        f"{said.finding(_host(fault), finding)['say']}: {_unsettled(said, fault)}"
        for finding, fault in sorted(there ^ asked)
    ]


def _unsettled(said: Said, fault: str) -> str:
    steps = said.host(_host(fault))["steps"]
    return "; ".join(f"{it['id']} {it['status']} {it['why']}" for it in steps if it["status"] not in ("ok", "skipped"))


def _of_this_machine(name: str) -> dict[str, set[str]]:
    late = name == "training-crash" and BOOTED_LATE
    return {"booted_since": {"silent_stop"}, "silent_stop": set()} if late else {}


OF_A_JOB = {"reallocate-gpus", "try-server"}
"""What they look at is named by inputs that no host of the lab has."""
EVERY = sorted(
    (it.stem for it in library().glob("*.yaml") if it.stem not in OF_A_JOB), key=lambda it: (it != "training-crash", it)
)
"""The one first that looks for a leak: none lasts."""


@pytest.mark.parametrize("name", EVERY)
def test_a_playbook_sees_its_own_faults_and_no_others(dry_runs, name):
    said = dry_runs[name].result()
    assert said.out, said.err
    assert said.writes() == []
    wrong = _differences(said, WHAT[name] | _of_this_machine(name))
    assert not wrong, "\n".join(wrong)
    verdicts = {it["host"].replace("-", "_"): it["verdict"] for it in said.document["hosts"]}
    sick = {it for found, where in _present(said).items() for it in where if found in _errors(said)}
    assert {it for it in sick if verdicts[it] == "healthy"} == set()
    if _where(name) == "all":
        assert {it for it, verdict in verdicts.items() if verdict == "unreachable"} == NOT_REACHED


def _errors(said: Said) -> set[str]:
    """The findings that are errors."""
    found = [it for host in said.document["hosts"] for it in host["findings"]]
    return {it["id"] for it in found if it["severity"] in ("error", "critical")}


def test_every_fault_is_seen_by_a_playbook():
    """But for hosts that are well, and for those of which something is unknown: a finding is no place for that."""
    well = {"healthy", "daemon", "trained", "under_way", "old_crash", "git_aware", "docker", "at_work"}
    well |= {"xid_before_boot", *lab.OF_NODES}
    unknown = {"disk_slow"}
    everywhere = (
        {"no_docker", "not_watched", "no_script", "no_config", "no_log", "no_probe"},
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
