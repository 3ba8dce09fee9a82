"""The commands that reset a GPU, and the reasons why nvidia-smi refuses a reset."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.gpu.facts.model import Gpu, bus_ids
from runbook.library.gpu.facts.smi_output import SCRIPT_HEAD, SMI, number, one_line, row, sections
from runbook.shell import script
from runbook.values.command import Command, Completed, read_script, write_script
from runbook.values.types import Unknown

TIMEOUT = 600.0
"""The seconds after which a reset is reported as late; the reset is never ended."""

_PATH = "PATH=$PATH:/usr/bin:/usr/local/nvidia/bin; LC_ALL=C; export PATH LC_ALL; "
_RESET = _PATH + 'exec nvidia-smi --gpu-reset -i "$1" </dev/null'
_ANSWERS = _PATH + 'nvidia-smi -q -i "$1" </dev/null >/dev/null'
_SET = _PATH + 'exec nvidia-smi -i "$1" "$2" "$3" </dev/null'
_PERSISTENCE = _PATH + 'exec nvidia-smi -i "$1" -pm "$2" </dev/null'

_USED = re.compile(r"\bin use by\b|\bbeing used by\b|\bused by (?:another|one or more|some)\b|currently in use", re.I)
_FORBIDDEN = re.compile(r"insufficient permissions|not permitted|permission denied|operation not permitted", re.I)
_UNSUPPORTED = re.compile(r"not supported|unsupported", re.I)
_LOST = re.compile(r"is lost|fallen off the bus", re.I)


def reset(gpus: tuple[Gpu, ...]) -> Command:
    """Return the command that resets *gpus* together; it is never ended half-way."""
    names = ",".join(map(_name, gpus))
    line = ("nvidia-smi", "--gpu-reset", "-i", names)
    return replace(write_script(_RESET, names), stands_for=line, timeout=TIMEOUT, unkillable=True)


def set_persistence(gpu: Gpu, *, on: bool) -> Command:
    """Return the command that switches persistence mode, which holds the GPU as a client does."""
    name, mode = _name(gpu), "1" if on else "0"
    return replace(write_script(_PERSISTENCE, name, mode), stands_for=("nvidia-smi", "-i", name, "-pm", mode))


def answers(gpus: tuple[Gpu, ...]) -> Command:
    """Return the command that checks whether the driver reports all values of *gpus* again."""
    names = ",".join(map(_name, gpus))
    line = ("nvidia-smi", "-q", "-i", names)
    return replace(read_script(_ANSWERS, names), stands_for=line, timeout=120.0)


def mark(gpus: tuple[Gpu, ...]) -> Command:
    """Return the command that writes into the logs that *gpus* were reset; it never fails."""
    words = tuple(word for gpu in gpus for word in (gpu.bus_id or "-", gpu.uuid or "-"))
    return write_script(_MARKER, KERNEL, *words, called=("note-reset", *words[::2]))


KERNEL = "/dev/kmsg"
"""The file through which root can add a line to the kernel's log."""

_MARKER = script(__package__, "reset_marker")


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSettings:
    """The settings of a GPU that differ from the default and are lost in a reset."""

    compute_mode: str = ""
    """Exclusive_Process or Prohibited; empty if it is Default or not known."""
    power_limit: str = ""
    """The power limit in watts; empty if it is the default or not known."""
    clocks: str = ""
    """The application clocks ``memory,graphics`` in MHz; empty if they are the default or not known."""

    def __str__(self) -> str:
        words = {"compute mode": self.compute_mode, "power limit": self.power_limit, "clocks": self.clocks}
        return ", ".join(f"{name} {value}" for name, value in words.items() if value)


def ask_settings(gpus: tuple[Gpu, ...]) -> Command:
    """Return the command that reads the settings that a reset of *gpus* would remove."""
    return replace(read_script(_ASK_SETTINGS, ",".join(map(_name, gpus))), hangs=SMI)


_ASK_SETTINGS = SCRIPT_HEAD + script(__package__, "reset_settings")


def read_settings(done: Completed, gpus: tuple[Gpu, ...]) -> Mapping[str, GpuSettings]:
    """Return the settings of *gpus* by UUID; settings that the driver does not report count as the default."""
    try:
        found = {section.name: section for section in sections(done)}
    except ProbeError:
        found = {}
    power, clocks = (
        {it[0]: it for line in found[name].lines if (it := row(line, ("x",) * count, ""))} if name in found else {}
        for name, count in (("power", 3), ("clocks", 5))
    )
    made = {}
    for gpu in gpus:
        mode = gpu.compute_mode
        limit = _unlike(*power[gpu.uuid][1:]) if gpu.uuid in power else ""
        now, usual = (clocks[gpu.uuid][1:3], clocks[gpu.uuid][3:]) if gpu.uuid in clocks else ((), ())
        numbers = [number(word) for word in (*now, *usual)]
        known = len(numbers) == 4 and not any(isinstance(each, Unknown) for each in numbers)
        made[gpu.key] = GpuSettings(
            compute_mode="" if isinstance(mode, Unknown) or mode == "Default" else mode,
            power_limit=limit,
            clocks=",".join(now) if known and numbers[:2] != numbers[2:] else "",
        )
    return made


def _unlike(value: str, usual: str) -> str:
    """Return *value* if it is a number other than *usual*; otherwise an empty text."""
    one, other = number(value), number(usual)
    return "" if isinstance(one, Unknown) or isinstance(other, Unknown) or one == other else value


def set_again(gpu: Gpu, settings: GpuSettings) -> tuple[Command, ...]:
    """Return the commands that apply *settings* to *gpu* again."""
    options = (("-c", settings.compute_mode.upper()), ("-pl", settings.power_limit), ("-ac", settings.clocks))
    return tuple(_set(gpu, option, value) for option, value in options if value)


def _set(gpu: Gpu, option: str, value: str) -> Command:
    name = _name(gpu)
    return replace(write_script(_SET, name, option, value), stands_for=("nvidia-smi", "-i", name, option, value))


def _name(gpu: Gpu) -> str:
    """Return the value for ``-i``; never an index, because another GPU may have this index by then."""
    return gpu.uuid or gpu.bus_id.rjust(len("00000000:97:00.0"), "0")


def refusal(command: Command, completed: Completed) -> str:
    """Return the reason why nvidia-smi refused a reset, as text; empty if its message is not known."""
    said = one_line(f"{completed.stdout} {completed.stderr}")
    which = ", ".join(bus_ids(said)) or (command.argv[0] if command.argv else "the GPU")
    if completed.timed_out or completed.exit_code is None:
        return ""
    if completed.exit_code == 127:
        return "there is no nvidia-smi on this host"
    if _USED.search(said):
        return (
            f"nvidia-smi says that another client uses {which}: a process in another container or pid namespace, a "
            "daemon such as DCGM, nvidia-persistenced, a display server or the device plugin, or an application on a "
            "GPU that is linked to it; list the holders with `fuser -v /dev/nvidia*` on the machine itself, and with "
            f"`runbook run zombie-gpu --dry-run` (exit code {completed.exit_code})"
        )
    if completed.exit_code == 4 or _FORBIDDEN.search(said):
        said = said or f"exit code {completed.exit_code}"
        return (
            f"not permitted here: {said} (in a container only the provider can reset a GPU: stop the pod and start it "
            "again)"
        )
    if _LOST.search(said):
        return f"{which} has fallen off the bus: only a reboot of the host brings it back"
    if _UNSUPPORTED.search(said):
        return f"a reset of {which} is not supported here: {said}"
    return ""
