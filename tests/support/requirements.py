"""The real parts of a machine that tests ask for (``@pytest.mark.real``), and what is said of those that are missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

POSTGRES = Path("/usr/lib/postgresql/15/bin")


@dataclass(frozen=True)
class Part:
    """Something that a machine has or has not."""

    there: Callable[[], bool]
    advice: str
    """What a person can do where it is missing."""
    basic: bool = False
    """`make test` may use it: it belongs to every machine that `make test` is meant for, or costs nothing to ask for."""


def _finds(*programs: str) -> bool:
    """Whether all *programs* are on PATH, or where daemons lie, which an ordinary user's PATH may lack."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    return all(shutil.which(program, path=path) for program in programs)


def _unshares(*options: str) -> bool:
    """Whether `unshare` works with *options*."""
    if not _finds("unshare"):
        return False
    done = subprocess.run(["unshare", *options, "--fork", "true"], capture_output=True, check=False)
    return done.returncode == 0


def _is_root() -> bool:
    return os.geteuid() == 0


def _has_root_namespaces() -> bool:
    return _is_root() and _unshares("--mount", "--pid")


def _has_namespaces() -> bool:
    """Whether a lab with its own SSH server runs here, as root or as an ordinary user."""
    own = ("--mount", "--pid", "--uts")
    return _finds("hostname", "mount", "setsid") and _unshares(
        *(own if _is_root() else ("--user", "--map-root-user", *own))
    )


