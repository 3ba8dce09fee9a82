"""Disk space that Docker uses: containers, layers of images, build cache, volumes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from runbook.dataclass import dataclass
from runbook.library.docker.facts.containers import FORMAT, LIST, Container, container
from runbook.library.docker.facts.engine import DockerAnswer, ask_docker, bytes_of, epoch, read_docker
from runbook.shell import script
from runbook.values.command import Command, Completed
from runbook.values.types import Unknown

PATIENCE = 120.0
"""Seconds for what makes Docker walk through its files; a full disk with large volumes is slow at that."""

_IMAGE = (
    'image {"id":{{json .Id}},"tags":{{json .RepoTags}},"digests":{{json (index . "RepoDigests")}},'
    '"created":{{json .Created}},"tagged":{{json (index .Metadata "LastTagTime")}},'
    '"size":{{json .Size}},"parent":{{json (index . "Parent")}},'
    '"layers":{{json .RootFS.Layers}}}'
)
_ENGINE = (
    'about {"root":{{json .DockerRootDir}},"driver":{{json .DriverStatus}},"now":{{json .SystemTime}},'
    '"version":{{json .ServerVersion}}}'
)
_THINGS = LIST + script(__package__, "disk_usage_list")
_USAGE = (
    '{{range .BuildCache}}record {"id":{{json .ID}},"parents":{{json .Parent}},"kind":{{json .CacheType}},'
    '"size":{{json .Size}},"used":{{json .LastUsedAt}},"in_use":{{json .InUse}},'
    '"shared":{{json .Shared}}}{{println}}{{end}}'
    '{{range .Containers}}layer {"id":{{json .ID}},"size":{{json .Size}}}{{println}}{{end}}'
    '{{range .Volumes}}volume {"name":{{json .Name}},"size":{{json .Size}},"links":{{json .Links}}}{{println}}{{end}}'
    'usage ""'
)
_VOLUME = 'named {"name":{{json .Name}},"created":{{json .CreatedAt}}}'
_WALK = script(__package__, "disk_usage_total")
"""Older engines refuse to count for two at once."""

_VOLUMES = script(__package__, "disk_usage_volumes")
_SIZES = script(__package__, "disk_usage_sizes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """One image, tagged or not."""

    id: str
    tags: tuple[str, ...]
    digests: tuple[str, ...]
    seen: str
    """Its names, as they are asked again before it is removed."""
    since: str
    """When it was made, or last tagged here, whichever is later: a pull tags."""
    size: int
    parent: str
    layers: tuple[str, ...]
    """Each with all below it: two images with the same one share it."""

    @property
    def nameless(self) -> bool:
        """Whether nobody can ask for it by name."""
        return not self.tags and not self.digests

    def __str__(self) -> str:
        return f"{', '.join(self.tags or self.digests) or '<none>'} ({self.id.removeprefix('sha256:')[:12]})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record of the build cache."""

    id: str
    parents: tuple[str, ...]
    kind: str
    size: int
    """Bytes, to the three or four digits that docker prints."""
    last_used: str
    in_use: bool
    shared: bool
    """An image has its layer too: without it nothing is freed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """One volume."""

    name: str
    size: int | Unknown
    links: int
    """The number of containers that mount it, running or not."""
    created_at: str = ""
    """Empty where it was not asked for."""

    @property
    def anonymous(self) -> bool:
        """Whether Docker made up its name."""
        return bool(re.fullmatch(r"[0-9a-f]{64}", self.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Things:
    """The containers, images and logs that one probe saw."""

    version: str
    root: str
    now: float
    """The engine's clock, seconds since 1970."""
    endpoint: str
    """Where the docker command finds the engine."""
    snapshots: bool
    """Images are kept by containerd, whose sizes do not add up layer by layer."""
    containers: tuple[Container, ...]
    images: tuple[Image, ...]
    only: frozenset[str] | None
    """Ids of objects with every requested label; None: no label was requested."""
    keep: frozenset[str]
    """Ids with a label that keeps them."""


def _labels(only: Sequence[str], keep: Sequence[str]) -> tuple[str, ...]:
    return (*(f"only{at}:{it}" for at, it in enumerate(only)), *(f"keep:{word}" for word in keep))


def ask_things(only: Sequence[str], keep: Sequence[str]) -> Command:
    """Containers and images, and which of them have the labels *only* and *keep*."""
    return ask_docker(_THINGS, FORMAT, _IMAGE, _ENGINE, *_labels(only, keep))


def read_things(answer: DockerAnswer, only: Sequence[str]) -> Things:
    """Parse *answer* to ``ask_things``."""
    about = answer.one("about")
    return Things(
        version=about["version"],
        root=about["root"],
        now=epoch(about["now"]),
        endpoint=str(next(iter(answer.all("endpoint")), "")),
        snapshots="io.containerd.snapshotter" in str(about["driver"]),
        containers=tuple(map(container, answer.all("container"))),
        images=tuple(map(_image, answer.all("image"))),
        only=_having(answer, only),
        keep=frozenset(answer.all("keep")),
    )


