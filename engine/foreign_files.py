"""Files of this machine that another user could have put where they are, or can exchange."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

from engine.errors import ConfigError, Problem

MOVE_IT = "keep it in a directory that only you can write to"


def refuse_foreign(path: Path, hint: str = "") -> Path:
    """*path* itself.  Raises ConfigError where another user owns it, or can write to it or to what it lies in.

    The way to it counts, with its links: a directory there may be sticky, such as /tmp; the one that *path* lies in may
    not.  Whoever runs this by sudo is no other user.  *hint* says what to do, if not to name the path.
    """
    sudo = os.environ.get("SUDO_UID", "")
    ours = {0, os.geteuid(), int(sudo) if os.geteuid() == 0 and sudo.isdecimal() else 0}
    real = path.resolve()
    try:
        for each in dict.fromkeys((path, *path.parents, real, *real.parents)):
            there, place = each.lstat(), each.absolute()
            sticky = there.st_mode & stat.S_ISVTX
            if there.st_uid not in ours:
                raise _refused(path, f"{place} belongs to {user_name(there.st_uid)}", hint)
            if sticky and each not in (path, path.parent, real, real.parent):
                continue
            if there.st_mode & 0o022 and not stat.S_ISLNK(there.st_mode):
                mend = "" if sticky else f" (`chmod go-w {place}`)"
                raise _refused(path, f"other users can write to {place}{mend}", hint)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    return path


def user_name(user: int) -> str:
    """The name of the user with that number, or the number."""
    try:
        return f"the user {pwd.getpwuid(user).pw_name}"
    except KeyError:
        return f"the user {user}"


def _refused(path: Path, why: str, hint: str) -> ConfigError:
    typed = f"if you know what is in it, name it by its path: {path if path.is_absolute() else f'./{path}'}"
    return ConfigError(Problem(message=f"{path} may be another user's work: {why}", hint=hint or typed))
