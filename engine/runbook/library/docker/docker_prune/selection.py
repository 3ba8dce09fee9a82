"""Select which containers, images, build cache records and volumes may be removed: pure decisions on one probe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from runbook.dataclass import dataclass
from runbook.library.docker.facts.containers import Container, ago
from runbook.library.docker.facts.disk_usage import Image, Record, Things, Volume
from runbook.library.docker.facts.engine import epoch
from runbook.values.types import seconds

EMPTY_LAYER = "5f70bf18a0860070"
"""The beginning of the digest of a layer without files (the sha256 of 1024 zero bytes, an empty tar)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """The things that a step asks to remove, and those that it spares."""

    what: tuple[str, ...]
    older_than: float
    """Seconds."""
    keep_dead: int
    images: str
    """dangling, unused."""
    services: str
    """keep, remove."""
    volumes: str
    """anonymous, all."""
    labelled: bool
    """Only what has certain labels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The things that may be removed, in the order of removal."""

    containers: tuple[Container, ...] = ()
    images: tuple[Image, ...] = ()
    """Children before their parents."""
    records: tuple[Record, ...] = ()
    volumes: tuple[Volume, ...] = ()
    kept: tuple[str, ...] = ()
    """Dead containers that stay, each with the reason."""
    bound: bool = False
    """A record of the build cache that stays may hold layers of an image that goes."""


@dataclass(slots=True)
class _Chooser:
    things: Things
    wishes: Wishes
    kept: list[str] = field(default_factory=list)

    def old(self, since: float) -> bool:
        """Whether the time *since* is long enough ago; an unknown time is not."""
        wanted = self.wishes.older_than
        return not wanted or (bool(since) and self.things.now - since >= wanted)

    def meant(self, key: str) -> bool:
        """Whether its labels let it be touched."""
        return key not in self.things.keep and (self.things.only is None or key in self.things.only)

    def containers(self) -> tuple[Container, ...]:
        """The dead ones that may go, oldest first."""
        dead = [container for container in self.things.containers if container.dead and self.meant(container.id)]
        dead.sort(key=lambda it: it.died, reverse=True)
        evidence = {each.id for each in dead[: self.wishes.keep_dead]}
        found = []
        for container in dead:
            if why := self._spared(container, evidence):
                self.kept.append(f"{container}: {why}")
            else:
                found.append(container)
        return tuple(reversed(found)) if "containers" in self.wishes.what else ()

    def _spared(self, container: Container, evidence: set[str]) -> str:
        if container.id in evidence:
            return f"one of the last {self.wishes.keep_dead} containers that died, kept as evidence"
        if container.restart_policy in ("always", "unless-stopped") and self.wishes.services == "keep":
            return f"a stopped service (restart policy {container.restart_policy})"
        if not self.old(container.died):
            return f"died {ago(container.died, self.things.now)} (older_than: {seconds(self.wishes.older_than)})"
        return ""

    def images(self, gone: Sequence[Container]) -> tuple[Image, ...]:
        """The images that nothing needs once *gone* are gone."""
        if "images" not in self.wishes.what:
            return ()
        left = [container for container in self.things.containers if container not in gone]
        used = {each.image_id for each in left}
        names = {name for each in left for name in (each.image, f"{each.image}:latest")}
        children = {
            image.id: [one for one in self.things.images if one.parent == image.id] for image in self.things.images
        }
        fate: dict[str, bool] = {}
        found: list[Image] = []

        def goes(image: Image) -> bool:
            if image.id not in fate:
                heirs = [goes(child) for child in children[image.id]]
                fate[image.id] = all(heirs) and image.id not in used and not names & {*image.tags} and self._may(image)
                if fate[image.id]:
                    found.append(image)
            return fate[image.id]

        for image in self.things.images:
            goes(image)
        return tuple(found)

    def _may(self, image: Image) -> bool:
        wanted = image.nameless or self.wishes.images == "unused"
        return wanted and self.meant(image.id) and self.old(epoch(image.since))

    def records(self, records: Sequence[Record], *, shared: bool) -> tuple[Record, ...]:
        """The records of the build cache that nothing uses; with *shared*, those of images that go, too."""
        if "build_cache" not in self.wishes.what or self.wishes.labelled:
            return ()
        fate: dict[str, bool] = {}
        found: list[Record] = []

        def goes(record: Record) -> bool:
            if record.id not in fate:
                heirs = [goes(each) for each in records if record.id in each.parents]
                plain = record.kind not in ("internal", "frontend") and not record.in_use
                fate[record.id] = (
                    all(heirs) and plain and (shared or not record.shared) and self.old(epoch(record.last_used))
                )
                if fate[record.id]:
                    found.append(record)
            return fate[record.id]

        for record in records:
            goes(record)
        return tuple(found)

    def volumes(self, volumes: Sequence[Volume], gone: Sequence[Container]) -> tuple[Volume, ...]:
        """Return the volumes that no container mounts after *gone* are removed; none if they were not asked for."""
        if "volumes" not in self.wishes.what:
            return ()
        mounted = {name for container in self.things.containers if container not in gone for name in container.volumes}
        by_gone = {name: sum(name in each.volumes for each in gone) for name in (volume.name for volume in volumes)}
        return tuple(
            volume
            for volume in volumes
            if volume.name not in mounted
            and volume.links <= by_gone[volume.name]
            and (volume.anonymous or self.wishes.volumes == "all")
            and volume.created_at
            and self.meant(volume.name)
            and self.old(epoch(volume.created_at))
        )


