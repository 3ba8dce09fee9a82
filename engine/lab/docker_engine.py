"""A Docker engine of a lab host's own: real, private, and gone with the host."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

from engine.errors import ConfigError

OF_DOCKER: Mapping[str, str] = MappingProxyType(
    {
        "docker": "A Docker engine, with nothing in it.",
        "at_work": "A container at work, which writes its steps to its log; it must be spared.",
        "hung": "A container that runs on and does nothing, after a lack of GPU memory that its log tells of.",
        "died_of_memory": "A container that went over its memory limit, and was killed by the kernel.",
        "died_of_kill": "A container that somebody killed through Docker.",
        "died_of_segfault": "A container that died of a segmentation fault.",
        "died_of_gpu_memory": "A container that ended by itself: its log tells of a lack of GPU memory.",
        "died_of_disk": "A container that ended by itself when the disk that it wrote to was full.",
        "died_of_itself": "A container that ended by itself with an error of its own.",
        "died_silently": "A container that ended by itself, without a word in its log.",
        "dies_again": "A container that Docker starts again and again: it clones over a directory that is there.",
        "docker_full": "The disk of Docker is full of containers that died days ago, and of images without a name.",
        "unbounded_logs": "Docker bounds no container's log, and ends its containers when it is restarted.",
        "no_toolkit": "Docker knows of no way to give containers the GPUs.",
    }
)
"""The faults that give a host an engine; those of one host share it."""

NEEDED: Mapping[str, str] = MappingProxyType(
    {
        "dockerd": "docker.io",
        "docker": "docker.io",
        "containerd": "docker.io",
        "runc": "docker.io",
        "busybox": "busybox-static",
    }
)
"""Programs, and Debian's packages with them."""

STARTS_WITHIN = 60.0
"""Seconds in which such a host starts, containers and all."""


def has_engine(faults: Sequence[str]) -> bool:
    """Whether a host with these *faults* has an engine."""
    return any(it in OF_DOCKER for it in faults)


def require_engine(hosts: Sequence[tuple[str, tuple[str, ...]]]) -> None:
    """See that this machine can run the engines of *hosts*.  Raises ConfigError with what is missing."""
    wanting = [name for name, faults in hosts if has_engine(faults)]
    if not wanting:
        return
    who = f"a Docker engine ({', '.join(wanting)})"
    if os.geteuid() != 0:
        raise ConfigError(f"{who} needs root: run the lab with sudo")
    lacking = {package: None for program, package in NEEDED.items() if not shutil.which(program)}
    if "busybox-static" not in lacking and not _is_static(Path(shutil.which("busybox") or "")):
        lacking["busybox-static"] = None
    if lacking:
        raise ConfigError(f"{who} needs {' and '.join(lacking)} (Debian: apt-get install {' '.join(lacking)})")


def require_overlay(hosts: Sequence[tuple[str, tuple[str, ...]]], refusal: str) -> None:
    """An engine writes to /etc and /var.  Raises ConfigError where hosts cannot, with this machine's *refusal*."""
    wanting = [name for name, faults in hosts if has_engine(faults)]
    if wanting and refusal:
        raise ConfigError(
            f"a Docker engine ({', '.join(wanting)}) needs an overlay over /, which this machine refuses ({refusal})"
        )


def _is_static(program: Path) -> bool:
    """Whether *program* runs where there is nothing else: it names no loader in its first page."""
    with program.open("rb") as file:
        return b"/ld-" not in file.read(4096)


def group_of(folder: Path) -> str:
    """The cgroup below which the containers of the lab in *folder* live, and nobody else's."""
    return f"runbook-lab-{hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:7]}"


def engine_files(folder: Path, name: str, faults: Sequence[str]) -> dict[str, str]:
    """What host *name* of the lab in *folder* is given for its engine; nothing where it has none."""
    if not has_engine(faults):
        return {}
    mark = secrets.token_hex(3)  # the kernel remembers the containers of hosts that are gone
    group = f"/{group_of(folder)}/{name}-{mark} busybox-{mark}\n"
    return {"docker": ENGINE, "docker-service": SERVICE, "group": group, "dmesg": DMESG}


