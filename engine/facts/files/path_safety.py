"""Looks at places that other users of a host may exchange, and what to do where that forbids a write (law 9)."""

from __future__ import annotations

REFUSED = 4
"""Exit code of a look that would not read what another user can exchange: stderr is the reason, a line, the user."""


def refusal(why: str, owner: str) -> str:
    """The reason *why* of the host with the way out: the step becomes *owner*; empty: nobody in particular owns it."""
    if owner.isdigit():
        return f"{why}; the host has no name for that user: give the directory to root, or to a user with a name"
    if owner:
        return f"{why}: give the step `become: {owner}`"
    if " can write to " in why:
        return f"{why}: take that right from them (chmod go-w), or share it as /tmp is shared (chmod +t)"
    return why


def refused(path: str, stderr: str) -> str:
    """What the last two lines of *stderr* mean, with REFUSED."""
    why, _, owner = stderr.rstrip("\n").rpartition("\n")
    return f"{path} is not read: {refusal(why, owner.removeprefix('become '))}"


def unread(path: str, why: str = "", owner: str = "") -> str:
    """*path* and why it is not read; *why* and *owner* are those of ``view_reason``."""
    reason = refusal(why, owner)
    return reason if reason.startswith(path) else f"{path}: {reason}" if reason else path


STAT_PATH = r"""
LC_ALL=C; export LC_ALL
fail() { printf '%s\n' "$*" >&2; exit 3; }
leads_to() { r=$(readlink -f "$1"; echo x); r=${r%x}; r=${r%?}; [ -n "$r" ]; }
peek() {  # path, `follow` or `stay`: goes to its directory, and sets what is said below
    case $1 in '~/'*) [ -n "$HOME" ] || fail "$1: this user has no home folder"; path=${HOME%/}/${1#??} ;; esac
    user=$(id -un 2>/dev/null || id -u)
    unsafe='' become='' exposed=no target=$path there=no writable=no
    [ "$2" = follow ] && last=last || last=''
    if safe_beside "$path" $last; then
        if [ -n "$last" ] && [ -L "$path" ]; then target=$real; fi
        there=yes
    else
        unsafe=$why become=$owner exposed=yes kind=absent
        if [ -n "$last" ] && [ -L "$path" ]; then
            leads_to "$path" || fail "$path is a symbolic link that leads nowhere"
            target=$r
        fi
        name=${target##*/} dir=${target%/*}
        if [ -f "$target" ] && { [ -n "$last" ] || [ ! -L "$path" ]; }; then peek_file
        elif [ -d "${dir:-/}" ]; then peek_exposed
        else unsafe='' become=''
        fi
    fi
    if [ $there = yes ] && [ -w . ] && [ -x . ]; then writable=yes; fi
}
peek_file() {  # goes to the regular file that is meant, unless whoever led us there may not read it
    if ! view_find "$path"; then
        printf '%s\nbecome %s\n' "$(printf %s "$why" | tr '\n' '?')" "$owner" >&2
        exit 4
    fi
    there=yes kind=file exposed=yes
    if [ -L "$path" ]; then target=$here/$name; fi
}
peek_exposed() {  # goes there all the same, for a look: nothing is ever opened but a regular file
    there=yes
    leads_to "${dir:-/}" && cd -P -- "$r" 2>/dev/null || fail "$path: $user may not look into ${dir:-/}"
    here=$(pwd -P; echo x); here=${here%x}; here=${here%?}
    [ "$here" = "$r" ] || fail "$path leads elsewhere than a moment ago"
    if safe_stat "./$name"; then
        case $mode in -*) kind='file' ;; d*) kind=directory ;; l*) kind=link ;; *) kind=other ;; esac
    elif [ ! -x . ]; then fail "$path: $user may not look into ${dir:-/}"
    fi
}
nothing_there() {  # fails where that cannot be known
    [ $there = no ] || { [ -x . ] || fail "$path: $user may not look into ${target%/*}"; return 0; }
    up=${target%/*}
    while [ ! -e "$up" ] && [ -n "$up" ]; do up=${up%/*}; done
    [ -d "${up:-/}" ] || fail "$path: ${up:-/} is no folder"
    [ -x "${up:-/}" ] || fail "$path: $user may not look into ${up:-/}"
}
whole() { (most='' && content); }
bytes() { if [ "$exposed" = no ]; then wc -c <"./$name"; else content | wc -c; fi; }
content() {  # what is in the regular file ./$name; $most bytes and some more of it where it is exposed
    if [ "$exposed" = no ]; then cat <"./$name"; return; fi
    dd if=/dev/null iflag=nofollow,nonblock 2>/dev/null || {
        printf '%s\nbecome %s\n' "$unsafe" "$become" >&2
        exit 4
    }
    dd if="./$name" iflag=nofollow,nonblock bs=4096 ${most:+count=$((most / 4096 + 1))} 2>/dev/null
}
"""
"""``peek`` sets ``path`` (~/ filled in), ``target`` (what a link leads to), ``name`` (in the current directory),
``kind`` (absent, file, directory, link, other), ``there`` (the directory), ``writable``, ``user``; and ``exposed``: yes
where another user can exchange what is inspected, which ``unsafe`` and ``become`` then explain.
"""
