"""Start, show and end the hosts of a lab."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from engine.errors import ConfigError
from engine.lab import docker
from engine.lab.faults import hosts_of
from engine.lab.host import LabHost, inventory_text, start_of
from engine.lab.leader import node
from engine.lab.pipeline import files_for
from engine.lab.scripts import INIT, JOB, SMI, SSHD
from engine.lab.training import OF_TRAINING

SSHD_PROGRAM = "/usr/sbin/sshd"
NEEDED = ("unshare", "mount", "setsid", "hostname")
STARTS_WITHIN = 20.0
INVENTORY = "distributed_hosts.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabOptions:
    """What kind of lab; *faults* such as ``gpu-01=leftovers+busy``, none for one host of every kind."""

    directory: Path
    faults: tuple[str, ...] = ()
    embedded: bool = False
    """Use the SSH server that is built in, also where the machine has sshd."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """A lab that is up."""

    directory: Path
    inventory: Path
    hosts: tuple[LabHost, ...]

    def state(self, name: str) -> Path:
        """The folder in which host *name* keeps its state, as its nvidia-smi sees it."""
        return self.directory / "hosts" / name / "state"


def default_directory() -> Path:
    """Where a lab keeps its files when nobody says."""
    return Path(os.environ.get("XDG_RUNTIME_DIR") or "/tmp") / f"runbook-lab-{os.geteuid()}"  # noqa: S108 - the user's own, mode 0700


def up(options: LabOptions) -> Lab:
    """Start a lab; one that is up in the same directory is ended first.  Raises ConfigError when it cannot be."""
    wanted = hosts_of(options.faults)
    docker.require_engine(wanted)
    spaces = _spaces()
    down(options.directory)
    folder = options.directory.resolve()
    embedded = options.embedded or os.geteuid() != 0 or not Path(SSHD_PROGRAM).exists()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise ConfigError(f"{folder} is not empty, and not a lab of ours; give another one with --dir")
        _make_key(folder / "key")
    except OSError as error:
        raise ConfigError(f"no lab can be made in {folder}: {error.strerror or error}; give another --dir") from error
    net, port = _place(folder)
    hosts: list[LabHost] = []
    _tell_leaders(folder, wanted)
    try:
        for number, (name, faults) in enumerate(wanted):
            hosts.append(_start(folder, name, f"{net}.{number + 1}", port, faults, number, embedded, spaces))
            _remember(folder, hosts)
        for it in hosts:
            _wait_until_up(folder, it)
    except BaseException:
        down(options.directory)
        raise
    inventory = folder / INVENTORY
    inventory.write_text(inventory_text(hosts, folder / "key"))
    return Lab(directory=folder, inventory=inventory, hosts=tuple(hosts))


def down(directory: Path) -> tuple[str, ...]:
    """End the lab in *directory*; the names of the hosts that were ended.  Safe to call when there is none."""
    hosts = status(directory)
    if not hosts and not (directory / "lab.json").exists():
        return ()
    for it in hosts:
        if it.lives:
            os.kill(it.pid, signal.SIGKILL)  # its namespace, and all that lives in it, ends with it
    deadline = time.monotonic() + 10
    while any(it.lives for it in hosts) and time.monotonic() < deadline:
        _reap(hosts)
        time.sleep(0.02)
    _reap(hosts)
    docker.remove_groups(directory)
    for _ in range(50):
        shutil.rmtree(directory, ignore_errors=True)
        if not directory.exists():
            break
        time.sleep(0.1)
    return tuple(it.name for it in hosts)


def status(directory: Path) -> tuple[LabHost, ...]:
    """The hosts of the lab in *directory*; none when there is no lab."""
    try:
        known = json.loads((directory / "lab.json").read_text())
    except FileNotFoundError:
        return ()
    return tuple(LabHost(**{**it, "faults": tuple(it["faults"])}) for it in known)


def shell_argv(directory: Path, host: str) -> tuple[str, ...]:
    """What to execute for an SSH session on *host*.  Raises ConfigError when there is no such host."""
    known = {it.name: it for it in status(directory)}
    if host not in known:
        raise ConfigError(f"the lab has no host {host!r}; it has: {', '.join(known) or 'none (runbook lab up)'}")
    it = known[host]
    trust = ("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR")
    return ("ssh", "-p", str(it.port), "-i", str(directory.resolve() / "key"), *trust, f"root@{it.address}")


def _spaces() -> tuple[str, ...]:
    """What a host's first process is started with.  Raises ConfigError where this machine allows no lab.

    Without root the host has a user namespace too, in which this user is root; only the embedded server runs there.
    """
    missing = [it for it in NEEDED if not shutil.which(it)]
    if missing:
        raise ConfigError(f"the lab needs {', '.join(missing)} (Debian: apt-get install util-linux hostname)")
    own = ("--mount", "--pid", "--uts", "--fork")
    spaces = ("unshare", *own) if os.geteuid() == 0 else ("unshare", "--user", "--map-root-user", *own)
    tried = subprocess.run((*spaces, "true"), capture_output=True, check=False)
    if tried.returncode == 0:
        return (*spaces, "--kill-child=KILL")
    said = tried.stderr.decode(errors="replace").strip()
    if os.geteuid() != 0:
        raise ConfigError(f"this machine allows ordinary users no namespaces ({said}): run the lab with sudo")
    raise ConfigError(f"this machine allows no namespaces ({said}); in a container: run it with CAP_SYS_ADMIN")


def _place(folder: Path) -> tuple[str, int]:
    """A loopback net and a port of this directory's own, free on every address."""
    seed = int.from_bytes(hashlib.sha256(str(folder).encode()).digest()[:6], "big")
    net = f"127.{64 + seed % 128}.{seed // 128 % 250}"
    for offset in range(200):
        port = 2200 + (seed // 40000 + offset * 7) % 20000
        with socket.socket() as probe:
            try:
                probe.bind((f"{net}.1", port))
            except OSError:
                continue
            return net, port
    raise ConfigError(f"no port is free on {net}.1")


def _start(
    folder: Path,
    name: str,
    address: str,
    port: int,
    faults: tuple[str, ...],
    number: int,
    embedded: bool,
    spaces: tuple[str, ...],
) -> LabHost:
    plain = LabHost(name=name, address=address, port=port, faults=faults)
    if "down" in faults:
        return plain
    home = folder / "hosts" / name
    files = home / "files"
    files.mkdir(parents=True)
    if "mute" in faults:
        return _running(plain, (sys.executable, "-m", "engine.lab.mute", address, str(port)), home)
    _make_key(files / "host_key")
    for file, text in {
        "init": INIT,
        "job": JOB,
        "nvidia-smi": SMI,
        **OF_TRAINING,
        **docker.engine_files(folder, name, faults),
        **files_for(faults),
        "sshd_config": SSHD.format(address=address, port=port),
    }.items():
        (files / file).write_text(text)
        (files / file).chmod(0o755)
    (files / "host_key").chmod(0o600)
    shutil.copy(folder / "key.pub", files / "authorized_keys")
    inside = (
        "/bin/sh",
        str(files / "init"),
        str(home),
        name,
        " ".join(faults),
        str(number % 2),
        address,
        sys.executable,
    )
    module = (sys.executable, "-m", "engine.lab.server", address, str(port))
    server = (*module, "/run/lab/host_key", "/run/lab/authorized_keys")
    return _running(plain, (*spaces, *inside, *(server if embedded else ())), home)


def _tell_leaders(folder: Path, hosts: Sequence[tuple[str, tuple[str, ...]]]) -> None:
    """Leave word of all *hosts* with those of them that lead."""
    for name in [name for name, faults in hosts if "leader" in faults]:
        state = folder / "hosts" / name / "state"
        state.mkdir(parents=True)
        (state / "peers.json").write_text(json.dumps({it: node(it, faults) for it, faults in hosts}))
        (state / "requests").touch()


def _running(host: LabHost, argv: Sequence[str], home: Path) -> LabHost:
    with (home / "log").open("ab") as log:
        ways = (str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", ""))
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(it for it in ways if it)}
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, env=env
        )
    process.returncode = 0  # it outlives us; `down` ends it by pid and start time
    return LabHost(**{**asdict(host), "pid": process.pid, "start": start_of(process.pid)})


def _wait_until_up(folder: Path, host: LabHost) -> None:
    if not host.pid:
        return
    within = docker.STARTS_WITHIN if docker.has_engine(host.faults) else STARTS_WITHIN
    deadline = time.monotonic() + within
    while time.monotonic() < deadline and host.lives:
        try:
            socket.create_connection((host.address, host.port), timeout=1).close()
        except OSError:
            time.sleep(0.03)
        else:
            return
    log = (folder / "hosts" / host.name / "log").read_text(errors="replace").strip().splitlines()
    raise ConfigError(f"the lab host {host.name} did not start: {log[-1] if log else 'it said nothing'}")


def _remember(folder: Path, hosts: Sequence[LabHost]) -> None:
    fresh = folder / "lab.json.new"
    fresh.write_text(json.dumps([asdict(it) for it in hosts], indent=1))
    fresh.rename(folder / "lab.json")


def _reap(hosts: Sequence[LabHost]) -> None:
    """Take the exit codes of those that were our own children."""
    for it in hosts:
        if it.pid:
            try:
                os.waitpid(it.pid, os.WNOHANG)
            except ChildProcessError:
                continue


def _make_key(path: Path) -> None:
    from engine.lab.server import make_key

    make_key(str(path))
