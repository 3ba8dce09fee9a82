"""Copies of files on the host, made before a change, from which a run can be undone byte for byte.

They are in ``/var/lib/runbook/undo/RUN`` (root) or ``~/.local/state/runbook/undo/RUN`` (other users); the name of a
copy is the sha256 of its content.  Only the user who changes the file can enter that directory.  Copies older than 90
days are removed when the next copy is made.
"""

from __future__ import annotations

from dataclasses import replace

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.onhost.writing import MAX_DIFF_BYTES, PathState, file_writing
from runbook.shell import PLACES, SAFE, script
from runbook.values.command import Command, Completed, Effect, write_script
from runbook.values.undo import Ownership

MAX_COPY_BYTES = 16 << 20
"""The maximum number of bytes of a file that is copied."""

TIMEOUT = 30.0
"""The seconds that a copy may take."""

_PLACE = SAFE + PLACES + script(__package__, "undo_place")
_KEEP = _PLACE + script(__package__, "undo_keep")
_PROBE = _PLACE + script(__package__, "undo_probe")
_RESTORE = _PLACE + script(__package__, "undo_restore") + file_writing()
_REMOVE = SAFE + script(__package__, "undo_remove")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCopy:
    """A copy that a probe has read, or the reason why there is none."""

    missing: str = ""
    """The reason why the copy cannot be used; empty if it can."""
    size: int = 0
    text: str | None = None
    """The content of the file; None if it is too long, or no text."""


def keep_copy(run: str, path: str, digest: str, become: str = "") -> Command:
    """Return the command that keeps a copy of *path* for *run*; the file itself is not changed.

    *digest*: the sha256 of the file's content.
    """
    words = (run, path, digest, str(MAX_COPY_BYTES))
    return Command(script=_KEEP, argv=words, effect=Effect.SCRATCH, timeout=TIMEOUT, become=become, private=True)


def why_not_kept(done: Completed) -> str:
    """Return the reason why ``keep_copy`` has made no copy; empty if it has."""
    if done.refused:
        return done.refused
    if done.exit_code == 0 and done.stdout.strip() == "kept":
        return ""
    said = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return said[-1] if said else "the host gave no reason"


def ask_copy(run: str, digest: str) -> Command:
    """Return the command that finds the copy of *run* with the sha256 *digest*."""
    return Command(script=_PROBE, argv=(run, digest, str(MAX_DIFF_BYTES)), effect=Effect.READ, private=True)


def read_copy(done: Completed) -> FileCopy:
    """Parse the output of the command from ``ask_copy``.  Raises ProbeError if the output cannot be read."""
    parts = done.stdout.split("\0", 2)
    if done.exit_code != 0 or done.timed_out or len(parts) != 3 or parts[0] not in ("none", "copy"):
        raise ProbeError(done.stderr.strip() or "the copy of the earlier file could not be read")
    if parts[0] == "none":
        return FileCopy(missing=parts[1] or "there is no copy")
    text = parts[2]
    whole = len(text.encode("utf-8", "surrogateescape")) == int(parts[1])
    plain = whole and not ("\0" in text or "\ufffd" in text or any("\ud800" <= word <= "\udfff" for word in text))
    return FileCopy(size=int(parts[1]), text=text if plain else None)


def restore_copy(place: PathState, run: str, digest: str, was: Ownership) -> Command:
    """Return the command that replaces *place* by the copy of *run* with the sha256 *digest*, if *place* is
    unchanged.
    """
    seen = place.digest if place.kind == "file" else ""
    words = ("file", place.path, place.kind, seen, digest, was.mode, was.owner, was.group, "no", "no")
    return replace(write_script(_RESTORE, run, digest, *words, called=("restore-file", place.path)), private=True)


def remove_written(place: PathState) -> Command:
    """Return the command that removes *place*, if its content is unchanged since the probe."""
    return write_script(_REMOVE, place.path, place.digest, called=("remove-file", place.path))
