"""Read one configuration file of the host whole, and put another text in its place in one stroke."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from hashlib import sha256

from engine.errors import ProbeError
from engine.facts.files.path_safety import REFUSED, STAT_PATH, refusal, refused
from engine.shell import SAFE, VIEW
from engine.values.command import Command, Completed, Effect, write_script

LARGEST = 1 << 20
"""Bytes that a configuration file may have."""

CHANGED, INVALID, NOT_WRITTEN, NOT_ALIKE = 10, 11, 12, 13
"""Exit codes of the write: the file is as it was in each case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFile:
    """A file as a look saw it."""

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
    """Who inspected it."""
    mode: str = ""
    """As ``ls`` shows it: ``-rw-r--r--``."""
    owner: str = ""
    group: str = ""
    links: int = 1
    """How many names it has."""
    refusal: str = ""
    """Why nothing may be written there, with what to do: another user can exchange what is on the way (law 9)."""
    digest: str
    """``sha256:...``, or ``cksum:...`` where the host has no sha256sum; ``...:absent`` of no file."""
    text: str = ""

    @property
    def key(self) -> str:
        """Its identity: which file it is, by which way, and what is in it."""
        way = f"{self.path} -> {self.target}" if self.path != self.target else self.path
        return f"{way} {self.digest}"


def ask_file(path: str) -> Command:
    """The look at *path*, which is absolute or begins with ``~/``."""
    return Command(script=_LOOK, argv=(path, str(LARGEST)), effect=Effect.READ, private=True)


def read_file(path: str, done: Completed) -> HostFile:
    """What ``ask_file`` found.  Raises ProbeError when it cannot be known, or is not text."""
    if done.timed_out:
        raise ProbeError(f"{path} could not be read in time")
    if done.exit_code == REFUSED:
        raise ProbeError(refused(path, done.stderr))
    if done.exit_code != 0:
        raise ProbeError(done.stderr.strip() or f"{path} could not be read (exit code {done.exit_code})")
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
        raise ProbeError(f"{path}: the answer of the host is cut off")
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
        raise ProbeError(f"{path} holds zero bytes: it is no text")
    if digest_of(raw, digest) == digest and not _SURROGATE.search(text):
        return
    if _broken(text):
        line = next(number for number, it in enumerate(text.split("\n"), 1) if _broken(it))
        raise ProbeError(f"{path}: line {line} is not UTF-8 text")
    raise ProbeError(f"{path} was changed while it was read ({len(raw)} of {size} bytes came)")


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
    """Put *text* in the place of *file*, if that is still what was seen.

    Mode, owner, group, ACL and label stay.  *validate* must agree first: ``{}`` in it stands for the new file.
    Every exit code but 0 says that the file is as it was; the last lines of stderr say why.
    """
    wanted = digest_of(text.encode(), file.digest)
    words = (file.path, file.target, file.digest, wanted, "yes" if backup else "no", octal(file.mode) or "644")
    made = write_script(_WRITE, *words, *validate, called=("patch-file", file.target))
    return replace(made, stdin=text, private=True)


def octal(mode: str) -> str:
    """``-rw-r--r--`` as ``644``; empty for what is no mode."""
    if len(mode) < 10:
        return ""
    bits = 0
    for number, letter in enumerate(mode[1:10]):
        bits |= (letter not in "-ST") << (8 - number)
    special = (mode[3] in "sS") * 4 + (mode[6] in "sS") * 2 + (mode[9] in "tT")
    return f"{special or ''}{bits:03o}"


_LOOK = (
    VIEW
    + STAT_PATH
    + r"""
set -f
path=$1 most=$2
peek "$path" follow
if [ "$kind" = absent ]; then
    nothing_there
    if command -v sha256sum >/dev/null 2>&1; then digest=sha256:absent; else digest=cksum:absent; fi
    printf '%s\0' absent "$path" "$target" $there $writable "$user" "$unsafe" "$become" $digest
    exit 0
fi
[ "$kind" != directory ] || fail "$path is a folder"
[ "$kind" = file ] || fail "$path is no regular file"
[ -r "./$name" ] || fail "$path may not be read by $user"
size=$(bytes) && size=$((size)) || fail "$path could not be read"
[ $size -le $most ] || fail "$path has $size bytes; a configuration file has at most $most"
set -- $(ls -ldn "./$name") || fail "$path: ls does not show it"
mode=$1 links=$2
set -- $(ls -ld "./$name")
owner=$3 group=$4
if command -v sha256sum >/dev/null 2>&1; then digest=$(content | sha256sum) && digest=sha256:${digest%% *}
else digest=$(content | cksum) && set -- $digest && digest=cksum:$1:$2
fi || fail "$path could not be read"
printf '%s\0' file "$path" "$target" $there $writable "$user" "$unsafe" "$become"
printf '%s\0' "$mode" "$links" "$owner" "$group" "$digest" $size
content
"""
)
"""``$1`` path, ``$2`` the most bytes.  Fields end with zero bytes; the text comes last, as it is."""

