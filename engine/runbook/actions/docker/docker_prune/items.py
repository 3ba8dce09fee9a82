"""What may go, thing by thing: its identity, its size, and what must go with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from runbook.actions.docker.docker_prune.selection import Choice, freed
from runbook.facts.docker.containers import ago
from runbook.facts.docker.disk_usage import Record, Sizes, Things, Volume
from runbook.facts.docker.engine import amount, epoch
from runbook.values.types import Unknown, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One thing that may go."""

    kind: Literal["container", "image", "build-cache", "volume"]
    """What it is; a build-cache is one record of the build cache."""
    id: str
    """Its full id, as Docker has it; of a volume, the name."""
    name: str
    """Of a container its name, of an image its tags or digests, of a record its type; of a volume empty: see `id`."""
    note: str = ""
    """How it stands with it, for people."""
    bytes: int | Unknown
    """What its removal frees; a layer that several images share counts once, with the first of them."""
    logs: int = 0
    """Bytes of a container's log, which `docker system df` does not count."""
    seen: str = ""
    """What must be so still when it is removed."""
    needs: tuple[str, ...] = ()
    """Keys of other items: unless they go, it must stay."""

    @property
    def key(self) -> str:
        """Its identity: of a container, this life of it."""
        return f"{self.id}:{self.seen.replace(' ', ':')}" if self.kind == "container" else self.id

    def __str__(self) -> str:
        size = "size not known" if isinstance(self.bytes, Unknown) else amount(self.bytes)
        log = f", log {amount(self.logs)}" if self.logs else ""
        return f"{self.kind} {self.id} {self.name} ({', '.join(word for word in (self.note, size) if word)}{log})"


Items = tuple[Item, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneListing:
    """What was chosen, thing by thing."""

    dead: Items
    images: Items
    records: Items
    volumes: Items
    exact: bool
    """Whether the sizes of the images are; else they are the most that can be freed."""

    def all(self) -> Items:
        """Everything, in the order of removal."""
        return (*self.dead, *self.images, *self.records, *self.volumes)


def listing(things: Things, choice: Choice, sizes: Sizes | Unknown) -> PruneListing:
    """*choice* with *sizes*."""
    layers, exact = freed(choice, things, {} if isinstance(sizes, Unknown) else dict(sizes.layers))
    dead = tuple(_containers(things, choice, sizes))
    return PruneListing(
        dead=dead,
        images=tuple(_images(things, choice, dead, layers)),
        records=tuple(map(_record, choice.records)),
        volumes=tuple(_volume(volume, things, choice, dead) for volume in choice.volumes),
        exact=exact,
    )


def _containers(things: Things, choice: Choice, sizes: Sizes | Unknown) -> Iterable[Item]:
    for container in choice.containers:
        yield Item(
            kind="container",
            id=container.id,
            name=container.name,
            note=f"{container.status} {ago(container.died, things.now)}",
            bytes=sizes if isinstance(sizes, Unknown) else sizes.written.get(container.id, 0),
            logs=0 if isinstance(sizes, Unknown) else sizes.logs.get(container.log_path, 0),
            seen=container.seen,
        )


def _images(things: Things, choice: Choice, dead: Items, bytes_of: dict[str, int]) -> Iterable[Item]:
    keys = {item.id: item.key for item in dead}
    for image in choice.images:
        users = tuple(keys[one.id] for one in things.containers if one.image_id == image.id)
        heirs = tuple(one.id for one in choice.images if one.parent == image.id)
        name = ", ".join(image.tags or image.digests) or "<none>"
        yield Item(
            kind="image", id=image.id, name=name, bytes=bytes_of[image.id], seen=image.seen, needs=(*users, *heirs)
        )


def _record(record: Record) -> Item:
    """A record whose layer an image has too frees nothing more than that image does."""
    note = (
        "layer of an image; removed if no remaining image has it"
        if record.shared
        else f"last used {record.last_used[:19]}"
    )
    return Item(
        kind="build-cache", id=record.id, name=record.kind, note=note, bytes=0 if record.shared else record.size
    )


def _volume(volume: Volume, things: Things, choice: Choice, dead: Items) -> Item:
    keys = {one.id: one.key for one in dead}
    users = tuple(keys[one.id] for one in choice.containers if volume.name in one.volumes)
    note = f"created {ago(epoch(volume.created_at), things.now)}"
    return Item(
        kind="volume", id=volume.name, name="", note=note, bytes=volume.size, seen=volume.created_at, needs=users
    )


def reclaimable(items: Iterable[Item]) -> int | Unknown:
    """Bytes that *items* free together."""
    found = 0
    for item in items:
        if isinstance(item.bytes, Unknown):
            return item.bytes
        found += item.bytes + item.logs
    return found


_NOUNS = {
    "container": ("dead container", ""),
    "image": ("image", ""),
    "build-cache": ("build cache record", ""),
    "volume": ("volume", ""),
}


def counted(items: Sequence[Item]) -> str:
    """How many of each kind, in words."""
    counts = {kind: sum(item.kind == kind for item in items) for kind in _NOUNS}
    return ", ".join(plural(number, *_NOUNS[kind]) for kind, number in counts.items() if number)


def claim(items: Sequence[Item], *, exact: bool) -> str:
    """What is reclaimed, in words; the logs separately, because `docker system df` does not count them."""
    whole = reclaimable(items)
    if isinstance(whole, Unknown):
        return f"the freed size is not known ({whole.why})"
    logs = sum(item.logs for item in items)
    most = "" if exact else "up to "
    log_bytes_note = f", {amount(logs)} of it logs" if logs else ""
    return f"frees {most}{amount(whole)} ({whole} bytes{log_bytes_note})"
