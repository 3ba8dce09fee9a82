# This user's locks on this host: $1 take, give or list, $2 the name of the lock, $3 the run, $4 words for people.
#
# An entry is a directory lock-RANDOM-PID-START, named after the process that asks for it. In it are `by` (the processes
# that hold it, the run, the name, the words), `held` once it has been given, `also` (processes that keep it besides),
# and `gone` once its holders are dead: then no further process may add itself.
#
# Nobody guards the door, so that nobody can be killed while he does: an entry is made, and then looks for others. It
# gives way to one that holds, and to one that asks and stands before it in the listing; for one that asks and stands
# behind it, it waits until that has given way or holds (it may have checked before there was anything to see). Names are
# never used twice, so that what is dead can be removed by anybody at any time.

LC_ALL=C
export LC_ALL
umask 077
verb=$1 name=${2-} run=${3-} words=${4-} place='' doubts='' used='' empty=''
newline=$(printf '\nx') && newline=${newline%x}

lock_used() { # directory, directory in it: sets used to when one was last changed: seconds, `?` where that is not seen
    [ -d "$1" ] || return 0
    for time in $(stat -c %Y -- "$@" 2>/dev/null); do [ "${used:-0}" -ge "$time" ] || used=$time; done
    case $used in '' | *[!0-9]*) used='?' ;; esac
}

lock_in() { # directory, directory in it: goes to the place for locks there, and makes it; the first must be there
    if [ ! -d "$1" ]; then # only the first place that could be taken is
        [ -n "$empty" ] || doubts="$doubts; there is no directory $1"
        return 1
    fi
    if [ "$verb" = list ]; then # changes nothing
        [ -d "$1/$2/$safe_realm" ] || { empty=yes; return 1; }
        if safe_enter "$1/$2/$safe_realm" && [ "$shared" = no ]; then place=$(pwd -P) && return 0; fi
        doubts="$doubts; $1/$2: $why"
        return 1
    fi
    [ "$verb" = give ] || [ -n "$used" ] || lock_used "$1/$2" "$1/$2/$safe_realm"
    for lock_try in 1 2 3; do # another run may be making the same, or removing it
        if safe_make_all "$1/$2/$safe_realm" 700 && [ "$shared" = no ]; then
            place=$(pwd -P) && [ -w . ] && return 0
            why="$place may not be written to, or is read-only"
            break
        fi
    done
    doubts="$doubts; $1/$2: $why"
    return 1
}

lock_place() { # goes to where the locks of this user and this host lie
    if lock_declared "${RUNBOOK_LOCK_PLACES-}"; then lock_in "$RUNBOOK_LOCK_PLACES" .; return; fi
    if [ "$safe_me" = 0 ]; then lock_in /run runbook || lock_in /var/run runbook; return; fi
    lock_home
    case $safe_realm in # without its boot, this host is not distinguished from another one that shares the home
        0-*) ;;
        *) ! lock_in "${home%/}" .cache/runbook || return 0 ;;
    esac
    lock_in "/run/user/$safe_me" runbook
}

lock_text() { # file, characters: so much of it, without what steers a terminal
    [ -f "$1" ] && [ ! -h "$1" ] && dd if="$1" bs="$2" count=1 2>/dev/null | tr -d '\000-\011\013-\037\177'
}

lock_read() { # entry: sets keys, theirs, called and said
    text=$(lock_text "./$1/by" 4000)$newline$newline$newline$newline
    keys=${text%%"$newline"*} text=${text#*"$newline"}
    theirs=${text%%"$newline"*} text=${text#*"$newline"}
    called=${text%%"$newline"*} text=${text#*"$newline"}
    said=${text%%"$newline"*}
}

lock_alive() { # words pid:start, or pid:start:0 for one whose change is over, between blanks
    case $1 in *[!0-9:[:space:]]*) return 1 ;; esac
    # shellcheck disable=SC2086 # they are words of digits
    set -- $1
    for one; do
        case " $* " in *" $one:0 "*) continue ;; esac # its change is over
        case $one in *:*:* | :* | *:) continue ;; *:*) ! safe_lives "${one%:*}" "${one#*:}" || return 0 ;; esac
    done
    return 1
}

lock_free() { rm -rf -- "./$1" 2>/dev/null; }

