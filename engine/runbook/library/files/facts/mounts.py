"""Read the mounts of a host, and whether each file system answers; one that hangs does not delay the others."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from math import ceil
from typing import Literal

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.secrets.detection import masked_text
from runbook.shell import COMMON, script
from runbook.text.printable import on_one_line
from runbook.text.sizes import bytes_of
from runbook.values.command import Command, Completed, read_script
from runbook.values.types import Unknown, long_ago, seconds

Answer = Literal["ok", "hung", "failed", "unknown", "not asked"]

MAX_MOUNTS = 256
"""The maximum number of file systems that are asked at the same time."""

_KERNEL = (
    "proc sysfs cgroup cgroup2 devpts mqueue debugfs tracefs securityfs bpf pstore configfs fusectl hugetlbfs "
    "binfmt_misc nsfs rpc_pipefs efivarfs selinuxfs nfsd"
)
_OF_THE_KERNEL = frozenset(_KERNEL.split())
_REMOTE = re.compile(
    r"(nfs4?$|nfs$|cifs|smb|fuse(?!ctl)|9p|ceph|afs|gluster|lustre|gpfs|beegfs|orangefs|ocfs2|gfs2|wekafs|virtiofs|ncpfs)"
)
_NOT_READ = Unknown(why="the file system was not asked")
_OF_ROOT = "user_id=0"
PRIVATE = "it answers only the user who mounted it"
"""The reason why a FUSE file system without ``allow_other`` (mount.fuse(8)) is unknown, also to root."""
_REFUSED = re.compile(r"Permission denied|Operation not permitted")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A line of the table of mounts."""

    target: str
    """The mount point on one line; a newline in it is written out."""
    path: str = field(default="", repr=False, metadata={"private": True})
    """The mount point as the host has it."""
    source: str
    """The source: a device, or for NFS the server and its directory; passwords in it are masked."""
    server: str = ""
    """The server in ``server:/directory`` or ``//server/share``; empty if there is none."""
    type: str
    """The type of its file system: ext4, xfs, overlay, nfs4, fuse.sshfs ..."""
    options: tuple[str, ...]
    """The options of the mount and of its file system, without passwords."""
    read_only: bool
    """Whether the mount or the file system is read-only."""
    remote: bool
    """Whether the file system is served by a server or a program (FUSE), which may stop answering."""
    filesystem: str
    """The number of the file system, MAJOR:MINOR; it is the same for all mounts of a file system."""
    number: int
    """The number of the mount, by which the table is sorted."""
    answer: Answer = "not asked"
    """Whether its file system answered: ok, hung (not in time), failed (an error), unknown, not asked."""
    said: str = ""
    """The details of an answer other than ``ok``."""
    size: int | Unknown = _NOT_READ
    """The bytes of the whole file system."""
    avail: int | Unknown = _NOT_READ
    """The bytes that a user other than root may still write."""
    percent: float | Unknown = _NOT_READ
    """The used share, in percent, of the space that users may use."""
    inodes_free: int | Unknown = _NOT_READ
    """The number of files that can still be created; unknown if the file system has no limit."""
    say: str = ""
    """The mount described in one line for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    mount: Mount
    parent: int


def ask_mounts(pid: int) -> Command:
    """Return the command that reads the table of mounts as process *pid* sees it; 0: as the step itself sees it."""
    return read_script(_READ, str(pid or "self"))


def ask_answers(mounts: Sequence[Mount], pid: int, within: float) -> Command:
    """Return the command that asks each file system of *mounts*, at its first mount, and waits *within* seconds for an
    answer.
    """
    above = f"/proc/{pid}/root" if pid else ""
    pairs = [word for mount in mounts for word in (mount.filesystem, above + mount.path)]
    command = read_script(_ASK, str(ceil(within)), str(pid or "self"), *pairs)
    return replace(command, timeout=15.0, waits=within, called=("mounts", *(mount.target for mount in mounts)))


_READ = script(__package__, "mounts_read")
_ASK = COMMON + script(__package__, "mounts_ask")


def read_mounts(done: Completed) -> tuple[Mount, ...]:
    """Return the mounts in *done*, in the order of the table.  Raises ProbeError if the table cannot be read."""
    if done.timed_out:
        raise ProbeError("the table of mounts could not be read in time")
    if done.exit_code != 0 or done.cut:
        said = done.stderr.strip().splitlines()
        raise ProbeError(f"the table of mounts cannot be read: {said[-1] if said else 'it is not complete'}")
    rows = [row for line in done.stdout.split("\n") if (row := _row(line))]
    if not rows:
        raise ProbeError("the table of mounts is empty")
    by_number = {row.mount.number: row for row in rows}
    children: dict[int, list[_Row]] = {}
    for row in rows:
        children.setdefault(row.parent, []).append(row)
    return tuple(_not_to_be_asked(row.mount, _hidden(row, by_number, children)) for row in rows)


def server_of(source: str) -> str:
    """Return the server in *source*: ``filer:/export``, ``[2001:db8::1]:/export``, ``//files/share``.

    Empty: there is none.
    """
    found = re.match(r"//([^/]+)/|(\[[0-9a-fA-F:.]+\]|[^/:\s]+):/", source)
    return (found[1] or found[2]).strip("[]") if found else ""


def worded(mount: Mount) -> Mount:
    """Return *mount* with its line for people."""
    size = ""
    if not isinstance(mount.percent, Unknown) and not isinstance(mount.avail, Unknown):
        size = f"{mount.percent:g} % used, {bytes_of(mount.avail)} left"
    rest = mount.said or size
    return replace(mount, say=f"{mount.target} ({mount.type}, {mount.source})" + (f": {rest}" if rest else ""))


def _row(line: str) -> _Row | None:
    here, dash, there = line.partition(" - ")
    words, more = here.split(" "), there.split(" ")
    if not dash or len(words) < 6 or len(more) < 2 or not (words[0].isdecimal() and words[1].isdecimal()):
        return None
    of_both = dict.fromkeys([*words[5].split(","), *(more[2].split(",") if len(more) > 2 else ())])
    source = on_one_line(masked_text(_unescaped(more[1])))
    mount = Mount(
        target=on_one_line(_unescaped(words[4])),
        path=_unescaped(words[4]),
        source=source,
        server=server_of(source),
        type=more[0],
        options=tuple(on_one_line(masked_text(_unescaped(each))) for each in of_both if each),
        read_only="ro" in of_both,
        remote=bool(_REMOTE.match(more[0])),
        filesystem=words[2],
        number=int(words[0]),
    )
    return _Row(mount=mount, parent=int(words[1]))


def _unescaped(text: str) -> str:
    """Return *text* without the octal escapes of proc(5) for blanks, tabs, newlines, ``#`` and backslashes."""
    return re.sub(r"\\([0-7]{3})", lambda it: chr(int(it[1], 8)), text)


