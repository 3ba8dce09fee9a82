"""The system's own sshd on loopback: as many hosts as there are 127.x.y.z addresses."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from runbook.values.inventory import Address, Host, HostKeys
from tests.support.waiting import soon


@dataclass
class Sshd:
    """A running sshd, and what is needed to log in."""

    address: str
    port: int
    key: Path
    folder: Path
    process: subprocess.Popen
    welcome: Path

    def host(self, name: str = "h", **fields) -> Host:
        """It as a host of an inventory."""
        plain = {"addresses": (Address(host=self.address, port=self.port),), "user": "root", "key": str(self.key)}
        return Host(**{"name": name, "host_keys": HostKeys.IGNORE, **plain, **fields})

    def sessions(self) -> list[int]:
        """The pids of the processes that serve a connection."""
        return children_of(self.process.pid)

    def cut(self) -> None:
        """Kill every process that serves a connection: the line is gone, and nobody says good-bye."""
        for pid in self.sessions():
            for each in (pid, *children_of(pid, name="sshd")):
                with contextlib.suppress(ProcessLookupError):  # it ended with its parent
                    os.kill(each, signal.SIGKILL)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=60)
        shutil.rmtree(self.welcome)


def children_of(parent: int, name: str = "") -> list[int]:
    found = []
    for stat in (each / "stat" for each in Path("/proc").glob("[0-9]*")):
        try:
            text = stat.read_text(errors="replace")  # a process may be called anything
        except OSError:
            continue
        comm, _, rest = text.partition("(")[2].rpartition(")")
        if int(rest.split()[1]) == parent and (not name or comm.startswith(name)):
            found.append(int(stat.parent.name))
    return found


def free_port(address: str = "127.0.0.1") -> int:
    with socket.socket() as probe:
        probe.bind((address, 0))
        return probe.getsockname()[1]


def make_key(path: Path, kind: str = "ed25519", passphrase: str = "") -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-f", str(path)], check=True)
    return path


BARE = """\
set -e
mount --make-rprivate /
mount --bind "$1/none" /usr/local
mount --bind "$1/none" /opt
mount --bind "$1/sbin" /usr/sbin
mount --bind "$1/bin" /usr/bin
exec /usr/sbin/sshd -D -e -f "$2"
"""
"""A mount namespace in which no program is left but those of busybox; files elsewhere are the machine's own."""


def _bare(folder: Path) -> None:
    """What BARE mounts."""
    busybox = shutil.which("busybox")
    assert busybox
    for name in ("bin", "sbin", "none"):
        (folder / name).mkdir()
    shutil.copy(busybox, folder / "bin" / "busybox")
    for it in subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split():
        if it != "busybox":
            (folder / "bin" / it).symlink_to("busybox")
    shutil.copy("/usr/sbin/sshd", folder / "sbin" / "sshd")
    bash = folder / "bin" / "bash"  # root's login shell on this machine; over there it is busybox, too
    bash.write_text('#!/bin/sh\nexec sh "$@"\n')
    bash.chmod(0o755)


PLAIN_USER = "runbook-plain"

_PLAIN = f"""\
set -e
mount --make-rprivate /
cp -a /etc "$1/etc" 2>/dev/null || [ -s "$1/etc/passwd" ]
echo "{PLAIN_USER}:x:65501:65501::$1/home:/bin/sh" >>"$1/etc/passwd"
echo "{PLAIN_USER}:*:20000:0:99999:7:::" >>"$1/etc/shadow"
mkdir "$1/home"; chown 65501:65501 "$1/home"
mount --bind "$1/etc" /etc  # all of it: where somebody else replaces /etc/passwd, a mount on that file is gone
shift; exec "$@"
"""


def with_plain_user(folder: Path) -> tuple[str, ...]:
    """Words before sshd: a mount namespace in which ``PLAIN_USER`` is a user, with an empty home in *folder*."""
    return ("unshare", "--mount", "sh", "-c", _PLAIN, "sh", str(folder))


