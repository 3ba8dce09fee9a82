"""One run at a time changes a host: a lock there that ends with the connection that holds it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from engine.values.command import Command, Completed, Effect

TIMEOUT = 15.0
"""Seconds that the host may take to answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The lock is ours."""

    place: str = ""
    """Where it lies; what a write adds to it there keeps it as long as that write runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """Another run has it."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NoLock:
    """This host can keep none; nothing speaks against going on, but two runs would not notice each other."""

    why: str


def ask_lock(run: str, host: str, words: str) -> Command:
    """Take the lock on *host* for *run*; *words* say to people whose it is."""
    return Command(script=_LOCK, argv=("take", _name(run, host), run, words), effect=Effect.SCRATCH, timeout=TIMEOUT)


def ask_unlock(run: str, host: str) -> Command:
    """Give the lock of *run* on *host* back."""
    return Command(script=_LOCK, argv=("give", _name(run, host)), effect=Effect.SCRATCH, timeout=TIMEOUT, owed=True)


def _name(run: str, host: str) -> str:
    """A part of a file name: hosts of one inventory may be one machine."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", f"{run}-{host}")[:100]


def read_lock(done: Completed) -> Held | Busy | NoLock:
    """What became of ``ask_lock``."""
    word, _, rest = done.stdout.strip().partition(" ")
    if done.exit_code is None:
        return Busy(why="whether another run is changing this host could not be asked: the host gave no answer")
    if done.exit_code == 0 and word == "held":
        return Held(place=rest)
    if done.exit_code == 0 and word == "busy":
        return Busy(why=f"another run is changing this host: {rest}; wait for its end, then look again")
    said = (done.stderr.strip() or rest or done.stdout.strip()).splitlines()
    return NoLock(why=said[-1] if said else "the host did not say why")


_LOCK = r"""
LC_ALL=C; export LC_ALL
verb=$1 name=$2 run=$3 words=$4
stat_of() {  # pid: sets parent, group and start; fails where there is no such process, or only a dead one
    all=
    { while IFS= read -r line || [ -n "$line" ]; do all=$all$line; done </proc/"$1"/stat; } 2>/dev/null || return 1
    case $all in *') '*) ;; *) return 1 ;; esac
    set -- ${all##*) }
    case $1 in [ZXx]) return 1 ;; esac
    parent=$2 group=$3 start=${20}
}
lives() {  # pid:start ...
    for one; do
        case $one in *[!0-9:]*|:*|*:) continue ;; esac
        stat_of "${one%:*}" && [ "$start" = "${one#*:}" ] && return 0
    done
    return 1
}
old() {  # or made by a clock that was set back since
    [ -n "$(find "$1" -prune -mmin +1 2>/dev/null)" ] || [ "$1" -nt /proc/self/stat ]
}
free() { rm -f "$1/by" "$1/also" && rmdir "$1"; } 2>/dev/null
me=$(id -u) || exit 3
mine=runbook-$me-$name.lock
places='/run/lock /var/lock /tmp'
[ -z "${RUNBOOK_LOCK_PLACES-}" ] || places=$RUNBOOK_LOCK_PLACES
if [ "$verb" = give ]; then
    for place in $places; do [ ! -d "$place/$mine" ] || free "$place/$mine"; done
    exit 0
fi
IFS=' ' read -r self rest </proc/self/stat && stat_of "$self" || { echo '/proc cannot be read' >&2; exit 3; }
stat_of "$group" || { echo 'the shell of this connection is not to be seen' >&2; exit 3; }
keys="$group:$start"; way=$parent
stat_of "$way" && [ "$way" -gt 1 ] && keys="$keys $way:$start"
place=
for it in $places; do if [ -d "$it" ] && [ -w "$it" ]; then place=$it; break; fi; done
[ -n "$place" ] || { echo "no folder for a lock can be written to ($places)" >&2; exit 4; }
guard=$place/runbook.guard tries=0
until mkdir "$guard" 2>/dev/null; do  # only one at a time looks who is there, and enters himself
    [ -d "$guard" ] || { echo "no lock can be made in $place" >&2; exit 4; }
    if old "$guard"; then rmdir "$guard" 2>/dev/null || { guard=; break; }; fi
    tries=$((tries + 1))
    [ "$tries" -lt 50 ] || { echo "busy a run that is just beginning ($guard)"; exit 0; }
    sleep 0.1 2>/dev/null || sleep 1
done
trap '[ -z "$guard" ] || rmdir "$guard"' EXIT
for it in $places; do
    for lock in "$it"/runbook-*.lock; do
        [ -d "$lock" ] && [ ! -h "$lock" ] || continue
        theirs= other= said=
        { IFS= read -r theirs; IFS= read -r other; IFS= read -r said; } 2>/dev/null <"$lock/by"
        [ "$other" != "$run" ] || continue
        if lives $theirs $(cat "$lock/also" 2>/dev/null); then echo "busy $said ($lock)"; exit 0; fi
        free "$lock"  # whoever held it is gone
    done
done
lock=$place/$mine
mkdir "$lock" 2>/dev/null
if printf '%s\n%s\n%s\n' "$keys" "$run" "$words" >"$lock/by"; then echo "held $lock"; exit 0; fi
free "$lock"
exit 4
"""
"""``$1`` take or give, ``$2`` the lock's name, ``$3`` the run, ``$4`` words for people.

The lock names the shell of our connection and whatever started that (the end of it in sshd), by pid and start; once
the connection is gone, nobody holds it any more. Each write adds the shell that it runs on (``also``): one that still
runs to its end after that keeps the lock so long.
``RUNBOOK_LOCK_PLACES`` in the host's own environment names other folders.
"""