def _having(answer: DockerAnswer, only: Sequence[str]) -> frozenset[str] | None:
    """Return the ids and names with all the labels *only*; None: *only* is empty."""
    having = [frozenset(answer.all(f"only{at}")) for at in range(len(only))]
    return frozenset.intersection(*having) if having else None


def _image(row: Mapping[str, Any]) -> Image:
    chain: list[str] = []
    for layer in row["layers"] or ():
        chain.append(f"{chain[-1] if chain else ''}/{layer.removeprefix('sha256:')[:16]}")
    return Image(
        id=row["id"],
        tags=tuple(row["tags"] or ()),
        digests=tuple(row["digests"] or ()),
        seen="".join(f"{tag} " for tag in row["tags"] or ())
        + "|"
        + "".join(f" {digest}" for digest in row["digests"] or ()),
        since=max(row["created"] or "", row["tagged"] or "", key=epoch),
        size=row["size"],
        parent=row["parent"] or "",
        layers=tuple(chain),
    )


def ask_usage() -> Command:
    """The build cache, the containers and the volumes, each with its size; Docker walks through all files for that."""
    return ask_docker(_WALK, _USAGE, timeout=PATIENCE)


def read_usage(done: Completed) -> tuple[tuple[Record, ...], tuple[Volume, ...], Mapping[str, int]]:
    """Parse the answer to ``ask_usage``; the last part has the bytes that each container wrote, by its id.

    Raises ProbeError.
    """
    answer = read_docker(done)
    answer.one("usage")
    written = {row["id"]: bytes_of(row["size"].partition(" (")[0]) for row in answer.all("layer")}
    return tuple(map(_record, answer.all("record"))), tuple(map(_volume, answer.all("volume"))), written


def _record(row: Mapping[str, str]) -> Record:
    return Record(
        id=row["id"].strip("*"),
        parents=tuple(part for part in re.split(r",\s*", row["parents"]) if part),
        kind=row["kind"],
        size=bytes_of(row["size"]),
        last_used=row["used"],
        in_use=row["in_use"] == "true",
        shared=row["shared"] == "true",
    )


def ask_volumes(only: Sequence[str], keep: Sequence[str]) -> Command:
    """When each volume was made, and which of them have the labels."""
    return ask_docker(_VOLUMES, _VOLUME, *_labels(only, keep))


def with_volumes(
    things: Things, volumes: Iterable[Volume], done: Completed, only: Sequence[str]
) -> tuple[Things, tuple[Volume, ...]]:
    """*things* that know the labels of volumes too, and *volumes* that know their age.  Raises ProbeError."""
    answer = read_docker(done)
    made = {named["name"]: named["created"] or "" for named in answer.all("named")}
    having = _having(answer, only)
    wider = replace(
        things,
        only=None if things.only is None or having is None else things.only | having,
        keep=things.keep | frozenset(answer.all("keep")),
    )
    return wider, tuple(replace(volume, created_at=made.get(volume.name, "")) for volume in volumes)


def _volume(row: Mapping[str, str]) -> Volume:
    size = Unknown(why="docker does not report its size") if "N/A" in row["size"] else bytes_of(row["size"])
    return Volume(name=row["name"], size=size, links=int(row["links"]) if row["links"].isdigit() else 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Exact bytes of what may be removed."""

    written: Mapping[str, int]
    """Id of a container to what it wrote into its own layer."""
    layers: Mapping[str, tuple[int, ...]]
    """Id of an image to the sizes of its history, newest first."""
    logs: Mapping[str, int]
    """Path of a container's log to the bytes of it and of the rotated ones."""


def ask_sizes(containers: Iterable[str], images: Iterable[str], logs: Iterable[str]) -> Command:
    """Ask for the sizes of these containers' layers, of these images' layers, and of these logs."""
    return ask_docker(_SIZES, *containers, "--", *images, "--", *logs, timeout=PATIENCE)


def read_sizes(done: Completed) -> Sizes:
    """Parse the answer to ``ask_sizes``.  Raises ProbeError."""
    answer = read_docker(done)
    layers: dict[str, list[int]] = {}
    for row in answer.all("layer"):
        layers.setdefault(row["id"], []).append(int(row["size"]))
    logs: dict[str, int] = {}
    for row in answer.all("log"):
        logs[row["path"]] = logs.get(row["path"], 0) + row["size"]
    return Sizes(
        written={written["id"]: written["size"] or 0 for written in answer.all("written")},
        layers={key: tuple(layer) for key, layer in layers.items()},
        logs=logs,
    )
