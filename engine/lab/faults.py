"""The faults that a lab host can have, and the sets of hosts that a lab is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from types import MappingProxyType

from engine.errors import ConfigError
from engine.lab.docker_engine import OF_DOCKER
from engine.lab.pipeline import PIPELINES

FAULTS: Mapping[str, str] = MappingProxyType(
    {
        "healthy": "Two GPUs, and nothing on them.",
        "leftovers": "A dead training job: four processes by their usual names still hold GPU 0; nvidia-smi lists two.",
        "nameless": "A process of no known name holds GPU 0.",
        "stubborn": "A left-over process that ignores TERM.",
        "respawner": "A left-over process that a supervisor starts again whenever it is ended.",
        "daemon": "The persistence daemon, which holds every GPU and must never be ended.",
        "busy": "A training job at work on GPU 1, with a launcher and two workers; it must be spared.",
        "wedged": "GPU 0 is busy although no process of this host holds it; a reset is not permitted here.",
        "elsewhere": "GPU 0 is busy with a process that nvidia-smi lists and that is in another pid namespace.",
        "resettable": "GPU 0 asks for a reset, and can be reset when nobody holds it and persistence mode is off.",
        "exclusive": "GPU 0 is in compute mode Exclusive_Process.",
        "mig": "GPU 0 is in MIG mode, and does not say how busy it is.",
        "smi_hangs": "nvidia-smi never answers.",
        "smi_fails": "nvidia-smi cannot talk to the driver.",
        "smi_noise": "nvidia-smi prints an error between good rows: GPU 1 is lost.",
        "no_gpu": "No GPU at all: no device, no PCI function, no nvidia-smi.",
        "trained": "A training job that came to its end; its logs are in /run/lab/workspace.",
        "under_way": "A training run under way: its log is young, and has no end yet.",
        "old_crash": "The logs of an older run end with a crash, and the newest run is under way.",
        "update_timeout": "The trainer's log ends with an update of the weights that took too long.",
        "executor_crash": "The trainer's log ends with a broken pool of processes.",
        "server_crash": "The inference server's log ends without memory on the GPU.",
        "short_timeouts": "A training configuration lets the rollout give up too early, and says nothing of retries.",
        "silent_stop": "Training stopped 20 minutes ago after an update of the weights, without a word.",
        "leak": "A process that takes more memory from moment to moment.",
        "oom": "The kernel has killed the trainer for memory.",
        "disk_errors": "The kernel complains about the disk.",
        "disk_full": "The file system of the outputs is full.",
        "disk_slow": "The disk is slow, as far as dd can tell.",
        "restart_loop": "A container starts every second and ends at once: it clones over a directory that is there.",
        "unsaved": "With restart_loop: the directory holds a file that git does not have.",
        "broken_clone": "With restart_loop: the directory is no whole git repository.",
        "git_aware": "With restart_loop: the container brings the directory up to date instead of cloning over it.",
        "stuck": "Two selfplay processes hold GPU 0 and do nothing on it; the leader counts them as jobs.",
        "selfplay": "A selfplay job at work on GPU 1; it must be spared.",
        "miscounted": "The leader counts jobs of this host, and no such process is here.",
        "unmeasured": "The leader counts jobs of this host, and does not know how busy its GPUs are.",
        "unlisted": "The leader takes this host for dead.",
        "leader": "The leader of a job cluster: /status and /admin/reset_node_jobs on port 8770 of its address.",
        **OF_DOCKER,
        **PIPELINES,
        "down": "Nothing listens: the connection is refused.",
        "mute": "Connections are accepted, and no SSH banner is said.",
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
    """Names with their faults, of texts such as ``gpu-01=leftovers+busy``; none of them: the default set.

    Raises ConfigError.
    """
    if not asked:
        return DEFAULT
    problems: list[str] = []
    made: dict[str, tuple[str, ...]] = {}
    for text in asked:
        name, _, faults = text.partition("=")
        if not name or not name.replace("-", "").isalnum():
            problems.append(f"--host {text}: {name!r} is no host name")
        if name in made:
            problems.append(f"--host {text}: {name!r} is given twice")
        named = tuple(it for it in faults.replace(",", "+").split("+") if it) or ("healthy",)
        problems += [f"--host {text}: {_unknown(it)}" for it in named if it not in FAULTS]
        made[name] = named
    if problems:
        raise ConfigError(*problems)
    return tuple(made.items())


def _unknown(fault: str) -> str:
    near = get_close_matches(fault, FAULTS, n=1)
    return f"no fault is called {fault!r} " + (
        f"(did you mean {near[0]}?)" if near else f"(there are: {', '.join(FAULTS)})"
    )
