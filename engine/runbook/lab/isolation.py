"""Determine how far this machine can isolate a lab host (namespaces, overlay), and report the rest."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from runbook.dataclass import dataclass
from runbook.errors import ConfigError
from runbook.lab.root_filesystem import LO, OWN, READ_ONLY

NEEDED = ("unshare", "mount", "umount", "pivot_root", "setsid", "hostname")
SBIN = "/usr/local/sbin:/usr/sbin:/sbin"
"""Where ordinary users have programs that their PATH does not name."""
PROBE_WITHIN = 20.0
FILE = "isolation.json"

NET = "ip link set lo up 2>/dev/null || {python} -ISc '{lo}'"
OVERLAY = (
    "mount -t tmpfs lab /tmp && mkdir /tmp/upper /tmp/work /tmp/root && "
    "mount -t overlay -o lowerdir=/,upperdir=/tmp/upper,workdir=/tmp/work lab /tmp/root"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolation:
    """The parts that hosts of a lab have of their own; with the words of this machine where it cannot provide one."""

    files: str = OWN
    """OWN or READ_ONLY, see `runbook.lab.root_filesystem`."""
    no_overlay: str = ""
    network: bool = True
    no_network: str = ""
    argv: tuple[str, ...] = ()
    """The command that starts a host's first process."""

    def lines(self) -> tuple[str, ...]:
        """Return the lines about it, the loud ones first."""
        loud = []
        if not self.network:
            loud.append(
                "CAREFUL: these hosts share this machine's network: a port that they open or connect to on 127.0.0.1 "
                f"is this machine's ({self.no_network})"
            )
        if self.files == READ_ONLY:
            loud.append(
                "CAREFUL: these hosts share this machine's files, read-only: only /dev /etc /home /root /run /tmp "
                f"/var/log /var/spool /var/tmp can be written, and are their own ({self.no_overlay})"
            )
        own = ["processes", "host name", "devices"]
        if self.files == OWN:
            own.append("files (/tmp /home /root are empty; the rest begins as a copy of this machine's, in memory)")
        if self.network:
            own.append("network (127.0.0.1 is the host's; it reaches the other hosts of the lab, and nothing else)")
        return (*loud, f"each host has its own {', '.join(own)}; kernel, clock, memory and CPUs are this machine's")


def search_path() -> str:
    """PATH, with the places of system programs."""
    return os.pathsep.join(word for word in (os.environ.get("PATH", os.defpath), SBIN) if word)


def found() -> Isolation:
    """Find out by trying which isolation this machine allows.  Raises ConfigError if it allows no lab at all.

    Without root, a host has a user namespace, too, in which this user is root.  An overlay is of no use there, because
    files of users unknown to the namespace cannot be copied for writing.
    """
    missing = [word for word in NEEDED if not shutil.which(word, path=search_path())]
    if missing:
        raise ConfigError(f"the lab needs {', '.join(missing)} (Debian: apt-get install util-linux mount hostname)")
    root = os.geteuid() == 0
    own = ("--mount", "--pid", "--uts", "--ipc", "--fork")
    spaces = ("unshare", *own) if root else ("unshare", "--user", "--map-root-user", *own)
    if refusal := _refusal(spaces, "mount -t proc proc /proc"):
        if not root:
            raise ConfigError(f"this machine allows ordinary users no namespaces ({refusal}): run the lab with sudo")
        raise ConfigError(f"this machine allows no namespaces ({refusal}); in a container: run it with CAP_SYS_ADMIN")
    python = "'" + sys.executable.replace("'", "'\\''") + "'"
    no_network = _refusal((*spaces, "--net"), NET.format(python=python, lo=LO))
    no_overlay = _refusal(spaces, OVERLAY) if root else "only root can copy root's files on writing"
    return Isolation(
        files=READ_ONLY if no_overlay else OWN,
        no_overlay=no_overlay,
        network=not no_network,
        no_network=no_network,
        argv=(*spaces, *(() if no_network else ("--net",)), "--kill-child=KILL"),
    )


def _refusal(spaces: tuple[str, ...], script: str) -> str:
    """Return the reason why *script* cannot be run within *spaces*; empty where it can."""
    try:
        tried = subprocess.run(
            (*spaces, "/bin/sh", "-c", script),
            env={"PATH": search_path(), "LC_ALL": "C"},
            stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=PROBE_WITHIN,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"no answer within {PROBE_WITHIN:g} s"
    if tried.returncode == 0:
        return ""
    said = tried.stderr.decode(errors="replace").strip().splitlines()
    return next((word.strip() for word in said if word.strip()), f"exit code {tried.returncode}")


def remember(folder: Path, isolation: Isolation) -> None:
    """Leave word of it in the lab's *folder*."""
    (folder / FILE).write_text(json.dumps(asdict(isolation)))


def remembered(folder: Path) -> Isolation | None:
    """Return the result for the lab in *folder*; None where nothing is recorded."""
    try:
        known = json.loads((folder / FILE).read_text())
        return Isolation(**{**known, "argv": tuple(known["argv"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None
