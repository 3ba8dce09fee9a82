# What many scripts need: how they fail, and whether a process is still the one that was meant.

fail() { die 3 "$@"; } # words: what a probe cannot find out
die() { # exit code, words: says these and ends the script
    code=$1; shift
    printf '%s\n' "$*" >&2
    exit "$code"
}
nap() { sleep 0.1 2>/dev/null || sleep 1; }

read_stat() { # pid, or self: sets stat_text to the line of its stat; fails where there is no such process
    stat_text=
    { while IFS= read -r stat_part || [ -n "$stat_part" ]; do stat_text=$stat_text$stat_part; done </proc/"$1"/stat; } \
        2>/dev/null || return 1
    case $stat_text in *') '*) ;; *) return 1 ;; esac
}

stat_of() { # pid: sets state, parent, group, session, threads, start and called; fails where there is no such process
    read_stat "$1" || return 1
    called=${stat_text#*\(} called=${called%)*}
    # shellcheck disable=SC2086  # split into words
    set -- ${stat_text##*) } # the name before it may hold anything
    state=$1 parent=$2 group=$3 session=$4 threads=${18} start=${20}
}

is_there() { # pid:start, alive, or defunct with a thread that still lives
    case $1 in *[!0-9:]* | :* | *: | *:*:*) return 1 ;; esac
    stat_of "${1%:*}" && [ "$start" = "${1#*:}" ] || return 1
    case $state in Z | X | x) [ "$threads" -gt 1 ] || return 1 ;; esac
}
