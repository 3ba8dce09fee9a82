"""End processes by pid and start time: a signal, some time, then another; whoever has a victim's pid now is spared."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from engine.facts.processes.table import Process
from engine.values.command import Command, write_script

LAST_WAIT = 5.0
"""Seconds that the last signal is given."""

USUAL = 600.0
"""Seconds that a write may take if it does not say otherwise."""


def end_processes(victims: Iterable[Process], signal: str, grace: float, then: str) -> Command:
    """Send *signal*, wait up to *grace* seconds, send *then* (or ``nothing``) to the rest, wait up to 5 s.

    Exit code 0: all of them are gone; 1: some survive, or were refused, which a second look shows.
    """
    first_wait = max(grace, LAST_WAIT) if signal == "KILL" else grace
    second = "nothing" if signal == "KILL" else then
    waits = (str(round(it * 100)) for it in (first_wait, LAST_WAIT))
    keys = tuple(it.key for it in sorted(victims, key=lambda it: it.start))
    called = ("end-processes", signal, second, *(key.partition(":")[0] for key in keys))
    command = write_script(_END, signal, second, *waits, *keys, called=called, accepts=(0, 1))
    needs = first_wait + LAST_WAIT + 60
    if needs <= USUAL:
        return command
    return replace(command, timeout=needs)


_END = r"""
LC_ALL=C; export LC_ALL
first=$1 then=$2 wait1=$3 wait2=$4; shift 4
stat_of() {  # pid: sets state, start, parent and threads; fails where there is no such process
    all=
    { while IFS= read -r line || [ -n "$line" ]; do all=$all$line; done </proc/"$1"/stat; } 2>/dev/null || return 1
    case $all in *') '*) ;; *) return 1 ;; esac
    set -- ${all##*) }  # the name before it may hold anything
    state=$1 parent=$2 threads=${18} start=${20}
}
is_there() {  # pid:start, alive, or defunct with a thread that still lives
    stat_of "${1%:*}" && [ "$start" = "${1#*:}" ] || return 1
    case $state in Z|X|x) [ "$threads" -gt 1 ] || return 1 ;; esac
}
now() {
    IFS=' ' read -r up rest </proc/uptime || return 1
    up=${up%.*}${up#*.}; up=${up#0}
}
send() {  # signal, pid:start; looks at the start time and signals in one go
    is_there "$2" || return 0
    if kill -s "$1" "${2%:*}" 2>/dev/null; then
        [ "$state" != T ] || [ "$1" = KILL ] || kill -s CONT "${2%:*}" 2>/dev/null
    elif is_there "$2"; then denied="$denied $2 "
    fi
}
await() {  # hundredths of a second: until all in $left are gone, or the time is over
    now || exit 3
    end=$((up + $1))
    while :; do
        still=
        for one in $left; do
            if is_there "$one"; then still="$still $one"; else echo "${one%:*} gone"; fi
        done
        left=$still
        [ -n "$left" ] || return 0
        now; [ "$up" -lt "$end" ] || return 0
        sleep 0.1 2>/dev/null || sleep 1
    done
}
IFS=' ' read -r me rest </proc/self/stat && stat_of "$me" || { echo '/proc cannot be read' >&2; exit 3; }
ours=" 0 1 " up=$me
while [ "$up" -gt 1 ] && stat_of "$up"; do ours="$ours$up "; up=$parent; done
case $ours in *" $$ "*) ;; *) echo '/proc shows the pids of another pid namespace' >&2; exit 3 ;; esac
left= denied= refused=
for one; do
    case $one in *[!0-9:]*|:*|*:|*:*:*) echo "not a pid and a start time: $one" >&2; exit 3 ;; *:*) ;; *) exit 3 ;; esac
    case $ours in *" ${one%:*} "*) echo "${one%:*} refused: our own connection hangs on it"; refused=1; continue ;; esac
    if is_there "$one"; then left="$left $one"
    elif stat_of "${one%:*}" && [ "$start" != "${one#*:}" ]; then echo "${one%:*} reused: another process has that pid"
    else echo "${one%:*} was gone"
    fi
done
for one in $left; do send "$first" "$one"; done
await "$wait1"
if [ -n "$left" ] && [ "$then" != nothing ]; then
    denied=
    for one in $left; do send "$then" "$one"; done
    await "$wait2"
fi
for one in $left; do
    is_there "$one" || { echo "${one%:*} gone"; continue; }
    refused=1
    case $denied in *" $one "*) echo "${one%:*} not permitted" ;; *) echo "${one%:*} survives in state $state" ;; esac
done
sleep 0.5 2>/dev/null || sleep 1  # a supervisor starts its process anew within this, and the second look names it
[ -z "$refused" ] || exit 1
exit 0
"""
"""``$1`` signal, ``$2`` second signal, ``$3`` and ``$4`` hundredths of a second, then ``pid:start`` ...

No pattern stands here, so that nothing can match itself.  A stopped process is woken to take its signal.
"""


def survival(left: Iterable[Process], fresh: Iterable[Process], last: str) -> str:
    """Why a second look disagrees: who is *left* after the signal *last*, and which *fresh* ones have come."""
    words = [_survivor(it, last) for it in left]
    started = [f"pid {it.pid} ({it.command[:60]})" for it in fresh]
    if started:
        more = f" and {len(started) - 5} more" if len(started) > 5 else ""
        words.append(f"respawned as {', '.join(started[:5])}{more}: stop first what starts this anew")
    return "; ".join(words)


def _survivor(process: Process, last: str) -> str:
    if process.state == "D":
        return (
            f"pid {process.pid} survives {last} in state D: it hangs in the kernel and cannot be killed; "
            "that takes a reset of the device or a reboot"
        )
    return f"pid {process.pid} survives {last} in state {process.state} ({process.user})"
