"""The GPUs that must be reset together, because NVLink joins them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.gpu.facts.model import Gpu
from runbook.library.gpu.facts.smi_output import SCRIPT_HEAD, SMI, QuerySection, hung, number, row, sections
from runbook.shell import script
from runbook.values.command import Command, Completed, read_script
from runbook.values.types import Unknown

HOPPER = 9.0
AMPERE = 8.0

_FIELDS = ("index", "uuid", "compute_cap")
_GPU = re.compile(r"GPU [0-9]+:.*\(UUID: (GPU-[0-9A-Za-z-]+)\)")
_ACTIVE = re.compile(r"Link [0-9]+: [0-9.]+ GB/s")
_NO_LINKS = re.compile(r"all links are inactive|nvlink is not supported|not supported", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """The links between the GPUs of a host."""

    linked: tuple[str, ...] | Unknown
    """UUIDs of GPUs with an active NVLink."""
    capability: Mapping[str, float | Unknown]
    """UUID to CUDA compute capability: 8.x is Ampere or Ada, 9.0 Hopper."""
    switches: bool
    """Whether NVSwitches join them."""
    fabric_manager: bool
    """Whether the fabric manager runs."""


def ask_links() -> Command:
    """One script on links, kinds of GPU, switches and the fabric manager."""
    return replace(read_script(_ASK_LINKS, ",".join(_FIELDS)), hangs=SMI)


_ASK_LINKS = SCRIPT_HEAD + script(__package__, "nvlink_probe")


def read_links(done: Completed) -> Links:
    """Parse *done*.  Raises ProbeError when nvidia-smi hung or could not be asked."""
    found = {section.name: section for section in sections(done)}
    if done.timed_out:
        raise ProbeError(hung(done))
    kinds, links, fabric = found.get("kinds"), found.get("links"), found.get("fabric")
    rows = [row(line, _FIELDS, "") for line in kinds.lines] if kinds else []
    linked: tuple[str, ...] | Unknown = Unknown(why="nvidia-smi does not say which NVLinks are active")
    uuids = {item[1] for item in rows if item}
    if links and (_every_gpu_said(links, uuids) or _NO_LINKS.search(" ".join((*links.lines, *links.stderr)))):
        linked = _linked(links.lines)
    return Links(
        linked=linked,
        capability={item[1]: number(item[2]) for item in rows if item},
        switches=bool(fabric and "switch" in fabric.lines),
        fabric_manager=bool(fabric and "manager" in fabric.lines),
    )


def _every_gpu_said(links: QuerySection, uuids: set[str]) -> bool:
    """Whether no GPU is left out: with a warning, or a GPU that is lost, the answer may end early."""
    named = {match[1] for line in links.lines if (match := _GPU.match(line))}
    return links.exit_code == 0 or (links.answered and bool(named) and named >= uuids)


def _linked(lines: Iterable[str]) -> tuple[str, ...]:
    active: dict[str, None] = {}
    at = ""
    for line in lines:
        if said := _GPU.match(line):
            at = said[1]
        elif at and _ACTIVE.match(line):
            active[at] = None
    return tuple(active)


def obstacle(gpus: tuple[Gpu, ...], links: Links) -> str:
    """Return the reason why *gpus* must not be reset without other GPUs; empty: they may be.

    The rules of the nvidia-smi manual: from Hopper on, each GPU can be reset alone.  Ampere behind NVSwitches can,
    while the fabric manager runs; directly joined Ampere can, too.  Older GPUs, and Ampere without its fabric manager,
    are reset together with all GPUs that NVLink joins to them.
    """
    free = [gpu for gpu in gpus if _alone(gpu, links)]
    if len(free) == len(gpus):
        return ""
    if isinstance(links.linked, Unknown):
        return f"GPUs joined by NVLink must be reset together, and the joined GPUs are not known ({links.linked.why})"
    asked = {gpu.uuid for gpu in gpus}
    left = [word for word in links.linked if word not in asked]
    return f"NVLink joins these GPUs to others that must be reset together with them: {', '.join(left)}" if left else ""


def together(gpus: tuple[Gpu, ...], links: Links) -> tuple[tuple[Gpu, ...], ...]:
    """*gpus* in groups, each to be reset by one command."""
    joined = tuple(gpu for gpu in gpus if not _alone(gpu, links))
    return (*((gpu,) for gpu in gpus if gpu not in joined), *((joined,) if joined else ()))


def _alone(gpu: Gpu, links: Links) -> bool:
    if not isinstance(links.linked, Unknown) and gpu.uuid and gpu.uuid not in links.linked:
        return True
    kind = links.capability.get(gpu.uuid, Unknown(why="not reported"))
    if isinstance(kind, Unknown) or kind < AMPERE:
        return False
    return kind >= HOPPER or not links.switches or links.fabric_manager
