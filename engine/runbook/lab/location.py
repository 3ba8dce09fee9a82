"""The location of a lab: a directory that no other user can write to, its addresses and its port."""

from __future__ import annotations

import hashlib
import os
import socket
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from runbook.errors import ConfigError

MAX_HOSTS = 1000
"""Hosts of one lab."""
PER_NET = 254
OF_US = "lab.json"
"""The file by which a directory is known to be a lab's; it is there before any other."""


def default_directory() -> Path:
    """Where a lab keeps its files when nobody says."""
    return Path(os.environ.get("XDG_RUNTIME_DIR") or "/tmp") / f"runbook-lab-{os.geteuid()}"  # noqa: S108 - checked before use


def trusted(directory: Path) -> Path:
    """Return the resolved *directory*.  Raises ConfigError where another user could have made it, or can change its
    content."""
    try:
        folder = directory.resolve()
    except (OSError, RuntimeError) as error:
        raise ConfigError(f"cannot create a lab in {directory}: {error}") from error
    if directory.is_symlink() and directory.lstat().st_uid not in (0, os.geteuid()):
        raise ConfigError(f"{directory} is a symbolic link of another user; give another --dir")
    for each in (folder, *folder.parents):
        try:
            found = each.stat()
        except OSError:
            continue  # it is not there yet, or we shall hear of it
        writers = found.st_mode & (stat.S_IWOTH | stat.S_IWGRP)
        foreign = found.st_uid not in ((os.geteuid(),) if each == folder else (0, os.geteuid()))
        if foreign or (found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX):
            raise ConfigError(f"cannot create a lab in {directory}: another user can change {each}; give another --dir")
        if each == folder and writers:
            raise ConfigError(f"cannot create a lab in {folder}: other users can write to it; give another --dir")
    return folder


def make(folder: Path) -> None:
    """Make *folder* that of a lab without hosts.  Raises ConfigError."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        trusted(folder)
        if any(folder.iterdir()):
            raise ConfigError(f"{folder} is not empty and is not a lab; give another --dir")
        folder.chmod(0o700)
        (folder / OF_US).write_text("[]")
        for name in ("hosts", "shared", "ways"):
            (folder / name).mkdir(mode=0o700)
    except OSError as error:
        raise ConfigError(f"cannot create a lab in {folder}: {error.strerror or error}; give another --dir") from error


def require(number: int) -> None:
    """Raises ConfigError where *number* hosts are too many."""
    if number > MAX_HOSTS:
        raise ConfigError(f"a lab has at most {MAX_HOSTS} hosts, not {number}: start two labs, each with its own --dir")


def addresses(folder: Path, number: int) -> tuple[list[str], int]:
    """*number* loopback addresses of this directory's own, and a port that is free on each.  Raises ConfigError."""
    seed = int.from_bytes(hashlib.sha256(str(folder).encode()).digest()[:6], "big")
    first, second = 64 + seed % 128, seed // 128 % 250
    made = [f"127.{first}.{second + at // PER_NET}.{at % PER_NET + 1}" for at in range(number)]
    for port in _ports(seed):
        if all(_is_free(word, port) for word in made):
            return made, port
    raise ConfigError(f"no TCP port is free on {made[0]}")


def _ports(seed: int) -> Iterator[int]:
    return (2200 + (seed // 40000 + offset * 7) % 20000 for offset in range(200))


def _is_free(address: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as that which will listen there
        try:
            probe.bind((address, port))
        except OSError:
            return False
    return True


def way(folder: Path, address: str, port: int) -> socket.socket:
    """A socket through which the hosts of the lab pass connections on to *address*."""
    made = socket.socket(socket.AF_UNIX)
    descriptor = os.open(folder / "ways", os.O_PATH | os.O_DIRECTORY)
    try:
        made.bind(f"/proc/self/fd/{descriptor}/{address}:{port}")  # a socket's name has at most 107 characters
        made.listen(128)
    finally:
        os.close(descriptor)
    return made


def leftover_processes(folder: Path, known: Sequence[int]) -> list[int]:
    """Outer processes of hosts in *folder* that are not *known*: anybody who started them was ended in between."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            if each.stat().st_uid != os.geteuid() or int(each.name) in known:
                continue
            words = (each / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        of_us = words[0].rpartition(b"/")[2] == b"unshare" or b"runbook.lab.silent_server" in words
        if of_us and any(word.startswith(os.fsencode(f"{folder}/hosts/")) for word in words):
            found.append(int(each.name))
    return found
