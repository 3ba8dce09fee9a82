"""A directory that belongs to this user only: files are written atomically, and links of other users are never
followed.
"""

from __future__ import annotations

import errno
import os
import secrets
import shlex
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from runbook.dataclass import dataclass
from runbook.foreign_files import user_name

MAX_FILE_BYTES = 1024 * 1024
"""The maximum number of bytes of a file that is read as a whole."""

MOST_LINKS = 40

_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LISTED = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_APPENDING = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Unsafe(OSError):
    """Another user may have made the directory or a file in it; the message gives the reason."""

    def __init__(self, why: str) -> None:
        super().__init__(0, why)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A file in the directory."""

    name: str
    size: int
    """The size in bytes."""
    changed: int
    """The time of the last write, in nanoseconds since the epoch."""


def state_directory(name: str) -> Path:
    """Return ``$XDG_STATE_HOME/runbook/NAME``.  Raises Unsafe if this user has no home directory."""
    state = os.environ.get("XDG_STATE_HOME") or ""
    path = Path(state) if state.startswith("/") else Path(os.path.expanduser("~/.local/state"))
    if not path.is_absolute():
        raise Unsafe("you have no home directory; XDG_STATE_HOME can name another")
    return path / "runbook" / name


class PrivateFolder:
    """The files of this user in one directory; a file is replaced as a whole, or appended to."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def names(self, ending: str = ".json") -> list[str]:
        """Return the sorted names of the files with this *ending*; empty if there is no directory.  Raises OSError."""
        try:
            with self._opened(make=False) as folder:
                return sorted(name for name in os.listdir(folder) if name.endswith(ending))
        except FileNotFoundError:
            return []

    def entries(self, ending: str) -> list[Entry]:
        """Return the files with this *ending*, sorted by name, with sizes and times; empty if there is no directory.

        Raises OSError.
        """
        found = []
        try:
            with self._opened(make=False) as folder:
                for name in sorted(os.listdir(folder)):
                    if name.endswith(ending):
                        there = os.stat(name, dir_fd=folder, follow_symlinks=False)
                        found.append(Entry(name=name, size=there.st_size, changed=there.st_mtime_ns))
        except FileNotFoundError:
            pass
        return found

    def read(self, name: str) -> str:
        """Return the text of a file of up to ``MAX_FILE_BYTES``.  Raises OSError; ValueError if it is not UTF-8."""
        with self.opened(name) as file:
            raw = file.read(MAX_FILE_BYTES + 1)
        if len(raw) > MAX_FILE_BYTES:
            raise Unsafe(f"it is larger than {MAX_FILE_BYTES // 1024} KiB")
        return raw.decode("utf-8")

    @contextmanager
    def opened(self, name: str) -> Iterator[BinaryIO]:
        """Open a file of any size for reading, if no other user may have written to it.  Raises OSError."""
        with self._opened(make=False) as folder:
            number = os.open(name, _READ, dir_fd=folder)
        with os.fdopen(number, "rb") as file:
            there = os.fstat(number)
            if not stat.S_ISREG(there.st_mode):
                raise Unsafe("it is not a regular file")
            if there.st_uid != os.geteuid():
                raise Unsafe("it belongs to another user")
            if there.st_nlink > 1 or there.st_mode & 0o022:
                raise Unsafe("others may have written to it (hard links, or its mode)")
            yield file

    def make(self) -> None:
        """Create the directory if it does not exist.  Raises OSError."""
        with self._opened(make=True):
            pass

    def create(self, name: str) -> int:
        """Create the file *name*, which then survives a power cut, and return a descriptor to append to it.  Raises
        OSError.
        """
        with self._opened(make=True) as folder:
            number = os.open(name, _NEW | os.O_APPEND, 0o600, dir_fd=folder)
            os.fsync(folder)
        return number

    def rename(self, name: str, to: str) -> None:
        """Rename the file *name* to an unused name, safe against a power cut.  Raises OSError."""
        with self._opened(make=False) as folder:
            with suppress(FileNotFoundError):
                os.stat(to, dir_fd=folder, follow_symlinks=False)
                raise FileExistsError(errno.EEXIST, "a file of that name is there already")
            os.rename(name, to, src_dir_fd=folder, dst_dir_fd=folder)
            os.fsync(folder)

    def holds(self, name: str, file: int) -> bool:
        """Whether *name* is the name of the open file *file*.  Raises OSError if the directory cannot be reached."""
        with self._opened(make=False) as folder:
            try:
                there, own = os.stat(name, dir_fd=folder, follow_symlinks=False), os.fstat(file)
            except FileNotFoundError:
                return False
        return (there.st_dev, there.st_ino) == (own.st_dev, own.st_ino)

    def appending(self, name: str) -> int:
        """Open the file *name* for reading and appending, and return its descriptor; creates a missing file.
        Raises OSError.
        """
        with self._opened(make=True) as folder:
            number = os.open(name, _APPENDING, 0o600, dir_fd=folder)
        there = os.fstat(number)
        if not stat.S_ISREG(there.st_mode) or there.st_uid != os.geteuid() or there.st_nlink > 1:
            os.close(number)
            raise Unsafe(f"{name} is not a file of yours alone")
        return number

    def write(self, name: str, text: str | bytes) -> None:
        """Create or replace the file *name* with *text*; it is on the disk when this returns.  Raises OSError."""
        with self._opened(make=True) as folder:
            fresh = f".{secrets.token_hex(8)}.new"
            number = os.open(fresh, _NEW, 0o600, dir_fd=folder)
            try:
                with os.fdopen(number, "wb") as file:
                    file.write(text.encode("utf-8") if isinstance(text, str) else text)
                    file.flush()
                    os.fsync(number)
                os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(fresh, dir_fd=folder)
                raise
            os.fsync(folder)

    def remove(self, name: str) -> None:
        """Remove the file *name*, if it exists.  Raises OSError."""
        with suppress(FileNotFoundError), self._opened(make=False) as folder:
            os.unlink(name, dir_fd=folder)
            os.fsync(folder)

    def remove_directory(self, name: str) -> None:
        """Remove the empty directory *name* in this directory, if it exists.  Raises OSError."""
        with suppress(FileNotFoundError), self._opened(make=False) as folder:
            os.rmdir(name, dir_fd=folder)

    @contextmanager
    def _opened(self, *, make: bool) -> Iterator[int]:
        way = open_folder(self.path, make=make)
        try:
            there = os.fstat(way)
            if there.st_uid != os.geteuid():
                raise Unsafe("it belongs to another user")
            if there.st_mode & 0o077:  # it may be there for others, too: only its user can decide that it is not
                mode = f"{stat.S_IMODE(there.st_mode):o}"
                raise Unsafe(
                    f"other users can enter it (mode {mode}): name a directory for this alone, or make it one: "
                    f"chmod go= {shlex.quote(str(self.path))}"
                )
            number = os.open(".", _LISTED, dir_fd=way)
        finally:
            os.close(way)
        try:
            yield number
        finally:
            os.close(number)


