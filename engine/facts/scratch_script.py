"""Scripts that make something of their own in a directory, and take it away again on every way out."""

from __future__ import annotations

SCRATCH_HEAD = r"""
LC_ALL=C; export LC_ALL
umask 077
place=$1
case $place in '~') place=$HOME ;; '~/'*) place=$HOME/${place#??} ;; esac
made= trying=
clean() {  # what is being tried may be somebody else's: it goes only if it is empty
    [ -z "$trying" ] || rmdir -- "$trying" 2>/dev/null
    [ -z "$made" ] || rm -rf -- "$made"
}
trap 'clean' EXIT
trap 'clean; trap - EXIT; exit 143' HUP INT TERM
uptime() { read -r up rest </proc/uptime 2>/dev/null && echo "$up"; }
said() { printf '%s\n' "$1" | sed 's/^/ /'; }
begun() {  # pid: when that process began; nothing where there is none
    { read -r all <"/proc/$1/stat"; } 2>/dev/null || return 0
    set -- ${all##*) }
    echo "${20}"
}
here=$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)-$(readlink /proc/self/ns/pid 2>/dev/null | tr -dc 0-9)
tidy() {  # what a try of this machine left here whose shell was killed; what others left, nobody here knows
    for left in "$place/.runbook-probe-$here"-*; do
        [ -d "$left" ] && [ ! -h "$left" ] && [ -O "$left" ] || continue
        whose=${left#"$place/.runbook-probe-$here-"} then=${left%-*} then=${then##*-}
        case ${whose%%-*}$then/$here in *[!0-9]*/*|/*|*/-*|*-) continue ;; esac
        [ "$(begun "${whose%%-*}")" != "$then" ] && [ -n "$(find "$left" -prune -mmin +10)" ] && rm -rf -- "$left"
    done
} 2>/dev/null
settle() {  # a directory of our own: mkdir is refused where somebody else was first
    [ -d "$place" ] || { echo 'failed mkdir'; said "$(ls -d -- "$place/." 2>&1)"; exit 0; }
    tidy
    for n in 1 2 3 4 5 6 7 8 9; do
        try=$place/.runbook-probe-$here-$$-$(begun $$)-$n
        [ -e "$try" ] && continue
        trying=$try
        words=$(mkdir -- "$try" 2>&1) && made=$try trying= && return
        trying=
        echo 'failed mkdir'; said "$words"; exit 0
    done
    echo 'failed mkdir'; said 'our own names are all taken'; exit 0
}
"""
"""``$1`` is the directory.  What fails is told as ``failed STEP`` with the program's words, indented, below it."""

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
    """The name of the error in what a program said, and its words; both empty where it names none."""
    lower = words.lower()
    return next(((name, it) for it, name in _ERRORS.items() if it.lower() in lower), ("", ""))
