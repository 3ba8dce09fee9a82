"""A file or a directory of the host as it stands, and the script that makes it as it shall be."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256

from engine.errors import ProbeError
from engine.facts.files.path_safety import REFUSED, STAT_PATH, refusal, refused
from engine.shell import SAFE, VIEW
from engine.text.secret_lines import masked_config
from engine.text.unified_diff import unified
from engine.values.command import Command, Completed, Effect, write_script

LARGEST = 256 * 1024
"""Bytes of a file that are read for the sake of a diff."""

CHANGED, NOT_WRITTEN = 10, 12
"""Exit codes of the write: what was there is as it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathState:
    """What is at a path."""

    path: str
    """As asked, with the home folder filled in; the file itself where a symbolic link was to be followed."""
    kind: str
    """``absent``, ``file``, ``directory``, ``link`` or ``other``."""
    leads_to: str = ""
    """Where a symbolic link points."""
    digest: str = ""
    """sha256 of a file's content, hexadecimal."""
    mode: str = ""
    """Octal: ``644``."""
    owner: str = ""
    group: str = ""
    ids: tuple[str, str] = ("", "")
    """The numbers of its user and its group."""
    meant: tuple[str, str] = ("", "")
    """The numbers of the user and the group that were asked about; empty where the host knows no such name."""
    links: int = 1
    """How many names a file has."""
    inode: str = ""
    """``device:inode``."""
    parent: str = ""
    """``yes`` where the directory that it lies in is there, ``no``, or what stands there instead."""
    user: str = ""
    """Who inspected it."""
    refusal: str = ""
    """Why nothing may be written there, with what to do: another user can exchange what is on the way (law 9)."""
    text: str | None = None
    """A file's content; None where it is too long, or no text."""

    @property
    def key(self) -> str:
        """Its identity: a file is its path and content, everything else its path and what it is."""
        return f"{self.path} {self.kind} {self.digest or self.inode}".strip()

    @property
    def itself(self) -> str:
        """Its identity where its content stays as it is: a log may grow, and is the same file."""
        return f"{self.path} {self.kind} {self.inode}".strip()


def ask_place(path: str, *, follow: bool, owner: str = "", group: str = "") -> Command:
    """Look at *path*, which is absolute or begins with ``~/``, and at who *owner* and *group* are there."""
    argv = (path, "yes" if follow else "no", str(LARGEST), owner, group)
    return Command(script=_LOOK, argv=argv, effect=Effect.READ, private=True)


def read_place(path: str, done: Completed) -> PathState:
    """The answer to ``ask_place``.  Raises ProbeError."""
    if done.timed_out:
        raise ProbeError(f"{path} could not be inspected in time")
    if done.exit_code == REFUSED:
        raise ProbeError(refused(path, done.stderr))
    if done.exit_code != 0:
        raise ProbeError(done.stderr.strip() or f"{path} could not be inspected (exit code {done.exit_code})")
    parts = done.stdout.split("\0", 18)
    if len(parts) != 19:
        raise ProbeError(f"{path}: the answer of the host is cut off")
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
    return "\0" in text or "\ufffd" in text or any("\ud800" <= it <= "\udfff" for it in text)


def difference(place: PathState, text: str | None) -> str:
    """What putting *text* there would change, as ``diff -u`` shows it, without the values of secrets."""
    if text is None:
        return ""
    if place.kind == "file" and place.text is None:
        return f"{place.path} is too long, or no text: its content (sha256 {place.digest[:12]}) is not shown\n"
    names = (place.path if place.kind == "file" else "/dev/null", place.path)
    return unified(place.text or "", text, *names, show=masked_config)


