"""The containers of a host, as ``docker inspect`` describes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runbook.dataclass import dataclass
from runbook.library.docker.facts.engine import NEVER, epoch, when
from runbook.values.types import seconds

DEAD = ("exited", "dead", "created")
"""Statuses of a container in which nothing runs, and nothing is about to."""

FORMAT = (
    'container {"id":{{json .Id}},"name":{{json .Name}},"image":{{json .Config.Image}},"image_id":{{json .Image}},'
    '"created":{{json .Created}},"status":{{json .State.Status}},"pid":{{json .State.Pid}},'
    '"exit_code":{{json .State.ExitCode}},"oom_killed":{{json .State.OOMKilled}},"error":{{json .State.Error}},'
    '"started":{{json .State.StartedAt}},"finished":{{json .State.FinishedAt}},"restarts":{{json .RestartCount}},'
    '"health":{{with index .State "Health"}}{{json .Status}}{{else}}""{{end}},'
    '"memory":{{json .HostConfig.Memory}},"swap":{{json .HostConfig.MemorySwap}},"nano":{{json .HostConfig.NanoCpus}},'
    '"shm":{{json .HostConfig.ShmSize}},"ipc":{{json .HostConfig.IpcMode}},'
    '"policy":{{json .HostConfig.RestartPolicy}},"log":{{json .HostConfig.LogConfig.Type}},'
    '"log_path":{{json .LogPath}},"auto_remove":{{json .HostConfig.AutoRemove}},"mounts":{{json .Mounts}}}'
)
"""For ``docker container inspect --format``.  The environment and the command line may hold secrets: not asked for."""

GPU_FORMAT = (
    'container {"id":{{json .Id}},"name":{{json .Name}},"image":{{json .Config.Image}},"pid":{{json .State.Pid}},'
    '"started":{{json .State.StartedAt}},"auto_remove":{{json .HostConfig.AutoRemove}},'
    '"runtime":{{json .HostConfig.Runtime}},"privileged":{{json .HostConfig.Privileged}},'
    '"requests":{{json .HostConfig.DeviceRequests}},"devices":{{json .HostConfig.Devices}},"end":"end"}'
)
"""For ``docker container inspect --format``: how a container was given devices."""

LIST = r"""
list ps -aq --no-trunc
inspect container inspect --format "$1"
"""
"""Inspects every container; $1 is the FORMAT."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """One container; times are Docker's own text, or ``never``."""

    id: str
    """Its full id, 64 hexadecimal digits."""
    name: str
    """Its name, without the slash that `docker inspect` has before it."""
    image: str
    """The image that it was made from, as it was named then: a name with a tag, or an id."""
    image_id: str = ""
    """The full id of the image, ``sha256:`` and 64 hexadecimal digits."""
    status: str
    """Its status: created, running, paused, restarting, removing, exited, dead."""
    pid: int = 0
    """The pid of its first process, as the host numbers it; 0: nothing runs in it."""
    exit_code: int = 0
    """The code with which it last ended (128 + N: by signal N); 0 while it runs, and before its first start."""
    oom_killed: bool = False
    """Whether Docker says that something in it was killed for lack of memory since its last start (State.OOMKilled)."""
    error: str = ""
    """The reason why it could not be started."""
    created_at: str = NEVER
    """When it was made: Docker's own text (RFC 3339, UTC)."""
    started_at: str = NEVER
    """When it was last started: Docker's own text (RFC 3339, UTC); ``never``: it was not."""
    finished_at: str = NEVER
    """When it last ended, likewise; ``never``: it has not. While it runs, this is the end of the run before."""
    restart_count: int = 0
    """The number of restarts by its restart policy; starting it by hand sets this to 0."""
    restart_policy: str = "no"
    """When Docker starts it again by itself: no, always, unless-stopped, on-failure."""
    max_retries: int = 0
    """The number of times that the policy on-failure starts it again at most; 0: without a limit, or another policy."""
    health: str = ""
    """The result of its health check: healthy, unhealthy, starting; empty: it has no check."""
    memory: int = 0
    """Its memory limit in bytes; 0: unlimited."""
    memory_swap: int = 0
    """Bytes of memory and swap together; 0: not set, -1: unlimited."""
    cpus: float = 0.0
    """The number of CPUs it may use at most; 0: unlimited."""
    shm_size: int = 0
    """Bytes of its /dev/shm; 0: not known."""
    ipc: str = ""
    """The owner of its /dev/shm: private, shareable, host, container:ID or none."""
    log_driver: str = ""
    """Docker's driver for the log: json-file, local, journald ...; with the driver none, no log is kept."""
    log_path: str = ""
    """The file on the host that its log is in; empty with other drivers than json-file."""
    auto_remove: bool = False
    """Whether Docker removes it as soon as it stops (`docker run --rm`)."""
    volumes: tuple[str, ...] = ()
    """Names of the volumes that it mounts."""

    @property
    def dead(self) -> bool:
        """Whether nothing runs in it, and nothing is about to."""
        return self.status in DEAD

    @property
    def died(self) -> float:
        """When it ended, or (never started) when it was made; seconds since 1970."""
        return epoch(self.finished_at) or epoch(self.created_at)

    @property
    def identity(self) -> str:
        """This life of it: another start makes another."""
        return f"{self.id}:{self.started_at}"

    @property
    def seen(self) -> str:
        """Return the state that is asked again before it is removed."""
        return f"{self.status} {_raw(self.started_at)} {_raw(self.finished_at)}"

    def __str__(self) -> str:
        return f"{self.name} ({self.id[:12]})"


def _raw(text: str) -> str:
    return "0001-01-01T00:00:00Z" if text == NEVER else text


def container(row: Mapping[str, Any]) -> Container:
    """Parse a line of FORMAT."""
    policy = row.get("policy") or {}
    return Container(
        id=row["id"],
        name=row["name"].removeprefix("/"),
        image=row["image"],
        image_id=row["image_id"],
        status=row["status"],
        pid=row["pid"],
        exit_code=row["exit_code"],
        oom_killed=bool(row["oom_killed"]),
        error=row["error"],
        created_at=when(row["created"]),
        started_at=when(row["started"]),
        finished_at=when(row["finished"]),
        restart_count=row["restarts"] or 0,
        restart_policy=policy.get("Name") or "no",
        max_retries=policy.get("MaximumRetryCount") or 0,
        health=row["health"],
        memory=row["memory"] or 0,
        memory_swap=row["swap"] or 0,
        cpus=(row["nano"] or 0) / 1e9,
        shm_size=row.get("shm") or 0,
        ipc=row.get("ipc") or "",
        log_driver=row["log"],
        log_path=row["log_path"] or "",
        auto_remove=bool(row["auto_remove"]),
        volumes=tuple(
            mount["Name"] for mount in row["mounts"] or () if mount.get("Type") == "volume" and mount.get("Name")
        ),
    )


def ago(then: float, now: float) -> str:
    """Return the time from *then* to *now*, in words."""
    return f"{seconds(max(0.0, now - then))} ago" if then else "at an unknown time"