def _hidden(row: _Row, by_number: Mapping[int, _Row], children: Mapping[int, Sequence[_Row]]) -> str:
    """Return the target of the mount that hides *row* from every path; empty: it is not hidden."""
    way = [row]
    while (above := by_number.get(way[-1].parent)) is not None and above not in way:
        way.append(above)
    for here in way:
        path = here.mount.path
        for over in children.get(here.mount.number, ()):
            if over not in way and over.mount.path == path:
                return here.mount.target
        for over in children.get(here.parent, ()):
            if over not in way and _is_above(over.mount.path, path):
                return over.mount.target
    return ""


def _is_above(upper: str, lower: str) -> bool:
    return lower != upper and lower.startswith(upper.rstrip("/") + "/")


def _not_to_be_asked(mount: Mount, under: str) -> Mount:
    """Return *mount*, with the reason if nothing must be asked there."""
    if mount.type == "autofs":
        why = "it mounts something as soon as it is asked (autofs)"
    elif mount.type in _OF_THE_KERNEL:
        why = "it is the kernel's own"
    elif mount.path.endswith("//deleted"):
        why = "its directory was removed"
    elif under:
        why = f"it lies hidden under what is mounted at {under}"
    elif any(word == "\ufffd" or "\ud800" <= word <= "\udfff" for word in mount.path):
        return replace(mount, answer="unknown", said="its path is not UTF-8, and cannot be passed to the host")
    else:
        why = ""
    return replace(mount, said=why)


def worth_asking(mounts: Sequence[Mount]) -> tuple[Mount, ...]:
    """Return one mount of each file system to be asked, at most MAX_MOUNTS.

    The kernel's network file systems come first; file systems that users of the host can make come late.  The last are
    those that answer only their own user.
    """
    chosen: dict[str, Mount] = {}
    for mount in sorted(mounts, key=_rank):
        if mount.answer == "not asked" and not mount.said:
            chosen.setdefault(mount.filesystem, mount)
    return tuple(chosen.values())[:MAX_MOUNTS]


def _rank(mount: Mount) -> tuple[bool, bool, bool, bool, int]:
    fuse = mount.type.startswith("fuse")
    return bool(is_private(mount)), _is_of_user(mount), not mount.remote, fuse, len(mount.path)


def _is_of_user(mount: Mount) -> bool:
    """Whether *mount* is a FUSE mount of a user other than root (every user can make one with fusermount)."""
    return mount.type.startswith("fuse") and _OF_ROOT not in mount.options


def is_private(mount: Mount) -> str:
    """Return the reason why only the user who mounted it can ask it, not even root; empty: others can.

    The kernel shows ``allow_other`` also for ``allow_root`` of libfuse.
    """
    return _private(mount) if _is_of_user(mount) and "allow_other" not in mount.options else ""