_WRITE = (
    SAFE
    + r"""
LC_ALL=C; export LC_ALL
umask 077
path=$1 target=$2 seen=$3 wanted=$4 backup=$5 bits=$6; shift 6
there=yes kept='' work=''
case $seen in *:absent) there=no ;; esac
fail() { code=$1; shift; printf '%s\n' "$*" >&2; exit "$code"; }
not() { fail 12 "$path: nothing was written: $*"; }
digest() {
    case $wanted in
        sha256:*) sum=$(sha256sum <"$1") && printf 'sha256:%s' "${sum%% *}" ;;
        *) sum=$(cksum <"$1") && set -- $sum && printf 'cksum:%s:%s' "$1" "$2" ;;
    esac
}
unchanged() {
    now=$path
    if [ -L "$path" ]; then now=$(readlink -f "$path"; echo x); now=${now%x}; now=${now%?}; fi
    [ "$now" = "$target" ] || fail 10 "$path leads to another file than when it was inspected: nothing was written"
    if [ $there = no ]; then
        [ ! -e "./$name" ] && [ ! -L "./$name" ] ||
            fail 10 "$path has appeared since it was inspected: nothing was written"
    else
        [ -f "./$name" ] && [ ! -L "./$name" ] && [ "$(digest "./$name" 2>/dev/null)" = "$seen" ] ||
            fail 10 "$path has changed since it was inspected: nothing was written"
    fi
}
copy() { cp --preserve=all -- "$1" "$2" 2>/dev/null || cp -p -- "$1" "$2"; }
attributes() {
    label=$(stat -c %C -- "$1" 2>/dev/null)
    list=$(getfacl -cp -- "$1" 2>/dev/null)
    set -- $(ls -ldn "$1")
    printf '%s\n' "$1 $3 $4" "$label" "$list"
}
quoted() { printf "'%s'" "$(printf %s "$1" | sed "s/'/'\\\\''/g")"; }
safe_beside "$path" last || not "$why${owner:+ (become: $owner)}"
dir=${real%/*}
unchanged
safe_tidy
set -f
trap '[ -z "$kept" ] || rm -f -- "./$kept"; [ -z "$work" ] || rm -rf -- "./$work"' EXIT
trap 'exit 12' HUP INT TERM
safe_workshop && why=$(mkdir -- "./$work/new" "./$work/old" 2>&1) || not "$why"
new=./$work/new/$name was=./$work/old/$name
if [ $there = yes ]; then
    why=$(copy "./$name" "$new" 2>&1) || not "$why"
    [ -w "$new" ] || chmod u+w "$new" 2>/dev/null
fi
why=$(cat 2>&1 >"$new") || not "${why:-there is no room for it}"
[ "$(digest "$new")" = "$wanted" ] || not 'the new text did not come whole'
why=$(chmod "$bits" "$new" 2>&1) || fail 13 "$path: nothing was written: $why"
if [ $there = yes ]; then
    if command -v chcon >/dev/null 2>&1; then chcon --reference="./$name" -- "$new" 2>/dev/null; fi
    [ "$(attributes "$new")" = "$(attributes "./$name")" ] ||
        fail 13 "$path: nothing was written: its owner, mode, ACL or label cannot be given to a new file by $(id -un)"
fi
sync "$new" 2>/dev/null
if [ $# -gt 0 ]; then
    left=$#
    while [ $left -gt 0 ]; do
        word=$1; shift
        case $word in *'{}'*) word=${word%%'{}'*}$dir${new#.}${word#*'{}'} ;; esac
        set -- "$@" "$word"; left=$((left - 1))
    done
    why=$(cd / && "$@" 2>&1 </dev/null) ||
        fail 11 "$path: nothing was written: $1 refuses the new text (exit code $?): $why"
    [ "$(digest "$new")" = "$wanted" ] || fail 11 "$path: nothing was written: $1 has changed the new text"
fi
put_beside() {  # the copy, under the name $place, unless there is something of that name
    if [ -e "./$place" ] || [ -L "./$place" ]; then return 1; fi
    if [ "$shared" = no ] && ln -- "$was" "./$place" 2>/dev/null; then return 0; fi
    safe_put "$was" "$place" || not "no backup: $why"
}
if [ "$backup" = yes ] && [ $there = yes ]; then
    why=$(copy "./$name" "$was" 2>&1) || not "no backup: $why"
    [ "$(digest "$was")" = "$seen" ] || fail 10 "$path has changed since it was inspected: nothing was written"
    moment=$(date +%Y%m%d-%H%M%S) number=1 place=$name.backup-$moment
    until put_beside; do number=$((number + 1)); place=$name.backup-$moment-$number; done
    kept=$place
    sync "./$kept" 2>/dev/null
fi
unchanged
safe_put "$new" "$name" || not "$why"
sync . 2>/dev/null
if [ -n "$kept" ]; then
    printf 'to put it back by hand: cp -p -- %s %s\n' "$(quoted "${target%/*}/$kept")" "$(quoted "$path")"
fi
kept=
exit 0
"""
)
"""``$1`` path, ``$2`` file, ``$3`` digest seen, ``$4`` digest wanted, ``$5`` backup, ``$6`` mode, then the validation.

The new text is read from stdin into a folder beside the file, so that it keeps its name and is moved in one stroke.
The validation runs in ``/``: the directory that we come from may be another user's.
"""
