"""What the commands that are run on a host do to its files, as strace sees it."""

from __future__ import annotations

import re
import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from runbook.lab import LabHost

OPENS = ("open", "openat", "openat2", "creat")
CHANGES = (
    *("mkdir", "mkdirat", "rmdir", "rename", "renameat", "renameat2", "unlink", "unlinkat", "link", "linkat"),
    *("symlink", "symlinkat", "chmod", "fchmod", "fchmodat", "chown", "lchown", "fchown", "fchownat", "truncate"),
    *("ftruncate", "utime", "utimes", "utimensat", "futimesat", "mknod", "mknodat", "setxattr", "lsetxattr"),
    *("fsetxattr", "removexattr", "lremovexattr", "fremovexattr", "mount", "umount2", "bind"),
)
_WRITES = re.compile(r"\bO_(WRONLY|RDWR|CREAT|TRUNC|TMPFILE)\b")
_LINE = re.compile(r"(\d+)<([^>]*)> +(.*)")
_RESUMED = re.compile(r"<\.\.\. \w+ resumed>(.*)")
_CALL = re.compile(r"(\w+)\((.*)\) += (-?\d+)")

HARMLESS = (
    r'"/dev/(null|zero|tty|stdout|stderr|fd/\d+)"',  # devices and streams: nothing is kept
    r'"/proc/(self|thread-self|\d+)/(fd/\d+|oom_score_adj|loginuid)"',  # the process's own
    r"\bbind\(.*sa_family=AF_(NETLINK|INET|INET6)\b",  # no name in any directory
    r"\bbind\(.*\{sa_family=AF_UNIX\}, 2\)",  # nor has this one: the kernel makes one up outside of the file system
    r'\bunlink\w*\(.*"/dev/null"',
    r"\bmount\(.*, MS_RDONLY\|[A-Z_|]*\bMS_REMOUNT\b",  # read-only, and below:
    r'\bmount\(.*"/", (NULL|"[^"]*"), MS_REC\|MS_(SLAVE|PRIVATE), NULL\)',  # in a mount namespace that has just been
    r'\bmount\("runbook", .*"tmpfs", MS_NOSUID\|MS_NODEV',  # made for probes of authors (confinement.sh)
)


@dataclass
class Traced:
    """The calls that changed, or could have changed, something, each as ``PROGRAM CALL(...)``."""

    calls: list[str] = field(default_factory=list)
    lines: int = 0

    def lasting(self, *allowed: str) -> list[str]:
        """Those that are on no list of the harmless."""
        harmless = re.compile("|".join((*HARMLESS, *allowed)))
        return [it for it in self.calls if not harmless.search(it)]


def parsed(text: str) -> Traced:
    """What strace wrote with ``-f -y -Y``; what the sshd itself does for a session is left out."""
    found, pending = Traced(), dict[str, str]()
    for line in text.splitlines():
        whole = _LINE.match(line)
        if not whole or whole[2].startswith("sshd"):
            continue
        pid, program, call = whole.groups()
        found.lines += 1
        if call.endswith("<unfinished ...>"):
            pending[pid] = call.removesuffix("<unfinished ...>")
            continue
        if resumed := _RESUMED.match(call):
            call = pending.pop(pid, "") + resumed[1]
        made = _CALL.match(call)
        if made and int(made[3]) >= 0 and (made[1] not in OPENS or made[1] == "creat" or _WRITES.search(made[2])):
            found.calls.append(f"{program} {call}")
    return found


_SERVE = """
for it; do nsenter -t "${it%:*}" -m -u -p -- /usr/sbin/sshd -D -e -f /run/lab/sshd_config -p "${it#*:}" & done
read -r end
kill 0
"""


@contextmanager
def traced(hosts: Sequence[LabHost], into: Path) -> Iterator[tuple[Traced, dict[str, int]]]:
    """What is done on *hosts* by anybody who logs in meanwhile, filled in at the end; and the ports to log in at.

    On each a second sshd is started under strace: one that is there already could not be traced without a stop at each
    call of everything.
    """
    ports = {it.name: _free(it.address) for it in hosts}
    calls = ("-e", f"trace={','.join((*OPENS, *CHANGES))}", "-e", "signal=none")
    argv = ["strace", "-f", "--seccomp-bpf", "-qq", "-y", "-Y", "-s", "300", *calls, "-o", str(into)]
    argv += ["setsid", "sh", "-c", _SERVE, "sh", *(f"{_first_of(it.pid)}:{ports[it.name]}" for it in hosts)]
    result = Traced()
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as strace:
        assert strace.stdin
        assert strace.stderr
        for _ in hosts:
            said = strace.stderr.readline()
            while said and "Server listening" not in said:
                said = strace.stderr.readline()
            assert said
        drain = threading.Thread(target=strace.stderr.read)  # sshd tells much: nobody may wait for a full pipe
        drain.start()
        try:
            yield result, ports
        finally:
            strace.stdin.close()
            strace.wait(60)
            drain.join()
    made = parsed(into.read_text(errors="replace"))
    result.calls, result.lines = made.calls, made.lines


def _free(address: str) -> int:
    with socket.socket() as one:
        one.bind((address, 0))
        return int(one.getsockname()[1])


def _first_of(outer: int) -> int:
    """The first process of a lab host, whose outer process on this machine is *outer*."""
    (found,) = Path(f"/proc/{outer}/task/{outer}/children").read_text().split()
    return int(found)
