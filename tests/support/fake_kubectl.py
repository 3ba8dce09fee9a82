"""A kubectl by the rules of the real one, whose pods are containers of a Docker engine.

A container is part of a pod by the labels that the kubelet gave containers of Docker: io.kubernetes.pod.name,
io.kubernetes.pod.namespace, io.kubernetes.pod.uid and io.kubernetes.container.name.  A pod with the label `evicted` is
being deleted, as after an eviction.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

POD, NAMESPACE, UID, CONTAINER = (
    "io.kubernetes.pod.name",
    "io.kubernetes.pod.namespace",
    "io.kubernetes.pod.uid",
    "io.kubernetes.container.name",
)
CONTEXTS = ("lab",)
FIRST_UID = "3f1c8a52-0d6e-4b7a-9c41-000000000001"


def labels(pod: str, container: str = "main", namespace: str = "default", uid: str = FIRST_UID) -> tuple[str, ...]:
    """The options of `docker run` for a container of a pod."""
    values = {POD: pod, NAMESPACE: namespace, UID: uid, CONTAINER: container}
    return tuple(f"--label={key}={value}" for key, value in values.items())


def install(folder: Path) -> Path:
    """Write the program `kubectl` into *folder*, and return *folder*."""
    folder.mkdir(exist_ok=True)
    program = folder / "kubectl"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -E -s {Path(__file__).resolve()} "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return folder


def fail(words: str, code: int = 1) -> None:
    sys.stderr.write(f"{words}\n")
    sys.exit(code)


def containers(namespace: str) -> list[dict]:
    """What docker knows of the containers of all pods in *namespace*."""
    ids = subprocess.run(
        ["docker", "ps", "-aq", "--filter", f"label={NAMESPACE}={namespace}"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    if not ids:
        return []
    return json.loads(subprocess.run(["docker", "inspect", *ids], capture_output=True, text=True, check=True).stdout)


def state(found: dict) -> dict:
    if found["State"]["Running"]:
        return {"running": {"startedAt": found["State"]["StartedAt"]}}
    return {"terminated": {"exitCode": found["State"]["ExitCode"], "reason": "Completed"}}


def pod(name: str, namespace: str) -> dict | None:
    """The pod as the API server has it; None if there is none."""
    mine = [each for each in containers(namespace) if each["Config"]["Labels"][POD] == name]
    if not mine:
        return None
    named = sorted((each["Config"]["Labels"][CONTAINER], each) for each in mine)
    deleted = (
        {"deletionTimestamp": "2026-01-01T00:00:00Z"}
        if any("evicted" in each["Config"]["Labels"] for each in mine)
        else {}
    )
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": mine[0]["Config"]["Labels"][UID], **deleted},
        "spec": {"containers": [{"name": called, "image": each["Config"]["Image"]} for called, each in named]},
        "status": {
            "phase": "Running" if any(each["State"]["Running"] for each in mine) else "Succeeded",
            "containerStatuses": [{"name": called, "ready": each["State"]["Running"], "state": state(each)} for called, each in named],
        },
    }  # fmt: skip


def main(words: list[str]) -> None:
    namespace = "default"
    while words and words[0].startswith("--"):
        option, value, *words = words
        if option == "--context" and value not in CONTEXTS:
            fail(f'error: context "{value}" does not exist')
        if option == "--namespace":
            namespace = value
    match words:
        case ["get", "pod", "--output", "json", "--", name]:
            found = pod(name, namespace)
            if not found:
                fail(f'Error from server (NotFound): pods "{name}" not found')
            print(json.dumps(found, indent=4))
        case ["get", ("pods" | "nodes") as kind, "--output", "json"]:
            names = (
                dict.fromkeys(each["Config"]["Labels"][POD] for each in containers(namespace)) if kind == "pods" else {}
            )
            items = [pod(name, namespace) for name in names]
            print(json.dumps({"apiVersion": "v1", "kind": "List", "items": items, "metadata": {"resourceVersion": ""}}))
        case ["exec", "-i", name, "--container", container, "--", *command]:
            mine = [
                each for each in containers(namespace)
                if (each["Config"]["Labels"][POD], each["Config"]["Labels"][CONTAINER]) == (name, container)
            ]  # fmt: skip
            if not mine:
                fail(f'Error from server (NotFound): pods "{name}" not found')
            if not mine[0]["State"]["Running"]:
                fail(f'error: unable to upgrade connection: container not found ("{container}")')
            done = subprocess.Popen(["docker", "exec", "-i", mine[0]["Id"], *command])
            code = done.wait()
            if code:
                fail(f"command terminated with exit code {code}", code)
        case _:
            fail(f"error: unknown command {words}")


if __name__ == "__main__":
    os.environ.setdefault("PATH", os.defpath)
    main(sys.argv[1:])
