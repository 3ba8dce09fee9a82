"""Read MIG with nvidia-smi: the mode of each GPU, its instances, and the instances for which it has room."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.gpu.facts.model import bus_id
from runbook.library.gpu.facts.smi_markers import says_nothing
from runbook.library.gpu.facts.smi_output import QuerySection, reason, row, sections, word
from runbook.values.command import Completed
from runbook.values.types import Unknown

COLUMNS = ("index", "uuid", "pci.bus_id", "name", "mig.mode.current", "mig.mode.pending")
PROFILE = re.compile(r"[1-9]g\.[0-9]{1,4}gb(?:[+-][a-z]+(?:\.[a-z]+)*)*")
"""Matches a profile as `nvidia-smi mig -lgip` prints it: 1g.10gb, 3g.40gb, 1g.10gb+me, 1g.24gb-me, 1g.10gb+me.all."""

_GI = re.compile(r"\| +([0-9]+) +MIG (\S+) +([0-9]+) +([0-9]+) +([0-9]+):([0-9]+) +\|")
_CI = re.compile(r"\| +([0-9]+) +([0-9]+) +MIG (\S+) +([0-9]+) +([0-9]+) +([0-9]+):([0-9]+) +\|")
_OFFER = re.compile(r"\| +([0-9]+) +MIG (\S+) +([0-9]+) +([0-9]+)/([0-9]+) ")
_PLACES = re.compile(r"GPU +([0-9]+) Profile ID +([0-9]+) Placements? ?: \{([0-9,]*)\}:([0-9]+)")
_GPU = re.compile(r"GPU ([0-9]+): ")
_DEVICE = re.compile(r"MIG (\S+) +Device +[0-9]+: \(UUID: ")
_NONE = re.compile(r"no (?:gpu|compute) instances found: not found|no mig-enabled devices found", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuInstance:
    """An instance: a share of a GPU."""

    id: int
    """The number of the instance on its GPU, as in `nvidia-smi mig -lgi`."""
    profile: str
    """The kind of instance, such as 3g.40gb."""
    compute: int
    """The number of its compute instances; without a compute instance no program can use it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A profile that a GPU supports."""

    most: int
    """The maximum number of instances of this profile on the GPU."""
    starts: tuple[int, ...]
    """The memory slices at which an instance of this profile may begin."""
    size: int
    """The number of memory slices that one instance takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigGpu:
    """A GPU, and its division."""

    index: int
    """The number by which nvidia-smi lists the GPU; after a reboot another GPU may have this number."""
    uuid: str
    """The UUID, ``GPU-...``, which never changes."""
    bus_id: str
    """The PCI address in the form of sysfs, ``0000:97:00.0``; empty if nvidia-smi did not report it."""
    name: str
    """The name of the product, such as NVIDIA H100 80GB HBM3."""
    mode: str | Unknown
    """Whether MIG mode is on: ``Enabled``, ``Disabled``; empty if the GPU has no such mode."""
    pending: str | Unknown
    """The mode after the next reset: ``Enabled``, ``Disabled``; empty if the GPU has no such mode."""
    instances: tuple[GpuInstance, ...] | Unknown = ()
    """The instances of the GPU; unknown if nvidia-smi does not list them."""
    devices: tuple[str, ...] = ()
    """The profiles of the MIG devices that `nvidia-smi -L` lists."""
    offers: Mapping[str, Offer] = field(default_factory=dict)
    """For each profile, how often and where the GPU has room for it; empty if that is not known."""

    def __str__(self) -> str:
        return f"GPU {self.index} ({self.bus_id or self.uuid})"

    @property
    def profiles(self) -> tuple[str, ...] | Unknown:
        """Return the profiles of the instances, in order."""
        return (
            self.instances
            if isinstance(self.instances, Unknown)
            else sort(instance.profile for instance in self.instances)
        )


def sort(profiles: Iterable[str]) -> tuple[str, ...]:
    """Return *profiles* with the largest first, so that the smaller ones fit into the room that is left."""
    return tuple(sorted(profiles, key=lambda it: (-int(it.split("g")[0]), it)))


def counted(profiles: Sequence[str]) -> str:
    """Return *profiles* as text: ``2 x 3g.40gb, 1g.10gb``."""
    found = Counter(profiles)
    return ", ".join(f"{count} x {it}" if count > 1 else it for it, count in found.items()) or "no instances"


def read_mig(done: Completed) -> tuple[MigGpu, ...]:
    """Return the GPUs in *done*, the answer to ``ask_mig``.  Raises ProbeError if nvidia-smi lists no GPU, or gave no
    answer.
    """
    found = sections(done)
    gpus = [gpu for section in found if section.name == "gpus" for gpu in _gpus(section)]
    if not gpus:
        last = [section for section in found if section.name == "gpus"][-1:]
        raise ProbeError(reason(last[0].exit_code, (*last[0].lines, *last[0].stderr)) if last else "no answer")
    if done.timed_out:
        raise ProbeError("nvidia-smi did not answer in time")
    by_name = {section.name: section for section in found}
    return tuple(_divided(gpu, by_name) if gpu.mode == "Enabled" else gpu for gpu in gpus)


