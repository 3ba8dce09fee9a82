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
    marked "$name" || { echo "$name: processes that it has started cannot be searched for: reading /proc hangs" >&2; return 0; }
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
    name=$1 leads='' rest_of='' whole=yes; shift
    if [ "$1" = - ]; then
        shift; rest_of=$*
        if started "$name" && is_there "$key"; then whole=no; fi  # the rest of what bears the mark is of a new one
    else
        started "$name" && [ "$key" = "$1" ] || { echo "$name: was started again since it was inspected, and is left alone" >&2; return 1; }
        if is_there "$1"; then
            leads=${1%:*}
            { printf '%s\n' "$turn_of" >"$folder/.$name.asked"; } 2>/dev/null &&
                mv -f "$folder/.$name.asked" "$folder/$name.asked"
        fi
        others
        if [ -n "$leads" ] && ! is_there "$1"; then leads=; others; fi
    fi
    for it in $leads $rest_of; do
        case $ours in *" ${it%:*} "*) echo "$name: our own connection depends on pid ${it%:*}" >&2; return 1 ;; esac
    done
    strike TERM
    await_end "$grace" || { strike KILL; await_end 500 || echo "$name: a process of this component survives KILL" >&2; }
    tries=0
    until [ -z "$leads" ] || ended "$name" || [ "$tries" -ge 20 ] || ! is_there "$watcher"; do
        tries=$((tries + 1)); nap
    done
}
