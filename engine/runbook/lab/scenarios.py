"""For each playbook: the lab hosts to practise it on, and the inputs that fit them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from types import MappingProxyType

from runbook.dataclass import dataclass
from runbook.lab.faults import DEFAULT
from runbook.lab.lab_host import LabHost
from runbook.values.types import Json

WORK = "/run/lab/workspace"
LOGS = f"{WORK}/AReaL/outputs/grpo/logs/root/*/*"
PIPELINE = f"{WORK}/pipeline"
LEADER = "leader=leader+no_gpu"
_LEADS = "leader"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Hosts such as ``gpu-01=leftovers``, and values for inputs, with ``ADDRESS_OF_LEADER`` for its address."""

    hosts: tuple[str, ...]
    inputs: Mapping[str, Json] = field(default_factory=dict)


_LEADING: Mapping[str, Json] = {"leader": _LEADS, "url": "http://ADDRESS_OF_LEADER:8770"}
_HEALTHY = "gpu-09=healthy"


def _component(name: str, pattern: str, *argv: str) -> Mapping[str, Json]:
    """A part of a pipeline, as `component-logs` takes it."""
    return {"name": name, "pattern": pattern, "log": f"{PIPELINE}/logs/{name}.log", "argv": list(argv)}


SCENARIOS: Mapping[str, Scenario] = MappingProxyType(
    {
        "zombie-gpu": Scenario(
            hosts=tuple(f"{name}={'+'.join(faults)}" for name, faults in DEFAULT),
            inputs={"older_than": "0s"},  # the jobs of a lab are seconds old, and would be spared as starting
        ),
        "training-crash": Scenario(
            hosts=(
                *("gpu-01=update_timeout", "gpu-02=executor_crash", "gpu-03=server_crash", "gpu-04=silent_stop"),
                *("gpu-05=leak", "gpu-06=oom", "gpu-07=disk_errors", "gpu-08=disk_full", "gpu-09=trained"),
                *("gpu-10=under_way", "gpu-11=old_crash"),
            ),
            inputs={
                "trainer_logs": [f"{LOGS}/trainer.log"],
                "server_logs": [f"{LOGS}/llm_server.log"],
                "start_logs": [f"{WORK}/container.log"],
                "outputs": [f"{WORK}/outputs"],
                "measure_disk": False,
                "directory": f"{WORK}/AReaL",
                "leak_at_least": "6MiB",
                "leak_fills_within": 1000000,
            },
        ),
        "try-server": Scenario(
            hosts=(_HEALTHY,),
            inputs={
                "server_argv": ["python3", "-m", "http.server", "30000", "--bind", "127.0.0.1"],
                "server_folder": "/run/lab",
                "server_url": "http://127.0.0.1:30000/",
            },
        ),
        "reallocate-gpus": Scenario(
            hosts=("gpu-01=inference_died",),
            inputs={
                "config": f"{PIPELINE}/orch.toml",
                "allocation_mode": "sglang.d1t1p1+d2t1p1",
                "batch_key": "batch_size",
            },
        ),
        "gpu-xid": Scenario(
            hosts=(
                *("gpu-01=xid_reboot", "gpu-02=xid_reset", "gpu-03=xid_application", "gpu-04=xid_before_boot"),
                _HEALTHY,
            ),
            inputs={"log_pids": "host"},  # a lab host is a container, but the numbers in its pretended log are its own
        ),
        "restart-loop": Scenario(
            hosts=(
                *("gpu-01=restart_loop", "gpu-02=restart_loop+unsaved", "gpu-03=restart_loop+broken_clone"),
                "gpu-04=trained",
            ),
            inputs={
                "logs": [f"{WORK}/container.log"],
                "directory": f"{WORK}/AReaL",
                "allowed_roots": [WORK],
                "repo": "file:///run/lab/upstream",
            },
        ),
        "raise-timeouts": Scenario(
            hosts=("gpu-01=short_timeouts", "gpu-02=trained"),
            inputs={"configs": [f"{WORK}/AReaL/examples/lab/grpo.yaml"]},
        ),
        "disk-slow": Scenario(
            hosts=("gpu-01=disk_slow", "gpu-02=disk_full", "gpu-03=disk_errors", _HEALTHY),
            inputs={"paths": [f"{WORK}/outputs"], "size": "20MiB", "leave": "1MiB"},
        ),
        "stuck-node": Scenario(
            hosts=(LEADER, "gpu-01=stuck", "gpu-02=selfplay", "gpu-03=miscounted", "gpu-04=unmeasured", _HEALTHY),
            inputs={**_LEADING, "older_than": 0, "watch": 0.1, "lag": "6s"},
        ),
        "reset-node-jobs": Scenario(hosts=(LEADER, "gpu-01=miscounted", "gpu-02=selfplay", _HEALTHY), inputs=_LEADING),
        "cleanup-stuck-nodes": Scenario(
            hosts=(LEADER, "gpu-01=stuck", "gpu-02=selfplay"), inputs={"url": _LEADING["url"]}
        ),
        "container-death": Scenario(
            hosts=(
                *("gpu-01=died_of_memory+at_work", "gpu-02=died_of_kill", "gpu-03=died_of_segfault"),
                *("gpu-04=died_of_gpu_memory", "gpu-05=died_of_disk", "gpu-06=died_of_itself", "gpu-07=dies_again"),
                *("gpu-08=at_work+hung", "gpu-09=died_silently", "gpu-10=healthy"),
            ),
            inputs={"stuck_after": 0},  # nobody waits ten minutes to see it
        ),
        "container-lost-gpu": Scenario(
            hosts=("gpu-01=lost_gpu+at_work", "gpu-02=at_work", "gpu-03=docker+smi_fails", _HEALTHY),
            inputs={"restart": ["run-lost"]},
        ),
        "docker-recover": Scenario(
            hosts=("gpu-01=docker_dead", "gpu-02=docker_dead+unbounded_logs", "gpu-03=at_work", _HEALTHY)
        ),
        "host-oom": Scenario(
            hosts=("gpu-01=died_of_memory+at_work", "gpu-02=oom", _HEALTHY),
            inputs={"container": "run-memory", "raise_to": 40, "leave": 1},
        ),
        "docker-prune": Scenario(hosts=("gpu-01=docker_full+at_work", "gpu-02=died_of_itself+at_work", _HEALTHY)),
        "disk-full": Scenario(hosts=("gpu-01=docker_full+at_work", "gpu-02=died_of_itself+at_work", _HEALTHY)),
        "docker-logging-setup": Scenario(hosts=("gpu-01=unbounded_logs+at_work", "gpu-02=at_work", _HEALTHY)),
        "runner-preflight": Scenario(
            hosts=(
                *("gpu-01=docker", "gpu-02=docker+busy", "gpu-03=docker+smi_fails", "gpu-04=no_toolkit"),
                *("gpu-05=docker_full", "gpu-06=healthy", "cpu-01=no_gpu"),
            ),
            inputs={"disk_free": "100MiB"},
        ),
        "pipeline-hang": Scenario(
            hosts=(
                *("gpu-01=inference_died", "gpu-02=no_model", "gpu-03=no_environment", "gpu-04=wrong_address"),
                *("gpu-05=started_early", "gpu-06=idle", "gpu-07=unseen", "gpu-08=outputs_missing", _HEALTHY),
                *("gpu-10=rollouts_read_only", "gpu-11=pipeline"),
            ),
            inputs={
                "run_dir": f"{PIPELINE}/outputs/wordle",
                "trainer_log": [f"{PIPELINE}/logs/trainer.log"],
                "orchestrator_log": [f"{PIPELINE}/logs/orchestrator.log"],
                "inference_log": [f"{PIPELINE}/logs/inference.log"],
                "orch_config": f"{PIPELINE}/orch.toml",
                "outputs": f"{PIPELINE}/outputs",
                "url": "http://inference:8000",
                "watch": "2s",
            },
        ),
        "component-logs": Scenario(
            hosts=("gpu-01=inference_died", "gpu-02=orchestrator_died", "gpu-03=pipeline", _HEALTHY),
            inputs={
                "components": [
                    _component("inference", "inference +@", "./inference", "@", "infer.toml"),
                    _component("orchestrator", "orchestrator +@", "./orchestrator", "@", "orch.toml"),
                    _component("trainer", r"trainer/rl/train\.py", "./trainer/rl/train.py", "@", "train.toml"),
                ],
                "folder": PIPELINE,
                "records": f"{PIPELINE}/records",
            },
        ),
        "isolate-with-fake-data": Scenario(
            hosts=("gpu-01=pipeline_ended", "gpu-02=pipeline_ended+trainer_died", "gpu-03=pipeline"),
            inputs={
                "train_config": f"{PIPELINE}/train.toml",
                "argv": ["./trainer/rl/train.py", "@", "train.toml"],
                "folder": PIPELINE,
                "log": f"{PIPELINE}/logs/alone.log",
            },
        ),
        "gpu-reset": Scenario(
            hosts=(
                "gpu-01=uncontained",
                "gpu-02=resettable",
                "gpu-03=resettable+leftovers",
                "gpu-04=driver_hang",
                _HEALTHY,
            ),
        ),
        "gpu-hang": Scenario(
            hosts=("gpu-01=driver_hang", "gpu-02=lock_held", _HEALTHY),
            inputs={"watch": "1s", "log_pids": "host"},
        ),
        "node-evidence": Scenario(hosts=("gpu-01=leftovers", "gpu-02=driver_hang", _HEALTHY)),
        **{
            word: Scenario(hosts=("gpu-01=slurm", "gpu-02=slurm_job", "gpu-03=slurm_drained", "gpu-04=kubernetes"))
            for word in ("node-drain", "node-undrain")
        },
        "node-reboot": Scenario(
            hosts=(
                *("gpu-01=slurm", "gpu-02=slurm_job", "gpu-03=gpu_missing", "gpu-04=reboot_ignored"),
                *("gpu-05=never_back", "gpu-06=slurm_drained"),
            ),
            inputs={"wait": "20s", "within": "10s", "gpus_within": "3s"},
        ),
        "gpu-health": Scenario(
            hosts=(
                *("gpu-01=gpu_lost", "gpu-02=mismatch", "gpu-03=remap_pending", "gpu-04=remap_failed"),
                *("gpu-05=throttled", "gpu-06=narrow_link", "gpu-07=resettable", "gpu-08=smi_hangs", _HEALTHY),
            )
        ),
        "fabric-manager": Scenario(hosts=("gpu-01=fabric_down", "gpu-02=fabric_down+leftovers", _HEALTHY)),
        "mig-layout": Scenario(hosts=("gpu-01=mig", "gpu-02=mig+leftovers", _HEALTHY)),
        "nvlink": Scenario(hosts=("gpu-01=link_down", "gpu-02=fabric_down", _HEALTHY)),
        "gpu-lost": Scenario(hosts=("gpu-01=gpu_lost", "gpu-02=smi_noise", _HEALTHY)),
        "driver-mismatch": Scenario(
            hosts=("gpu-01=mismatch", "gpu-02=mismatch_held", _HEALTHY), inputs={"reload": True}
        ),
        "gpu-row-remap": Scenario(hosts=("gpu-01=remap_pending", "gpu-02=remap_failed", "gpu-03=mig", _HEALTHY)),
        "ib-link": Scenario(hosts=("gpu-01=ib_down", "gpu-02=nccl_waits", "gpu-03=nccl_cause")),
        "nccl-timeout": Scenario(
            hosts=("gpu-01=nccl_waits", "gpu-02=nccl_cause"), inputs={"logs": [f"{WORK}/nccl/*.log"]}
        ),
        "gpu-throttle": Scenario(hosts=("gpu-01=throttled", "gpu-02=busy", _HEALTHY)),
        "nfs-hang": Scenario(hosts=("gpu-01=nfs_hang", _HEALTHY), inputs={"watch": "1s"}),
        "time-sync": Scenario(hosts=("gpu-01=clock_unsynced", _HEALTHY)),
        "shm-full": Scenario(hosts=("gpu-01=shm_full", "gpu-02=at_work", _HEALTHY)),
        "runner-monitor": Scenario(hosts=("gpu-01=healthy",), inputs={"folder": "/run/lab/monitoring", "every": 5}),
        "monitor": Scenario(hosts=("gpu-01=busy", "gpu-02=oom", "gpu-03=smi_hangs", "cpu-01=no_gpu", "gpu-08=down")),
    }
)
"""Playbook to its scene.  Those that are not here are practised on the usual set of hosts."""


def inputs_of(scene: Scenario, hosts: Sequence[LabHost]) -> Mapping[str, Json]:
    """Return the inputs of *scene* on a lab of *hosts*; without a leader, the inputs that name one are left out."""
    address = next((host.address for host in hosts if host.name == _LEADS), "")
    made: dict[str, Json] = {}
    for name, value in scene.inputs.items():
        if address or not (value == _LEADS or "ADDRESS_OF_LEADER" in str(value)):
            made[name] = value.replace("ADDRESS_OF_LEADER", address) if isinstance(value, str) else value
    return made
