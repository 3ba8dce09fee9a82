"""A pretended nvidia-smi that obeys the rules of the real one."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

KNOWN = {
    "index": "0",
    "uuid": "GPU-0a1b2c3d-0000-1111-2222-000000000000",
    "pci.bus_id": "00000000:97:00.0",
    "name": "NVIDIA H100 80GB HBM3",
    "driver_version": "570.133.20",
    "persistence_mode": "Enabled",
    "memory.used": "0",
    "memory.total": "81559",
    "utilization.gpu": "0",
    "temperature.gpu": "31",
    "pstate": "P0",
    "compute_mode": "Default",
    "mig.mode.current": "Disabled",
    "ecc.mode.current": "Enabled",
    "gpu_recovery_action": "None",
    "remapped_rows.pending": "No",
    "remapped_rows.failure": "No",
    "retired_pages.pending": "No",
    "compute_cap": "9.0",
    "ecc.errors.uncorrected.volatile.total": "0",
    "ecc.errors.uncorrected.aggregate.total": "0",
    "ecc.errors.uncorrected.aggregate.sram.thresholdExceeded": "No",
    "remapped_rows.correctable": "0",
    "remapped_rows.uncorrectable": "0",
    "pcie.link.gen.current": "5",
    "pcie.link.gen.max": "5",
    "pcie.link.width.current": "16",
    "pcie.link.width.max": "16",
    "clocks_event_reasons.active": "0x0000000000000001",
    "power.draw": "69.85",
    "enforced.power.limit": "700.00",
    "power.default_limit": "700.00",
    "clocks.current.sm": "345",
    "clocks.max.sm": "1980",
    "temperature.memory": "48",
    "fan.speed": "[N/A]",
    "temperature.gpu.tlimit": "46",
    "mig.mode.pending": "Disabled",
    "fabric.state": "Completed",
    "fabric.status": "Success",
}


def uuid(number: int) -> str:
    return f"GPU-0a1b2c3d-0000-1111-2222-{number:012x}"


def gpu(index: int = 0, **values: str) -> dict[str, str]:
    """A row of a healthy, idle H100; keys with ``_`` for ``.`` where the field has one."""
    plain = {**KNOWN, "index": str(index), "uuid": uuid(index), "pci.bus_id": f"00000000:{0x90 + index:02X}:00.0"}
    for key, value in values.items():
        name = key if key in KNOWN else key.replace("_", ".")
        name = {"persistence.mode": "persistence_mode", "compute.mode": "compute_mode"}.get(name, name)
        assert name in KNOWN, name
        plain[name] = value
    return plain


@dataclass
class Pretended:
    """What the nvidia-smi on PATH says; ``install`` writes it."""

    gpus: list[dict[str, str]] = field(default_factory=lambda: [gpu()])
    later: list[dict[str, str]] | None = None
    """What it says from that call on that asks for utilization alone."""
    later_from: int = 1
    """The number of that call."""
    apps: str = ""
    """Rows of gpu_uuid, pid, process_name and used_gpu_memory, or whatever else it says instead of some."""
    named: tuple[tuple[str, int, str, str], ...] = ()
    """The same as values, of which a name may hold anything."""
    fields: frozenset[str] = frozenset(KNOWN)
    between: dict[int, str] = field(default_factory=dict)
    """Lines on stdout before the row with that number."""
    stderr: str = ""
    exit_code: int = 0
    codes: dict[int, int] = field(default_factory=dict)
    """Exit codes of single calls, by their number."""
    instead: str | None = None
    """Said instead of everything."""
    hangs_at: int = 0
    """The number of the call that never answers; 0: none."""
    dies_after: int = 0
    """Bytes of its answer after which it is killed; 0: never."""
    status: str = ""
    links: str = ""

    def install(self, folder: Path) -> Path:
        """Write it to *folder*, and its log of calls beside it."""
        folder.mkdir(parents=True, exist_ok=True)
        program = folder / "nvidia-smi"
        program.write_text(self._script(folder))
        program.chmod(0o755)
        return folder

    def _listed(self, *, names: bool) -> str:
        if self.named:
            return "".join(
                ", ".join((u, str(pid), *([name] if names else []), m)) + "\n" for u, pid, name, m in self.named
            )
        return self.apps if names else re.sub(r"(?m)^([^,\n]+, [^,\n]+), .*(, [^,\n]+)$", r"\1\2", self.apps)

    def _script(self, folder: Path) -> str:
        q = shlex.quote
        queries = ""
        cases = []
        for at in range(len(self.gpus)):
            if at in self.between:
                queries += f"echo {q(self.between[at])}\n"
            queries += f"row {at}\n"
        queries += f"echo {q(self.between[len(self.gpus)])}\n" if len(self.gpus) in self.between else ""
        for at, row in enumerate(self.gpus):
            second = (self.later or self.gpus)[at] if at < len(self.later or self.gpus) else row
            cases += [f"{at}:{name}) v={q(value)} ;;" for name, value in row.items()]
            cases += [f"later:{at}:{name}) v={q(value)} ;;" for name, value in second.items()]
        instead, kill = "", f"| head -c {self.dies_after}; kill -9 $$" if self.dies_after else ""
        if self.instead is not None:
            instead = f"printf '%s' {q(self.instead)}; printf '%s' {q(self.stderr)} >&2; exit {self.exit_code}"
        return f"""#!/bin/sh
