"""The faults that a lab host can have, and the default sets of hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from runbook.errors import ConfigError
from runbook.lab.amd import OF_AMD
from runbook.lab.docker_engine import OF_DOCKER
from runbook.lab.node import OF_NODES
from runbook.lab.owned import OF_OWNERS
from runbook.lab.pipeline import PIPELINES
from runbook.lab.system import OF_SYSTEM
from runbook.text.suggestions import suggest

FAULTS: Mapping[str, str] = MappingProxyType(
    {
        "healthy": "Two idle GPUs.",
        "leftovers": "A dead training job: a launcher, and three processes that hold GPU 0; nvidia-smi lists two.",
        "nameless": "A process with an unknown name holds GPU 0.",
        "stubborn": "A leftover process that ignores TERM.",
        "respawner": "A leftover process that a supervisor restarts whenever it is ended.",
        "daemon": "The persistence daemon, which holds every GPU and must never be ended.",
        "busy": "A training job at work on GPU 1, with a launcher and two workers; it must be left alone.",
        "wedged": "GPU 0 is busy although no process of this host holds it; a reset is not permitted here.",
        "pod": "A pod: GPU 0 is busy for a process of another one, which is neither listed nor visible here.",
        "elsewhere": "GPU 0 is busy with a process that nvidia-smi lists, but that is in another pid namespace.",
        "dead_context": "GPU 0 is busy with a process that nvidia-smi lists, and that has ended; a reset frees it.",
        "resettable": "GPU 0 needs a reset, which works when no process holds it and persistence mode is off.",
        "uncontained": "The memory of GPU 0 had an uncontained error (Xid 95), of which its old driver says no more.",
        "exclusive": "GPU 0 is in compute mode Exclusive_Process.",
        "mig": "GPU 0 is in MIG mode, has lost its instances, and does not report its utilisation.",
        "smi_hangs": "nvidia-smi never answers.",
        "driver_hang": "Three processes hang in the GPU driver (state D), behind firmware that does not answer.",
        "lock_held": "A process hangs in the GPU driver (state D) behind a lock of a process that can be ended.",
        "smi_fails": "nvidia-smi cannot talk to the driver.",
        "xid_reboot": "GPU 0 has fallen off the bus (Xid 79), and the driver asks for a reboot of the node (Xid 154).",
        "xid_reset": "The firmware of GPU 0 does not answer (Xid 119), and the driver asks for a reset (Xid 154).",
        "xid_application": "A process faulted on GPU 1 (Xid 13, 43), has lost the GPU, and still runs.",
        "xid_before_boot": "GPU 0 fell off the bus (Xid 79) before the host was booted last; it is well since.",
        "smi_noise": "nvidia-smi prints an error between valid rows: GPU 1 is lost.",
        "gpu_lost": "GPU 1 has fallen off the bus (Xid 79): lspci shows rev ff, and nvidia-smi calls the GPU lost.",
        "narrow_link": "GPU 0 has 4 lanes of 16.",
        "mismatch": "The driver was updated, and the old module is still loaded: nvidia-smi ends with 18.",
        "mismatch_held": "As mismatch, and a training job that was started before the update holds GPU 0.",
        "remap_pending": "A memory row of GPU 0 waits for a reset to be remapped (Xid 63).",
        "remap_failed": "A memory row of GPU 0 could not be remapped (Xid 64).",
        "fabric_down": "The fabric manager does not run, so no GPU is in the NVLink fabric (CUDA error 802).",
        "link_down": "An NVLink of GPU 0 is down, and the error counters of another one grow.",
        "throttled": "GPU 0 is slowed down by the hardware for heat.",
        "ib_down": "One of four InfiniBand links comes and goes, and is down now; its cable was lost.",
        "nccl_waits": "Ranks 0 and 1 of a job waited for others in a collective until NCCL's watchdog ended them.",
        "nccl_cause": "Ranks 2 and 3 of that job ended before: their disk was full. An InfiniBand link is slow.",
        "no_gpu": "No GPU at all: no device, no PCI function, no nvidia-smi.",
        "trained": "A training job that finished; its logs are in /run/lab/workspace.",
        "under_way": "A training run in progress: its log is recent and has no end yet.",
        "old_crash": "The logs of an older run end with a crash, and the newest run is in progress.",
        "update_timeout": "The trainer's log ends with a timeout of a weight update.",
        "executor_crash": "The trainer's log ends with a broken process pool.",
        "server_crash": "The inference server's log ends with an out-of-memory error of the GPU.",
        "short_timeouts": "A training configuration has too short a timeout for the rollout, and no retries.",
        "silent_stop": "Training stopped 20 minutes ago after a weight update, without a message.",
        "leak": "A process whose memory keeps growing.",
        "oom": "The kernel killed the trainer because memory ran out.",
        "disk_errors": "The kernel log contains disk errors.",
        "disk_full": "The file system of the training outputs is full.",
        "disk_slow": "The disk is slow, as far as dd can tell.",
        "restart_loop": "A container starts every second and exits: it clones into a directory that already exists.",
        "unsaved": "With restart_loop: the directory contains a file that is not in git.",
        "broken_clone": "With restart_loop: the directory is an incomplete git repository.",
        "git_aware": "With restart_loop: the container updates the directory instead of cloning into it.",
        "stuck": "Two idle selfplay processes hold GPU 0; the leader counts them as jobs.",
        "selfplay": "A selfplay job at work on GPU 1; it must be left alone.",
        "miscounted": "The leader counts jobs of this host, but no such process runs here.",
        "unmeasured": "The leader counts jobs of this host, but does not know its GPU utilisation.",
        "unlisted": "The leader considers this host dead.",
        "leader": "The leader of a job cluster: /status and /admin/reset_node_jobs on port 8770 of its address.",
        **OF_AMD,
        **OF_DOCKER,
        **PIPELINES,
        **OF_NODES,
        **OF_OWNERS,
        **OF_SYSTEM,
        "down": "Nothing listens on the SSH port: the connection is refused.",
        "mute": "Connections are accepted, but no SSH banner is sent.",
    }
)

DEFAULT: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("gpu-01", ("leftovers",)),
    ("gpu-02", ("leftovers", "busy")),
    ("gpu-03", ("nameless", "stubborn", "daemon")),
    ("gpu-04", ("respawner",)),
    ("gpu-05", ("wedged",)),
    ("gpu-06", ("smi_hangs", "leftovers")),
    ("gpu-07", ("healthy",)),
    ("gpu-08", ("down",)),
    ("cpu-01", ("no_gpu",)),
)
"""A host for each kind of trouble."""


def hosts_of(asked: Sequence[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return host names with their faults, from texts such as ``gpu-01=leftovers+busy``.

    Without any, the default hosts.
    Raises ConfigError.
    """
    if not asked:
        return DEFAULT
    problems: list[str] = []
    made: dict[str, tuple[str, ...]] = {}
    for text in asked:
        name, _, faults = text.partition("=")
        if not name or not name.replace("-", "").isalnum():
            problems.append(f"--host {text}: {name!r} is not a host name")
        if name in made:
            problems.append(f"--host {text}: {name!r} is given twice")
        named = tuple(part for part in faults.replace(",", "+").split("+") if part) or ("healthy",)
        problems += [f"--host {text}: {_unknown(word)}" for word in named if word not in FAULTS]
        made[name] = named
    if problems:
        raise ConfigError(*problems)
    return tuple(made.items())


def _unknown(fault: str) -> str:
    return f"there is no fault {fault!r} ({suggest(fault, FAULTS)})"
