"""Read a whole configuration file of the host, and replace it atomically."""

from __future__ import annotations

import re
from dataclasses import replace
from hashlib import sha256

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.onhost.path_safety import REFUSED, STAT_PATH, refusal, refused
from runbook.shell import SAFE, VIEW, script
from runbook.values.command import Command, Completed, Effect, write_script

MAX_FILE_BYTES = 1 << 20
"""Bytes that a configuration file may have."""

CHANGED, INVALID, NOT_WRITTEN, NOT_ALIKE = 10, 11, 12, 13
"""Exit codes of the write: the file is as it was in each case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFile:
    """A file as a probe saw it."""

    path: str
    """As it was asked for, with the home folder filled in."""
    target: str
    """The file itself, where the path is a symbolic link."""
    exists: bool
    folder: bool
    """Whether the folder is there that it is in, or would be in."""
    writable: bool
    """Whether another file can be put in its place."""
    user: str
    """The user who inspected it."""
    mode: str = ""
    """As ``ls`` shows it: ``-rw-r--r--``."""
    owner: str = ""
    group: str = ""
    links: int = 1
    """The number of its names."""
    refusal: str = ""
    """The reason why nothing may be written there, with what to do: another user can exchange a part of the path (law
    9)."""
    digest: str
    """The digest: ``sha256:...``, or ``cksum:...`` if the host has no sha256sum; ``...:absent`` if there is no file."""
    text: str = ""

    @property
    def key(self) -> str:
        """Its identity: which file it is, by which way, and what is in it."""
        way = f"{self.path} -> {self.target}" if self.path != self.target else self.path
        return f"{way} {self.digest}"


def ask_file(path: str) -> Command:
    """The read of *path*, which is absolute or begins with ``~/``."""
    return Command(script=_LOOK, argv=(path, str(MAX_FILE_BYTES)), effect=Effect.READ, private=True)


def read_file(path: str, done: Completed) -> HostFile:
    """Parse the answer to ``ask_file``.  Raises ProbeError when it is incomplete, or is not text."""
    if done.timed_out:
        raise ProbeError(f"{path} could not be read in time")
    if done.exit_code == REFUSED:
        raise ProbeError(refused(path, done.stderr))
    if done.exit_code != 0:
        raise ProbeError(done.why_not(f"{path} could not be read"))
    parts = done.stdout.split("\0", 14)
    if parts[0] == "absent" and len(parts) == 10:
        _, real, target, folder, writable, user, why, by, digest, _ = parts
        return HostFile(
            path=real,
            target=target,
            exists=False,
            folder=folder == "yes",
            writable=writable == "yes",
            user=user,
            refusal=refusal(why, by),
            digest=digest,
        )
    if parts[0] != "file" or len(parts) != 15:
        raise ProbeError(f"{path}: the output from the host is truncated")
    _, real, target, folder, writable, user, why, by, mode, links, owner, group, digest, size, text = parts
    _must_be_whole(real, text, digest, size)
    return HostFile(
        path=real,
        target=target,
        exists=True,
        folder=True,
        writable=writable == "yes",
        user=user,
        mode=mode,
        owner=owner,
        group=group,
        links=int(links),
        refusal=refusal(why, by),
        digest=digest,
        text=text,
    )


def _must_be_whole(path: str, text: str, digest: str, size: str) -> None:
    raw = text.encode("utf-8", "surrogateescape")
    if "\0" in text:
        raise ProbeError(f"{path} contains NUL bytes: it is not text")
    if digest_of(raw, digest) == digest and not _SURROGATE.search(text):
        return
    if _broken(text):
        line = next(number for number, it in enumerate(text.split("\n"), 1) if _broken(it))
        raise ProbeError(f"{path}: line {line} is not UTF-8 text")
    raise ProbeError(f"{path} was changed while it was read ({len(raw)} of {size} bytes were read)")


def _broken(line: str) -> bool:
    """Whether there is something in *line* that stands for bytes that are no UTF-8."""
    return "\ufffd" in line or bool(_SURROGATE.search(line))


_SURROGATE = re.compile("[\ud800-\udfff]")


def digest_of(raw: bytes, like: str) -> str:
    """The digest of *raw* as the host made the one that it is *like*."""
    if like.startswith("cksum:"):
        return f"cksum:{_cksum(raw)}:{len(raw)}"
    return f"sha256:{sha256(raw).hexdigest()}"


def _cksum(raw: bytes) -> int:
    """The CRC of POSIX ``cksum``."""
    table = []
    for byte in range(256):
        rest = byte << 24
        for _ in range(8):
            rest = (rest << 1) ^ 0x04C11DB7 if rest & 0x80000000 else rest << 1
        table.append(rest & 0xFFFFFFFF)
    length, tail = len(raw), bytearray()
    while length:
        tail.append(length & 0xFF)
        length >>= 8
    crc = 0
    for byte in (*raw, *tail):
        crc = ((crc << 8) & 0xFFFFFFFF) ^ table[(crc >> 24) ^ byte]
    return crc ^ 0xFFFFFFFF


def replace_file(file: HostFile, text: str, validate: tuple[str, ...], *, backup: bool) -> Command:
    """Replace the content of *file* by *text*, if the file is unchanged since it was read.

    Mode, owner, group, ACL and label stay.  The command *validate* must succeed first; ``{}`` in it stands for the new
    file.  With every exit code but 0 the file is unchanged; the last lines of stderr have the reason.
    """
    wanted = digest_of(text.encode(), file.digest)
    words = (file.path, file.target, file.digest, wanted, "yes" if backup else "no", octal(file.mode) or "644")
    made = write_script(_WRITE, *words, *validate, called=("patch-file", file.target))
    return replace(made, stdin=text, private=True, runs=(("", *validate),) if validate else ())


def octal(mode: str) -> str:
    """``-rw-r--r--`` as ``644``; empty for what is not a mode."""
    if len(mode) < 10:
        return ""
    bits = 0
    for number, letter in enumerate(mode[1:10]):
        bits |= (letter not in "-ST") << (8 - number)
    special = (mode[3] in "sS") * 4 + (mode[6] in "sS") * 2 + (mode[9] in "tT")
    return f"{special or ''}{bits:03o}"


_LOOK = VIEW + STAT_PATH + script(__package__, "config_file_read")
"""``$1`` path, ``$2`` the most bytes.  Fields end with zero bytes; the text comes last, as it is."""

_WRITE = SAFE + script(__package__, "config_file_write")
"""``$1`` path, ``$2`` file, ``$3`` digest seen, ``$4`` digest wanted, ``$5`` backup, ``$6`` mode, then the validation.

The new text is read from stdin into a folder beside the file, so that it keeps its name and is moved in one stroke.
The validation runs in ``/``: the directory that we come from may be another user's.
"""
