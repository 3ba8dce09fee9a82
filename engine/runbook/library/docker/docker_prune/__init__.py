"""Remove dead containers, and images, build cache and volumes that are not needed, each by its id.

Containers that run, are paused or restart are never touched, nor are the images of containers that stay. Volumes are
removed only if `what` names them. The last containers that died stay, as evidence. Nothing is forced: what was started
or changed since the probe is left alone, and Docker itself refuses to remove what is in use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Literal

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.docker.docker_prune.removal_script import Removal, remove
from runbook.library.docker.docker_prune.selection import Choice, Wishes, choose, freed, sharing
from runbook.library.docker.facts.containers import ago
from runbook.library.docker.facts.disk_usage import (
    Record,
    Sizes,
    Things,
    Volume,
    ask_sizes,
    ask_things,
    ask_usage,
    ask_volumes,
    read_sizes,
    read_things,
    read_usage,
    with_volumes,
)
from runbook.library.docker.facts.engine import amount, epoch, read_docker
from runbook.library.docker.facts.free_space import NO_ROOM, Room, ask_room, read_room
from runbook.protocols import Absent, Probe
from runbook.values.command import Completed
from runbook.values.plan import Blocked, Change, Decision, NoChange, Risk, Target
from runbook.values.types import Duration, Unknown, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One thing that may go."""

    kind: Literal["container", "image", "build-cache", "volume"]
    """Its kind; a build-cache is one record of the build cache."""
    id: str
    """Its full id, as Docker has it; of a volume, the name."""
    name: str
    """Of a container its name, of an image its tags or digests, of a record its type; of a volume empty: see `id`."""
    note: str = ""
    """A remark on its state, for people."""
    bytes: int | Unknown
    """The space that its removal frees; a layer that several images share counts once, with the first of them."""
    logs: int = 0
    """Bytes of a container's log, which `docker system df` does not count."""
    seen: str = ""
    """The state that it must still have when it is removed."""
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
class ContainerSize:
    """The space that one container takes, beside its image and its volumes."""

    name: str
    """The name of the container."""
    written: int
    """Bytes that it wrote into its own layer."""
    logs: int
    """Bytes of its log and of the rotated ones."""
    words: str
    """Both, in words for people."""


MAX_LARGEST = 5
"""Containers that are named as the largest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneListing:
    """The things that were chosen, one by one."""

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
    """Return the number of each kind, in words."""
    counts = {kind: sum(item.kind == kind for item in items) for kind in _NOUNS}
    return ", ".join(plural(number, *_NOUNS[kind]) for kind, number in counts.items() if number)


def claim(items: Sequence[Item], *, exact: bool) -> str:
    """Return the space to be reclaimed, in words; logs separately, because `docker system df` does not count them."""
    whole = reclaimable(items)
    if isinstance(whole, Unknown):
        return f"the freed size is not known ({whole.why})"
    logs = sum(item.logs for item in items)
    most = "" if exact else "up to "
    log_bytes_note = f", {amount(logs)} of it logs" if logs else ""
    return f"frees {most}{amount(whole)} ({whole} bytes{log_bytes_note})"


What = Literal["containers", "images", "build_cache", "volumes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """The labels of the containers, images and volumes that are meant."""

    only: tuple[str, ...] = ()
    """Remove only objects with all of these labels (NAME or NAME=VALUE); build cache has no labels and stays."""
    keep: tuple[str, ...] = ()
    """Keep objects with any of these labels (NAME or NAME=VALUE)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    what: tuple[What, ...] = field(default=("containers", "images", "build_cache"), metadata={"min_items": 1})
    """Kinds of things to remove; volumes hold data, and are removed only if named here."""
    older_than: Duration = field(default=Duration(3600), metadata={"minimum": 0})
    """Keep what died, was created, pulled or used more recently than this."""
    labels: Labels = Labels()
    """Choose by label: only, keep."""
    keep_dead: int = field(default=3, metadata={"minimum": 0})
    """The number of the last dead containers to keep as evidence, with their images."""
    images: Literal["dangling", "unused"] = "dangling"
    """dangling: images without a name; unused: every image that no container was created from."""
    stopped_services: Literal["keep", "remove"] = "keep"
    """Stopped containers with restart policy always or unless-stopped, which somebody may start again."""
    volumes: Literal["anonymous", "all"] = "anonymous"
    """If `what` names volumes: anonymous ones only, or all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The things that may be removed and those that stay, and the fill level of the disk."""

    dead: Items = ()
    """Dead containers that may be removed (id, name, note, bytes, logs)."""
    images: Items = ()
    """Images that may be removed (id, name, bytes)."""
    build_cache: Items | Unknown = ()
    """Build cache records that may be removed."""
    volumes: Items | Unknown = ()
    """Volumes that may be removed; empty if `what` does not name volumes."""
    kept: tuple[str, ...] = ()
    """Dead containers that stay, each with the reason."""
    living: tuple[str, ...] = ()
    """Names of the containers that are not dead."""
    reclaimable: int | Unknown = 0
    """Bytes that the removal of all of these frees."""
    exact: bool = True
    """Whether `reclaimable` is exact; if not, it is an upper bound."""
    living_logs: int = 0
    """Bytes of the logs of all containers that stay."""
    largest: tuple[ContainerSize, ...] | Unknown = ()
    """The containers that take the most space, by what they wrote and their logs (name, written, logs)."""
    unused_volumes: int | Unknown = 0
    """Bytes of volumes that no container mounts; `what` need not name volumes."""
    df: Room | Unknown = NO_ROOM
    """Docker's disk (path, size, available, used_percent, inodes_percent, fullest)."""
    engine: str = ""
    """Version of the Docker engine."""

    def items(self) -> Items:
        """Everything that may go, in the order of removal."""
        cache = () if isinstance(self.build_cache, Unknown) else self.build_cache
        volumes = () if isinstance(self.volumes, Unknown) else self.volumes
        return (*self.dead, *self.images, *cache, *volumes)