def _has_begun(process: subprocess.Popen, said: Callable[[], str], listens: str) -> bool:
    """Whether it has said the words *listens*, or has ended."""
    return process.poll() is not None or listens in said()


def _text_from(path: Path, place: int) -> str:
    """What *path* holds from *place* on."""
    return path.read_bytes()[place:].decode(errors="replace")


def start_sshd(
    folder: Path,
    address: str = "127.0.0.1",
    port: int = 0,
    *,
    key: Path | None = None,
    extra: str = "",
    bare: bool = False,
    before: tuple[str, ...] = (),
) -> Sshd:
    """Start one.

    *extra* are further lines of its configuration, *before* words before the program; *bare*: a host that has busybox
    and nothing else.
    """
    folder.mkdir(parents=True, exist_ok=True)
    os.makedirs("/run/sshd", exist_ok=True)
    if key is None:
        key = make_key(folder / "key")
    if not (folder / "host_key").exists():
        make_key(folder / "host_key")
    welcome = Path(tempfile.mkdtemp(prefix="runbook-sshd-"))  # other users must be able to read it
    welcome.chmod(0o755)
    (welcome / "authorized_keys").write_text(key.with_suffix(".pub").read_text())
    config = f"""\
HostKey {folder}/host_key
AuthorizedKeysFile {welcome}/authorized_keys
PidFile none
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
StrictModes no
UsePAM no
{"" if "MaxStartups" in extra else "MaxStartups 500:30:1000"}
{extra}
SetEnv RUNBOOK_LOCK_PLACES={os.environ.get("RUNBOOK_LOCK_PLACES", "")}
"""
    argv = [*before, "/usr/sbin/sshd", "-D", "-e", "-f", str(folder / "sshd_config")]
    if bare:
        _bare(folder)
        argv = ["unshare", "--mount", "sh", "-c", BARE, "sh", str(folder), str(folder / "sshd_config")]
    for chosen in (port,) if port else (free_port(address) for _ in range(5)):
        (folder / "sshd_config").write_text(f"ListenAddress {address}\nPort {chosen}\n{config}")
        with (folder / "log").open("ab") as log:
            said = partial(_text_from, folder / "log", log.tell())
            process = subprocess.Popen(argv, stderr=log)
        listens = f"Server listening on {address} port {chosen}."
        if soon(partial(_has_begun, process, said, listens)) and process.poll() is None:
            return Sshd(address, chosen, key, folder, process, welcome)
        process.kill()
        process.wait()
        if "Address already in use" not in said():
            break
    raise RuntimeError(said())


@contextlib.contextmanager
def sshd_fleet(folder: Path, addresses: Sequence[str], before: Sequence[str], *, extra: str = "") -> Iterator[Sshd]:
    """An sshd on each of *addresses*, all with one port and one key; the first of them.

    Each is in a pid namespace of its own: it has a process table of its own, as every machine has.
    """
    alone = ("unshare", "--pid", "--fork", "--kill-child=KILL", "--mount", "sh", "-c", _OWN_PROC)
    first, *others = addresses
    with contextlib.ExitStack() as running:
        server = start_sshd(folder / first, first, before=(*before, *alone), extra=extra)
        running.callback(_killed, server)
        user = ("nsenter", "--mount", "--target", str(server.process.pid))
        for address in others:
            given = {"key": server.key, "before": (*user, *alone), "extra": extra}
            running.callback(_killed, start_sshd(folder / address, address, server.port, **given))
        yield server


def _killed(server: Sshd) -> None:
    """End *server* with all of its namespace: ``unshare`` itself heeds no other signal."""
    server.process.kill()
    server.process.wait(timeout=60)
    shutil.rmtree(server.welcome)


_OWN_PROC = 'mount -t proc proc /proc && exec "$0" "$@"'
