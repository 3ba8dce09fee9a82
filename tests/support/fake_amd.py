"""A pretended host with AMD's GPUs: files of sysfs and devices below a directory, and an amd-smi that lists the GPUs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

from runbook.values.command import Command, Completed
from tests.support.probe_driver import Here

BUSES = ("0000:05:00.0", "0000:26:00.0")


def bus_of(number: int) -> str:
    return BUSES[number]


@dataclass
class AmdHost(Here):
    """A connection to a made-up host: sysfs and /dev lie below *root*; processes are this machine's."""

    busy: tuple[object, ...] = (0, 0)
    """What each GPU's file says of its load; None: there is no such file."""
    amd_smi: str = ""
    """A script in place of amd-smi; empty: it lists the GPUs; ``-``: there is none."""
    ue: tuple[int, ...] = (0, 0)
    files: dict[str, str] = field(default_factory=dict)
    """More files below the root, or others."""

    def install(self, directory: Path) -> AmdHost:
        self.root, self.path = directory / "root", directory / "bin"
        topology = "sys/class/kfd/kfd/topology/nodes"
        planted = {"sys/bus/.keep": "", "dev/kfd": "", f"{topology}/0/properties": "cpu_cores_count 64\nsimd_count 0\n",
                   f"{topology}/0/gpu_id": "0\n", "sys/class/kfd/kfd/proc/.keep": ""}  # fmt: skip
        for number, busy in enumerate(self.busy):
            bus, device = bus_of(number), f"sys/bus/pci/devices/{bus_of(number)}"
            place = int(bus[5:7], 16) * 256
            planted |= {
                f"dev/dri/renderD{128 + number}": "", f"dev/dri/card{number}": "",
                f"{topology}/{number + 1}/properties":
                    f"simd_count 1216\nlocation_id {place}\ndomain 0\ndrm_render_minor {128 + number}\n",
                f"{topology}/{number + 1}/gpu_id": f"{4000 + number}\n",
                f"{device}/vendor": "0x1002\n", f"{device}/class": "0x120000\n",
                f"{device}/product_name": "AMD Instinct MI300X OAM\n", f"{device}/unique_id": f"deadbeef0000000{number}\n",
                f"{device}/mem_info_vram_total": f"{192 << 30}\n", f"{device}/mem_info_vram_used": f"{300 << 20}\n",
                f"{device}/hwmon/hwmon3/temp2_label": "junction\n", f"{device}/hwmon/hwmon3/temp2_input": "42000\n",
                f"{device}/current_link_width": "16\n", f"{device}/max_link_width": "16\n",
                f"{device}/ras/umc_err_count": f"ue: {self.ue[number]}\nce: 3\n",
                f"{device}/drm/card{number}/.keep": "",
            }  # fmt: skip
            if busy is not None:
                planted[f"{device}/gpu_busy_percent"] = f"{busy}\n"
        for name, text in (planted | self.files).items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text)
        (self.root / "proc/self/ns").mkdir(parents=True)
        (self.root / "proc/self/ns/pid").symlink_to("pid:[4026531836]")  # its processes are all that there are
        self.path.mkdir()
        rows = [{"gpu": at, "bdf": bus_of(at), "uuid": "a-b", "partition_id": 0} for at in range(len(self.busy))]
        if self.amd_smi != "-":
            says = self.amd_smi or f"echo '{json.dumps(rows)}'"
            (self.path / "amd-smi").write_text(f"#!/bin/sh\n{says}\n")
            (self.path / "amd-smi").chmod(0o755)
        return self

    def lists(self, *numbers: int) -> str:
        """The script of an amd-smi that lists these GPUs."""
        rows = json.dumps([{"gpu": at, "bdf": bus_of(at)} for at in numbers])
        return f"echo '{rows}'"

    def _run(self, command: Command) -> Completed:
        """Run *command* here, with the devices below the root in place of those of the machine."""
        assert self.root
        dev = f"{self.root}/dev/"
        if command.argv and any(word.startswith("/dev/") for word in command.argv):
            command = replace(command, argv=tuple(word.replace("/dev/", dev) for word in command.argv))
            done = super()._run(command)
            return replace(done, stdout=done.stdout.replace(dev, "/dev/"))
        return super()._run(command)
