"""Select processes by the files and devices that they have open."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable
from dataclasses import replace
from typing import Any, TypeVar

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.gpu.facts.smi_query import ask_apps, ask_presence, read_apps, read_presence
from runbook.library.jobs.facts.arguments import JobArguments, wanted
from runbook.library.jobs.facts.classification import (
    NOT_ASKED,
    GpuUse,
    JobMatch,
    classify_into,
    described,
    observe_gpu_use,
)
from runbook.library.jobs.facts.leftover import Load, gpus_of
from runbook.library.processes.facts.open_files import AMD_GPUS, GPUS, OpenFileScan, ask_holders, read_holders
from runbook.library.processes.facts.owners.owners import without_owned
from runbook.library.processes.facts.protected import Protected, as_process, misplaced, split_by_protection
from runbook.library.processes.facts.table import Process, Row
from runbook.protocols import Absent
from runbook.values.command import Command
from runbook.values.types import Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderMatch(JobMatch):
    """The devices and GPUs that the leftover processes hold."""

    misplaced: tuple[Protected, ...] = ()
    """Protected programs of other users that hold a GPU but do not need it: a terminal, a client."""
    devices: tuple[str, ...] | Unknown = ()
    """The device paths that leftover processes hold."""
    gpus: tuple[str, ...] | Unknown = ()
    """The UUIDs of the GPUs that leftover processes hold, as far as they can be determined."""
    unlisted: tuple[Process, ...] | Unknown = ()
    """Holders of a GPU that nvidia-smi does not list."""
    foreign: tuple[int, ...] | Unknown = ()
    """Pids that nvidia-smi lists but that hold no GPU here: they belong to another pid namespace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFileMatch(HolderMatch):
    """The processes that hold one of the files."""

    processes: tuple[Process, ...] | Unknown = ()
    """Every holder that is not protected; unknown if no holder is visible and some processes cannot be read."""
    unkillable: tuple[Process, ...] = ()
    """Holders that are in state D in every sample: they hang in the kernel."""
    unseen: int = 0
    """The number of processes that could not be read."""
    present: tuple[str, ...] = ()
    """The requested files that exist."""


def probe_by_open_files(
    paths: tuple[str, ...], allow: Collection[str], job: JobArguments, *, classified: bool
) -> Generator[Command | tuple[Command, ...], Any, OpenFileMatch | Absent[OpenFileMatch]]:
    """Find the processes that have *paths* (globs) open; if there are any and they are to be *classified*, also those
    left over.

    Raises ProbeError when it cannot be known.
    """
    walk = believable(read_holders((yield ask_holders(*paths))))
    if not walk.present():
        there = yield from where_nothing_is_there(paths)
        if isinstance(there, str):
            return Absent(why=there, state=OpenFileMatch())
        walk = there
    plain = chosen(walk, allow, job)
    if not classified:
        plain = replace(plain, leftover=_no_view(plain) or NOT_ASKED, at_work=_no_view(plain) or NOT_ASKED)
        if isinstance(plain.processes, Unknown):
            return plain
        free, match = yield from without_owned(plain, plain.processes, walk.table, spare=job.spare_owned)
        return replace(match, processes=free)
    if isinstance(plain.processes, Unknown) or not plain.processes:
        return replace(plain, foreign=(yield from listed_elsewhere(walk)))
    closer = yield from observe_gpu_use(job, walk.table, [each.pid for each in plain.processes], *paths)
    if isinstance(closer.walk, Unknown):
        return replace(not_known(plain, closer.walk), foreign=closer.walk)
    before = {process.key for process in plain.processes}
    now = chosen(closer.walk, allow, job)
    stuck = {each.key for each in plain.unkillable}
    now = replace(now, unkillable=tuple(each for each in now.unkillable if each.key in stuck))
    if isinstance(now.processes, Unknown) or not now.processes:
        return replace(now, foreign=foreign(closer.walk, closer.load.pids()))
    holders = tuple(described(process.pid, closer.walk, closer) for process in now.processes)
    return classify_holders_into(replace(now, processes=holders), holders, before, closer, closer.walk)


Match = TypeVar("Match", bound=HolderMatch)


def classify_holders_into(
    match: Match,
    holders: tuple[Process, ...],
    before: Collection[str],
    closer: GpuUse,
    walk: OpenFileScan,
    blind: Unknown | None = None,
) -> Match:
    """Classify as `classify_into` does; adds the devices and GPUs that the leftover *holders* have open in *walk*."""
    found = classify_into(match, holders, before, closer, blind)
    return replace(
        found,
        devices=_devices_of(found.leftover, walk),
        gpus=_gpus_held(found.leftover, walk, closer.load),
        unlisted=_unlisted(holders, walk),
        foreign=foreign(walk, closer.load.pids()),
    )


def not_known(match: Match, why: Unknown) -> Match:
    """Return *match* with unknown leftover processes and unknown holdings."""
    return replace(match, leftover=why, at_work=why, devices=why, gpus=why, unlisted=why)


def believable(walk: OpenFileScan) -> OpenFileScan:
    """Return *walk* if the requested files can have holders.  Raises ProbeError if not."""
    if walk.sockets:
        raise ProbeError(f"holders of a socket cannot be determined: {', '.join(walk.sockets)}; name files or devices")
    if walk.forged:
        raise ProbeError(
            f"{', '.join(walk.forged)} leads through a symbolic link that another user of the host can point "
            "anywhere: name the file itself, or give the step `become: OWNER`"
        )
    if dull := walk.everybodys():
        raise ProbeError(f"{', '.join(dull)} is a device that any process has open: name the device or the file")
    return walk


