# What a command of an author leaves behind on a session that others use after it: found, and ended, before its mark is
# printed.  A process has a higher pid than those before it (until the numbers begin again), so that only the pids since
# the command began are looked at, by the shell itself: many processes on a host cost no more than few.
runbook_uids() { # pid: sets runbook_u to its four user ids
    runbook_u=
    while read -r runbook_l runbook_u; do
        [ "$runbook_l" != Uid: ] || return 0
    done 2>/dev/null <"/proc/$1/status"
    return 1
}
runbook_fork() { # sets runbook_pid to the pid of a process that has begun just now, and ended
    : &
    runbook_pid=$!
    wait "$runbook_pid"
}
runbook_newest() { # sets runbook_pid to the last pid that was given to a process
    if [ -n "$runbook_tells" ]; then
        { read -r runbook_l runbook_l runbook_l runbook_l runbook_pid </proc/loadavg; } 2>/dev/null
        case $runbook_l in # bash may give what it still holds of the file of a process that has ended
            [0-9]*/*[0-9]) case $runbook_pid in '' | *[!0-9]*) ;; *) return 0 ;; esac ;;
        esac
    fi
    runbook_fork
}
runbook_time() { # sets runbook_now to the time in the ticks that start times are in; empty where that is not to be had
    runbook_now=''
    [ -z "$runbook_tells_time" ] || read -r runbook_now runbook_l 2>/dev/null </proc/uptime || runbook_now=''
    runbook_now=${runbook_now%.*}${runbook_now#*.}
    case $runbook_now in *[!0-9]*) runbook_now='' ;; esac
}
runbook_place() { # sets from what runbook_stat_of has read: runbook_parent; runbook_in, the session; runbook_start; runbook_stack,
    # by its program
    # shellcheck disable=SC2086  # split into fields: state, parent, group, session
    set -- $runbook_text
    runbook_parent=$2 runbook_in=$4 runbook_start=${20} runbook_stack=${26}
}
runbook_is_kin() { # whether the process that runbook_place has read may come from us, by its parent
    case $runbook_kin in *' * '* | *" $runbook_parent "*) return 0 ;; esac
    [ "$runbook_parent" -gt "$runbook_first" ] && [ ! -d "/proc/$runbook_parent" ] # it has just lost that
}
runbook_likely() { # all or new, pids: those of our session, and those that are kin, found by programs however many there are
    runbook_l=$1; shift
    printf '/proc/%s/stat\n' "$@" | xargs grep -a -s -H '' | LC_ALL=C awk -v ours="$runbook_session" -v mode="$runbook_l" \
        -v above="$runbook_above" -v first="$runbook_first" -v since="$runbook_since" '
        {
            at = index($0, "/stat:"); pid = substr($0, 7, at - 7); s = substr($0, at + 6)
            while ((k = index(s, ") ")) > 0) s = substr(s, k + 2)
            last[pid] = s
        }
        END {
            for (n = split(above, one, " "); n; n--) kin[one[n]]
            every = "*" in kin
            for (pid in last)
                if (split(last[pid], field, " ") >= 20 && field[20] + 0 >= since + 0) {
                    parent[pid] = field[2]; in_session[pid] = field[4] == ours
                }
            do {
                more = 0
                for (pid in parent) {
                    if (pid in kin) continue
                    p = parent[pid]
                    gone = !(p in last) && (mode == "all" || p + 0 > first + 0)
                    if (!in_session[pid] && !every && !(p in kin) && !gone) continue
                    kin[pid]; print pid; more = 1
                }
            } while (more)
        }'
}
runbook_is_marked() { # pid: whether our mark stands in its environment
    if [ -z "$runbook_reads_nul" ]; then grep -s -q "RUNBOOK_SESSION=$RUNBOOK_SESSION" "/proc/$1/environ"; return; fi
    while IFS= read -r runbook_l || [ -n "$runbook_l" ]; do
        case $runbook_l in *"RUNBOOK_SESSION=$RUNBOOK_SESSION"*) return 0 ;; esac
    done 2>/dev/null <"/proc/$1/environ"
    return 1
}
runbook_is_ours() { # pid, which runbook_place has read: whether it has our user and our mark
    [ -O "/proc/$1" ] && runbook_uids "$1" && [ "$runbook_u" = "$runbook_me" ] || return 1
    if runbook_is_marked "$1"; then runbook_stat_of "$1" && runbook_uids "$1" && [ "$runbook_u" = "$runbook_me" ]; return; fi
    # In the middle of an exec the environment is empty, or ends too early: it is read again in the next round.
    runbook_was=$runbook_stack
    runbook_stat_of "$1" && runbook_place || return 1
    [ "$runbook_stack" = "$runbook_was" ] && [ "$runbook_stack" != 0 ] || [ "$runbook_round" -ge 6 ] || runbook_any=yes
    return 1
}
runbook_has_output() { # pid: whether it writes to what we write to
    for runbook_l in $runbook_outputs; do
        [ ! "/proc/$1/fd/1" -ef "/proc/$$/fd/$runbook_l" ] && [ ! "/proc/$1/fd/2" -ef "/proc/$$/fd/$runbook_l" ] || return 0
    done
    return 1
}
runbook_end_new() { # ends what began since the last sweep in our session, or has our mark or our output; fails if there is nothing
    runbook_newest
    runbook_time
    runbook_n=$((runbook_pid - runbook_first)) # pids go round: in half a second or more, who knows how often
    [ "$runbook_n" -ge 0 ] && [ "$runbook_n" -lt 30000 ] &&
        [ "${runbook_now:-$runbook_since}" -lt $((runbook_since + 50)) ] || runbook_n=all
    [ "$runbook_n" != 0 ] || return 1
    runbook_any='' runbook_kin=$runbook_above
    set --
    if [ "$runbook_n" != all ]; then
        runbook_n=$runbook_first
        while runbook_n=$((runbook_n + 1)); [ "$runbook_n" -le "$runbook_pid" ]; do
            [ ! -d "/proc/$runbook_n" ] || set -- "$@" "$runbook_n"
        done
        # shellcheck disable=SC2046  # pids
        [ $# -lt 32 ] || set -- $(runbook_likely new "$@")
    else
        runbook_kin=' * '
        for runbook_n in /proc/[0-9]*; do set -- "$@" "${runbook_n#/proc/}"; done
        # shellcheck disable=SC2046  # pids
        set -- $(runbook_likely all "$@")
    fi
    for runbook_n in "$@"; do
        case " $$ $runbook_clock $runbook_reader " in *" $runbook_n "*) continue ;; esac
        runbook_stat_of "$runbook_n" || continue
        runbook_place
        [ "$runbook_start" -ge "$runbook_since" ] || continue # of those before this shell
        case " $runbook_clock $runbook_reader " in *" $runbook_parent "*) continue ;; esac
        if [ "$runbook_in" != "$runbook_session" ]; then
            runbook_is_kin || continue
            runbook_kin="$runbook_kin$runbook_n "
            runbook_has_output "$runbook_n" || runbook_is_ours "$runbook_n" || continue
        fi
        kill -s KILL "$runbook_n" 2>/dev/null
        runbook_kin="$runbook_kin$runbook_n "
        runbook_any=yes
    done
    [ -n "$runbook_any" ]
}
runbook_sweep() { # sets runbook_harm where this session must not be used any more: what is left cannot be ended here
    runbook_harm=' harmed' runbook_round=0
    while runbook_end_new; do
        runbook_round=$((runbook_round + 1))
        [ "$runbook_round" -lt 12 ] || return 0
        [ "$runbook_round" -lt 3 ] || sleep 0.05 2>/dev/null || sleep 1
    done
    runbook_first=$runbook_pid runbook_since=${runbook_now:-$runbook_since}
    for runbook_n in 1 2; do # somebody made our output non-blocking: what others write would be lost
        while read -r runbook_l runbook_s; do
            case $runbook_l$runbook_s in flags:*[4567]???) return 0 ;; esac
        done 2>/dev/null <"/proc/$$/fdinfo/$runbook_n"
    done
    runbook_harm=
}
# What leaves a session has lost its parent: then its new one is above us, as the reaper of orphans is.
runbook_above=' 1 ' runbook_parent=$$
runbook_stat_of $$ && runbook_place
runbook_session=$runbook_in runbook_since=$runbook_start
[ $$ = 1 ] || runbook_above=" $$$runbook_above"
while [ "${runbook_parent:-0}" -gt 1 ]; do
    runbook_above=" $runbook_parent$runbook_above"
    runbook_stat_of "$runbook_parent" || { runbook_above="$runbook_above* "; break; } # who is above that is hidden
    runbook_place
done
runbook_outputs='' # where both are, say, /dev/null, who has them is not known to come from us
for runbook_n in 1 2; do
    if [ -S "/proc/$$/fd/$runbook_n" ] || [ -p "/proc/$$/fd/$runbook_n" ]; then runbook_outputs="$runbook_outputs $runbook_n"; fi
done
runbook_uids $$; runbook_me=$runbook_u
runbook_reads_nul='' # not every shell reads on behind a NUL: what it was started with has some
while IFS= read -r runbook_l || [ -n "$runbook_l" ]; do
    case $runbook_l in *-cIFS=*) runbook_reads_nul=yes ;; esac
done 2>/dev/null <"/proc/$$/cmdline"
runbook_tells_time=yes # /proc/uptime may be that of a container, and start times those of the machine
runbook_time
runbook_l=$(read -r runbook_l runbook_n </proc/self/stat && runbook_stat_of self && runbook_place && echo "$runbook_l $runbook_start")
runbook_pid=${runbook_l% *} runbook_start=${runbook_l#* } # of a process that has begun just now, and ended
[ "${runbook_start:-0}" -ge "${runbook_now:-1}" ] && [ "$runbook_start" -le $((runbook_now + 100)) ] || runbook_tells_time=''
runbook_mount() { # file: sets runbook_s to the number of the mount that it lies in; empty where that is not to be had
    runbook_s=''
    while read -r runbook_l runbook_s; do [ "$runbook_l" != mnt_id: ] || return 0; done 2>/dev/null <"/proc/$$/fdinfo/9"
    runbook_s=''
}
runbook_tells='' runbook_n='' # /proc/loadavg ends with the last pid, unless it is not the kernel's own (lxcfs, gVisor)
{ runbook_mount 9</proc/loadavg && runbook_u=$runbook_s && runbook_mount 9<"/proc/$$/stat"; } 2>/dev/null
[ -z "$runbook_s" ] || [ "$runbook_u" != "$runbook_s" ] ||
    { read -r runbook_l runbook_l runbook_l runbook_l runbook_n </proc/loadavg; } 2>/dev/null || runbook_n=''
case $runbook_n,$runbook_pid in
    ,* | *, | *[!0-9,]*) ;;
    *) [ "$runbook_n" -lt "$runbook_pid" ] || [ $((runbook_n - runbook_pid)) -gt 1000 ] || runbook_tells=yes ;;
esac
runbook_time; runbook_since=${runbook_now:-$runbook_since}
runbook_newest; runbook_first=$runbook_pid
