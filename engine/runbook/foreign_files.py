"""Files of this machine that another user could have put where they are, or can exchange."""

from __future__ import annotations

import errno
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path

from runbook.errors import ConfigError, Problem

MOST_LINKS = 40
MOVE_IT = "keep it in a directory that only you can write to"


def refuse_foreign(path: Path, hint: str = "", *, new: bool = False) -> Path:
    """Return *path*.  Raises ConfigError if another user owns it, or can write to it or to its directory.

    All directories and links on the way count.  A directory that others can write to is refused, unless it is sticky,
    as /tmp is, and not the one of *path* itself.  The user who runs this with sudo is no other user.  *hint*: the
    remedy, if it is not to name the path.  *new*: the file will be created, so that the end of the path may not exist.
    """
    sudo = os.environ.get("SUDO_UID", "")
    ours = {0, os.geteuid(), int(sudo) if os.geteuid() == 0 and sudo.isdecimal() else 0}
    close = (path.absolute(), path.absolute().parent, path.resolve(), path.resolve().parent)
    try:
        for each in dict.fromkeys(part for way in _ways(path.absolute()) for part in (way, *way.parents)):
            if new and not os.path.lexists(each):
                continue
            there = each.lstat()
            sticky = there.st_mode & stat.S_ISVTX
            if there.st_uid not in ours:
                raise _refused(path, f"{each} belongs to {user_name(there.st_uid)}", hint)
            if sticky and each not in close:
                continue
            if there.st_mode & 0o022 and not stat.S_ISLNK(there.st_mode):
                mend = "" if sticky else f" (`chmod go-w {each}`)"
                raise _refused(path, f"other users can write to {each}{mend}", hint)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    return path


def is_foreign(path: Path) -> bool:
    """Whether ``refuse_foreign`` refuses *path*."""
    try:
        refuse_foreign(path)
    except ConfigError:
        return True
    return False


def _ways(path: Path) -> Iterator[Path]:
    """Yield *path*, and its form after each link on the way is followed.  Raises OSError."""
    for _ in range(MOST_LINKS):
        yield path
        link = next((parent for parent in (*reversed(path.parents), path) if parent.is_symlink()), None)
        if link is None:
            return
        path = link.parent / os.readlink(link) / path.relative_to(link)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def user_name(user: int) -> str:
    """The name of the user with that number, or the number."""
    try:
        return f"the user {pwd.getpwuid(user).pw_name}"
    except KeyError:
        return f"the user {user}"


def _refused(path: Path, why: str, hint: str) -> ConfigError:
    typed = f"if you know what is in it, name it by its path: {path if path.is_absolute() else f'./{path}'}"
    return ConfigError(Problem(message=f"{path} may be another user's work: {why}", hint=hint or typed))
