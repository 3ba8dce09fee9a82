"""Read the NVLinks of each GPU: which are inactive, and whose error counters grow between two readings.

A link that is inactive is a fault only where it should be up: on a host with NVSwitches, or where other GPUs of the
same model have more active links, or where `expect_links` says how many there are. A GPU in MIG mode uses no NVLink.
Counters since the driver was loaded say little by themselves: those that grow now do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.gpu.facts.model import bus_id
from runbook.library.gpu.facts.pci import ask_pci, read_pci
from runbook.library.gpu.facts.smi_answer import SmiAnswer, SmiCondition
from runbook.library.gpu.facts.smi_answer import condition as smi_condition
from runbook.library.gpu.facts.smi_output import SCRIPT_HEAD, SMI, QuerySection, reason, row, sections
from runbook.library.gpu.facts.smi_query import ask_presence, read_presence
from runbook.protocols import Absent, Fails, Holds, Probe
from runbook.shell import script
from runbook.values.command import Command, Completed, read_script
from runbook.values.types import Duration, Unknown, plural

COLUMNS = ("index", "uuid", "pci.bus_id", "name", "mig.mode.current")

_GPU = re.compile(r"GPU ([0-9]+):(?:.*\(UUID: (GPU-[0-9A-Za-z-]+)\))?")
_LINK = re.compile(r"Link ([0-9]{1,3}): (?:([0-9.]+) GB/s|(<inactive>))\Z", re.IGNORECASE)
_COUNTER = re.compile(r"Link ([0-9]{1,3}): (.+?): ([0-9]{1,19})\Z")
_WRONG = re.compile(r"errors?\Z|discards\Z|recovery .*events\Z|recovery events\Z", re.IGNORECASE)
"""Names of counters that count faults; packets, bytes, rates of bit errors and the histogram of corrections do not."""
_NONE = re.compile(r"all links are inactive|not supported|no nvlink", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    apart: Duration = field(default=Duration(2), metadata={"minimum": 0.2, "maximum": 20})
    """Time between the two readings of the counters."""
    expect_links: int = field(default=0, metadata={"minimum": 0})
    """The number of active links that each GPU should have; 0: as the others of its model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLinks:
    """The NVLinks of one GPU."""

    index: str
    """The number by which nvidia-smi lists it, as text; another GPU may have it after a reboot."""
    uuid: str
    """Its UUID, ``GPU-...``, which it keeps."""
    bus_id: str
    """Its PCI address as sysfs writes it, ``0000:97:00.0``; empty where nvidia-smi could not say."""
    name: str
    """The product's name, such as NVIDIA H100 80GB HBM3."""
    mig: bool
    """Whether MIG mode is on: such a GPU uses no NVLink."""
    active: tuple[int, ...] = ()
    """Numbers of the links that are up."""
    inactive: tuple[int, ...] = ()
    """Numbers of the links that nvidia-smi calls inactive: down, or not used by this board."""

    def __str__(self) -> str:
        return f"GPU {self.index} ({self.bus_id or self.uuid})"


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The NVLinks of the host."""

    smi: str = "answers"
    """The kind of nvidia-smi's answer: answers, hung, mismatch ..."""
    smi_said: str = ""
    """The reason why nvidia-smi gave no answer; empty if it answered."""
    gpus: tuple[GpuLinks, ...] | Unknown = ()
    """Each GPU: index, uuid, bus_id, name, mig, and its active and inactive links."""
    active: int | Unknown = 0
    """The number of links that are up, of all GPUs."""
    inactive: tuple[str, ...] | Unknown = ()
    """GPUs with links that should be up and are not, with their numbers."""
    unused: tuple[str, ...] = ()
    """GPUs with inactive links that no other GPU of this host uses either."""
    growing: tuple[str, ...] | Unknown = ()
    """Links whose error counters grew between the two readings: GPU, link, name, from and to."""
    counted: tuple[str, ...] | Unknown = ()
    """Links with error counters that are not zero, since the driver was loaded."""
    affected: tuple[str, ...] = ()
    """Bus ids of the GPUs that `inactive` or `growing` names."""
    unlisted: tuple[str, ...] = ()
    """Bus ids of GPUs on the bus that nvidia-smi does not list; nothing else is known about them."""
    switches: int = 0
    """NVSwitches on the PCI bus."""


