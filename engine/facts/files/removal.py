"""Files and directories that could be removed: what matches, where it really lies, and the script that removes it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from engine.errors import ProbeError
from engine.facts.files.path_safety import refusal
from engine.shell import SAFE
from engine.values.command import Command, Completed, read_script, write_script

_SYSTEM = "/ /bin /boot /dev /etc /lib /lib64 /proc /root /run /sbin /sys /usr /var"
_PLACES = (
    "/home /lib32 /libx32 /media /mnt /opt /srv /tmp /usr/bin /usr/lib /usr/lib64 /usr/local /usr/sbin /usr/share "
    "/var/cache /var/lib /var/log /var/run /var/tmp"
)
TOO_WIDE = frozenset(_SYSTEM.split())
"""Directories that are too much to be a root."""

NEVER = TOO_WIDE | frozenset(_PLACES.split())
"""Directories of every host that are not removed, whatever stands in ``allowed_roots``."""

_KINDS = {"4": "directory", "8": "file", "a": "link"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Something that matches."""

    path: str
    """Where it really lies: no directory on the way is a symbolic link."""
    kind: str
    """``file``, ``directory``, ``link`` (which is removed itself, never what it leads to) or ``other``."""
    inode: str
    """``device:inode``."""
    modified: int
    """Seconds since 1970; of a directory, the latest of all that is in it."""
    moment: str
    """The same as the host writes it, with as many digits as it has."""
    bytes: int
    """On disk, with all that is in it."""
    patterns: tuple[int, ...]
    """The numbers of the patterns that it matches."""
    owner: str = "0"
    """The number of the user whose it is."""
    refusal: str = ""
    """Why it is not removed, with what to do: another user could lead the removal elsewhere (law 9)."""

    @property
    def key(self) -> str:
        """Its identity."""
        return f"{self.path} {self.inode} {self.modified}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a look at some patterns found."""

    entries: tuple[Entry, ...]
    roots: tuple[str, ...]
    """Where the allowed roots really lie; those that are not there are left out."""
    home: str
    mounts: tuple[str, ...]
    now: int


def ask_entries(patterns: tuple[str, ...], roots: tuple[str, ...]) -> Command:
    """What matches *patterns*, and where *roots* lie."""
    return read_script(_LOOK, str(len(roots)), *roots, *patterns)


_STEADY = r"""
case $(rm --version 2>/dev/null) in *'GNU coreutils'*) steady=yes ;; *) steady=no ;; esac
alone=0
if safe_alone "$(id -g)" ''; then alone=$(id -g); fi
led_astray() {  # directory: whether rm could be led elsewhere in it; sets why and owner
    [ "$steady" = no ] || return 1
    why='what is in it cannot be inspected, and the rm of this host goes by names' owner=
    loose=$(find "$1" -xdev -type d \( ! -user 0 ! -user "$safe_me" ! -user "${safe_outside:-0}" \
        -o -perm -002 -o -perm -020 ! -group 0 ! -group "$alone" \) -print 2>/dev/null) || return 0
    [ -n "$loose" ] || return 1
    loose=${loose%%"
"*}
    why="others can write to $loose, and lead the rm of this host elsewhere meanwhile (that of GNU could not be led)"
    safe_stat "$loose" && ! safe_ours "$uid" || return 0
    safe_belongs "$loose" "$uid" 'who could lead the rm of this host elsewhere meanwhile (that of GNU could not be led)'
}
"""
"""GNU's rm, unlike others, opens each directory from the one above it, and follows no link however fast one appears."""

