"""The sh texts that start and end components, one turn at a time."""

from __future__ import annotations

from engine.actions.processes.components.probe_scripts import COMMON
from engine.shell import OUTLIVE

_TURN = r"""
field() {  # the next text on stdin, for the variable of that name
    IFS= read -r more && IFS= read -r it || fail 12 'what is to be done did not come whole'
    while [ "$more" -gt 1 ]; do
        IFS= read -r line || fail 12 'what is to be done did not come whole'
        it=$it$nl$line more=$((more - 1))
    done
    eval "$1=\$it"
}
overtaken() {  # turn: fails if there is none after it
    for it in "$folder"/turn.*; do
        it=${it##*.}
        case $it in *[!0-9]*) continue ;; esac
        [ "$it" -le "$1" ] || return 0
    done
    return 1
}
too_late() { fail 11 'somebody else has begun to start or end them since they were inspected: nothing was done'; }
take_turn() {  # the last turn that was seen, or that and yes to go on without a file: only one of those who saw it does
    IFS=' ' read -r me rest </proc/self/stat && stat_of "$me" || fail 3 '/proc cannot be read'
    turn=$(($1 + 1)) mine=$me:$start ours=" 0 1 "
    while [ "$me" -gt 1 ] && stat_of "$me"; do ours="$ours$me "; me=$parent; done
    me=${mine%:*}
    won=no why="$folder cannot be written to"
    if { printf '%s\n' "$mine $boot" >"$folder/.turn.$me"; } 2>/dev/null && [ -s "$folder/.turn.$me" ]; then
        why="in $folder no hard link can be made: keep the records on another disk"
        if ln "$folder/.turn.$me" "$folder/turn.$turn" 2>/dev/null; then won=yes; fi
    fi
    rm -f "$folder/.turn.$me" 2>/dev/null
    if [ $won = no ]; then
        ! overtaken "$1" || too_late
        [ "${2-}" = yes ] || fail 12 "$why"
        return 0  # a full disk is no reason to let them run, and the host's own lock is held all the same
    fi
    if overtaken "$turn"; then
        rm -f "$folder/turn.$turn"
        too_late
    fi
    for it in "$folder"/turn.*; do
        it=${it##*.}
        case $it in *[!0-9]*) continue ;; esac
        [ "$it" -eq "$turn" ] || rm -f "$folder/turn.$it"
    done
}
"""

_END = r"""
group_lives() {  # whether anybody who is not defunct is in process group $1
    kill -0 "-$1" 2>/dev/null || return 1
    for it in $(grep -s -l -E "\) [A-Za-z] [0-9]+ $1 " /proc/[0-9]*/stat 2>/dev/null); do
        it=${it#/proc/}; it=${it%/stat}
        stat_of "$it" && [ "$group" = "$1" ] && is_there "$it:$start" && return 0
    done
    return 1
}
others() {  # of the component $name: sets rest_of, pid:start ... of what bears its mark outside of its group
    rest_of=
    marked "$name" || { echo "$name: what it has started cannot be searched for: /proc hangs" >&2; return 0; }
    for it in $left; do
        it=${it#*=}
        if stat_of "${it%:*}" && [ "$group" != "${leads:--}" ]; then rest_of="$rest_of $it"; fi
    done
}
strike() {  # signal
    if [ -n "$leads" ]; then kill "-$1" "-$leads" 2>/dev/null; kill -CONT "-$leads" 2>/dev/null; fi
    for it in $rest_of; do
        is_there "$it" && kill -s "$1" "${it%:*}" 2>/dev/null && kill -s CONT "${it%:*}" 2>/dev/null
    done
}
still_there() {
    [ -z "$leads" ] || ! group_lives "$leads" || return 0
    keep=
    for it in $rest_of; do if is_there "$it"; then keep="$keep $it"; fi; done
    rest_of=$keep
    [ -z "$rest_of" ] || return 0
    [ "$whole" = yes ] || return 1
    others; [ -n "$rest_of" ]
}
await_end() {  # hundredths of a second
    now; until=$((up + $1))
    while still_there; do
        now; [ "$up" -lt "$until" ] || return 1
        nap
    done
}
end_one() {  # name, and its pid:start, or - and those of others: ends it with what it has started, or those
    name=$1 leads= rest_of= whole=yes; shift
    if [ "$1" = - ]; then
        shift; rest_of=$*
        if started "$name" && is_there "$key"; then whole=no; fi  # the rest of what bears the mark is of a new one
    else
        started "$name" && [ "$key" = "$1" ] || { echo "$name: was started anew, and is left alone" >&2; return 1; }
        if is_there "$1"; then
            leads=${1%:*}
            { printf '%s\n' "$turn_of" >"$folder/.$name.asked"; } 2>/dev/null &&
                mv -f "$folder/.$name.asked" "$folder/$name.asked"
        fi
        others
        if [ -n "$leads" ] && ! is_there "$1"; then leads=; others; fi
    fi
    for it in $leads $rest_of; do
        case $ours in *" ${it%:*} "*) echo "$name: our own connection hangs on pid ${it%:*}" >&2; return 1 ;; esac
    done
    strike TERM
    await_end "$grace" || { strike KILL; await_end 500 || echo "$name: something of it survives KILL" >&2; }
    tries=0
    until [ -z "$leads" ] || ended "$name" || [ "$tries" -ge 20 ] || ! is_there "$watcher"; do
        tries=$((tries + 1)); nap
    done
}
"""