def _private(mount: Mount) -> str:
    return f"{PRIVATE} ({next((option for option in mount.options if option.startswith('user_id=')), 'its owner')})"


def read_answers(done: Completed, mounts: Sequence[Mount], asked: Sequence[Mount], within: float) -> tuple[Mount, ...]:
    """Return *mounts* with the answers in *done* from the file systems of *asked*."""
    if done.timed_out or done.exit_code != 0:
        why = done.stderr.strip() or "the host did not say in time whether its file systems answer"
        return tuple(replace(mount, answer="unknown", said=why) if _open(mount) else mount for mount in mounts)
    lines: dict[str, tuple[str, str]] = {}
    ids: set[str] = set()
    for line in done.stdout.split("\n"):
        word, _, rest = line.partition(" ")
        if word == "ids":
            ids = set(rest.split())
        elif word in ("said", "hung", "earlier"):
            number, _, text = rest.partition(" ")
            lines.setdefault(number, (word, text))
    answered = {mount.filesystem: _answered(mount, *lines.get(mount.filesystem, ("", "")), within) for mount in asked}
    separate = _without_those_behind(answered)
    return tuple(_with_answer(mount, separate, ids) for mount in mounts)


def _open(mount: Mount) -> bool:
    return mount.answer == "not asked" and not mount.said


def _with_answer(mount: Mount, answered: Mapping[str, Mount], ids: set[str]) -> Mount:
    if not _open(mount):
        return mount
    one = answered.get(mount.filesystem)
    if (one is None or one.answer == "unknown") and (why := is_private(mount)):
        return replace(mount, answer="unknown", said=why)
    if str(mount.number) not in ids:
        return replace(mount, answer="unknown", said="it was unmounted meanwhile")
    if one is None:
        return replace(
            mount, answer="unknown", said=f"more than {MAX_MOUNTS} file systems are mounted: name those that count"
        )
    same = "" if one.number == mount.number or not one.said else f" (asked at {one.target})"
    return replace(
        mount,
        answer=one.answer,
        said=one.said + same,
        size=one.size,
        avail=one.avail,
        percent=one.percent,
        inodes_free=one.inodes_free,
    )


def _without_those_behind(answered: Mapping[str, Mount]) -> dict[str, Mount]:
    """Return *answered*; a hung file system below another hung one is unknown, because its own answer is not proven."""
    hung = [mount for mount in answered.values() if mount.answer == "hung"]
    found = dict(answered)
    for mount in hung:
        if above := next((other.target for other in hung if _is_above(other.path, mount.path)), ""):
            said = f"the way to it leads through {above}, which does not answer"
            found[mount.filesystem] = replace(mount, answer="unknown", said=said)
    return found


def _answered(mount: Mount, word: str, text: str, within: float) -> Mount:
    """Return *mount* with its answer, or with the remark that it gave no answer."""
    if word == "hung":
        stuck = f"; the stat that asked hangs there and cannot be ended (pid {text.strip()})" if text.strip() else ""
        return replace(mount, answer="hung", said=f"no answer within {seconds(ceil(within))}{stuck}")
    if word == "earlier":
        pid, _, ago = text.partition(" ")
        since = f" for {long_ago(int(ago))}" if ago.isdecimal() else ""
        said = f"a stat that an earlier run started hangs there{since} (pid {pid}), so no other was started"
        return replace(mount, answer="hung", said=said)
    if word != "said":
        return replace(mount, answer="unknown", said="nothing came back from the process that asked")
    mark, _, numbers = text.partition(" ")
    if mark == "runbook-mount":
        return _with_space(mount, numbers.split()[1:])
    why = on_one_line(text.rpartition(": ")[2].strip()) or "stat printed nothing"
    return replace(mount, answer="unknown" if _REFUSED.search(why) else "failed", said=why)


def _with_space(mount: Mount, words: Sequence[str]) -> Mount:
    """Return *mount* with the values of statfs(2): block size, blocks, free blocks, blocks for users, inodes, free
    inodes.
    """
    if len(words) != 6 or not all(word.isdecimal() for word in words):
        return replace(mount, answer="unknown", said=f"stat printed {' '.join(words)[:80]!r}")
    block, blocks, free, avail, inodes, inodes_free = map(int, words)
    if mount.type.startswith("fuse") and not blocks and not inodes and "allow_other" not in mount.options:
        return replace(mount, answer="unknown", said=_private(mount))
    used = blocks - free
    return replace(
        mount,
        answer="ok",
        size=block * blocks,
        avail=block * avail,
        percent=round(100 * used / (used + avail), 1) if used + avail > 0 else Unknown(why="it has no size"),
        inodes_free=inodes_free if inodes else Unknown(why="it sets no limit to the number of files"),
    )