def choose(things: Things, records: Sequence[Record], volumes: Sequence[Volume], wishes: Wishes) -> Choice:
    """Choose from *things*, *records* and *volumes* those that may be removed."""
    chooser = _Chooser(things=things, wishes=wishes)
    gone = chooser.containers()
    images = chooser.images(gone)
    chosen = chooser.records(records, shared=bool(images))
    return Choice(
        containers=gone,
        images=images,
        records=chosen,
        volumes=chooser.volumes(volumes, gone),
        kept=tuple(chooser.kept),
        bound=bool(images) and any(record.shared and record not in chosen for record in records),
    )


def sharing(choice: Choice, things: Things) -> tuple[Image, ...]:
    """The images that go and have a layer in common with another one."""
    counts: dict[str, int] = {}
    for image in things.images:
        for layer in image.layers:
            counts[layer] = counts.get(layer, 0) + 1
    return tuple(image for image in choice.images if any(counts[layer] > 1 for layer in image.layers))


def layer_sizes(image: Image, history: Sequence[int]) -> dict[str, int]:
    """Return the bytes of each layer of *image*, by its *history* (newest first); empty: they cannot be matched.

    Steps that only change settings have no layer, and layers with directories only have no bytes.
    """
    steps = list(reversed(history))
    full = [layer for layer in image.layers if not layer.endswith(f"/{EMPTY_LAYER}")]
    if len(steps) == len(image.layers):
        return dict(zip(image.layers, steps, strict=True))
    heavy = [step for step in steps if step]
    if len(heavy) != len(full):
        return {}
    return dict.fromkeys(image.layers, 0) | dict(zip(full, heavy, strict=True))


def freed(choice: Choice, things: Things, histories: dict[str, Sequence[int]]) -> tuple[dict[str, int], bool]:
    """Return the bytes that each image frees, with each layer counted once; and whether they are exact.

    If not exact, they are upper bounds.
    """
    stays = {layer for image in things.images if image not in choice.images for layer in image.layers}
    shared = {each.id for each in sharing(choice, things)}
    known: dict[str, int] = {}
    for image in choice.images:
        known |= layer_sizes(image, histories.get(image.id, ()))
    counted = set(stays)
    found: dict[str, int] = {}
    exact = not choice.bound and not things.snapshots
    for image in choice.images:
        mine = layer_sizes(image, histories.get(image.id, ()))
        if image.id not in shared:
            found[image.id] = image.size
        elif mine:
            found[image.id] = sum(size for layer, size in mine.items() if layer not in counted)
        else:
            found[image.id] = image.size - sum(known.get(layer, 0) for layer in image.layers if layer in counted)
            exact = False
        counted |= {*image.layers}
    return found, exact