START = (
    COMMON
    + OUTLIVE
    + _TURN
    + _END
    + r"""
place "$1"; grace=$3 watch=$4 ends=$5 script=$6
safe_make_all "$folder" 700 && [ "$shared" = no ] || fail 12 "$folder cannot be made: ${why:-everybody can write to it}"
folder=$(pwd -P) && cd / || fail 12 "$folder may not be read"
setsid=$(command -v setsid) && sh=$(command -v sh) || fail 12 'there is no setsid on this host'
take_turn "$2"
mask=$(umask) there= begun=
watch_for() {  # hundredths of a second; fails when one of them has died
    now; until=$((up + $1))
    while :; do
        for it in $there; do is_there "${it#*=}" || return 1; done
        now; [ "$up" -lt "$until" ] || return 0
        nap
    done
}
own_log() {  # sets log to where it really lies; where everybody makes files it is made first, for nobody else can then
    log_place "$log" || return 1
    if [ "$kind" = absent ] && [ "$shared" = yes ]; then
        log=$real log_in=${real%/*}
        safe_enter "${log_in:-/}" && safe_tidy && safe_workshop || return 1
        why='it cannot be made'
        : >"./$work/log" && safe_put "./$work/log" "${log##*/}"
        made=$?
        rm -rf -- "./$work"
        cd / && [ "$made" = 0 ] && log_place "$log" && [ "$kind" = file ] || return 1
    fi
    log=$real
}
give_up() {
    nap; nap; nap  # those that die together write it down by then
    reversed=
    for it in $there; do reversed="$it $reversed"; done
    [ "$ends" != yes ] || for one in $reversed; do end_one "${one%%=*}" "${one#*=}"; done
    exit 1
}
while field verb && [ "$verb" != end ]; do
    field name
    if [ "$verb" = runs ]; then field key
    else
        field delay
        [ -z "$begun" ] || watch_for "$delay" || give_up
        [ -e "$folder/turn.$turn" ] || fail 11 'somebody else has taken over: the rest was not started'
        field log; home "$log"; log=$it
        own_log || { echo "$name: its log $log: $why" >&2; give_up; }
        field cwd; home "$cwd"; cwd=$it
        fit_to_work_in "$cwd" || { echo "$name: its directory $cwd: $why" >&2; give_up; }
        cwd=$real
        field spelled
        (
            outlive  # what ends this command shall leave the watcher alone, too
            runbook_folder=$folder runbook_name=$name runbook_turn=$turn runbook_boot=$boot \
                runbook_setsid=$setsid runbook_digest=$spelled runbook_log=$log runbook_cwd=$cwd runbook_umask=$mask \
                runbook_script=$script \
                "$setsid" "$setsid" "$sh" -c 'eval "$runbook_script"' runbook-watcher >/dev/null 2>&1
        )
        tries=0
        until started "$name" && [ "$turn_of" = "$turn" ]; do
            tries=$((tries + 1))
            [ "$tries" -le 100 ] || { echo "$name could not be started" >&2; give_up; }
            nap
        done
        begun=yes
    fi
    there="$there $name=$key"
done
watch_for "$watch" || give_up
exit 0
"""
)
"""``$1`` the folder, ``$2`` the last turn, ``$3`` hundredths of a second that TERM may take, ``$4`` those to watch for,
``$5`` whether all are ended when one dies, ``$6`` the watcher. On stdin, each a number of lines and these: ``runs``,
name and pid:start, or ``start``, name, hundredths of a second to wait, log, folder, digest and what the watcher reads;
then ``end``.

Exit code 1: one has died, which a second look names; 11, 12: nothing was done.
"""

END = (
    COMMON
    + _TURN
    + _END
    + r"""
place "$1"; grace=$3
[ -d "$folder" ] || fail 12 "there is no folder $folder any more"
take_turn "$2" yes; shift 3
code=0
for one; do
    IFS=' '
    set -f
    set -- $one
    unset IFS
    set +f
    end_one "$@" || code=1
done
exit $code
"""
)
"""``$1`` the folder, ``$2`` the last turn, ``$3`` hundredths of a second that TERM may take, then one word for each
component in the order of their ends: name and pid:start, or name, ``-`` and the pid:start of each process that is left.
"""
