"""A real systemd in namespaces of its own, with no unit but those that a test writes."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support.waiting import soon

BOOT = r"""
mount --make-rprivate /
mount -t tmpfs none /mnt
mount -t cgroup2 none /mnt
mkdir "/mnt/$1"
echo $$ >"/mnt/$1/cgroup.procs"
umount /mnt
exec unshare -C sh -ec '
    mount -t proc proc /proc
    mount -t tmpfs none /run
    mkdir -p /run/systemd/system /run/lock
    mount -t tmpfs none /sys/fs/cgroup
    umount /sys/fs/cgroup
    while umount /sys/fs/cgroup 2>/dev/null; do :; done
    mount -t cgroup2 none /sys/fs/cgroup
    # none of the units of this machine: what systemd does at a boot (it empties /tmp, sets sysctls, mounts) is real here too
    lib=$(readlink -f /lib/systemd)
    for it in /etc/systemd/system /etc/tmpfiles.d /usr/lib/tmpfiles.d /etc/sysctl.d /usr/lib/sysctl.d "$lib/system" \
        "$lib/system-generators" "$lib/system-shutdown" "$lib/system-environment-generators"; do
        [ ! -d "$it" ] || mount -t tmpfs none "$it"
    done
    for it in tiny sysinit basic shutdown umount sockets timers paths slices multi-user network default; do
        printf "[Unit]\nDefaultDependencies=no\n" >"$lib/system/$it.target"
    done
    exec env -i container=test PATH="$PATH" /lib/systemd/systemd --system --unit=tiny.target --show-status=no
'
"""


@dataclass
class Systemd:
    """It is pid 1 of *within*; units lie in its /run and /etc, which are nobody else's."""

    process: subprocess.Popen
    group: str
    pid: int = 0

    @property
    def within(self) -> tuple[str, ...]:
        """The words that start a program inside."""
        return ("nsenter", "-t", str(self.pid), "-m", "-p", "-C", "-u", "-i")

    def run(self, *argv: str, check: bool = True, **keys) -> str:
        done = subprocess.run([*self.within, *argv], capture_output=True, text=True, check=False, timeout=60, **keys)
        assert not check or done.returncode == 0, (argv, done.stderr)
        return done.stdout

    def unit(self, name: str, text: str, folder: str = "/run/systemd/system") -> None:
        """Write a unit's file and have it read."""
        self.write(f"{folder}/{name}", text)
        self.run("systemctl", "daemon-reload")

    def write(self, path: str, text: str) -> None:
        self.run("sh", "-c", 'cat >"$1"', "sh", path, input=text)

    def show(self, name: str, key: str) -> str:
        return self.run("systemctl", "show", "--value", "-p", key, name).strip()

    def stop(self) -> None:
        """End it, and everything in it."""
        self.process.kill()
        self.process.wait()
        unified = next(
            (it for it in (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup")) if (it / self.group).is_dir()), None
        )
        if unified is not None:
            soon(lambda: _removed(unified / self.group))


def _removed(group: Path) -> bool:
    for folder, _, _ in os.walk(group, topdown=False):
        with contextlib.suppress(OSError):
            Path(folder).rmdir()
    return not group.exists()


def boot() -> Systemd:
    """Start one, and wait until it answers."""
    group = f"runbook-test-{secrets.token_hex(4)}"
    process = subprocess.Popen(
        ["unshare", "-m", "-p", "-u", "-i", "--fork", "--kill-child", "sh", "-ec", BOOT, "sh", group],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    made = Systemd(process, group)
    if soon(lambda: process.poll() is not None or _answers(made)) and process.poll() is None:
        return made
    made.stop()
    raise AssertionError("systemd did not come up in its namespaces")


def _answers(made: Systemd) -> bool:
    """Whether it is there, which is when its number is known, and has started its units."""
    outer = made.process.pid
    try:
        children = Path(f"/proc/{outer}/task/{outer}/children").read_text().split()
        made.pid = int(children[0]) if children else 0
        if not made.pid or Path(f"/proc/{made.pid}/comm").read_text().strip() != "systemd":
            return False
    except OSError:
        return False
    asked = (*made.within, "systemctl", "is-active", "tiny.target")
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0