def _has_control_groups() -> bool:
    """Whether root may make control groups here (cgroup v2)."""
    trees = [Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified")]
    tree = next((it for it in trees if (it / "cgroup.controllers").exists()), None)
    return _is_root() and tree is not None and os.access(tree, os.W_OK) and not os.statvfs(tree).f_flag & os.ST_RDONLY


def _has_docker() -> bool:
    return _has_root_namespaces() and _finds("docker", "dockerd")


def _has_fuse() -> bool:
    if not _has_root_namespaces():
        return False
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError:
        return False
    return True


def _has_postgres() -> bool:
    return _is_root() and (POSTGRES / "postgres").exists() and _finds("psql", "ssh-keygen", "setpriv")


def _has_systemd() -> bool:
    return _has_root_namespaces() and _finds("systemctl") and Path("/lib/systemd/systemd").exists()


def _program(package: str, *programs: str, basic: bool = False) -> Part:
    return Part(partial(_finds, *programs), f"install {package}", basic)


PARTS: Mapping[str, Part] = {
    "root": Part(_is_root, "run it as root"),
    "lab": Part(_has_root_namespaces, "run it as root where mount and pid namespaces are allowed"),
    "cgroup": Part(_has_control_groups, "run it as root where cgroup v2 is mounted and can be written to"),
    "docker": Part(_has_docker, "install docker.io and busybox-static, and run it as root"),
    "fuse": Part(_has_fuse, "run it as root where /dev/fuse can be opened"),
    "systemd": Part(_has_systemd, "install systemd, and run it as root"),
    "sshd": _program("openssh-server", "sshd", "ssh-keygen"),
    "ssh": _program("openssh-client", "ssh", "ssh-keygen"),
    "fuser": _program("psmisc", "fuser"),
    "lsof": _program("lsof", "lsof"),
    "ps": _program("procps", "ps"),
    "sudo": _program("sudo", "sudo"),
    "busybox": _program("busybox-static", "busybox"),
    "strace": _program("strace", "strace"),
    "tmux": _program("tmux", "tmux"),
    "fish": _program("fish", "fish"),
    "tcsh": _program("tcsh", "tcsh"),
    "setpriv": _program("util-linux", "setpriv"),
    "ip": _program("iproute2", "ip"),
    "curl": _program("curl", "curl"),
    "wget": _program("wget", "wget"),
    "sqlite3": _program("sqlite3", "sqlite3"),
    "patch": _program("patch", "patch"),
    "debootstrap": _program("debootstrap", "debootstrap"),
    "postgres": Part(_has_postgres, "install postgresql-15 and openssh-client, and run it as root"),
    "chromium": _program("chromium", "chromium"),
    "alertmanager": _program("prometheus-alertmanager", "prometheus-alertmanager"),
    "node_exporter": _program("prometheus-node-exporter", "prometheus-node-exporter"),
    "shellcheck": _program("shellcheck", "shellcheck"),
    "apt": Part(partial(_finds, "apt-get"), "a Debian has it"),
    "namespaces": Part(
        _has_namespaces, "run it where this user may make namespaces (user.max_user_namespaces)", basic=True
    ),
    "git": _program("git", "git", basic=True),
    "bash": _program("bash", "bash"),
    "dash": _program("dash", "dash", basic=True),
}
SLOW = "slow"
LEFT_TO_SOAK: Mapping[str | None, frozenset[str]] = {
    "basic": frozenset({"soak", "faults"}),
    "real": frozenset({"soak", "faults"}),
    "all": frozenset({"faults"}),
    None: frozenset(),
}
"""Markers of the tests that a suite leaves to `make soak`; without a suite every test is run that is asked for."""
OWN_KINDS = ("docker", "systemd")
"""Parts that are kinds of tests of their own; other parts that `make test` may not use make a test one of kind `host`."""


@cache
def present(part: str) -> bool:
    """Whether this machine has that real part."""
    return PARTS[part].there()


def basic(part: str) -> bool:
    """Whether a test that needs it belongs to `make test`."""
    return PARTS[part].basic


def kinds(parts: Iterable[str]) -> set[str]:
    """The markers (unit, host, docker, systemd) of a test that needs these *parts*: at least one, `unit` never beside another."""
    others = {part if part in OWN_KINDS else "host" for part in parts if not basic(part)}
    return others or {"unit"}


def _tests(number: int) -> str:
    return f"{number} test" if number == 1 else f"{number} tests"


@dataclass
class LeftOut:
    """How many tests were not run, and for want of what; a test that needs two parts counts for both."""

    later: Counter[str] = field(default_factory=Counter)
    """Left to `make test-real`, by the part that they need."""
    later_tests: int = 0
    soak: int = 0
    """Left to `make soak`."""
    lacking: Counter[str] = field(default_factory=Counter)
    """By the part that is missing here."""
    lacking_tests: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    """Tests that left themselves out on their way, by the reason that they gave."""

    def leave(self, markers: Iterable[str]) -> None:
        """One test more for `make test-real`."""
        self.later.update(markers)
        self.later_tests += 1

    def lack(self, parts: Iterable[str]) -> None:
        """One test more that this machine cannot run."""
        self.lacking.update(parts)
        self.lacking_tests += 1

    def packed(self) -> dict[str, object]:
        """It in plain types, as a worker of xdist can send it."""
        return {name: dict(value) if isinstance(value, Counter) else value for name, value in vars(self).items()}

    @staticmethod
    def unpacked(packed: Mapping[str, object]) -> LeftOut:
        """It from its `packed` form."""
        return LeftOut(**{name: Counter(value) if isinstance(value, dict) else value for name, value in packed.items()})

    def lines(self) -> list[str]:
        """What is said of it at the end: one line for each part that is missing here."""
        said = [
            f"left out: {part} ({_tests(number)}): {PARTS[part].advice}" for part, number in self.lacking.most_common()
        ]
        if len(self.lacking) > 1:
            said.append(f"left out: {_tests(self.lacking_tests)} in all (some need several of these)")
        said += [f"left out: {_tests(number)}: {reason}" for reason, number in self.skipped.most_common()]
        said += [f"left to make test-real: {part} ({_tests(number)})" for part, number in self.later.most_common()]
        if len(self.later) > 1:
            said.append(f"left to make test-real: {_tests(self.later_tests)} in all (some need several of these)")
        if self.soak:
            said.append(f"left to make soak: {_tests(self.soak)}")
        return said


def reason_of(report: object) -> str:
    """Why a test left itself out, from pytest's report of it."""
    longrepr = getattr(report, "longrepr", None)
    reason = longrepr[2] if isinstance(longrepr, tuple) else str(longrepr)
    return reason.removeprefix("Skipped: ").removeprefix("left out: ")