_LOOK = (
    SAFE
    + _STEADY
    + r"""
LC_ALL=C; export LC_ALL
fail() { printf '%s\n' "$*" >&2; exit 3; }
real() { r=$(readlink -f "$1" 2>/dev/null; echo x); r=${r%x}; r=${r%?}; [ -n "$r" ]; }
said() { printf '%s\0' "$@"; }
newest() { find "$1" -xdev -exec stat -c %Y -- {} + 2>/dev/null | sort -n | tail -n 1; }
IFS=
[ -r /proc/self/mountinfo ] || fail '/proc/self/mountinfo cannot be read, so what is mounted where is not known'
left=$1; shift
while [ "$left" -gt 0 ]; do
    if [ -d "$1" ] && real "$1"; then said root "$r"; fi
    shift; left=$((left - 1))
done
real "${HOME:-/root}" && said home "$r"
said now "$(date +%s)"
number=0 last= dir=
for glob; do
    up=$glob
    while :; do
        case $up in *[*?[]*) ;; *) break ;; esac
        up=${up%/*}
        for one in $up; do
            [ ! -d "${one:-/}" ] || { [ -r "${one:-/}" ] && [ -x "${one:-/}" ]; } ||
                fail "$(id -un) may not look into ${one:-/}, so what matches $glob is not known"
        done
    done
    up=$glob
    while [ -n "$up" ] && [ ! -e "$up" ]; do up=${up%/*}; done
    [ ! -d "${up:-/}" ] || [ -x "${up:-/}" ] || fail "$(id -un) may not look into $up, so $glob is not known"
    case $glob in *[*?[]*) set -- $glob ;; *) set -- "$glob" ;; esac
    if [ $# -gt 1 ] || [ -e "$1" ] || [ -L "$1" ]; then
        all=$(stat -c '%f %d:%i %Y %b %B %u %y' -- "$@" 2>&1) || fail "$all"
        said stats $number "$all"
        for one; do
            if [ "${one%/*}/" != "$last" ]; then
                last=${one%/*}/
                real "$last" || fail "$one: its directory leads nowhere"
                dir=${r%/} unsafe= become=
                safe_enter "${dir:-/}" || unsafe=$why become=$owner
            fi
            size= young= astray= by=
            if [ -d "$one" ] && [ ! -L "$one" ]; then
                size=$(du -skx -- "$one" 2>/dev/null) || fail "$one: not all of it can be read"
                size=${size%%[!0-9]*}
                young=$(newest "$dir/${one##*/}")
                [ -n "$young" ] || fail "$one: when it was last written to is not known"
                if [ -z "$unsafe" ] && led_astray "$dir/${one##*/}"; then astray=$why by=$owner; fi
            fi
            said entry "$dir/${one##*/}" "$size" "$young" "${unsafe:-$astray}" "${unsafe:+$become}$by"
        done
    fi
    number=$((number + 1))
done
said mounts "$(cat /proc/self/mountinfo)"
"""
)
"""``$1`` number of roots, the roots, the patterns."""


def read_entries(done: Completed) -> Found:
    """The answer to ``ask_entries``.  Raises ProbeError."""
    if done.timed_out:
        raise ProbeError("what would be removed could not be inspected in time")
    if done.exit_code != 0:
        raise ProbeError(done.stderr.strip() or f"what would be removed is not known (exit code {done.exit_code})")
    words = done.stdout.split("\0")
    if words[-1] != "" or len(words) < 2 or words[-3] != "mounts":
        raise ProbeError("what would be removed is not known: the answer of the host is cut off")
    try:
        return _found(words)
    except (ValueError, IndexError) as error:
        raise ProbeError("what would be removed is not known: the answer of the host is cut off") from error


def _found(words: list[str]) -> Found:
    roots: list[str] = []
    home, now = "/root", 0
    found: dict[str, Entry] = {}
    at = 0
    while words[at] != "mounts":
        match words[at]:
            case "root":
                roots.append(words[at + 1])
            case "home":
                home = words[at + 1]
            case "now":
                now = int(words[at + 1])
            case "stats":
                at = _take(words, at, found)
                continue
        at += 2
    return Found(
        entries=tuple(found.values()),
        roots=tuple(dict.fromkeys(roots)),
        home=home,
        mounts=tuple(_mounts(words[at + 1])),
        now=now,
    )


def _take(words: list[str], at: int, found: dict[str, Entry]) -> int:
    """Read the matches of one pattern; the place after them."""
    number, lines = int(words[at + 1]), words[at + 2].split("\n")
    at += 3
    for line in lines:
        if words[at] != "entry":
            raise ProbeError("what would be removed is not known: the host does not say which is which")
        path, kib, newest, why, owner = words[at + 1 : at + 6]
        before = found.get(path)
        entry = _entry(path, kib, newest, line, (*before.patterns, number) if before else (number,))
        found[path] = replace(entry, refusal=refusal(why, owner))
        at += 6
    return at


def _entry(path: str, kib: str, newest: str, line: str, patterns: tuple[int, ...]) -> Entry:
    raw, inode, modified, blocks, size, owner, moment = line.split(" ", 6)
    return Entry(
        path=path,
        kind=_KINDS.get(raw[0] if len(raw) == 4 else "", "other"),
        inode=inode,
        modified=int(newest or modified),
        moment=moment,
        owner=owner,
        bytes=int(kib) * 1024 if kib else int(blocks) * int(size),
        patterns=patterns,
    )


def _mounts(table: str) -> Iterable[str]:
    for line in table.split("\n"):
        fields = line.split(" ")
        if len(fields) > 4:
            yield re.sub(r"\\([0-7]{3})", lambda it: chr(int(it[1], 8)), fields[4])


