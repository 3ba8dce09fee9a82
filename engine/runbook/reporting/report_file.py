"""Create the file of a report: readable by its owner only, and never through another user's file or link."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from runbook.errors import ConfigError
from runbook.foreign_files import user_name
from runbook.records.private_folder import MOST_LINKS, Unsafe, link_in, open_folder


def create(path: str) -> int:
    """Return a descriptor to write the report *path*: a new file, or an emptied file of ours; always with mode 600.

    A pipe or a device of ours is used as it is.  Raises ConfigError if somebody else could read the report, or if it
    would overwrite a file that is no report of ours.  Raises OSError if it cannot be opened.
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
"""The flags to open a file that must not exist yet."""
_THERE = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY


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
    """Raise ConfigError unless the existing file belongs to this user and nobody else can read it."""
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
    """Return the opened directory of *path*, and the name in it.  A symbolic link of another user is not followed."""
    place = Path(path)
    try:
        for _ in range(MOST_LINKS):
            if place.name in ("", ".."):
                raise ConfigError(f"{option} {path}: it is a directory")
            folder = open_folder(place.parent)
            try:
                target = link_in(folder, place.name)
            except BaseException:
                os.close(folder)
                raise
            if not target:
                return folder, place.name
            os.close(folder)
            place = place.parent / target
    except Unsafe as error:
        raise ConfigError(f"{option} {path}: {error.strerror}; name another file") from error
    raise ConfigError(f"{option} {path}: its symbolic links form a loop")
