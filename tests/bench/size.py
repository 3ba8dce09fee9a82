"""What ``check`` and ``hosts`` take for long files, beside a file of a quarter of the length: ``make bench``.

A ratio of 4 is linear, 16 quadratic.  Each figure is the CPU time of a whole process, the least of some rounds, less that
of the same command with a short file.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.long_playbook import long_playbook

ROUNDS = 3
LENGTHS = {"check": (250, 1000), "hosts": (2500, 10_000)}


def long_inventory(many: int) -> str:
    """An inventory of *many* hosts with a dozen fields each, about 450 bytes."""
    return "hosts:\n" + "".join(
        f"  gpu-{number:05d}:\n    ssh_host: 10.{number // 65536}.{number // 256 % 256}.{number % 256}\n"
        f"    ssh_user: ubuntu\n    ssh_port: 22\n    ssh_key: ~/.ssh/id_cluster_{number % 7}\n    gpu: 8x H100\n"
        f"    status: {'ready' if number % 50 else 'offline'}\n    role: {('training', 'eval')[number % 2]}\n"
        f"    rack: rack-{number // 16:04d}\n    workspace: /mnt/data/workspaces/team-{number % 13}\n"
        f"    labels: {{zone: zone-{number % 4}, pool: pool-{number % 12}, tier: gold}}\n    notes: '{'x' * 180}'\n"
        for number in range(many)
    )


def cpu_seconds(*argv: str) -> float:
    """The user and system time of one run of the program."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "runbook", *argv], stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for command, (few, many) in LENGTHS.items():
            write, name = (long_playbook, "long") if command == "check" else (long_inventory, "hosts")
            files = []
            for length in (8, few, many):
                file = Path(folder) / str(length) / f"{name}.yaml"
                file.parent.mkdir(exist_ok=True)
                file.write_text(write(length))
                files.append(str(file))
            argv = [(command, it) if command == "check" else (command, "-i", it) for it in files]
            times = [min(cpu_seconds(*it) for _ in range(ROUNDS)) for it in argv]
            ratio = (times[2] - times[0]) / (times[1] - times[0])
            print(f"{command:6} {few:6} {times[1]:6.2f} s   {many:6} {times[2]:6.2f} s of CPU   ratio {ratio:5.2f}")


if __name__ == "__main__":
    main()