def probe(args: Args) -> Probe[State]:
    """Ask nvidia-smi in one script, so that a driver that hangs is asked only once."""
    present, bus = yield ask_presence(), ask_pci()
    presence = read_presence(present)
    if presence.absent:
        return Absent(why="no NVIDIA GPU", state=State())
    pci = read_pci(bus)
    switches = 0 if pci.container else sum(device.kind == "nvswitch" for device in pci.devices)
    done: Completed = yield ask_nvlinks(args)
    try:
        found = {section.name: section for section in sections(done)}
        if done.timed_out:
            raise ProbeError(smi_condition(done).why)
        gpus = _gpus(found)
    except ProbeError as error:
        return _blind(smi_condition(done, str(error)), switches)
    linked = _with_links(gpus, found["links"]) if "links" in found else _no_links(found)
    if isinstance(linked, Unknown):
        return State(gpus=linked, active=linked, inactive=linked, growing=linked, counted=linked, switches=switches)
    state = _state(args, linked, found, switches)
    return replace(state, unlisted=presence.unlisted(gpu.bus_id for gpu in linked))


def _state(args: Args, linked: tuple[GpuLinks, ...], found: Mapping[str, QuerySection], switches: int) -> State:
    growing, counted = _counters(linked, found)
    wanted = _wanted(linked, args.expect_links, switches)
    down = tuple(_down(gpu) for gpu in linked if not gpu.mig and len(gpu.active) < wanted[gpu.uuid])
    named = (*down, *(() if isinstance(growing, Unknown) else growing))
    return State(
        gpus=linked,
        active=sum(len(gpu.active) for gpu in linked),
        inactive=down,
        unused=tuple(_down(gpu) for gpu in linked if gpu.inactive and len(gpu.active) >= wanted[gpu.uuid]),
        growing=growing,
        counted=counted,
        affected=tuple(gpu.bus_id for gpu in linked if any(word.startswith(str(gpu)) for word in named)),
        switches=switches,
    )


def ask_nvlinks(args: Args) -> Command:
    """One script: the GPUs, their links, and their counters twice."""
    return replace(read_script(_ASK, ",".join(COLUMNS), f"{args.apart:g}"), hangs=SMI)


_ASK = SCRIPT_HEAD + script(__package__, "nvlink")


def _blind(smi: SmiAnswer, switches: int) -> State:
    unknown = Unknown(why=smi.why)
    return State(
        smi=str(smi.condition),
        smi_said=smi.why,
        gpus=unknown,
        active=unknown,
        inactive=unknown,
        growing=unknown,
        counted=unknown,
        switches=switches,
    )


def _gpus(found: Mapping[str, QuerySection]) -> tuple[GpuLinks, ...]:
    """The GPUs, without their links.  Raises ProbeError where nvidia-smi lists none."""
    section = found["gpus"]
    rows = [cells for line in section.lines if (cells := row(line, COLUMNS, "name")) and cells[0].isdigit()]
    if not rows:
        raise ProbeError(reason(section.exit_code, (*section.lines, *section.stderr)))
    return tuple(
        GpuLinks(index=cells[0], uuid=cells[1], bus_id=bus_id(cells[2]), name=cells[3], mig=cells[4] == "Enabled")
        for cells in rows
    )


def _no_links(found: Mapping[str, QuerySection]) -> Unknown:
    return Unknown(why=reason(found["gpus"].exit_code, (*found["gpus"].lines, *found["gpus"].stderr)))


def _with_links(gpus: Sequence[GpuLinks], section: QuerySection) -> tuple[GpuLinks, ...] | Unknown:
    """*gpus* with their links; Unknown where nvidia-smi does not say which there are."""
    named = {match[1] for line in section.lines if (match := _GPU.match(line))}
    whole = section.exit_code == 0 or (section.answered and named >= {gpu.index for gpu in gpus})
    if not whole and not _NONE.search(" ".join((*section.lines, *section.stderr))):
        return Unknown(why=reason(section.exit_code, (*section.lines, *section.stderr)))
    up: dict[str, list[int]] = {}
    down: dict[str, list[int]] = {}
    for uuid, line in _lines_by_gpu(section.lines, gpus):
        if link := _LINK.match(line):
            (down if link[3] else up).setdefault(uuid, []).append(int(link[1]))
    return tuple(
        replace(gpu, active=tuple(up.get(gpu.uuid, ())), inactive=tuple(down.get(gpu.uuid, ()))) for gpu in gpus
    )


