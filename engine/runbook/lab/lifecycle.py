"""Start, show and end the hosts of a lab."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from runbook.dataclass import dataclass
from runbook.errors import ConfigError
from runbook.lab import docker_engine, isolation, location
from runbook.lab.faults import hosts_of
from runbook.lab.host_startup import Start
from runbook.lab.lab_host import LabHost, inventory_text, start_of

SSHD_PROGRAM = "/usr/sbin/sshd"
STARTS_WITHIN = 20.0
ENDS_WITHIN = 30.0
AT_ONCE = 2 * (os.cpu_count() or 1) + 4
"""Hosts that are started side by side."""
INVENTORY = "distributed_hosts.yaml"
SHARED = "/run/lab/shared"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabOptions:
    """The kind of lab; *faults* are texts such as ``gpu-01=leftovers+busy``; empty: one host of every kind."""

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

    @property
    def shared(self) -> Path:
        """The one directory that this machine and all hosts share; there it is SHARED."""
        return self.directory / "shared"


def up(options: LabOptions) -> Lab:
    """Start a lab; a running lab in the same directory is ended first.  Raises ConfigError if it cannot be started."""
    wanted = hosts_of(options.faults)
    location.require(len(wanted))
    folder = location.trusted(options.directory)
    docker_engine.require_engine(wanted)
    can = isolation.found()
    docker_engine.require_overlay(wanted, can.no_overlay)
    down(options.directory)
    location.make(folder)
    hosts: list[LabHost] = []
    try:
        isolation.remember(folder, can)
        addresses, port = location.addresses(folder, len(wanted))
        embedded = options.embedded or os.geteuid() != 0 or not Path(SSHD_PROGRAM).exists()
        start = Start(folder=folder, can=can, wanted=wanted, addresses=addresses, port=port, embedded=embedded)
        start.prepare()
        for number in range(len(wanted)):
            hosts.append(start.host(number))
            _remember(folder, hosts[-1:])
            if number >= AT_ONCE:
                _wait_until_up(folder, hosts[number - AT_ONCE])
        for host in hosts[-AT_ONCE:]:
            _wait_until_up(folder, host)
        inventory = folder / INVENTORY
        inventory.write_text(inventory_text(hosts, folder / "key"))
    except OSError as error:
        down(options.directory)
        raise ConfigError(f"cannot create a lab in {folder}: {error.strerror or error}") from error
    except BaseException:
        down(options.directory)
        raise
    return Lab(directory=folder, inventory=inventory, hosts=tuple(hosts))


def down(directory: Path) -> tuple[str, ...]:
    """End the lab in *directory*, if there is one, and return the names of its hosts.

    Processes of a lab whose start was cut short are ended, too.  Raises ConfigError if a part of it is not ours.
    """
    folder = location.trusted(directory)
    if not (folder / location.OF_US).exists():
        return ()
    hosts = status(folder)
    cut_short = not (folder / INVENTORY).exists()
    strays = location.leftover_processes(folder, [host.pid for host in hosts]) if cut_short else []
    lost = [LabHost(name="", address="", port=0, faults=(), pid=stray, start=start_of(stray)) for stray in strays]
    ended = [host for host in (*hosts, *lost) if host.lives]
    for lab_host in ended:
        with suppress(ProcessLookupError):
            os.kill(lab_host.pid, signal.SIGKILL)  # its namespace, and all that lives in it, ends with it
    deadline = time.monotonic() + ENDS_WITHIN
    while any(each.lives for each in ended) and time.monotonic() < deadline:
        _reap(ended)
        time.sleep(0.02)
    _reap([*hosts, *lost])
    docker_engine.remove_groups(folder)
    for _ in range(50):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return tuple(host.name for host in hosts)
        time.sleep(0.1)
    raise ConfigError(f"{folder} cannot be removed, or processes of the lab do not end")


def status(directory: Path) -> tuple[LabHost, ...]:
    """Return the hosts of the lab in *directory*; none if there is no lab.

    Raises ConfigError if a part of it is not ours.
    """
    folder = location.trusted(directory)
    try:
        lines = (folder / location.OF_US).read_text().splitlines()[1:]
    except FileNotFoundError:
        return ()
    return tuple(host for host in map(_read, lines) if host)


def _read(line: str) -> LabHost | None:
    """Return the host of a line; None: its writer was ended in the middle of it."""
    try:
        known = json.loads(line)
        return LabHost(**{**known, "faults": tuple(known["faults"])})
    except (ValueError, TypeError, KeyError):
        return None


def sharing(directory: Path) -> tuple[str, ...]:
    """Return sentences about the parts that hosts of the lab in *directory* have of their own, and those shared with
    this machine."""
    known = isolation.remembered(location.trusted(directory))
    return known.lines() if known else ()


def shell_argv(directory: Path, host: str) -> tuple[str, ...]:
    """Return the command for an SSH session on *host*.  Raises ConfigError when there is no such host."""
    known = {lab_host.name: lab_host for lab_host in status(directory)}
    if host not in known:
        raise ConfigError(f"the lab has no host {host!r}; it has: {', '.join(known) or 'none (runbook lab up)'}")
    it = known[host]
    trust = ("-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR")
    return ("ssh", "-p", str(it.port), "-i", str(directory.resolve() / "key"), *trust, f"root@{it.address}")


def _wait_until_up(folder: Path, host: LabHost) -> None:
    """Wait until SSH gets in.  Raises ConfigError with the last words of a host that does not come up."""
    if not host.pid or "mute" in host.faults:
        return
    home = folder / "hosts" / host.name
    deadline = time.monotonic() + (
        docker_engine.STARTS_WITHIN if docker_engine.has_engine(host.faults) else STARTS_WITHIN
    )
    while time.monotonic() < deadline and host.lives:
        if (home / "state" / "up").exists():
            return
        time.sleep(0.02)
    log = (home / "log").read_text(errors="replace").strip().splitlines()
    raise ConfigError(f"the lab host {host.name} did not start: {log[-1] if log else 'it said nothing'}")


def _remember(folder: Path, hosts: Sequence[LabHost]) -> None:
    with (folder / location.OF_US).open("a") as file:
        file.write("".join(f"\n{json.dumps(asdict(host))}" for host in hosts))


def _reap(hosts: Sequence[LabHost]) -> None:
    """Take the exit codes of those that were our own children."""
    for host in hosts:
        if host.pid:
            try:
                os.waitpid(host.pid, os.WNOHANG)
            except ChildProcessError:
                continue
