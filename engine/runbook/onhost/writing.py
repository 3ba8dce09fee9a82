"""Inspect a file or directory of the host, and bring it to a desired state."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.onhost.path_safety import REFUSED, STAT_PATH, refusal, refused
from runbook.secrets.config_lines import masked_config
from runbook.shell import SAFE, VIEW, script
from runbook.text.unified_diff import unified
from runbook.values.command import Command, Completed, Effect, write_script

MAX_DIFF_BYTES = 256 * 1024
"""The maximum number of bytes of a file that are read for a diff."""

CHANGED, NOT_WRITTEN = 10, 12
"""The exit codes of a write that did not change the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathState:
    """The state of a path on a host."""

    path: str
    """The path, with the home directory filled in; if a symbolic link was followed, the path of the file itself."""
    kind: str
    """``absent``, ``file``, ``directory``, ``link`` or ``other``."""
    leads_to: str = ""
    """The target of a symbolic link."""
    digest: str = ""
    """The sha256 of a file's content, in hexadecimal."""
    mode: str = ""
    """The mode in octal: ``644``."""
    owner: str = ""
    group: str = ""
    ids: tuple[str, str] = ("", "")
    """The numbers of the owner and the group."""
    meant: tuple[str, str] = ("", "")
    """The numbers of the user and the group to look up; empty if the host does not know the name."""
    links: int = 1
    """The number of hard links of a file."""
    inode: str = ""
    """The device and inode numbers: ``device:inode``."""
    parent: str = ""
    """``yes`` if the parent directory exists, ``no``, or the kind of the entry in its place."""
    user: str = ""
    """The user as whom the path was inspected."""
    refusal: str = ""
    """The reason why nothing may be written there, with what to do: another user can exchange a part of the path (law
    9)."""
    text: str | None = None
    """The content of a file; None if it is too long, or no text."""

    @property
    def key(self) -> str:
        """Return the identity: for a file, path and content; for other entries, path, kind and inode."""
        return f"{self.path} {self.kind} {self.digest or self.inode}".strip()

    @property
    def itself(self) -> str:
        """Return the identity without the content: a log that grows is still the same file."""
        return f"{self.path} {self.kind} {self.inode}".strip()


def ask_place(path: str, *, follow: bool, owner: str = "", group: str = "") -> Command:
    """Return the command that inspects *path* (absolute, or below ``~/``), and resolves *owner* and *group* on the
    host.
    """
    argv = (path, "yes" if follow else "no", str(MAX_DIFF_BYTES), owner, group)
    return Command(script=_LOOK, argv=argv, effect=Effect.READ, private=True)


def read_place(path: str, done: Completed) -> PathState:
    """Parse the output of ``ask_place``.  Raises ProbeError."""
    if done.timed_out:
        raise ProbeError(f"{path} could not be inspected in time")
    if done.exit_code == REFUSED:
        raise ProbeError(refused(path, done.stderr))
    if done.exit_code != 0:
        raise ProbeError(done.why_not(f"{path} could not be inspected"))
    parts = done.stdout.split("\0", 18)
    if len(parts) != 19:
        raise ProbeError(f"{path}: the output from the host is truncated")
    _, real, kind, leads_to, digest, mode, owner, group, uid, gid, *meant, links, inode, parent, user, why, by, text = (
        parts
    )
    whole = kind == "file" and sha256(text.encode("utf-8", "surrogateescape")).hexdigest() == digest
    return PathState(
        path=real,
        kind=kind,
        leads_to=leads_to,
        digest=digest,
        mode=mode,
        owner=owner,
        group=group,
        ids=(uid, gid),
        meant=(meant[0], meant[1]),
        links=int(links) if kind == "file" else 1,
        inode=inode,
        parent=parent,
        user=user,
        refusal=refusal(why, by),
        text=text if whole and not _broken(text) else None,
    )


def _broken(text: str) -> bool:
    return "\0" in text or "\ufffd" in text or any("\ud800" <= word <= "\udfff" for word in text)


def difference(place: PathState, text: str | None) -> str:
    """Return the change from *place* to *text* as a ``diff -u``, with secrets masked."""
    if text is None:
        return ""
    if place.kind == "file" and place.text is None:
        return f"{place.path} is too large, or not text: its content (sha256 {place.digest[:12]}) is not shown\n"
    names = (place.path if place.kind == "file" else "/dev/null", place.path)
    return unified(place.text or "", text, *names, show=masked_config)


_LOOK = VIEW + STAT_PATH + script(__package__, "file_probe")


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredPath:
    """The desired state of a path; a field that is empty or None stays unchanged."""

    directory: bool = False
    text: str | None = None
    mode: str = ""
    owner: str = ""
    group: str = ""


def make(place: PathState, wanted: DesiredPath, *, parents: bool = False, backup: bool = False) -> Command:
    """Return the command that brings *place* to the state *wanted*; if it was changed since the probe, it exits
    with CHANGED.

    The new content of a file replaces the old content atomically.
    """
    seen = place.digest if place.kind == "file" and wanted.text is not None else place.inode
    new = "" if wanted.text is None else sha256(wanted.text.encode()).hexdigest()
    kind = "directory" if wanted.directory else "file"
    asked = (kind, place.path, place.kind, seen, new, wanted.mode, wanted.owner, wanted.group)
    flags = ("yes" if parents else "no", "yes" if backup else "no")
    called = ("write-file", place.path, *((f"mode={wanted.mode}",) if wanted.mode else ()))
    made = write_script(_WRITE, *asked, *flags, called=called)
    return replace(made, stdin=wanted.text or "", private=True)


_WRITE = SAFE + script(__package__, "file_write")
"""Parameters: ``$1`` file or directory, ``$2`` path, ``$3`` the former kind, ``$4`` its digest or inode.

``$5`` the new digest (empty: the content stays), ``$6`` mode, ``$7`` owner, ``$8`` group, ``$9`` parents, then backup.
The content comes on stdin.
"""


def file_writing() -> str:
    """Return the script of ``make``, for a script that puts its own code before it and sends other content."""
    return script(__package__, "file_write")
