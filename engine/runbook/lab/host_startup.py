"""Start one host of a lab."""

from __future__ import annotations

import importlib.util
import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType

from runbook.dataclass import dataclass
from runbook.lab import amd, docker_engine, isolation, location, node, owned, system
from runbook.lab.cluster_leader import PORT
from runbook.lab.cluster_leader import node as cluster_node
from runbook.lab.lab_host import LabHost, start_of
from runbook.lab.pipeline import files_for
from runbook.lab.root_filesystem import LO, ROOT, mounts_here, needed_paths, plan
from runbook.shell import program

DMESG = r"""#!/bin/sh
# A pretended ring buffer: the machine's own messages are nothing of the lab host's.
cat /run/lab/kernel
"""

JOURNALCTL = program(__package__, "training_job_journalctl")

SLOW_DD = program(__package__, "training_job_slow_dd")

RESTARTING = program(__package__, "training_job_restarting")

TRAINING = program(__package__, "training_job")

OF_TRAINING: Mapping[str, str] = MappingProxyType(
    {
        "dmesg": DMESG,
        "journalctl": JOURNALCTL,
        "slow-dd": SLOW_DD,
        "restarting": RESTARTING,
        "training": TRAINING,
    }
)
"""File to text: what a lab host is given of it."""


INIT = program(__package__, "host_init")

JOB = program(__package__, "gpu_job")

SSHD = """HostKey /run/lab/host_key
AuthorizedKeysFile /run/lab/authorized_keys
PidFile none
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
StrictModes no
UsePAM no
SetEnv PATH=/run/lab/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TMUX_TMPDIR=/run/lab
"""

SMI = program(__package__, "nvidia_smi")

OF_GPUS: Mapping[str, str] = MappingProxyType(
    {
        "nvidia-smi": SMI,
        "nvidia-bug-report.sh": program(__package__, "nvidia_bug_report"),
        "gpu-faults": program(__package__, "gpu_faults"),
        "xids": program(__package__, "xid_faults"),
        "gpu-devices": program(__package__, "gpu_devices"),
        "gpu-tools": program(__package__, "gpu_tools"),
        "fabric": program(__package__, "fabric"),
        "mig-tool": program(__package__, "mig_tool"),
        "fabric-tools": program(__package__, "fabric_tools"),
        "infiniband": program(__package__, "infiniband"),
        "nccl-job": program(__package__, "nccl_job"),
    }
)
"""File to text: what a lab host is given for its GPUs."""


