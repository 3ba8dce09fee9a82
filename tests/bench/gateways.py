"""What hosts behind one gateway cost: ``python -m tests.bench.gateways [PROGRAM ...]``.

100 hosts on loopback, all behind one sshd, are probed by one run; each PROGRAM (default: this checkout's) takes its turn
in each round.  Printed are the medians: seconds of the wall, seconds of the client's CPU, logins at the gateway.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.support.sshd import Sshd, start_sshd

HOSTS = 100
ROUNDS = 3
OWN = str(Path(sys.executable).parent / "runbook")


def inventory(folder: Path, gateway: Sshd, target: Sshd) -> Path:
    """HOSTS names of *target*, behind *gateway*."""
    login = f"ssh_user: root, ssh_key: {target.key}, is_ephemeral: true"
    lines = [f"  gate: {{ssh_host: {gateway.address}, ssh_port: {gateway.port}, status: gateway, {login}}}"]
    far = f"ssh_host: {target.address}, ssh_port: {target.port}, ssh_proxy: gate, {login}"
    lines += [f"  far-{number:03}: {{{far}}}" for number in range(HOSTS)]
    path = folder / "hosts.yaml"
    path.write_text("\n".join(["hosts:", *lines, ""]))
    return path


def logins(server: Sshd) -> int:
    return (server.folder / "log").read_text().count("Accepted publickey")


def measured(program: str, hosts: Path, gateway: Sshd) -> tuple[float, float, int]:
    """Seconds of the wall, seconds of CPU, and logins at *gateway*."""
    before, spent, began = logins(gateway), resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    options = ("--shell-timeout", "60", "--output", "json")
    argv = (program, "exec", "all", "--read", "-i", str(hosts), *options, "--", "true")
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    wall, now = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        print(done.stdout[-2000:], done.stderr[-2000:], file=sys.stderr)
    return wall, now.ru_utime + now.ru_stime - spent.ru_utime - spent.ru_stime, logins(gateway) - before


def main() -> None:
    programs = sys.argv[1:] or [OWN]
    with tempfile.TemporaryDirectory() as folder:
        target = start_sshd(Path(folder) / "target", extra="SetEnv HOME=/var/empty")  # no .bashrc
        gateway = start_sshd(Path(folder) / "gateway", "127.0.0.2", key=target.key)
        hosts = inventory(Path(folder), gateway, target)
        taken: dict[str, list[tuple[float, float, int]]] = {it: [] for it in programs}
        for _ in range(ROUNDS):
            for program in programs:
                taken[program].append(measured(program, hosts, gateway))
        gateway.stop()
        target.stop()
    for program, rounds in taken.items():
        wall, cpu, count = (statistics.median(it) for it in zip(*rounds, strict=True))
        print(f"{program}: {wall:.2f} s, {cpu:.2f} s CPU, {count:g} logins at the gateway")


if __name__ == "__main__":
    main()
