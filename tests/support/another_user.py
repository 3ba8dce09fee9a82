"""Another user of the host, who owns and exchanges directories while root works in them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runbook.shell import SAFE
from runbook.values.command import Command

STRANGER = 4242


SHELLS = [
    pytest.param(("dash",), id="dash", marks=[] if shutil.which("dash") else pytest.mark.real("dash")),
    pytest.param(("busybox", "sh"), id="busybox", marks=pytest.mark.real("busybox")),
    pytest.param(("bash", "--posix"), id="bash", marks=pytest.mark.soak),
]


def ask(shell: tuple[str, ...], line: str, *words: str, user: int | None = None) -> tuple[int, str]:
    """The exit code of *line* behind the safe functions, and what it says."""
    by = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else []
    argv = [*by, *shell, "-c", f'{SAFE}\n{line} || {{ echo "no: $why ($owner)"; exit 1; }}', "sh", *words]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, cwd="/")
    assert not done.stderr, done.stderr
    return done.returncode, done.stdout.strip()


@pytest.fixture
def ground() -> Iterator[Path]:
    """A directory of root's that everybody may look into."""
    folder = Path("/var/tmp") / f"runbook-safe-{os.getpid()}-{os.urandom(4).hex()}"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def give(path: Path, uid: int = STRANGER) -> Path:
    os.chown(path, uid, uid, follow_symlinks=False)
    return path


def directory(path: Path, mode: int = 0o755) -> Path:
    path.mkdir()
    path.chmod(mode)
    return path


_SWAP = r"""
import os, sys
folder, target = sys.argv[1], sys.argv[2]
os.chdir(folder)
os.makedirs("real", exist_ok=True)
if not os.path.islink("link"):
    os.symlink(target, "link")
print("ready", flush=True)
while True:  # exchange a directory and a link to root's, as fast as can be
    try:
        os.rename("place", "aside") if os.path.lexists("place") else None
        os.rename("link" if os.path.isdir("aside") and not os.path.islink("aside") else "aside", "place")
    except OSError:
        pass
    for one, two in (("real", "place"), ("place", "real"), ("link", "place"), ("place", "link")):
        try:
            os.rename(one, two)
        except OSError:
            pass
"""


@contextmanager
def swapping(folder: Path, target: Path) -> Iterator[None]:
    """A stranger exchanges ``place`` in *folder*: now a directory of the stranger's, now a link to *target*."""
    argv = ["setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups", "/usr/bin/env", "python3"]
    with subprocess.Popen([*argv, "-c", _SWAP, str(folder), str(target)], stdout=subprocess.PIPE, text=True) as thief:
        assert thief.stdout
        assert thief.stdout.readline() == "ready\n"
        try:
            yield
        finally:
            thief.kill()


def exchange_before(words: Iterable[str], folder: Path, target: Path, first: str = "directory") -> str:
    """Lines before a script, by which a stranger exchanges ``place`` in *folder* right before each of the commands *words* that names it.

    It is now a directory of the stranger's (``real``, if that is there), now a link to *target*; *first* says what at first.
    """
    real, link = folder / "real", folder / "link"
    if not real.exists():
        give(directory(real))
    link.symlink_to(target)
    give(link).rename(folder / ("place" if first == "link" else "other"))
    real.rename(folder / ("other" if first == "link" else "place"))
    by = f"setpriv --reuid={STRANGER} --regid={STRANGER} --clear-groups"
    swap = f"""{by} sh -c 'cd "$1" && mv place aside && mv other place && mv aside other' sh '{folder}' </dev/null"""
    return "".join(f'{word}() {{ case $* in *place*) {swap} ;; esac; command {word} "$@"; }}\n' for word in words)


TRIES = 200


def listing(folder: Path) -> dict[str, tuple[object, ...]]:
    """All that lies below *folder*: whose it is, when its entries changed last, and what is in it."""
    return {
        str(it.relative_to(folder)): (
            it.lstat().st_uid,
            it.lstat().st_mode,
            it.lstat().st_mtime_ns,
            it.read_bytes() if it.is_file() and not it.is_symlink() else b"",
        )
        for it in (folder, *folder.rglob("*"))
    }


def often(command: Command, by: tuple[str, ...] = ("bash",), times: int = TRIES) -> list[str]:
    """What *command* says in so many tries, one after the other."""
    line = f"""tried=$1 given=$2; shift 2
        i=0; while [ $i -lt {times} ]; do i=$((i + 1)); ( eval "$tried" ) <"$given"; echo "try over: $?"; done 2>&1"""
    given = f"/proc/{os.getpid()}/fd/{_held(command.stdin)}"
    argv = [*by, "-c", line, "sh", command.script, given, *command.argv]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=800)
    assert done.stdout.count("try over: ") == times, done.stderr
    return done.stdout.splitlines()


def _held(text: str) -> int:
    handle = os.memfd_create("given")
    os.write(handle, text.encode())
    return handle