lock_state() { # entry: sets state to held, asks or dead, and what lock_read sets; removes what is dead
    maker=${1#*-*-} state=dead asking=no
    ! safe_lives "${maker%-*}" "${maker#*-}" || asking=yes # before we look for `held`, which comes before it ends
    lock_read "$1"
    if [ -d "./$1/held" ]; then
        if lock_alive "$keys"; then state=held; return; fi
        [ "$verb" = list ] || # a process that adds itself to `also` now sees this, or we see that process
            mkdir "./$1/gone" 2>/dev/null
        ! lock_alive "$(lock_text "./$1/also" 100000)" || state=held
    elif [ "$asking" = yes ]; then
        state=asks
    fi
    [ "$state" != dead ] || [ "$verb" = list ] || lock_free "$1"
}

lock_key() { keys="$keys${keys:+ }$safe_pid:$safe_start"; }

lock_keys() { # after safe_process self: sets keys to processes that last as long as our connection, if they can be seen
    keys='' leader=$safe_group
    ! safe_process "$$" || lock_key
    safe_process "$leader" || return 0
    lock_key
    [ "$safe_parent" -le 1 ] || ! safe_process "$safe_parent" || lock_key
}

lock_make() { # makes our entry, with everything in it before anybody sees it; sets mine
    safe_process self || { why='/proc cannot be read'; return 1; }
    mine=$(safe_random)-$safe_pid-$safe_start
    lock_keys
    [ -n "$keys" ] || { why='the shell of this connection is not to be seen'; return 1; }
    safe_make "new-$mine" 700 || return 1
    why=$( { printf '%s\n%s\n%s\n%s\n' "$keys" "$run" "$name" "$words" >"./new-$mine/by" &&
        mv "./new-$mine" "./lock-$mine"; } 2>&1) && mine=lock-$mine && return 0
    why="$place cannot be written to: ${why##*: }"
    lock_free "new-$mine"
    return 1
}

lock_busy() { lock_free "$mine"; echo "busy $1"; exit 0; }

lock_look() { # sets waits where somebody still asks behind us; ends where we have to give way, or are not there
    waits=no behind=no
    for entry in ./lock-*-*-*; do
        entry=${entry#./}
        if [ "$entry" = "$mine" ]; then behind=yes; continue; fi
        lock_state "$entry"
        [ "$state" != dead ] && [ "$theirs" != "$run" ] || continue
        [ "$state" != held ] || lock_busy "$said ($place/$entry)"
        [ "$behind" = yes ] || lock_busy "$said, which is just beginning ($place/$entry)"
        waits=yes
    done
    [ "$behind" = yes ] || { echo "$place/$mine has vanished" >&2; exit 4; }
}

lock_take() {
    for entry in ./new-*-*-*; do [ ! -d "$entry" ] || lock_state "${entry#./}"; done
    tries=0
    until lock_make; do # anybody who gives the last lock back also removes the directory
        tries=$((tries + 1))
        [ "$tries" -lt 10 ] && lock_place || { echo "no lock can be made in $place: $why" >&2; exit 4; }
    done
    tries=0
    while lock_look; [ "$waits" = yes ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 50 ] || lock_busy "a run that is just beginning ($place)"
        nap
    done
    mkdir "./$mine/held" 2>/dev/null || { lock_free "$mine"; echo "$place cannot be written to" >&2; exit 4; }
    age='-' now=''
    case $used in
        '') ;; # there was no lock here before
        '?') age='?' ;;
        *) now=$(date +%s) && age=$((now - used)) || age='?' ;;
    esac
    echo "held $age $place/$mine"
}

lock_list() { # a line for each lock: held or asks, the words that its run has for people
    for entry in ./lock-*-*-*; do
        [ -d "$entry" ] || continue
        lock_state "${entry#./}"
        [ "$state" = dead ] || printf '%s %s\n' "$state" "$said"
    done
}

lock_give() { # a change that still runs keeps it; the shell of one that has just ended is given 2 s to go
    for entry in ./lock-*-*-*; do
        entry=${entry#./}
        lock_read "$entry"
        [ "$theirs" = "$run" ] && [ "$called" = "$name" ] || continue
        tries=0
        while lock_alive "$(lock_text "./$entry/also" 100000)" && [ "$tries" -lt 20 ]; do tries=$((tries + 1)); nap; done
        [ "$tries" -ge 20 ] || lock_free "$entry"
    done
    cd .. && rmdir "./$safe_realm" 2>/dev/null
}

safe_where
if lock_place; then
    "lock_$verb"
elif [ "$verb" = take ] || [ "$verb${doubts:+ }" = 'list ' ]; then
    echo "${doubts#; }" >&2
    exit 4
fi
