"""Containers with GPUs: what nvidia-smi says in each, and who is asked at all."""

from __future__ import annotations

import json

import pytest

from runbook.errors import ProbeError
from runbook.library.docker import container_gpus
from runbook.protocols import Absent, Fails, Holds
from runbook.values.command import Completed, Effect
from runbook.values.types import Unknown
from tests.support.probe_driver import drive
from tests.support.tables import every_row

UUID = "GPU-1ab00000-0000-4000-8000-000000000000"
ROW = {
    "id": "a" * 64, "name": "/run", "image": "x", "pid": 7, "started": "2026-01-31T12:00:00Z", "auto_remove": False,
    "runtime": "runc", "privileged": False, "requests": [{"Driver": ""}], "devices": None, "end": "end",
}  # fmt: skip


class Saying:
    """A host on which Docker answers with one container, and nvidia-smi in it with *code* and *said*."""

    def __init__(self, code=0, said="", opened=0, refusal="", asked=True, row=()):
        view = {"id": ROW["id"], "asked": asked, "pids": [7]}
        if asked:
            view |= {"code": code, "said": said.encode().hex(), "open": opened, "refusal": refusal.encode().hex()}
        lines = {
            "engine": {"version": "28"}, "info": {"cgroup_driver": "systemd", "cgroup_version": "2"},
            "container": {**ROW, **dict(row)}, "view": view,
        }  # fmt: skip
        self.text = "".join(f"{word} {json.dumps(it)}\n" for word, it in lines.items())

    def run(self, *commands):
        return (Completed(exit_code=0, stdout=self.text),)


def seen(*words, **keys):
    return drive(container_gpus.probe(container_gpus.Args()), Saying(*words, **keys))


@every_row(
    ("code", "said", "view"),
    [
        (0, f"GPU 0: NVIDIA H100 80GB HBM3 (UUID: {UUID})\n", "sees"),
        (0, f"GPU 0: NVIDIA A100 (UUID: {UUID})\n  MIG 1g.5gb     Device  0: (UUID: MIG-1ab00000)\n", "sees"),
        (255, "Failed to initialize NVML: Unknown Error\n", "lost"),
        (4, "Failed to initialize NVML: Insufficient Permissions\n", "lost"),
        (18, "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 570.133\n", "fails"),
        (6, "No devices were found\n", "fails"),
        (0, "No devices found.\n", "fails"),
        (124, "", "hangs"),
        (137, "", "hangs"),
        (127, 'OCI runtime exec failed: exec: "nvidia-smi": executable file not found in $PATH: unknown\n', "no_tool"),
        (126, 'OCI runtime exec failed: exec: "nvidia-smi": executable file not found in $PATH: unknown\n', "no_tool"),
    ],
)
def test_what_nvidia_smi_says_in_a_container_is_its_view(code, said, view):
    """Mutants: a mismatch taken for lost rights; exit code 0 without a GPU taken for health."""
    state = seen(code, said)
    assert state.containers[0].view == view
    kinds = {"lost": state.lost, "hangs": state.hangs, "fails": state.others, "no_tool": state.not_known}
    assert {kind for kind, it in kinds.items() if it} == {view} - {"sees"}
    assert state.containers[0].gpus == ((UUID,) if view == "sees" else ())


def test_a_device_that_may_not_be_opened_is_lost_whatever_nvidia_smi_says():
    assert seen(9, "NVIDIA-SMI has failed", 2, "sh: can't open /dev/nvidiactl: Operation not permitted").lost


def test_a_container_that_was_not_asked_is_not_known_and_never_well():
    """Mutant: the view of a container that was not asked is `sees`."""
    state = seen(asked=False)
    assert isinstance(state.containers[0].view, Unknown)
    assert state.not_known == state.containers
    with pytest.raises(ProbeError, match="not known of run"):
        container_gpus.holds(container_gpus.Args(), state)


def test_under_verify_every_container_must_reach_its_gpus():
    args = container_gpus.Args()
    assert isinstance(container_gpus.holds(args, seen(0, f"GPU 0: x (UUID: {UUID})")), Holds)
    failed = container_gpus.holds(args, seen(255, "Failed to initialize NVML: Unknown Error"))
    assert failed == Fails(why="run: Failed to initialize NVML: Unknown Error")


@every_row(
    ("row", "by"),
    [
        ({}, "--gpus"),
        ({"requests": None, "devices": [{"PathOnHost": "/dev/nvidia0"}]}, "--device"),
        ({"requests": [], "runtime": "nvidia"}, "--runtime nvidia"),
        ({"requests": None}, "a device node in it"),
    ],
)
def test_it_is_said_how_a_container_was_given_gpus(row, by):
    assert seen(0, f"GPU 0: x (UUID: {UUID})", row=row).containers[0].given_by == by


def test_without_docker_there_is_nothing_to_ask():
    class Without:
        def run(self, *commands):
            return (Completed(exit_code=0, stdout='no_docker ""\n'),)

    found = drive(container_gpus.probe(container_gpus.Args()), Without())
    assert isinstance(found, Absent)
    assert found.state.no_engine


SMI = f"""printf '#!/bin/sh\\n: </dev/nvidiactl || {{ echo Failed to initialize NVML: Unknown Error; exit 255; }}
echo "GPU 0: NVIDIA H100 (UUID: {UUID})"\\n' >/bin/nvidia-smi; busybox chmod 755 /bin/nvidia-smi; exec sleep 900"""


@pytest.mark.real("docker")
@pytest.mark.parametrize("shell", ["dash", pytest.param("bash", marks=pytest.mark.soak)])
def test_a_real_control_group_that_refuses_the_device_is_seen_and_only_containers_with_gpus_are_asked(engine, shell):
    """Mutants: every running container asked; the pids of the container instead of the host's."""
    for name in ("well", "lost"):
        engine("run", "-d", "--name", name, "--network", "none", "--device", "/dev/fuse:/dev/nvidiactl", "base:1",
               "sh", "-c", SMI)  # fmt: skip
    engine.lives(name="without")
    for name in ("well", "lost"):
        engine("exec", name, "sh", "-c", "n=0; until nvidia-smi || [ $n -gt 500 ]; do n=$((n + 1)); sleep 0.1; done")
    group = f"/sys/fs/cgroup/devices/docker/{engine.inspect('lost', '{{.Id}}')}/devices.deny"
    try:
        with open(group, "w") as deny:
            deny.write("c 10:229 rwm")
    except FileNotFoundError:
        pytest.skip("device rules are files only in control groups of version 1")
    machine = engine.machine(shell)
    state = drive(container_gpus.probe(container_gpus.Args()), machine)
    assert {it.name: it.view for it in state.containers} == {"well": "sees", "lost": "lost"}
    assert state.lost[0].pids == (int(engine.inspect("lost", "{{.State.Pid}}")),)
    assert {it.effect for it in machine.sent} == {Effect.READ}
