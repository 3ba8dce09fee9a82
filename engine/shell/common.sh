# What many scripts need: how they fail, and whether a process is still the one that was meant.

fail() { die 3 "$@"; } # words: what a probe cannot find out
die() { # exit code, words: says these and ends the script
    code=$1; shift
    printf '%s\n' "$*" >&2
    exit "$code"
}
nap() { sleep 0.1 2>/dev/null || sleep 1; }

stat_of() { # pid: sets state, parent, group, session, threads, start and called; fails where there is no such process
    all=
    { while IFS= read -r line || [ -n "$line" ]; do all=$all$line; done </proc/"$1"/stat; } 2>/dev/null || return 1
    case $all in *') '*) ;; *) return 1 ;; esac
    called=${all#*\(} called=${called%)*}
    # shellcheck disable=SC2086  # split into words
    set -- ${all##*) } # the name before it may hold anything
    state=$1 parent=$2 group=$3 session=$4 threads=${18} start=${20}
}

is_there() { # pid:start, alive, or defunct with a thread that still lives
    case $1 in *[!0-9:]* | :* | *: | *:*:*) return 1 ;; esac
    stat_of "${1%:*}" && [ "$start" = "${1#*:}" ] || return 1
    case $state in Z | X | x) [ "$threads" -gt 1 ] || return 1 ;; esac
}