def _gpus(section: QuerySection) -> list[MigGpu]:
    """Return the GPUs of *section*; if modes were not asked for, no GPU has one."""
    found = []
    for line in section.lines:
        cells = row(line, section.fields, "name")
        if cells and cells[0].isdigit() and len(cells) >= 4:
            mode, pending = cells[4:6] if len(cells) == len(COLUMNS) else ("", "")
            found.append(
                MigGpu(
                    index=int(cells[0]),
                    uuid=cells[1],
                    bus_id=bus_id(cells[2]),
                    name=cells[3],
                    mode="" if not mode or says_nothing(mode) else word(mode),
                    pending="" if not pending or says_nothing(pending) else word(pending),
                )
            )
    return found


def _divided(gpu: MigGpu, found: Mapping[str, QuerySection]) -> MigGpu:
    instances = _tables(found, "lgi", _GI, gpu.index)
    compute = _tables(found, "lci", _CI, gpu.index)
    if isinstance(instances, Unknown):
        return replace(gpu, instances=instances)
    if isinstance(compute, Unknown):
        return replace(gpu, instances=compute)
    having = Counter(int(item[1]) for item in compute)
    listed = found.get("list")
    return replace(
        gpu,
        instances=tuple(
            GpuInstance(id=int(item[3]), profile=item[1], compute=having[int(item[3])]) for item in instances
        ),
        devices=_devices(listed.lines if listed else (), gpu.index),
        offers=_offers(found, gpu.index),
    )


def _tables(
    found: Mapping[str, QuerySection], name: str, pattern: re.Pattern[str], index: int
) -> tuple[tuple[str, ...], ...] | Unknown:
    """Return the rows of a table about GPU *index*.

    Unknown if nvidia-smi prints none and does not say that there is none.
    With a warning about some GPU the table may be incomplete: then existing rows count, but missing ones prove nothing.
    """
    section = found.get(name)
    if section is None:
        return Unknown(why="nvidia-smi was not asked for the instances")
    rows = tuple(match.groups() for line in section.lines if (match := pattern.match(line)))
    own = tuple(cells for cells in rows if int(cells[0]) == index)
    if (rows and section.exit_code == 0) or (own and section.answered):
        return own
    if _NONE.search(" ".join((*section.lines, *section.stderr))):
        return ()
    return Unknown(why=f"`nvidia-smi mig -{name}`: {reason(section.exit_code, (*section.lines, *section.stderr))}")


def _offers(found: Mapping[str, QuerySection], index: int) -> Mapping[str, Offer]:
    places = {}
    for line in found["lgipp"].lines if "lgipp" in found else ():
        if (at := _PLACES.match(line)) and int(at[1]) == index:
            places[int(at[2])] = (tuple(int(part) for part in at[3].split(",") if part), int(at[4]))
    offers = {}
    for line in found["lgip"].lines if "lgip" in found else ():
        if (it := _OFFER.match(line)) and int(it[1]) == index and int(it[3]) in places:
            starts, size = places[int(it[3])]
            offers[it[2]] = Offer(most=int(it[5]), starts=starts, size=size)
    return offers


def _devices(lines: Iterable[str], index: int) -> tuple[str, ...]:
    """Return the MIG devices that `nvidia-smi -L` lists below the GPU *index*."""
    at, found = -1, []
    for line in lines:
        if heading := _GPU.match(line):
            at = int(heading[1])
        elif at == index and (device := _DEVICE.match(line)):
            found.append(device[1])
    return tuple(found)


def misfit(profiles: Sequence[str], offers: Mapping[str, Offer]) -> str:
    """Return the reason why a GPU with *offers* cannot be divided into *profiles*; empty if it can."""
    if not offers:
        return "nvidia-smi does not say which instances this GPU offers"
    if strange := [text for text in profiles if text not in offers]:
        return f"this GPU has no profile {strange[0]} (it has: {', '.join(offers)})"
    for profile, count in Counter(profiles).items():
        if count > offers[profile].most:
            return f"this GPU can have {offers[profile].most} x {profile}, not {count}"
    return "" if _placed(sort(profiles), offers, frozenset()) else "together they do not fit on this GPU"


def _placed(left: Sequence[str], offers: Mapping[str, Offer], taken: frozenset[int]) -> bool:
    """Whether there is room for each of *left* beside the slices in *taken*."""
    if not left:
        return True
    offer = offers[left[0]]
    for start in offer.starts:
        slices = frozenset(range(start, start + offer.size))
        if not slices & taken and _placed(left[1:], offers, taken | slices):
            return True
    return False
