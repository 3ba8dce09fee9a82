"""Parts of scripts that create temporary files in a directory and always remove them at the end."""

from __future__ import annotations

from collections.abc import Mapping

from runbook.errors import ProbeError
from runbook.onhost.path_safety import refusal
from runbook.shell import SAFE, script

SCRATCH_HEAD = SAFE + script(__package__, "scratch_file")
"""The head of the script; ``$1`` is the directory, in which the script works with relative names.

A failure is reported as ``failed STEP``, with the program's own message, indented, below it.  A directory that other
users can replace is not used: it is reported as ``refused`` with the reason, and ``become`` with an allowed user.
"""


def must_not_be_refused(reported: Mapping[str, str]) -> None:
    """Raise ProbeError, with a remedy, if *reported* contains ``refused``."""
    if "refused" in reported:
        raise ProbeError(refusal(reported["refused"].strip(), reported.get("become", "")))


_ERRORS = {
    "Permission denied": "EACCES",
    "No space left on device": "ENOSPC",
    "Disk quota exceeded": "EDQUOT",
    "Read-only file system": "EROFS",
    "No such file or directory": "ENOENT",
    "Not a directory": "ENOTDIR",
    "Operation not permitted": "EPERM",
    "Input/output error": "EIO",
    "Stale file handle": "ESTALE",
    "Stale NFS file handle": "ESTALE",
    "Transport endpoint is not connected": "ENOTCONN",
    "File too large": "EFBIG",
    "Invalid argument": "EINVAL",
    "Too many open files in system": "ENFILE",
    "Structure needs cleaning": "EUCLEAN",
    "File name too long": "ENAMETOOLONG",
    "Host is down": "EHOSTDOWN",
    "Connection timed out": "ETIMEDOUT",
}


def errno_of(words: str) -> tuple[str, str]:
    """Return the name of the error in *words*, a program's output, and its text; both are empty if there is none."""
    lower = words.lower()
    return next(((name, it) for it, name in _ERRORS.items() if it.lower() in lower), ("", ""))
