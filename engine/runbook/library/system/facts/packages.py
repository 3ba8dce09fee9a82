"""Packages of a host's own package manager: which are installed, the command that installs more, and why it failed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.shell import script
from runbook.values.command import Command, Completed, Effect, read_script

MANAGERS = {"apt": "apt-get", "dnf": "dnf", "yum": "yum", "apk": "apk"}
"""The program of each package manager, by our name for it."""

PACKAGE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9+._-]*(:[a-z0-9-]+)?(?<!-)")
"""No option, no glob, no version, and no ``-`` at the end, which tells apt-get to remove the package."""

LOCK_WAIT = 60
"""Seconds that apt-get waits for another one to be done."""

_PATH = "PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin; LC_ALL=C; export PATH LC_ALL\n"
_WORDS = 3
_LONGEST = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageManager:
    """The program that a host has to install packages with."""

    manager: str
    """One of ``MANAGERS``; empty: the host has none of them."""
    root: bool
    lacking: tuple[str, ...]
    """Programs that were asked for, and are not on PATH."""


def ask_package_manager(programs: Iterable[str]) -> Command:
    """Ask for the package manager, for the present user, and for the missing programs among *programs*."""
    return read_script(_GROUND, *programs)


_GROUND = _PATH + script(__package__, "packages_probe")


def read_package_manager(done: Completed) -> PackageManager:
    """The answer to ``ask_package_manager``.  Raises ProbeError."""
    reported = [line.partition(" ")[::2] for line in _lines(done, "the package manager of this host")]
    user = "".join(it for word, it in reported if word == "user")
    if not user:
        raise ProbeError("it is not known whether this user is root: `id` printed nothing")
    return PackageManager(
        manager="".join(it for word, it in reported if word == "manager"),
        root=user == "0",
        lacking=tuple(it for word, it in reported if word == "lacks"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Packages:
    """The state of some packages."""

    installed: Mapping[str, str]
    """Their versions, by name."""
    missing: tuple[str, ...]
    unlisted: tuple[str, ...]
    """The missing ones that the manager's lists do not offer at present (apt only)."""


def ask_packages(manager: str, names: Iterable[str]) -> Command:
    """Ask for those of *names* that are installed."""
    return read_script(_PATH + _PACKAGES[manager], *names)


_APT = script(__package__, "packages_apt")
"""The second letter of dpkg's status is ``i`` where the package is installed and configured."""

_RPM = script(__package__, "packages_rpm")

_APK = script(__package__, "packages_apk")

_PACKAGES = {"apt": _APT, "dnf": _RPM, "yum": _RPM, "apk": _APK}


def read_packages(done: Completed) -> Packages:
    """The answer to ``ask_packages``.  Raises ProbeError."""
    installed: dict[str, str] = {}
    missing: list[str] = []
    unlisted: list[str] = []
    for line in _lines(done, "which packages are installed"):
        word, name, version = (*line.split(" ", 2), "", "")[:3]
        if word == "installed":
            installed[name] = version.strip()
        else:
            missing.append(name)
            unlisted += [name] if word == "unlisted" else []
    return Packages(installed=installed, missing=tuple(missing), unlisted=tuple(unlisted))


def _lines(done: Completed, what: str) -> list[str]:
    if done.timed_out:
        raise ProbeError(f"{what} could not be determined: the host did not answer in time")
    if done.exit_code != 0:
        raise ProbeError(f"{what} could not be determined: {shortened(done) or f'exit code {done.exit_code}'}")
    return [line for line in done.stdout.split("\n") if line]


_QUIET = (("DEBIAN_FRONTEND", "noninteractive"), ("NEEDRESTART_MODE", "l"), ("LC_ALL", "C"))
"""apt-get asks nothing, and restarts no services when it is done."""

_INSTALL: dict[str, tuple[str, ...]] = {
    "apt": (
        "apt-get", "-q", "-y", "--no-install-recommends", "--no-remove",
        "-o", f"DPkg::Lock::Timeout={LOCK_WAIT}",
        "-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold",
        "install", "--",
    ),
    "dnf": ("dnf", "-q", "-y", "--setopt=install_weak_deps=False", "install", "--"),
    "yum": ("yum", "-q", "-y", "install", "--"),
    "apk": ("apk", "add", "-q", "--no-cache", "--"),
}  # fmt: skip

_REFRESH_FIRST = script(__package__, "packages_refresh_first")
"""apt-get leaves with 0 where it could not reach a server, and only says so."""


def install(manager: str, names: tuple[str, ...], *, refresh: bool) -> Command:
    """Install the packages *names* with required dependencies only; *refresh*: fetch apt's lists first.

    If the lists cannot be fetched, this is reported, and the installation is tried nevertheless.
    """
    argv, env = (*_INSTALL[manager], *names), _QUIET if manager == "apt" else (("LC_ALL", "C"),)
    script = _REFRESH_FIRST if refresh and manager == "apt" else ""
    line = ("sh", "-c", 'apt-get -q update; exec "$@"', "sh", *argv) if script else ()
    return Command(argv=argv, script=script, env=env, effect=Effect.WRITE, stands_for=line)


_SAYS = re.compile(
    r"^(?:E: |W: Failed|ERROR|Err:|No match|No package|dpkg[\w-]*: error|Waiting for cache lock|the package lists were)"
    r"|unsatis",
    re.I,
)
_RETRIES = re.compile(r"^W: (?:Some index files failed|Target .* is configured)", re.I)


def shortened(done: Completed) -> str:
    """The lines of what a package manager said that tell why, as far as a person wants to read."""
    lines = [" ".join(line.split()) for line in f"{done.stderr}\n{done.stdout}".split("\n") if line.strip()]
    telling = [line for line in lines if _SAYS.search(line) and not _RETRIES.search(line)] or lines[-1:]
    words = "; ".join(list(dict.fromkeys(telling))[:_WORDS])
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"