def where_nothing_is_there(paths: tuple[str, ...]) -> Generator[Command, Any, str | OpenFileScan]:
    """Return the reason why no process holds *paths*, which do not exist.

    Where they stand for GPUs, and the host has those of AMD instead: return who holds these.  A GPU without its device
    nodes raises ProbeError, because it is no answer.
    """
    if not all(path.startswith("/dev/nvidia") for path in paths):
        return f"there is no {' or '.join(paths)}"
    presence = read_presence((yield ask_presence()))
    if presence.amd and GPUS in paths:
        return believable(read_holders((yield ask_holders(*paths, *AMD_GPUS))).asked_for(*paths))
    if presence.absent:
        return "no NVIDIA GPU"
    raise ProbeError(
        f"no {' or '.join(paths)}, but an NVIDIA GPU seems to be present (PCI bus, /dev or nvidia-smi): "
        "the driver is not loaded, or the container was not given the device"
    )


def listed_elsewhere(walk: OpenFileScan) -> Generator[tuple[Command, ...], Any, tuple[int, ...] | Unknown]:
    """Return the pids that nvidia-smi lists although no process here holds a GPU."""
    presence, apps = yield ask_presence(), ask_apps()
    try:
        if read_presence(presence).absent:
            return ()
        found = [app.pid for app in read_apps(apps)]
    except ProbeError as error:
        return Unknown(why=str(error))
    nameless = next((number for number in found if isinstance(number, Unknown)), None)
    pids = nameless or frozenset(number for number in found if not isinstance(number, Unknown))
    return foreign(walk, pids)


def chosen(walk: OpenFileScan, allow: Collection[str], job: JobArguments) -> OpenFileMatch:
    """Return the holders in *walk*, protected or not; nothing is known about the GPUs yet."""
    rows = wanted((walk.table.rows[pid] for pid in sorted(walk.open) if walk.asked(pid)), job)
    split = split_by_protection(rows, walk.table, allow)
    holders = tuple(_holder(row, walk) for row in split.free)
    plain = OpenFileMatch(
        processes=holders,
        protected=split.protected,
        misplaced=tuple(
            one for one in split.protected if misplaced(walk.table.rows[one.pid]) and _uses_gpu(walk, one.pid)
        ),
        unkillable=tuple(holder for holder in holders if holder.state == "D"),
        unseen=len(walk.unseen),
        present=walk.present(),
    )
    blind = _blind(walk) or split.doubt
    if blind and not holders:
        return replace(not_known(plain, blind), processes=blind)
    return plain


def _holder(row: Row, walk: OpenFileScan) -> Process:
    """Return the process of *row* with the requested files that it has open."""
    return replace(as_process(row), devices=tuple(node.path for node in walk.asked(row.process.pid)))


def _blind(walk: OpenFileScan) -> Unknown | None:
    """Return the reason why a holder may be invisible; None if all are visible."""
    if walk.table.hidden:
        return Unknown(why=f"{walk.table.hidden}: give the step `become: true`")
    if walk.unseen:
        return Unknown(why=f"no process holding it is visible, but {walk.not_seen()}")
    return None


def _uses_gpu(walk: OpenFileScan, pid: int) -> bool:
    return any(file.driver or file.gpu is not None for file in walk.open.get(pid, ()))


def _no_view(plain: OpenFileMatch) -> Unknown | None:
    return plain.processes if isinstance(plain.processes, Unknown) else None


def _devices_of(leftover: tuple[Process, ...] | Unknown, walk: OpenFileScan) -> tuple[str, ...] | Unknown:
    """Return the paths that the processes *leftover* hold."""
    if isinstance(leftover, Unknown):
        return leftover
    held = {file.path for process in leftover for file in walk.asked(process.pid)}
    return tuple(word for word in walk.present() if word in held)


def _gpus_held(leftover: tuple[Process, ...] | Unknown, walk: OpenFileScan, load: Load) -> tuple[str, ...] | Unknown:
    """Return the GPUs that the processes *leftover* hold."""
    if isinstance(leftover, Unknown):
        return leftover
    found: dict[str, None] = {}
    for process in leftover:
        held = gpus_of(process.pid, walk, load)
        if isinstance(held, Unknown):
            return held
        found |= dict.fromkeys(gpu.key for gpu in held)
    return tuple(found)


def _unlisted(holders: Iterable[Process], walk: OpenFileScan) -> tuple[Process, ...] | Unknown:
    """Return the holders that hold a GPU and that nvidia-smi does not list."""
    found: list[Process] = []
    for holder in holders:
        if any(node.gpu is not None or node.partition for node in walk.open.get(holder.pid, ())):
            if isinstance(holder.listed, Unknown):
                return holder.listed
            found += [] if holder.listed else [holder]
    return tuple(found)


def foreign(walk: OpenFileScan, pids: frozenset[int] | Unknown) -> tuple[int, ...] | Unknown:
    """Return the *pids* (listed by nvidia-smi) that hold no node of the driver here."""
    if isinstance(pids, Unknown):
        return pids
    here = (
        {pid for pid, nodes in walk.open.items() if any(node.driver for node in nodes)} | walk.unseen | walk.table.own
    )
    return tuple(sorted(pids - here))