def forbidden(entry: Entry, found: Found, *, directories: bool) -> str:
    """Why *entry* must not be removed; empty: it may."""
    path = entry.path
    if "\ufffd" in path or any("\ud800" <= it <= "\udfff" for it in path):
        return f"{path!r}: its name is no UTF-8 text, so it cannot be named to the host"
    if wide := next((it for it in found.roots if it in TOO_WIDE), ""):
        return f"{path}: an allowed root leads to {wide}, which is too much to be one"
    if path in NEVER or re.fullmatch("/home/[^/]+", path) or path.rpartition("/")[2] in ("", ".", ".."):
        return f"{path} belongs to the system"
    if path in found.roots:
        return f"{path} is a root itself"
    if not any(path.startswith(f"{it}/") for it in found.roots):
        return f"{path} lies outside {' and '.join(found.roots) or 'the allowed roots, none of which is there'}"
    if found.home == path or found.home.startswith(f"{path}/"):
        return f"{path} is, or holds, the home directory {found.home}"
    if entry.kind != "link" and (below := next((it for it in found.mounts if f"{it}/".startswith(f"{path}/")), "")):
        return f"{path} is a mount point" if below == path else f"{path} holds the mount point {below}"
    if entry.refusal:
        return f"{path}: {entry.refusal}"
    if entry.kind == "directory" and not directories:
        return f"{path} is a directory: `directories: true` removes those with all that is in them"
    return ""


def remove(entries: Iterable[Entry]) -> Command:
    """Remove *entries*, each only if it is still what was seen; measure the room before and after by df.

    Exit code 1: something was left alone or would not go; stderr says what and why.
    """
    seen = tuple(entries)
    words = [word for it in seen for word in (*_parted(it.path), f"{it.inode}:{it.modified}", it.kind)]
    return write_script(_REMOVE, *words, called=("remove", *(it.path for it in seen)))


def _parted(path: str) -> tuple[str, str]:
    folder, _, name = path.rpartition("/")
    return folder or "/", name


_REMOVE = (
    SAFE
    + _STEADY
    + r"""
LC_ALL=C; export LC_ALL
dir=$1
room() { df -Pk "$dir" 2>/dev/null | { read -r head; read -r device total used free rest && echo "$free"; }; }
newest() { find "$1" -xdev -exec stat -c %Y -- {} + 2>/dev/null | sort -n | tail -n 1; }
in_use() {  # whether a process that we may look into has a file below $where open, or stands there
    { ls -l /proc/[0-9]*/fd; ls -ld /proc/[0-9]*/cwd; } 2>/dev/null | WHERE=$where awk '
        { at = index($0, " -> "); to = substr($0, at + 4) }
        at && (to == ENVIRON["WHERE"] || index(to, ENVIRON["WHERE"] "/") == 1) { found = 1 }
        END { exit !found }'
}
left() { printf '%s: left alone: %s\n' "$where" "$*" >&2; failed=1; }
below() {  # whether something is mounted at or below $where
    while read -r id parent device root point rest; do
        case $point in *\\*)  # octal, as \040
            point=$(printf '%bx' "$(printf %s "$point" | sed 's/\\\([0-7][0-7][0-7]\)/\\0\1/g')"); point=${point%x} ;;
        esac
        case $point/ in "$where"/*) return 0 ;; esac
    done </proc/self/mountinfo
    return 1
}
before=$(room) failed= gone=0
while [ $# -ge 4 ]; do
    dir=$1 name=$2 seen=$3 sort=$4; shift 4
    where=${dir%/}/$name
    safe_enter "$dir" || { [ ! -e "$dir" ] && continue; left "$why${owner:+ (become: $owner)}"; continue; }
    here=$(pwd -P; echo x); here=${here%x}; here=${here%?}
    [ "$here" = "$dir" ] || { left "its directory leads elsewhere than when it was inspected"; continue; }
    [ -e "./$name" ] || [ -L "./$name" ] || continue
    now=$(stat -c '%d:%i:%Y' -- "./$name" 2>/dev/null)
    [ "$sort" != directory ] || now=${now%:*}:$(newest "./$name")
    [ "$now" = "$seen" ] || { left "it has changed since it was inspected"; continue; }
    if [ "$sort" = directory ]; then
        [ -d "./$name" ] && [ ! -L "./$name" ] || { left "it is no directory any more"; continue; }
        [ -r /proc/self/mountinfo ] && ! below || { left "something is mounted in it"; continue; }
        ! led_astray "./$name" || { left "$why${owner:+ (become: $owner)}"; continue; }
        ! in_use || { left "a process uses what is in it"; continue; }
        why=$(rm -rf -- "./$name" 2>&1)
    else why=$(rm -f -- "./$name" 2>&1)
    fi
    if [ -e "./$name" ] || [ -L "./$name" ]; then left "${why:-it is still there}"; else gone=$((gone + 1)); fi
done
after=$(room)
printf '%s removed; free on the disk by df: %s KiB before, %s KiB after\n' "$gone" "${before:-?}" "${after:-?}"
[ -z "$failed" ]
"""
)
"""For each: its directory, its name, ``device:inode:modified``, and what it is."""