log={q(str(folder / "calls"))}
echo "$*" >>"$log"
call=$(wc -l <"$log")
[ "$call" = {self.hangs_at} ] && exec sleep 1000
code={self.exit_code}
case $call in {"".join(f"{at}) code={code} ;; " for at, code in self.codes.items())} esac
{instead}
row() {{
    line= IFS=,
    for f in $fields; do
        case "$when$1:$f" in
            {chr(10).join(cases)}
        esac
        line="$line${{line:+, }}$v"
    done
    unset IFS
    echo "$line"
}}
case "$1" in
--query-gpu=*)
    fields=${{1#--query-gpu=}}
    [ "$2" = '--format=csv,noheader,nounits' ] || exit 2
    for f in $(echo "$fields" | tr , ' '); do
        case " {" ".join(sorted(self.fields))} " in *" $f "*) ;; *)
            printf 'Field "%s" is not a valid field to query.\\n\\n' "$f"; exit 2 ;;
        esac
    done
    when=
    if [ "$fields" = index,uuid,utilization.gpu ]; then
        [ "$(grep -c '^--query-gpu=index,uuid,utilization.gpu ' "$log")" -lt {self.later_from} ] || when=later:
    fi
    {{
    {queries}
    }} {kill}
    printf '%s' {q(self.stderr)} >&2
    exit "$code" ;;
--query-compute-apps=*process_name*) printf '%s' {q(self._listed(names=True))}; exit "$code" ;;
--query-compute-apps=*) printf '%s' {q(self._listed(names=False))}; exit "$code" ;;
-q) printf '%s' {q(self.status)}; exit "$code" ;;
nvlink) printf '%s' {q(self.links)}; exit "$code" ;;
esac
exit 2
"""


def calls(folder: Path) -> list[str]:
    log = folder / "calls"
    return log.read_text().splitlines() if log.exists() else []


def plant(root: Path, *, gpus: int = 0, pci=(), nodes=(), minors=(), pid_namespace: int = 4026531836) -> Path:
    """A file system with *gpus* GPUs (as ``gpu`` numbers them), and with what else is given; of a whole machine, not of a pod."""
    pci = [*pci, *((f"0000:{0x90 + at:02x}:00.0", "0x10de", "0x030200") for at in range(gpus))]
    minors = [*minors, *((f"0000:{0x90 + at:02x}:00.0", at) for at in range(gpus))]
    (root / "sys/bus/pci/devices").mkdir(parents=True)
    (root / "dev").mkdir()
    (root / "proc/self/ns").mkdir(parents=True)
    (root / "proc/self/ns/pid").symlink_to(f"pid:[{pid_namespace}]")
    for bus, vendor, kind in pci:
        device = root / "sys/bus/pci/devices" / bus
        device.mkdir()
        (device / "vendor").write_text(f"{vendor}\n")
        (device / "class").write_text(f"{kind}\n")
    for node in [*nodes, *(f"nvidia{at}" for at in range(gpus))]:
        (root / "dev" / node).touch()
    for bus, minor in minors:
        card = root / "proc/driver/nvidia/gpus" / bus
        card.mkdir(parents=True)
        (card / "information").write_text(f"Model: \t NVIDIA H100\nDevice Minor: \t {minor}\nGPU Firmware: \t x\n")
    return root
