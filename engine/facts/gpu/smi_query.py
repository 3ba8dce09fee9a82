"""How a host is asked about its NVIDIA GPUs, and what the answers mean."""

from __future__ import annotations

from dataclasses import replace

from engine.errors import ProbeError
from engine.facts.gpu.model import ComputeProcess, Gpu, GpuPresence, SmiReading, bus_id
from engine.facts.gpu.smi_output import SCRIPT_HEAD, SMI
from engine.facts.gpu.smi_parser import read_apps, read_gpus
from engine.values.command import Command, Completed, read_script

__all__ = [
    "ComputeProcess",
    "Gpu",
    "GpuPresence",
    "SmiReading",
    "ask_apps",
    "ask_gpus",
    "ask_presence",
    "bus_id",
    "read_apps",
    "read_gpus",
    "read_presence",
]

CORE = (
    "index", "uuid", "pci.bus_id", "name", "driver_version", "persistence_mode", "memory.used", "memory.total",
    "utilization.gpu", "temperature.gpu", "pstate", "compute_mode", "mig.mode.current", "ecc.mode.current",
)  # fmt: skip
"""Fields that every driver since R450 knows."""

OPTIONAL = ("gpu_recovery_action", "remapped_rows.pending", "remapped_rows.failure", "retired_pages.pending")
"""Fields that only some drivers know; one unknown field makes nvidia-smi refuse the whole question."""

SMALL = ("index", "uuid", "name", "utilization.gpu", "memory.used", "memory.total")
"""Fields for an nvidia-smi that refuses the core: very old, or a reduced one."""

APPS = ("gpu_uuid", "pid", "used_gpu_memory")
"""Columns of a process.  Not its name: a user may put commas and newlines into it, and so forge the row of another."""


def ask_gpus(interval: float = 0.0, *, apps: bool = False) -> Command:
    """One script with every question about the GPUs; with *interval* a second probe so many seconds later.

    *apps* also asks for the processes, in the same script, so that a driver that hangs is asked only once.
    """
    full, core, small = (",".join(it) for it in ((*CORE, *OPTIONAL), CORE, SMALL))
    words = (full, core, small, f"{interval:g}" if interval else "", ",".join(APPS) if apps else "")
    return replace(read_script(_ASK_GPUS, *words), hangs=SMI)


def ask_apps() -> Command:
    """The processes that nvidia-smi lists."""
    return replace(read_script(_ASK_APPS, ",".join(APPS)), hangs=SMI)


def ask_presence(root: str = "") -> Command:
    """What shows without the driver whether there is an NVIDIA GPU; *root* is where the file system begins."""
    return read_script(_ASK_PRESENCE, root)


_ASK_GPUS = (
    SCRIPT_HEAD
    + r"""
full=$1 core=$2 small=$3 interval=$4 apps=$5
gpus gpus "$full"
if [ $rc = 2 ]; then  # a field that this nvidia-smi does not know: ask for the core, then for the others one by one
    others=${full#"$core",}
    gpus gpus "$core"
    if [ $rc = 2 ]; then others=$full; gpus gpus "$small"; fi
    if [ $rc != 2 ]; then
        IFS=,
        for one in $others; do
            case ",index,$small," in *",$one,"*) continue ;; esac
            case $rc in 0|2) gpus part "index,$one" ;; esac
        done
        unset IFS
        case $rc in 0|2) whole status -q ;; esac
    fi
fi
case $rc in
    0|2|6|14|15) ;;
    *)  # it does not work, and is not asked again: what a second look was to tell is not known
        [ -z "$interval" ] || printf '%s begin again index,uuid,utilization.gpu\n\n%s end %s\n' "$frame" "$frame" "$rc"
        exit 0 ;;
esac
if [ -n "$interval" ]; then sleep "$interval"; gpus again index,uuid,utilization.gpu; fi
if [ -n "$apps" ]; then listed "$apps"; fi
exit 0
"""
)

_ASK_APPS = (
    SCRIPT_HEAD
    + r"""
listed "$1"
exit 0
"""
)

_ASK_PRESENCE = r"""
LC_ALL=C; export LC_ALL
[ -d "$1/sys/bus" ] && echo probed
for device in "$1"/sys/bus/pci/devices/*; do
    vendor=; class=
    { read -r vendor <"$device/vendor" && read -r class <"$device/class"; } 2>/dev/null
    case $vendor/$class in 0x10de/0x030[02]*) ;; *) continue ;; esac
    echo "pci ${device##*/}"
    driver=$(readlink "$device/driver")
    case ${driver##*/} in ''|nvidia) echo "bus ${device##*/}" ;; esac
done
for mark in /.dockerenv /run/.containerenv /run/systemd/container; do [ ! -e "$1$mark" ] || echo container; done
for node in "$1"/dev/nvidia[0-9]*; do
    [ -e "$node" ] && echo "node ${node#"$1"}"
done
PATH="$PATH:/usr/bin:/usr/local/nvidia/bin:/usr/lib/wsl/lib"
if command -v nvidia-smi >/dev/null; then echo tool; fi
for file in "$1"/proc/driver/nvidia/gpus/*/information; do
    card=${file%/information}
    { while read -r one two three rest; do
        case "$one $two" in 'Device Minor:') echo "minor ${card##*/} $three" ;; esac
    done <"$file"; } 2>/dev/null
done
exit 0
"""


def read_presence(done: Completed) -> GpuPresence:
    """What *done* shows.  Raises ProbeError when the look did not come to its end."""
    if done.timed_out or done.exit_code != 0:
        raise ProbeError("sysfs and /dev could not be inspected for NVIDIA GPUs")
    facts = [it.split() for it in done.stdout.splitlines() if it.strip()]
    minors = {bus_id(it[1]): int(it[2]) for it in facts if it[0] == "minor" and len(it) == 3 and _is_minor(it[2])}
    return GpuPresence(
        pci=sum(it[0] == "pci" for it in facts),
        nodes=tuple(it[1] for it in facts if it[0] == "node" and len(it) == 2),
        tool=["tool"] in facts,
        minors={bus: minor for bus, minor in minors.items() if bus},
        probed=["probed"] in facts,
        on_bus=tuple(bus for it in facts if it[0] == "bus" and len(it) == 2 and (bus := bus_id(it[1]))),
        container=["container"] in facts,
    )


def _is_minor(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 6
