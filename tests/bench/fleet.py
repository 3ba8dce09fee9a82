"""Ten commands on many hosts, beside other programs that do the same over SSH: ``make bench``.

Hosts are addresses of loopback, each with an sshd in a pid namespace of its own: a process table of its own, as every
machine has (``--one-table``, or without the rights for that: one sshd, and one table, for all).  The user is a plain one
with an empty profile.  Every figure is that of a whole process, start-up included; the rounds of all contenders are
interleaved.  The other programs are those of the virtual environment that ``--peers`` names; what is not installed there
is left out, and named.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.contenders import COMMANDS
from tests.support.sshd import PLAIN_USER, Sshd, free_port, sshd_fleet, start_sshd, with_plain_user

SLOWEST = {"ansible shell": 20, "ansible raw": 200, "pyinfra": 200, "clush": 200}
"""Hosts up to which a contender is measured: beyond that it takes too long."""


@dataclass
class Contender:
    """A program that is measured, and its figures so far."""

    name: str
    argv: Sequence[str]
    env: dict[str, str] = field(default_factory=dict)
    walls: list[float] = field(default_factory=list)
    cpus: list[float] = field(default_factory=list)
    hosts: list[float] = field(default_factory=list)
    """Seconds of CPU that the machine was busy beside the client: what the hosts took, on an idle machine."""
    memory: int = 0
    """KiB of its greatest process."""
    failed: str = ""

    def run(self, folder: Path) -> None:
        """One round."""
        if self.failed:
            return
        began, busy = time.monotonic(), _busy()
        with (folder / "out").open("wb") as out:
            process = subprocess.Popen(
                self.argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=folder, env={**os.environ, **self.env}
            )
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said = (folder / "out").read_text(errors="replace").strip().splitlines()
            self.failed = f"exit code {process.returncode}: {said[-1][:200] if said else ''}"
            return
        self.walls.append(time.monotonic() - began)
        self.cpus.append(used.ru_utime + used.ru_stime)
        self.hosts.append(_busy() - busy - self.cpus[-1])
        self.memory = max(self.memory, used.ru_maxrss)


def _busy() -> float:
    """Seconds of CPU that this machine was busy since it started."""
    user, nice, system, _, _, irq, softirq = map(int, Path("/proc/stat").read_text().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


@contextmanager
def hosts_up(count: int, *, one_table: bool = False) -> Iterator[tuple[Sshd, Path]]:
    """An sshd on each of *count* addresses of loopback, all with one port and one key; the first of them, and a folder."""
    with tempfile.TemporaryDirectory(prefix="runbook-bench-") as name, ExitStack() as running:
        folder = Path(name)
        folder.chmod(0o755)
        before = with_plain_user(folder) if os.getuid() == 0 else ()
        running.callback(_end_masters, name)
        if one_table or os.getuid():
            server = start_sshd(folder / "sshd", "0.0.0.0", extra="MaxSessions 50", before=before)
            running.callback(server.stop)
        else:
            server = running.enter_context(sshd_fleet(folder, _addresses(count), before, extra="MaxSessions 50"))
        yield server, folder


def _addresses(count: int) -> list[str]:
    return [f"127.0.{number // 250}.{number % 250 + 1}" for number in range(count)]


def _end_masters(folder: str) -> None:
    for pid in _masters(folder):
        os.kill(pid, signal.SIGTERM)


def _masters(folder: str) -> Iterator[int]:
    """The connections that ansible has left open, which have a file of *folder* on their command line."""
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if folder.encode() in line.read_bytes() and int(line.parent.name) != os.getpid():
                yield int(line.parent.name)
        except OSError:
            continue


@contextmanager
def far_away(server: Sshd, milliseconds: float) -> Iterator[int]:
    """The port behind which a round trip takes so long."""
    if not milliseconds:
        yield server.port
        return
    port = free_port()
    argv = [sys.executable, "-m", "tests.bench.relay", str(port), str(server.port), str(milliseconds)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as relay:
        assert relay.stdout
        assert relay.stdout.readline() == "ready\n"
        try:
            yield port
        finally:
            relay.kill()


def contenders(folder: Path, server: Sshd, port: int, count: int, parallel: int, peers: str) -> list[Contender]:
    """Everybody who takes part, the floor first."""
    folder.mkdir()
    hosts = _addresses(count)
    user = PLAIN_USER if os.getuid() == 0 else os.environ["USER"]
    given = {"hosts": hosts, "port": port, "user": user, "key": str(server.key), "parallel": parallel}
    (folder / "given.json").write_text(json.dumps(given))
    own = str(Path(__file__).with_name("contenders.py"))
    made = [
        Contender("floor", (sys.executable, own, "floor", "given.json")),
        Contender("runbook", _runbook(folder, given)),
        Contender("Fabric, a run a step", (sys.executable, own, "fabric_per_step", "given.json")),
    ]
    if peers:
        python = f"{peers}/bin/python"
        made += [
            Contender("asyncssh, a run a step", (python, own, "asyncssh_per_step", "given.json")),
            Contender("parallel-ssh", (python, own, "parallel_ssh", "given.json")),
            Contender("clush", ("sh", "-c", _clush(given, peers))),
            Contender("pyinfra", _pyinfra(folder, given, peers)),
            *_ansible(folder, given, peers),
        ]
    return [it for it in made if count <= SLOWEST.get(it.name, count)]


def _runbook(folder: Path, given: dict) -> Sequence[str]:
    hosts = "".join(
        f"  h{number}: {{ssh_host: {it}, ssh_port: {given['port']}, ssh_user: {given['user']}, ssh_key: {given['key']}, is_ephemeral: true}}\n"
        for number, it in enumerate(given["hosts"])
    )
    (folder / "hosts.yaml").write_text(f"hosts:\n{hosts}")
    steps = "".join(f'  - {{id: s{number}, command: {{script: "{it}"}}}}\n' for number, it in enumerate(COMMANDS))
    (folder / "ten.yaml").write_text(f"name: ten\nabout: Ten probes.\ndiagnose:\n{steps}")
    given_words = ("-i", "hosts.yaml", "--hosts", "all", "--parallel", str(given["parallel"]), "--output", "json")
    return (sys.executable, "-m", "runbook", "run", "ten.yaml", *given_words)


def _clush(given: dict, peers: str) -> str:
    options = f"-i {given['key']} -p {given['port']} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
    where = f"-w {','.join(given['hosts'])} -l {given['user']} -f {given['parallel']}"
    return "set -e; " + "; ".join(f"{peers}/bin/clush -S -q {where} -o '{options}' '{it}'" for it in COMMANDS)


def _pyinfra(folder: Path, given: dict, peers: str) -> Sequence[str]:
    (folder / "given_hosts.py").write_text(f"hosts = {given['hosts']!r}\n")
    data = {"user": given["user"], "port": given["port"], "key": given["key"]}
    (folder / "steps.py").write_text(
        "from pyinfra.operations import server\n"
        f"for number, line in enumerate({list(COMMANDS)!r}):\n"
        "    server.shell(name=f'step {number}', commands=[line])\n"
    )
    ssh = [f"--{name}={data[name]}" for name in ("user", "port", "key")]
    words = ["--data", "ssh_strict_host_key_checking=off", "--data", "ssh_look_for_keys=false"]
    fleet = ["--parallel", str(given["parallel"])]
    return (f"{peers}/bin/pyinfra", "--yes", *_ssh_of_pyinfra(ssh), *words, *fleet, "given_hosts.py", "steps.py")


def _ssh_of_pyinfra(words: list[str]) -> list[str]:
    return [word.replace("--", "--ssh-", 1) for word in words]


def _ansible(folder: Path, given: dict, peers: str) -> list[Contender]:
    login = f"ansible_user={given['user']} ansible_port={given['port']} ansible_ssh_private_key_file={given['key']}"
    where = "".join(f"{it} {login} ansible_python_interpreter=/usr/bin/python3\n" for it in given["hosts"])
    (folder / "inventory.ini").write_text(where)
    (folder / "ansible.cfg").write_text(
        f"[defaults]\nforks={given['parallel']}\nhost_key_checking=False\n[ssh_connection]\npipelining=True\n"
        f"control_path_dir={folder}/cp\n"
    )
    made = []
    for module in ("raw", "shell"):
        tasks = "".join(f"    - {module}: {json.dumps(it)}\n" for it in COMMANDS)
        (folder / f"{module}.yml").write_text(f"- hosts: all\n  gather_facts: false\n  tasks:\n{tasks}")
        argv = (f"{peers}/bin/ansible-playbook", "-i", "inventory.ini", f"{module}.yml")
        made.append(Contender(f"ansible {module}", argv, {"ANSIBLE_CONFIG": str(folder / "ansible.cfg")}))
    return made


def table(made: Sequence[Contender], count: int, milliseconds: float) -> str:
    """The figures as a table of Markdown; each ratio is that of medians, to the floor's."""
    far = f", {milliseconds:g} ms a round trip" if milliseconds else ""
    lines = [
        f"\n{count} hosts{far}, {len(made[0].walls)} rounds",
        "",
        "| | seconds, median (least to most) | to the floor | client CPU, s | to the floor | host CPU, ms | MiB |",
        "|---|---|---|---|---|---|---|",
    ]
    wall, cpu = statistics.median(made[0].walls), statistics.median(made[0].cpus)
    for it in made:
        if it.failed or not it.walls:
            lines.append(f"| {it.name} | failed: {it.failed} | | | | | |")
            continue
        own, used = statistics.median(it.walls), statistics.median(it.cpus)
        spread = f"{own:.2f} ({min(it.walls):.2f} to {max(it.walls):.2f})"
        client = f"{used:.2f} | {used / cpu:.2f}"
        host = statistics.median(it.hosts) / count * 1000
        lines.append(f"| {it.name} | {spread} | {own / wall:.2f} | {client} | {host:.0f} | {it.memory / 1024:.0f} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, and print a table for each number of hosts."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.fleet", description=__doc__.partition("\n")[0])
    parser.add_argument("--hosts", type=int, nargs="+", default=[20, 200])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--parallel", type=int, default=50)
    parser.add_argument("--rtt", type=float, default=0.0, help="milliseconds that a round trip takes")
    parser.add_argument("--peers", default=os.environ.get("PEERS", ""), help="a virtual environment with the others")
    parser.add_argument("--one-table", action="store_true", help="one process table for all hosts")
    parser.add_argument("--only", nargs="+", help="the beginnings of the names of those that take part")
    given = parser.parse_args()
    with hosts_up(max(given.hosts), one_table=given.one_table) as (server, folder), far_away(server, given.rtt) as port:
        for count in given.hosts:
            made = contenders(folder / str(count), server, port, count, given.parallel, given.peers)
            made = [it for it in made if not given.only or it.name.startswith(("floor", *given.only))]
            for _ in range(given.rounds):
                for it in made:
                    it.run(folder / str(count))
            print(table(made, count, given.rtt), flush=True)
    if not given.peers:
        print("\nleft out: asyncssh, parallel-ssh, clush, pyinfra, ansible (PEERS=VIRTUAL_ENVIRONMENT has none)")


if __name__ == "__main__":
    main()