def probe(args: Args) -> Probe[State]:
    """List everything, choose, and ask for the sizes of what is chosen."""
    only, keep = args.labels.only, args.labels.keep
    listed, walked, named = yield (ask_things(only, keep), ask_usage(), ask_volumes(only, keep))
    answer = read_docker(listed)
    if answer.absent:
        return Absent(why=answer.absent, state=State())
    things = read_things(answer, only)
    try:
        records, volumes, written = read_usage(walked)
        things, volumes = with_volumes(things, volumes, named, only)
        blind = None
    except ProbeError as error:
        records, volumes, written, blind = (), (), {}, Unknown(why=str(error))
    choice = choose(things, records, volumes, _wishes(args))
    logs = [container.log_path for container in things.containers if container.log_path]
    ids = [container.id for container in choice.containers], [image.id for image in sharing(choice, things)]
    room, counted = yield (ask_room(things.root), ask_sizes(*ids, logs))
    sizes = _sizes(counted)
    state = _state(things, choice, sizes, read_room(room, things.root, things.endpoint))
    state = replace(state, unused_volumes=_unused(volumes), largest=largest(things, written, sizes))
    return _without_sight(args, state, blind) if blind else state


def _wishes(args: Args) -> Wishes:
    return Wishes(
        what=args.what,
        older_than=args.older_than,
        keep_dead=args.keep_dead,
        images=args.images,
        services=args.stopped_services,
        volumes=args.volumes,
        labelled=bool(args.labels.only),
    )


def _sizes(done: Completed) -> Sizes | Unknown:
    try:
        return read_sizes(done)
    except ProbeError as error:
        return Unknown(why=str(error))


def largest(things: Things, written: Mapping[str, int], sizes: Sizes | Unknown) -> tuple[ContainerSize, ...] | Unknown:
    """Return the containers that take the most space, the largest first."""
    if isinstance(sizes, Unknown):
        return sizes
    found = [(one.name, written.get(one.id, 0), sizes.logs.get(one.log_path, 0)) for one in things.containers]
    found = sorted((row for row in found if row[1] + row[2]), key=lambda row: (-row[1] - row[2], row[0]))
    return tuple(
        ContainerSize(name=name, written=layer, logs=log, words=f"{name} ({amount(layer)} written, log {amount(log)})")
        for name, layer, log in found[:MAX_LARGEST]
    )


def _unused(volumes: Iterable[Volume]) -> int | Unknown:
    sizes = [volume.size for volume in volumes if not volume.links]
    return next(
        (size for size in sizes if isinstance(size, Unknown)),
        sum(size for size in sizes if not isinstance(size, Unknown)),
    )