def _lines_by_gpu(lines: Iterable[str], gpus: Iterable[GpuLinks]) -> Iterator[tuple[str, str]]:
    """Each line below the heading of a GPU, with the UUID of that GPU."""
    by_index = {gpu.index: gpu.uuid for gpu in gpus}
    uuid = ""
    for line in lines:
        if heading := _GPU.match(line):
            uuid = heading[2] or by_index.get(heading[1], "")
        elif uuid:
            yield uuid, line


def _wanted(gpus: Sequence[GpuLinks], expected: int, switches: int) -> Mapping[str, int]:
    """Return the number of links of each GPU that should be up, by UUID."""
    most: dict[str, int] = {}
    for gpu in gpus:
        count = len(gpu.active) + (len(gpu.inactive) if switches else 0)
        most[gpu.name] = max(most.get(gpu.name, 0), count)
    return {gpu.uuid: expected or most[gpu.name] for gpu in gpus}


def _down(gpu: GpuLinks) -> str:
    if not gpu.inactive:
        return f"{gpu}: {plural(len(gpu.active), 'link')} active"
    links = ", ".join(map(str, gpu.inactive))
    return f"{gpu}: link {links} inactive, {len(gpu.active)} active"


def _counters(
    gpus: Sequence[GpuLinks], found: Mapping[str, QuerySection]
) -> tuple[tuple[str, ...] | Unknown, tuple[str, ...] | Unknown]:
    """Return the counters that grew, and those that are not zero; Unknown if links are up without counters."""
    if not any(gpu.active for gpu in gpus):
        return (), ()
    first, second = (_read(found[name].lines, gpus) if name in found else {} for name in ("errors", "again"))
    names = {gpu.uuid: str(gpu) for gpu in gpus}
    common = [key for key in second if key in first and key[0] in names]
    if not common:
        said = found.get("again") or found.get("errors")
        why = reason(said.exit_code, (*said.lines, *said.stderr)) if said else "nvidia-smi was not asked"
        unknown = Unknown(why=f"the error counters of the links cannot be read ({why})")
        return unknown, unknown
    grew, total = _Lines(names), _Lines(names)
    for uuid, link, name in common:
        before, after = first[uuid, link, name], second[uuid, link, name]
        if after > before:
            grew.add(uuid, link, f"{name} {before} to {after}")
        if after:
            total.add(uuid, link, f"{name} {after}")
    return grew.lines(), total.lines()


class _Lines:
    """One line for each link and its remark."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self._said: dict[tuple[str, int], list[str]] = {}

    def add(self, uuid: str, link: int, words: str) -> None:
        """Say *words* of *link* of the GPU *uuid*."""
        self._said.setdefault((uuid, link), []).append(words)

    def lines(self) -> tuple[str, ...]:
        """The lines, in the order in which links were first named."""
        return tuple(
            f"{self._names[uuid]} link {link}: {', '.join(words)}" for (uuid, link), words in self._said.items()
        )


def _read(lines: Iterable[str], gpus: Iterable[GpuLinks]) -> Mapping[tuple[str, int, str], int]:
    """The counters of faults: UUID, link and name to number."""
    return {
        (uuid, int(found[1]), found[2]): int(found[3])
        for uuid, line in _lines_by_gpu(lines, gpus)
        if (found := _COUNTER.match(line)) and _WRONG.search(found[2])
    }


def holds(args: Args, state: State) -> Holds | Fails:
    """Every link that should be up is, and no error counter grows."""
    if state.smi != SmiCondition.ANSWERS:
        raise ProbeError(state.smi_said)
    for value in (state.inactive, state.growing):
        if isinstance(value, Unknown):
            raise ProbeError(value.why)
        if value:
            return Fails(why="; ".join(value))
    if state.unlisted:
        raise ProbeError(f"nvidia-smi does not list {', '.join(state.unlisted)}")
    return Holds(why=f"{state.active} NVLinks up, and none of their error counters grows")


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the commands that a person would run by hand."""
    return (
        "timeout -k 5 60 nvidia-smi nvlink -s      # <inactive>: a link that is down, or that this board does not use",
        f"nvidia-smi nvlink -e; sleep {args.apart:g}; nvidia-smi nvlink -e      # which counters grow?",
    )