_LOOK = (
    VIEW
    + STAT_PATH
    + r"""
path=$1 follow=$2 most=$3 their_user=$4 their_group=$5
[ "$follow" = yes ] && peek "$path" follow || peek "$path" stay
path=$target
uid_of=
[ -z "$their_user" ] || uid_of=$(id -u "$their_user" 2>/dev/null)
gid_of=$(
    { if command -v getent >/dev/null 2>&1; then getent group "$their_group"; else cat /etc/group; fi; } 2>/dev/null |
        while IFS=: read -r entry _ number _; do [ "$entry" != "$their_group" ] || { echo "$number"; break; }; done
)
leads= digest= mode= owner= group= uid= gid= links= inode= size=0
dir=${path%/*}; [ -n "$dir" ] || dir=/
[ "$kind" != absent ] || nothing_there
if [ $there = yes ]; then parent=yes
elif [ -e "$dir" ] || [ -L "$dir" ]; then parent="$dir is no directory"
else
    parent=no
    [ -n "$unsafe" ] || (safe_enter "${up:-/}") || { safe_enter "${up:-/}"; unsafe=$why become=$owner owner=; }
fi
if [ "$kind" != absent ]; then
    [ "$kind" != link ] || leads=$(readlink "./$name")
    set -- $(stat -c '%a %U %G %d:%i %s %u %g %h' "./$name") || fail "$path: stat does not show it"
    [ $# -eq 8 ] || fail "$path: stat shows it in an unknown form"
    mode=$1 owner=$2 group=$3 inode=$4 size=$5 uid=$6 gid=$7 links=$8
fi
if [ "$kind" = file ]; then
    [ -r "./$name" ] || fail "$path may not be read by $user"
    digest=$(whole | sha256sum) || fail "$path could not be read"
    digest=${digest%% *}
fi
printf '%s\0' place "$path" "$kind" "$leads" "$digest" "$mode" "$owner" "$group" "$uid" "$gid" "$uid_of" "$gid_of"
printf '%s\0' "$links" "$inode" "$parent" "$user" "$unsafe" "$become"
[ "$kind" != file ] || [ "$size" -gt "$most" ] || content
exit 0
"""
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredPath:
    """How a place shall be; what is empty or None stays as it is."""

    directory: bool = False
    text: str | None = None
    mode: str = ""
    owner: str = ""
    group: str = ""


def make(place: PathState, wanted: DesiredPath, *, parents: bool = False, backup: bool = False) -> Command:
    """Make *place* as *wanted*, if it is still what was seen; else exit with CHANGED and leave it.

    A file's new content takes its place in one stroke.
    """
    seen = place.digest if place.kind == "file" and wanted.text is not None else place.inode
    new = "" if wanted.text is None else sha256(wanted.text.encode()).hexdigest()
    kind = "directory" if wanted.directory else "file"
    asked = (kind, place.path, place.kind, seen, new, wanted.mode, wanted.owner, wanted.group)
    flags = ("yes" if parents else "no", "yes" if backup else "no")
    called = ("write-file", place.path, *((f"mode={wanted.mode}",) if wanted.mode else ()))
    made = write_script(_WRITE, *asked, *flags, called=called)
    return replace(made, stdin=wanted.text or "", private=True)


_WRITE = (
    SAFE
    + r"""
LC_ALL=C; export LC_ALL
umask 022
what=$1 path=$2 was=$3 seen=$4 new=$5 bits=$6 by=$7 group=$8; shift 8
parents=$1 backup=$2 work=''
fail() { code=$1; shift; printf '%s\n' "$*" >&2; exit "$code"; }
not() { fail 12 "$path: nothing was written: $*"; }
trap '[ -z "$work" ] || rm -rf -- "./$work"' EXIT
trap 'exit 12' HUP INT TERM
sum() { all=$(sha256sum <"$1") && printf %s "${all%% *}"; }
unchanged() {
    if [ -L "./$name" ]; then now=link; elif [ -f "./$name" ]; then now=file; elif [ -d "./$name" ]; then now=directory
    elif [ -e "./$name" ]; then now=other; else now=absent; fi
    case $now:$new in file:?*) id=$(sum "./$name") ;; absent:*) id= ;; *) id=$(stat -c '%d:%i' "./$name") ;; esac
    [ "$now" = "$was" ] && [ "$id" = "$seen" ] ||
        fail 10 "$path has changed since it was inspected: nothing was written"
}
own() {  # of what is nobody else's to exchange, the owner first, for a change of owner takes setuid bits away
    [ -z "$by$group" ] || why=$(chown "$by${group:+:$group}" "$1" 2>&1) || not "$why"
    [ -z "$bits" ] || why=$(chmod "$bits" "$1" 2>&1) || not "$why"
    [ -d "$1" ] || return 0
    off=  # chmod of GNU takes these from a directory only by name
    case $bits in [01]???) off=u-s,g-s ;; [23]???) off=u-s ;; [45]???) off=g-s ;; esac
    [ -z "$off" ] || why=$(chmod "$off" "$1" 2>&1) || not "$why"
}
put() {  # what is ready, unless something has come meanwhile
    unchanged
    safe_put "$1" "$name" || not "$why"
    sync . 2>/dev/null
    exit 0
}
case $parents in
    yes)
        dir=${path%/*}; [ -n "$dir" ] || dir=/
        safe_make_all "$dir" || not "$why${owner:+ (become: $owner)}"
        ;;
esac
safe_beside "$path" || not "$why${owner:+ (become: $owner)}"
unchanged
if [ "$was" = directory ]; then  # from within, so that nobody can put another one in its place once it is theirs
    cd -P -- "./$name" && [ "$(stat -c '%d:%i' .)" = "$seen" ] || not 'it may not be entered'
    own .
    exit 0
fi
if [ "$was" = file ] && [ -z "$new" ]; then
    if [ "$shared" = no ]; then own "./$name"; exit 0; fi
    exec 9<"./$name"  # held, for its new owner may put another in its place
    own /proc/self/fd/9
    exit 0
fi
safe_tidy
safe_workshop || not "$why"
tmp=./$work/new
if [ "$what" = directory ]; then
    why=$(mkdir -m 700 "$tmp" 2>&1) || not "$why"
    bits=${bits:-755}
    own "$tmp"
    put "$tmp"
fi
why=$(umask 077 && cat 2>&1 >"$tmp") || not "${why:-there is no room for it}"
[ -z "$new" ] || [ "$(sum "$tmp")" = "$new" ] || not "the content did not come whole"
if [ "$was" = file ]; then
    why=$(chown "$(stat -c %u:%g "./$name")" "$tmp" 2>&1) || not "$why"
    bits=${bits:-$(stat -c %a "./$name")}
    if command -v chcon >/dev/null 2>&1; then chcon --reference="./$name" "$tmp" 2>/dev/null; fi
fi
bits=${bits:-644}
own "$tmp"  # nobody else can reach it in there
if [ "$backup" = yes ] && [ "$was" = file ]; then
    place=$name.backup-$(date +%Y%m%d-%H%M%S) number=1 free=
    while [ -e "./$place$free" ] || [ -L "./$place$free" ]; do number=$((number + 1)); free=-$number; done
    why=$(cp -p "./$name" "./$work/old" 2>&1) && safe_put "./$work/old" "$place$free" || not "no backup: $why"
    printf 'the old file is %s\n' "${path%/*}/$place$free"
fi
sync "$tmp" 2>/dev/null
put "$tmp"
"""
)
"""``$1`` file or directory, ``$2`` path, ``$3`` what was there, ``$4`` its digest or inode, ``$5`` the new digest
(none: the content stays), ``$6`` mode, ``$7`` owner, ``$8`` group, ``$9`` parents, then backup.
The content comes on stdin.
"""
