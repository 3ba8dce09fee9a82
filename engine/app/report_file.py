"""Create the file of a report: readable by its owner only, and never through another user's file or link."""

from __future__ import annotations

import os
import stat

from engine.errors import ConfigError
from engine.foreign_files import user_name

MOST_LINKS = 40
"""Symbolic links on the way to a file that are followed, as the kernel does."""


def create(path: str) -> int:
    """A descriptor to write the report *path* with: a new file, or one of ours that is emptied; mode 600 in any case.

    A pipe or a device of ours is taken as it is.  Raises ConfigError where somebody else could read what is written,
    or where it would be written over what is not a report of ours; OSError where it cannot be opened.
    """
    folder, name = folder_of(path)
    try:
        try:
            return os.open(name, NEW, 0o600, dir_fd=folder)
        except FileExistsError:
            return _taken_over(path, name, folder)
    finally:
        os.close(folder)


NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
"""How a file is opened that must not be there yet."""
_THERE = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def _taken_over(path: str, name: str, folder: int) -> int:
    before = os.stat(name, dir_fd=folder, follow_symlinks=False)
    refuse_foreign(path, before)
    number = os.open(name, _THERE, dir_fd=folder)  # of a pipe: waits for its reader
    try:
        now = os.fstat(number)
        if (now.st_dev, now.st_ino) != (before.st_dev, before.st_ino):
            raise ConfigError(f"--report {path}: the file was replaced by another one meanwhile; name another file")
        if stat.S_ISREG(now.st_mode):
            os.fchmod(number, 0o600)
            os.ftruncate(number, 0)
    except BaseException:
        os.close(number)
        raise
    return number


def refuse_foreign(path: str, there: os.stat_result, option: str = "--report") -> None:
    """Raise ConfigError unless what is there is ours alone."""
    if stat.S_ISCHR(there.st_mode) and there.st_uid == 0:  # /dev/null, a terminal
        return
    if there.st_uid != os.geteuid():
        raise ConfigError(
            f"{option} {path}: the file exists and belongs to {user_name(there.st_uid)}, who could read what is "
            "written; name another file, or remove this one"
        )
    if stat.S_ISREG(there.st_mode) and there.st_nlink > 1:
        raise ConfigError(
            f"{option} {path}: the file has {there.st_nlink} names (hard links), and all of them would be emptied; "
            "name another file"
        )


def folder_of(path: str, option: str = "--report") -> tuple[int, str]:
    """The directory of *path*, opened, and the name within it.  A symbolic link of somebody else is not followed."""
    waiting = [part for part in path.split("/") if part not in ("", ".")][::-1]
    here = os.open("/" if path.startswith("/") else ".", _FOLDER)
    links = 0
    try:
        while waiting:
            name = waiting.pop()
            target = "" if name == ".." else _link(path, name, here, option)
            links += bool(target)
            if links > MOST_LINKS:
                raise ConfigError(f"{option} {path}: its symbolic links form a loop")
            if target:
                waiting += [part for part in target.split("/") if part not in ("", ".")][::-1]
            elif not waiting and name != "..":
                return here, name
            if not target or target.startswith("/"):
                here = _entered("/" if target else name, here)
        raise ConfigError(f"{option} {path}: it is a directory")
    except BaseException:
        os.close(here)
        raise


def _entered(name: str, here: int) -> int:
    """The directory *name* in *here*, which is closed."""
    there = os.open(name, _FOLDER, dir_fd=here)
    os.close(here)
    return there


def _link(path: str, name: str, folder: int, option: str) -> str:
    """Where *name* leads if it is a symbolic link; empty: it is none, or is not there.  Raises ConfigError."""
    try:
        there = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return ""
    if not stat.S_ISLNK(there.st_mode):
        return ""
    target = os.readlink(name, dir_fd=folder)
    again = os.stat(name, dir_fd=folder, follow_symlinks=False)
    same = (again.st_dev, again.st_ino) == (there.st_dev, there.st_ino)
    if there.st_uid not in (0, os.geteuid()) or not same:
        raise ConfigError(
            f"{option} {path}: {name} is a symbolic link owned by {user_name(there.st_uid)}; name another file"
        )
    return target