def remove_groups(folder: Path) -> None:
    """Remove the cgroups of the lab in *folder*, whose processes have ended."""
    roots = [
        it for it in (Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").glob("*")) if (it / group_of(folder)).is_dir()
    ]
    deadline = time.monotonic() + 5
    while roots and time.monotonic() < deadline:
        for root in roots:
            for place, _, _ in os.walk(root / group_of(folder), topdown=False):
                with suppress(OSError):  # what still ends in it holds it for a moment
                    Path(place).rmdir()
        roots = [it for it in roots if (it / group_of(folder)).is_dir()]
        if roots:
            time.sleep(0.02)


DMESG = r"""#!/bin/sh
# A pretended ring buffer, and after it what the machine's own says of this host's containers.
cat /run/lab/kernel
read -r group busybox </run/lab/group
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
dmesg 2>/dev/null | awk -v group="=$group/" -v program="] $busybox[" '
    index($0, "oom-kill:") && index($0, group) { print; pid = $0; sub(/.*,pid=/, "", pid); sub(/,.*/, "", pid); next }
    pid != "" && index($0, "Killed process " pid " ") { print; pid = ""; next }
    index($0, program) { print }
'
exit 0
"""

SERVICE = r"""#!/bin/sh
### BEGIN INIT INFO
# Provides:          docker
# Required-Start:
# Required-Stop:
# Default-Start:
# Default-Stop:
# Short-Description: The Docker engine of a lab host.
### END INIT INFO
PATH=/run/lab/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin; export PATH
unset DOCKER_HOST DOCKER_CONTEXT DOCKER_CONFIG DOCKER_TLS_VERIFY NOTIFY_SOCKET
pid=
runs() { { pid=$(cat /run/docker.pid) && read -r it <"/proc/$pid/comm" && [ "$it" = dockerd ]; } 2>/dev/null; }
start() {
    ! runs || return 0
    read -r group busybox </run/lab/group
    setsid dockerd -p /run/docker.pid -H unix:///run/docker.sock --exec-root /run/docker --bridge=none --iptables=false \
        --ip6tables=false --ip-forward=false --exec-opt native.cgroupdriver=cgroupfs --cgroup-parent="$group" \
        </dev/null >>/run/lab/dockerd.log 2>&1 &
    started=$! n=0
    until docker version >/dev/null 2>&1; do
        n=$((n + 1))
        if ! kill -0 $started 2>/dev/null || [ $n -gt 600 ]; then
            tail -n 1 /run/lab/dockerd.log >&2
            return 1
        fi
        sleep 0.05
    done
}
stop() {
    runs || return 0
    kill "$pid"
    n=0
    while runs && [ $n -lt 300 ]; do n=$((n + 1)); sleep 0.05; done
    ! runs
}
case $1 in
    start) start ;;
    stop) stop ;;
    restart | force-reload) stop && start ;;
    status) if runs; then echo "Docker is running ($pid)."; else echo 'Docker is not running.'; exit 3; fi ;;
    *) echo "Usage: service docker {start|stop|restart|status}" >&2; exit 2 ;;
esac
"""

ENGINE = r"""# Sourced by the first process of a lab host that has a Docker engine, after all else of it is there.
fails() { echo "its Docker engine: $1"; exit 1; }
# This machine's own configuration and containers are not seen.
mkdir -p /etc/docker /etc/init.d /var/lib/docker
room=1g; ! has docker_full || room=80m
mount -t tmpfs -o mode=755 lab /etc/docker && mount -t tmpfs -o "mode=711,size=$room" lab /var/lib/docker ||
    fails 'no file system for it'
rm -f /etc/init.d/docker; mv /run/lab/docker-service /etc/init.d/docker
keys=
has unbounded_logs || keys='"log-driver": "json-file", "log-opts": {"max-size": "100m", "max-file": "5", "compress": "true"}, "live-restore": true'
if ! has no_toolkit && ! has no_gpu; then
    printf '#!/bin/sh\n# A pretended runtime: the devices of this host are not real.\nexec runc "$@"\n' >/run/lab/bin/nvidia-container-runtime
    chmod 755 /run/lab/bin/nvidia-container-runtime
    keys="$keys${keys:+, }\"runtimes\": {\"nvidia\": {\"args\": [], \"path\": \"nvidia-container-runtime\"}}"
fi
[ -z "$keys" ] || echo "{$keys}" >/etc/docker/daemon.json
/etc/init.d/docker start || fails 'it does not start'

read -r group busybox </run/lab/group  # by the second name the kernel's words on this host's faults are known
image=/run/lab/image
mkdir -p $image/bin
cp "$(command -v busybox)" $image/bin/busybox; ln $image/bin/busybox $image/bin/$busybox
for it in sh sleep echo tail dd mkdir ls date kill cat; do ln -s busybox $image/bin/$it; done
cat >$image/bin/git <<'END'
#!/bin/sh
# What git says of `git clone ADDRESS FOLDER`.
if [ -n "$(ls -A "$3" 2>/dev/null)" ]; then
    echo "fatal: destination path '$3' already exists and is not an empty directory." >&2
    exit 128
fi
echo "Cloning into '$3'..." >&2
mkdir -p "$3" && echo 'print("training")' >"$3/train.py"
END
chmod 755 $image/bin/git
tar -C $image -c . | docker import - lab/areal:1 >/dev/null || fails 'no image can be made'
box() { # $1 its name; then more options, the image and its command: a container that runs to its end
    it=$1; shift
    docker run --network none --name "$it" "$@" </dev/null >/dev/null 2>/run/lab/said
    docker inspect "$it" >/dev/null 2>&1 || fails "$(tail -n 1 /run/lab/said)"
}
if has docker_full; then
    for n in 1 2 3 4 5 6 7 8; do
        box "run-$n" lab/areal:1 sh -c "echo competition $n; dd if=/dev/zero of=/submission bs=1M count=8 2>/dev/null; exit 1" &
    done
    wait
    # Images without a name, made long ago, as `docker build` leaves them.
    layers=/run/lab/layers; mkdir -p $layers
    for n in 1 2; do
        head -c 4000000 /dev/urandom >$layers/model
        tar -C $layers -cf $layers/layer.tar model
        set -- $(sha256sum $layers/layer.tar) "$@"; digest=$1; shift 2
        case $(uname -m) in x86_64) machine=amd64;; aarch64) machine=arm64;; *) machine=$(uname -m);; esac
        echo "{\"architecture\": \"$machine\", \"os\": \"linux\", \"created\": \"$(date -u -d '-9 days' +%Y-%m-%dT%H:%M:%SZ)\", \"config\": {\"Labels\": {\"n\": \"$n\"}}, \"rootfs\": {\"type\": \"layers\", \"diff_ids\": [\"sha256:$digest\"]}, \"history\": [{\"created_by\": \"COPY model /\"}]}" >$layers/config.json
        echo '[{"Config": "config.json", "RepoTags": null, "Layers": ["layer.tar"]}]' >$layers/manifest.json
        tar -C $layers -c manifest.json config.json layer.tar | docker load >/dev/null 2>&1
    done
    rm -rf $layers
    # Nobody waits for days: while the engine is down, the times of the dead are set back.
    /etc/init.d/docker stop
    n=8
    for it in /var/lib/docker/containers/*/config.v2.json; do
        n=$((n - 1)); then=$(date -u -d "-3 days -$n hours" +%Y-%m-%dT%H:%M:%S)
        sed -i -E "s/\"(StartedAt|FinishedAt|Created)\":\"20[0-9-]*T[0-9:]*/\"\1\":\"$then/g" "$it"
    done
    /etc/init.d/docker start || fails 'it does not start again'
fi
if has at_work; then
    box run-at-work -d lab/areal:1 sh -c 'n=0; while sleep 1; do n=$((n + 1)); echo "Training step $n of 250"; done'
fi
if has hung; then
    box run-hung -d lab/areal:1 sh -c 'echo "Training step 57 of 250"; echo "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.16 GiB." >&2; exec sleep 100000'
fi
if has dies_again; then
    box areal -d --restart=always -v /run/lab/workspace:/workspace -w /workspace lab/areal:1 sh -c '
        echo "start container for lab/areal: begin"
        git clone https://github.com/inclusionAI/AReaL AReaL || exit
        echo "Successfully installed areal"
        n=0; while sleep 1; do n=$((n + 1)); echo "Training step $n of 250"; done'
    n=0
    until [ "$(docker inspect --format '{{.RestartCount}}' areal)" -ge 3 ] || [ $n -gt 200 ]; do n=$((n + 1)); sleep 0.1; done
fi
if has died_silently; then box run-silent lab/areal:1 sh -c 'exit 1'; fi
if has died_of_itself; then
    box run-itself lab/areal:1 sh -c 'echo "Training step 57 of 250"; echo "Traceback (most recent call last):
  File \"/workspace/train.py\", line 88, in <module>
    config = load(path)
ValueError: batch_size must be divisible by the number of workers" >&2; exit 1'
fi
if has died_of_disk; then
    box run-disk --tmpfs /out:size=64k lab/areal:1 sh -c 'echo "Training step 57 of 250"; dd if=/dev/zero of=/out/step_57.pt bs=1M count=1 || exit 1'
fi
if has died_of_gpu_memory; then
    box run-gpu-memory lab/areal:1 sh -c 'echo "Training step 57 of 250"; echo "Traceback (most recent call last):
  File \"/workspace/train.py\", line 120, in forward
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.16 GiB. GPU 0 has a total capacity of 79.33 GiB" >&2; exit 1'
fi
if has died_of_segfault; then # a stack that has no end
    box run-segfault lab/areal:1 $busybox sh -c 'echo "Training step 57 of 250"; f() { f; }; f'
fi
if has died_of_kill; then
    box run-kill -d lab/areal:1 sh -c 'echo "Training step 57 of 250"; exec sleep 1000'
    n=0 # it is killed at its work: what is killed sooner has not said anything yet
    until docker logs run-kill 2>&1 | grep -q step || [ $n -gt 200 ]; do n=$((n + 1)); sleep 0.1; done
    docker kill run-kill >/dev/null
fi
if has died_of_memory; then
    box run-memory --memory=20m --memory-swap=20m lab/areal:1 sh -c 'echo "Training step 57 of 250"; echo "Loading the dataset"; exec tail /dev/zero'
fi
cd / || exit 1
"""
