"""Ask in each running container that was given GPUs whether it still reaches them.

`nvidia-smi -L` is run in the container (`docker exec`), one container after the other; after the first that does not
answer, no other is asked. A container can say what it likes: its answer is its own view, and nothing about the host.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.docker.facts.containers import GPU_FORMAT
from runbook.library.docker.facts.engine import ask_docker, read_docker, when
from runbook.protocols import Absent, Fails, Holds, Probe
from runbook.shell import script
from runbook.values.types import Duration, Unknown

_LOOK = script(__package__, "container_gpus_probe")
_LOST = re.compile(r"Failed to initialize NVML: (?:Unknown Error|Insufficient Permissions)|Operation not permitted")
_GPU = re.compile(r"^GPU \d+: .*\(UUID: (GPU-[0-9a-fA-F-]+)\)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    name: str = ""
    """Only this container: its name or its id."""
    answers_within: Duration = field(default=Duration(20), metadata={"minimum": 1, "maximum": 120})
    """The time that nvidia-smi may take in one container."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A running container with GPUs, and what nvidia-smi says in it."""

    id: str
    """Its full id, 64 hexadecimal digits."""
    name: str
    """Its name, without the slash that `docker inspect` has before it."""
    image: str
    """The image that it was made from, as it was named then: a name with a tag, or an id."""
    started_at: str
    """When it was last started: Docker's own text (RFC 3339, UTC); ``never``: it was not."""
    given_by: str
    """The way it was given GPUs: ``--gpus``, ``--device``, a runtime; ``a device node in it`` where Docker does not
    say."""
    view: str | Unknown
    """sees, lost (the control group, or the rights, refuse the device), hangs, no_tool (no nvidia-smi in it), fails."""
    said: str
    """The first line of what nvidia-smi said, where it did not list GPUs."""
    gpus: tuple[str, ...]
    """UUIDs that it sees."""
    pids: tuple[int, ...]
    """Its processes, by their numbers on the host."""
    auto_remove: bool
    """Whether Docker removes it as soon as it stops."""

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The containers with GPUs."""

    no_engine: bool = False
    """There is no Docker on this host."""
    containers: tuple[View, ...] = ()
    """Running containers that were given GPUs: name, view, said, gpus (UUIDs), pids ..."""
    lost: tuple[View, ...] = ()
    """Containers that are refused their GPUs: the device cannot be opened in them."""
    hangs: tuple[View, ...] = ()
    """Containers in which nvidia-smi did not answer in time."""
    others: tuple[View, ...] = ()
    """Containers in which nvidia-smi fails in another way, or sees no GPU."""
    not_known: tuple[View, ...] = ()
    """Containers of unknown state: they have no nvidia-smi, or were not asked."""
    cgroup_driver: str = ""
    """systemd or cgroupfs."""
    cgroup_version: str = ""
    """1 or 2."""
    unlinked: tuple[str, ...] = ()
    """GPU device nodes without a link in /dev/char, by which systemd finds them."""


def probe(args: Args) -> Probe[State]:
    """List the containers with GPUs and ask in each."""
    seconds = f"{args.answers_within:.0f}"
    answer = read_docker((yield ask_docker(_LOOK, GPU_FORMAT, seconds)))
    if answer.absent:
        return Absent(why=answer.absent, state=State(no_engine=True))
    rows = {row["id"]: row for row in answer.all("container")}
    seen = [_view(rows[each["id"]], each) for each in answer.all("view") if each["id"] in rows]
    if args.name:
        seen = [
            view for view in seen if args.name == view.name or (len(args.name) >= 12 and view.id.startswith(args.name))
        ]
    by = {kind: tuple(view for view in seen if view.view == kind) for kind in ("lost", "hangs", "fails", "no_tool")}
    info: Mapping[str, Any] = answer.one("info")
    return State(
        containers=tuple(seen),
        lost=by["lost"],
        hangs=by["hangs"],
        others=by["fails"],
        not_known=(*by["no_tool"], *(view for view in seen if isinstance(view.view, Unknown))),
        cgroup_driver=str(info["cgroup_driver"] or ""),
        cgroup_version=str(info["cgroup_version"] or ""),
        unlinked=tuple(map(str, answer.all("unlinked"))),
    )


def _view(row: Mapping[str, Any], it: Mapping[str, Any]) -> View:
    asked = bool(it["asked"])
    said = _text(it["said"]) if asked else ""
    refusal = _text(it["refusal"]) if asked else ""
    gpus = tuple(dict.fromkeys(_GPU.findall(said)))
    words = next((line.strip() for line in said.splitlines() if line.strip()), "")
    view: str | Unknown = Unknown(why="not asked, because nvidia-smi did not answer in another container")
    if asked:
        view = _kind(it["code"], gpus, said, refusal if it["open"] else "")
    return View(
        id=row["id"],
        name=row["name"].removeprefix("/"),
        image=row["image"],
        started_at=when(row["started"]),
        given_by=_given_by(row),
        view=view,
        said="" if gpus else words or refusal,
        gpus=gpus,
        pids=tuple(it["pids"]),
        auto_remove=bool(row["auto_remove"]),
    )


def _text(digits: str) -> str:
    try:
        return bytes.fromhex(digits).decode("utf-8", "replace")
    except ValueError as error:
        raise ProbeError(f"what a container said could not be read: {digits[:40]!r}") from error


def _kind(code: int, gpus: Sequence[str], said: str, refusal: str) -> str:
    """The view, by the exit code of nvidia-smi (124 and 137: ended by timeout(1)), what it said, and the open."""
    if code == 0 and gpus:
        return "sees"
    if code in (124, 137):
        return "hangs"
    if code in (126, 127) and "NVML" not in said:
        return "no_tool"
    return "lost" if _LOST.search(said) or _LOST.search(refusal) else "fails"


def _given_by(row: Mapping[str, Any]) -> str:
    if row["requests"]:
        return "--gpus"
    if any("nvidia" in str(each.get("PathOnHost", "")) for each in row["devices"] or ()):
        return "--device"
    runtime = str(row["runtime"] or "")
    return f"--runtime {runtime}" if "nvidia" in runtime else "a device node in it"


def holds(args: Args, state: State) -> Holds | Fails:
    """Every container with GPUs reaches them."""
    if wrong := (*state.lost, *state.hangs, *state.others):
        return Fails(why="; ".join(f"{view.name}: {view.said or view.view}" for view in wrong))
    if state.not_known:
        raise ProbeError(f"not known of {', '.join(view.name for view in state.not_known)}")
    return Holds(why=f"containers that reach their GPUs: {', '.join(map(str, state.containers)) or 'none has any'}")


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the commands that a person would run by hand."""
    return (
        "nvidia-smi -L      # on the host",
        f"docker exec {args.name or 'NAME'} nvidia-smi -L      # in the container",
        f"docker exec {args.name or 'NAME'} sh -c ': </dev/nvidiactl'  # may it be opened?",
    )