ANY = "0.0.0.0"  # noqa: S104 - in the network of a host, which has a loopback and nothing else
WAITING = 128
"""Connections that may wait at a listener."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The values that all hosts of a lab in *folder* share; *wanted* and *addresses* have one row for each."""

    folder: Path
    can: isolation.Isolation
    wanted: Sequence[tuple[str, tuple[str, ...]]]
    addresses: Sequence[str]
    port: int
    embedded: bool

    def prepare(self) -> None:
        """Make what is there before any host is.  Raises OSError."""
        _make_key(self.folder / "key")
        there = mounts_here()
        common = self.folder / "common"
        common.mkdir()
        files = {
            "init": INIT,
            "root": ROOT,
            "lo": LO,
            "job": JOB,
            "door": (Path(__file__).parent / "gateway.py").read_text(),
            "sshd_config": SSHD,
            "plan": plan(self.can.files, needed_paths(_needed()), there),
            "flags": f"{there.flags.get(there.above(str(self.folder))) or '-'}\n",
            **OF_GPUS,
            **OF_TRAINING,
        }
        for name, text in files.items():
            (common / name).write_text(text)
            (common / name).chmod(0o755)
        shutil.copy(self.folder / "key.pub", common / "authorized_keys")
        peers = json.dumps({name: cluster_node(name, faults) for name, faults in self.wanted})
        for name in (name for name, faults in self.wanted if "leader" in faults):
            state = self.folder / "hosts" / name / "state"
            state.mkdir(parents=True)
            (state / "peers.json").write_text(peers)
            (state / "requests").touch()

    def host(self, number: int) -> LabHost:
        """Start that one.  Raises OSError."""
        name, faults = self.wanted[number]
        plain = LabHost(name=name, address=self.addresses[number], port=self.port, faults=faults)
        if "down" in faults:
            return plain
        home = self.folder / "hosts" / name
        files = home / "files"
        files.mkdir(parents=True)
        if "mute" in faults:
            mute = (sys.executable, "-m", "runbook.lab.silent_server", plain.address, str(plain.port), str(home))
            return _running(plain, mute, home, {"PYTHONPATH": os.pathsep.join(_ways())})
        _make_key(files / "host_key")
        for file, text in {
            **docker_engine.engine_files(self.folder, name, faults),
            **files_for(faults),
            **amd.files_for(faults),
            **node.files_for(faults),
            **owned.files_for(faults),
            **system.FILES,
        }.items():
            (files / file).write_text(text)
            (files / file).chmod(0o755)
        (files / "routes").write_text(self._routes(number))
        with ExitStack() as kept:
            listener = None
            if not node.is_node(faults):
                listener = kept.enter_context(socket.create_server((plain.address, self.port), backlog=WAITING))
            doors = self._doors(plain, kept)
            environment = {
                "PATH": isolation.search_path(),
                "PYTHONPATH": os.pathsep.join(_ways()),
                "PYTHONDONTWRITEBYTECODE": "1",
                "HOME": pwd.getpwuid(0).pw_dir,
                **{name: str(door.fileno()) for name, door in doors.items() if name == "LAB_WAY"},
            }
            leads = " ".join(str(door.fileno()) for name, door in doors.items() if name != "LAB_WAY")
            argv = (*self.can.argv, *self._argv(plain, home, number, leads))
            if not listener:
                power = (sys.executable, "-m", "runbook.lab.node.power", plain.address, str(plain.port), str(home))
                argv = (*power, *argv)
            return _running(plain, argv, home, environment, listener, [door.fileno() for door in doors.values()])

    def _argv(self, host: LabHost, home: Path, number: int, leads: str) -> tuple[str, ...]:
        """The first process in the host's namespaces."""
        network = "own" if self.can.network else "shared"
        script = ("/bin/sh", str(self.folder / "common" / "root"), str(home), self.can.files, network)
        inside = (host.name, " ".join(host.faults), str(number % 2), host.address, sys.executable, leads)
        module = (sys.executable, "-m", "runbook.lab.ssh_server", "/run/lab/host_key", "/run/lab/authorized_keys")
        door = (sys.executable, "-IS", "/run/lab/door", "/usr/sbin/sshd", "/run/lab/sshd_config")
        return *script, *inside, *(("embedded", *module) if self.embedded else door)

    def _routes(self, number: int) -> str:
        """The addresses that host *number* may connect to: the SSH port of each host, and the port of a leader."""
        if not self.can.network:
            return ""
        leaders = [
            self.addresses[at]
            for at, (_, faults) in enumerate(self.wanted)
            if "leader" in faults and at != number and not {"down", "mute"} & set(faults)
        ]
        return "".join(
            f"{address} {port}\n" for address, port in ((ANY, self.port), *((leader, PORT) for leader in leaders))
        )

    def _doors(self, host: LabHost, kept: ExitStack) -> Mapping[str, socket.socket]:
        """The sockets by which *host* is reached from other networks than its own."""
        if not self.can.network:
            return {}
        made = {"LAB_WAY": kept.enter_context(location.way(self.folder, host.address, host.port))}
        if "leader" in host.faults:
            made["way"] = kept.enter_context(location.way(self.folder, host.address, PORT))
            made["outside"] = kept.enter_context(socket.create_server((host.address, PORT), backlog=WAITING))
        return made


def _needed() -> list[str]:
    """Return the parts of this machine that a host must see: its Python, this program, and the parts of its SSH
    server."""
    ours = [str(Path(__file__).parents[1]), sys.executable, sys.prefix, sys.base_prefix]
    return [*ours, *_ways()[1:]]


def _ways() -> list[str]:
    """Where the modules lie that a host runs."""
    found = [str(Path(__file__).parents[2])]
    for name in ("paramiko", "cryptography", "bcrypt", "nacl", "_cffi_backend", "cffi"):
        spec = importlib.util.find_spec(name)
        if spec and spec.origin:
            found.append(str(Path(spec.origin).parents[0 if name == "_cffi_backend" else 1]))
    return list(dict.fromkeys(found))


def _running(
    host: LabHost,
    argv: Sequence[str],
    home: Path,
    environment: Mapping[str, str],
    stdin: socket.socket | None = None,
    descriptors: Sequence[int] = (),
) -> LabHost:
    with (home / "log").open("ab") as log:
        process = subprocess.Popen(
            argv,
            stdin=stdin.fileno() if stdin else subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            pass_fds=descriptors,
            env=dict(environment),
            cwd="/",
        )
    process.returncode = 0  # it outlives us; `down` ends it by pid and start time
    return LabHost(**{**asdict(host), "pid": process.pid, "start": start_of(process.pid)})


def _make_key(path: Path) -> None:
    from runbook.lab.ssh_server import make_key

    make_key(str(path))
