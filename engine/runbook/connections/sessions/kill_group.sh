# Ends a process group of a session and what has left it; orders are calls of end_group.
trap '' PIPE HUP TERM
say() { printf '%s\n' "$*" 2>/dev/null; }
pause() { sleep 0.1 2>/dev/null || sleep 1; }
read_stat() { # pid: sets name, state, group, start.  What a process is called may hold lines: it is read whole
    line='' text=''
    while IFS= read -r line || [ -n "$line" ]; do text=$text$line; done 2>/dev/null <"/proc/$1/stat"
    name=${text#* (}; name=${name%)*}
    # shellcheck disable=SC2086  # split into fields
    set -- ${text##*) }
    state=${1:-} group=${3:-} start=${20:-}
    [ -n "$start" ]
}
uids_of() { # pid: sets uids to its four user ids
    uids=
    while read -r key a b c d; do [ "$key" != Uid: ] || { uids="$a $b $c $d"; break; }; done 2>/dev/null <"/proc/$1/status"
}
group_lives() { # group, session or empty: whether somebody of it lives; with a session they are named
    kill -0 "-$1" 2>/dev/null || return 1
    printf '%s\n' /proc/[0-9]*/stat | xargs grep -s -l -E "\) [A-Za-z] [0-9]+ $1 " 2>/dev/null | {
        lives=1
        while IFS= read -r file; do
            pid=${file#/proc/}; pid=${pid%/stat}
            read_stat "$pid" || continue
            case $state in Z* | X*) continue ;; esac
            [ "$group" = "$1" ] || continue
            [ -z "$2" ] || say "survivor $2 $pid $state $name"
            lives=0
        done
        exit "$lives"
    }
}
end_marked() { # session: ends who left the group with its mark, if that is a process of the user who runs this: anybody
    # may write a mark into his own environment.  The environments of others are not even read: they may lie on a file
    # system of theirs that never answers, and no signal ends who waits for that.
    uid="[[:space:]]+$own"
    printf '%s\n' /proc/[0-9]*/status | xargs grep -s -l -E "^Uid:$uid$uid$uid$uid\$" 2>/dev/null | sed 's/status$/environ/' |
        xargs grep -s -l "RUNBOOK_SESSION=$1" 2>/dev/null | while IFS= read -r file; do
        pid=${file#/proc/}; pid=${pid%/environ}
        [ "$pid" != $$ ] || continue
        uids_of "$pid"; [ "$uids" = "$own $own $own $own" ] || continue
        kill -s KILL "$pid" 2>/dev/null
    done
}
find_descendants() { # group: adds to descendants, as pid:start, those of the group that are not in it.  One whose parent
    # has ended already is then a child of process 1 and cannot be known from a stranger.
    descendants="$descendants "$(printf '%s\n' /proc/[0-9]*/stat | LC_ALL=C xargs grep -a -s -H "" 2>/dev/null |
        LC_ALL=C awk -v group="$1" -v self=$$ '
        {
            at = index($0, "/stat:"); pid = substr($0, 7, at - 7); text = substr($0, at + 6)
            while ((k = index(text, ") ")) > 0) text = substr(text, k + 2)
            last[pid] = text
        }
        END {
            for (pid in last) {
                if (split(last[pid], field, " ") < 20 || pid == self) continue
                start[pid] = field[20]; child[field[2], ++n[field[2]]] = pid
                if (field[3] == group) { seen[pid]; todo[++many] = pid }
            }
            for (at = 1; at <= many; at++)
                for (i = 1; i <= n[todo[at]]; i++) {
                    pid = child[todo[at], i]
                    if (pid in seen) continue
                    seen[pid]; todo[++many] = pid; print pid ":" start[pid]
                }
        }')
}
each_descendant() { # command: for each that is still the one that was found, in pid
    for one in $descendants; do
        pid=${one%%:*}
        [ "$pid" != $$ ] && read_stat "$pid" && [ "$start" = "${one#*:}" ] && "$@"
    done
}
each_in_cgroup() { # command: for each process of the control group, in pid; 0 is one of another pid namespace
    while IFS= read -r pid; do case $pid in '' | 0 | *[!0-9]*) ;; *) "$@" ;; esac; done 2>/dev/null <"$cgroup/cgroup.procs"
}
kill_pid() { kill -s KILL "$pid" 2>/dev/null; }
note_left() { # group: adds pid to left, where it lives outside of that group
    read_stat "$pid" || return 0
    case $state in Z* | X*) ;; *) [ "$group" = "$1" ] || left="$left $pid" ;; esac
}
move_up() { { echo "$pid" >"${cgroup%/*}/cgroup.procs"; } 2>/dev/null; }
has_cgroup() { [ -n "$cgroup" ] && [ -O "$cgroup/cgroup.procs" ]; }
end_hidden() { # ends who left the group and cleared the mark: all of the control group, or else what descends from us
    if has_cgroup; then
        { echo 1 >"$cgroup/cgroup.kill"; } 2>/dev/null && return
        { echo 1 >"$cgroup/cgroup.freeze"; } 2>/dev/null
        for round in 1 2 3; do each_in_cgroup kill_pid; done
        { echo 0 >"$cgroup/cgroup.freeze"; } 2>/dev/null
    else
        each_descendant kill_pid
    fi
}
anybody_left() { # group: sets left to who lives outside of it
    left=
    if has_cgroup; then each_in_cgroup note_left "$1"; else each_descendant note_left "$1"; fi
    [ -n "$left" ] || group_lives "$1" ''
}
leave_cgroup() { # where this shell is in it
    while IFS= read -r line; do
        case $line in 0::*"/${cgroup##*/}") { echo 0 >"${cgroup%/*}/cgroup.procs"; } 2>/dev/null ;; esac
    done 2>/dev/null </proc/self/cgroup
}
remove_cgroup() { # what lives in it, such as a daemon of a change, goes where it would be without us
    has_cgroup || return 0
    for round in 1 2 3; do
        each_in_cgroup move_up
        rmdir "$cgroup" 2>/dev/null && break
        [ -d "$cgroup" ] || break
    done
}
end_group() { # group:start of who led it, session, tenths of a second between TERM and KILL, its control group or -:
    # tells survivors, and over.  The number of a group is not given again while somebody is in it, also without a leader.
    cgroup='' descendants='' leader=${1%:*}
    ! read_stat "$leader" || [ "$start" = "${1#*:}" ] || leader=none
    shift
    set -- "$leader" "$@"
    case ${4:-} in /sys/fs/cgroup*/runbook-command-*) cgroup=$4 ;; esac
    ! has_cgroup || leave_cgroup
    [ "$3" = 0 ] || has_cgroup || find_descendants "$1" # what ended by itself is not searched: it costs as much as a probe
    kill -TERM "-$1" 2>/dev/null; kill -CONT "-$1" 2>/dev/null # busybox has no kill --
    i=0 ends=$(($(date +%s) + ($3 + 19) / 10))
    while [ "$i" -lt "$3" ] && group_lives "$1" '' && [ "$(date +%s)" -lt "$ends" ]; do pause; i=$((i + 1)); done
    [ "$3" = 0 ] || has_cgroup || ! kill -0 "-$1" 2>/dev/null || find_descendants "$1"
    [ "$1" = "$own_group" ] || kill -KILL "-$1" 2>/dev/null
    end_marked "$2"; end_marked "$2"; end_hidden
    [ "$1" != "$own_group" ] || { remove_cgroup; kill -KILL "-$1"; }
    i=0; while [ "$i" -lt 5 ] && anybody_left "$1"; do pause; i=$((i + 1)); done
    anybody_left "$1"
    for pid in $left; do read_stat "$pid" && say "survivor $2 $pid $state $name"; done
    group_lives "$1" "$2"
    remove_cgroup
    say "over $2"
}
uids_of self; own=${uids#* }; own=${own%% *}
read_stat $$; own_group=$group