def open_folder(path: Path, *, make: bool = False) -> int:
    """Open *path* one name at a time, and return its descriptor; only symbolic links of this user or root are followed.

    *make*: create missing directories.  Raises OSError.
    """
    waiting = list(reversed(path.parts))
    here = os.open(".", _FOLDER)
    links = 0
    try:
        while waiting:
            name = waiting.pop()
            if target := link_in(here, name):
                links += 1
                if links > MOST_LINKS:
                    raise Unsafe(f"{path}: its symbolic links form a loop")
                waiting += reversed(Path(target).parts)
                continue
            there = _entered(name, here, make=make)
            os.close(here)
            here = there
    except BaseException:
        os.close(here)
        raise
    return here


def _entered(name: str, here: int, *, make: bool) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=here)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=here)
    return os.open(name, _FOLDER, dir_fd=here)


def link_in(folder: int, name: str) -> str:
    """Return the target of the symbolic link *name* in *folder*; empty if *name* is no link.

    Raises OSError, also for a link that belongs neither to this user nor to root.
    """
    try:
        there = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return ""
    if not stat.S_ISLNK(there.st_mode):
        return ""
    target = os.readlink(name, dir_fd=folder)
    again = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if there.st_uid not in (0, os.geteuid()) or (again.st_dev, again.st_ino) != (there.st_dev, there.st_ino):
        raise Unsafe(f"{name} is a symbolic link owned by {user_name(there.st_uid)}")
    return target