def _without_sight(args: Args, state: State, blind: Unknown) -> State:
    """*state* where build cache and volumes could not be seen: layers of images may be held there."""
    return replace(
        state,
        build_cache=blind if "build_cache" in args.what else (),
        volumes=blind if "volumes" in args.what else (),
        unused_volumes=blind,
        largest=blind,
        exact=state.exact and not state.images,
        reclaimable=blind if {"build_cache", "volumes"} & {*args.what} else state.reclaimable,
    )


def _state(things: Things, choice: Choice, sizes: Sizes | Unknown, room: Room | Unknown) -> State:
    listed = listing(things, choice, sizes)
    logs = {} if isinstance(sizes, Unknown) else sizes.logs
    return State(
        dead=listed.dead,
        images=listed.images,
        build_cache=listed.records,
        volumes=listed.volumes,
        kept=choice.kept,
        living=tuple(container.name for container in things.containers if not container.dead),
        reclaimable=reclaimable(listed.all()),
        exact=listed.exact,
        living_logs=sum(
            logs.get(container.log_path, 0) for container in things.containers if container not in choice.containers
        ),
        df=room,
        engine=things.version,
    )


def decide(args: Args, state: State) -> Decision:
    """Remove what may go, by id."""
    items = state.items()
    blind = [each for each in (state.build_cache, state.volumes) if isinstance(each, Unknown)]
    if not items:
        if blind:
            return Blocked(
                why=f"nothing else to remove, and build cache and volumes could not be listed: {blind[0].why}"
            )
        return NoChange(why="nothing to remove" + (f"; kept: {'; '.join(state.kept)}" if state.kept else ""))
    note = f"; build cache and volumes could not be listed ({blind[0].why})" if blind else ""
    root = state.df.path if isinstance(state.df, Room) else "/var/lib/docker"
    return Change(
        summary=f"remove {counted(items)}: {claim(items, exact=state.exact)}{note}",
        commands=remove((Removal(item.kind, item.id, item.seen) for item in items), root, args.older_than),
        risk=Risk.DELETES_DATA,
        targets=tuple(map(_target, items)),
        diff="".join(f"- {item}\n" for item in items) + f"  {claim(items, exact=state.exact)}\n",
    )


def _target(item: Item) -> Target:
    return Target(kind=item.kind, key=item.key, say=str(item))


def without(state: State, keys: frozenset[str]) -> State:
    """*state* without the things of *keys*, nor what can only go together with them."""
    items = state.items()
    stay = set(keys)
    while more := {item.key for item in items if item.key not in stay and stay & {*item.needs}}:
        stay |= more

    def rest(items: Items) -> Items:
        return tuple(item for item in items if item.key not in stay)

    less = replace(
        state,
        dead=rest(state.dead),
        images=rest(state.images),
        build_cache=state.build_cache if isinstance(state.build_cache, Unknown) else rest(state.build_cache),
        volumes=state.volumes if isinstance(state.volumes, Unknown) else rest(state.volumes),
        exact=False,
    )
    return replace(less, reclaimable=reclaimable(less.items()))


def settled(args: Args, before: State, after: State) -> bool:
    """No chosen thing is there to be removed any more; a container started since is another thing."""
    return not _remaining_items(before, after)


def explain(args: Args, before: State, after: State) -> str:
    """Name the things that are still there."""
    items = ", ".join(map(str, _remaining_items(before, after)))
    return f"still there: {items}; the command's output has Docker's reasons"


def _remaining_items(before: State, after: State) -> Items:
    """Return the things that were to be removed and still may be; an image that a container needs again is not one."""
    keys = {item.key for item in before.items()}
    fresh = frozenset(item.key for item in after.items()) - keys
    return without(after, fresh).items()


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the commands for a person to paste; never `docker system prune`, which removes without showing a list."""
    lines = {
        "containers": ("docker ps -a --filter status=exited --filter status=created", "docker rm ID..."),
        "images": ("docker images --filter dangling=true", "docker rmi ID..."),
        "build_cache": ("docker builder prune --filter until=24h",),
        "volumes": ("docker volume ls --filter dangling=true", "docker volume rm NAME..."),
    }
    return ("docker system df -v", *(line for each in args.what for line in lines[each]))
