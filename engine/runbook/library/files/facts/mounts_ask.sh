# Asks file systems whether they answer, each by a process of its own that may hang for good.
# Parameters: seconds that they have; self, or the pid of a process whose mounts are meant; then pairs of the number of
# a file system (MAJOR:MINOR) and a path on it.
#
# Lines: `earlier NUMBER PID SECONDS`: what an earlier call started hangs there still, and nothing is started now;
# `said NUMBER ...`: what stat printed; `hung NUMBER [PID]`: no answer in time, and the process that could not be ended;
# `ids ...`: the mounts that are there in the end.
#
# A process that waits for a server may be in state D, where no signal ends it. Nobody waits for it, its streams are
# none of the connection's, and its arguments say what it asks, so that the next call finds it.
LC_ALL=C; export LC_ALL
limit=$1 who=$2; shift 2
nl='
'
command -v stat >/dev/null || fail 'stat is not on this host'
timeout 1 true >/dev/null 2>&1 || fail 'timeout is not on this host, without which a file system that hangs is not asked'
me=$(id -u) space=$(readlink /proc/self/ns/pid)
ours() { # pid: whether it is a process of this user, on this side of any container
    [ "$(readlink "/proc/$1/ns/pid" 2>/dev/null)" = "$space" ] || return 1
    ids=$(sed -n 's/^Uid:[^0-9]*//p' "/proc/$1/status" 2>/dev/null | tr -s '\t' ' ')
    [ "$ids" = "$me $me $me $me" ]
}
earlier() { # NUMBER PID SECONDS of what an earlier call started and hangs in state D
    IFS=' ' read -r up rest </proc/uptime
    # shellcheck disable=SC2038 # the names are numbers
    printf '%s\n' /proc/[0-9]*/stat | xargs grep -l -s -e ') D ' 2>/dev/null | while IFS= read -r file; do
        pid=${file#/proc/}; pid=${pid%/stat}
        stat_of "$pid" && [ "$state" = D ] || continue
        case $called in stat | env | exe | busybox | coreutils) ;; *) continue ;; esac
        ours "$pid" || continue
        number=$(tr '\000' '\n' <"/proc/$pid/cmdline" 2>/dev/null | sed -n 's/^runbook-mount \([0-9]*:[0-9]*\) .*/\1/p')
        [ -z "$number" ] || echo "$number $pid $((${up%.*} - start / 100))"
    done
}
ask() { # NUMBER, path
    (
        stat_of self && echo "shell $1 ${stat_text%% *}:$start" >&3
        said=$(
            stat_of self && echo "child $1 ${stat_text%% *}:$start" >&3
            exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
            exec env stat -f -c "runbook-mount $1 %S %b %f %a %c %d" -- "$2" 2>&1
        )
        printf 'said %s %.1000s\n' "$1" "${said%%"$nl"*}" >&3
    ) </dev/null >/dev/null 2>&1 &
}
there=$(earlier)
[ -z "$there" ] || printf '%s\n' "$there" | sed 's/^/earlier /'
seen=$({
    while [ $# -gt 1 ]; do
        case $nl$there in *"$nl$1 "*) ;; *) ask "$1" "$2" ;; esac
        shift 2
    done
} 3>&1 | timeout "$limit" cat)
printf '%s\n' "$seen" | grep '^said '
late=$(printf '%s\n' "$seen" | awk '
    $1 == "shell" { shell[$2] = $3 }
    $1 == "child" { child[$2] = $3 }
    $1 == "said" { done[$2] }
    END { for (it in shell) if (!(it in done)) print it, shell[it], child[it] }')
IFS=$nl
for one in $late; do
    IFS=' '
    # shellcheck disable=SC2086 # split into words
    set -- $one
    for process in "$2" "${3:-}"; do is_there "$process" && kill -s KILL "${process%:*}" 2>/dev/null; done
done
tries=0
IFS=$nl
for one in $late; do
    IFS=' '
    # shellcheck disable=SC2086 # split into words
    set -- $one
    while is_there "${3:-}" && [ "$tries" -lt 10 ]; do nap; tries=$((tries + 1)); done
    if is_there "${3:-}"; then echo "hung $1 ${3%:*}"; else echo "hung $1"; fi
done
echo "ids $(sed 's/ .*//' "/proc/$who/mountinfo" 2>/dev/null | tr '\n' ' ')"
