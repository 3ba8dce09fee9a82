# A session: a shell that runs the text on its standard input, a batch of commands after the other.  While one runs, two
# watchers end the session's process group: one when time is up, and one, which reads the rest of the input, when that is
# at its end, because the connection is gone.
export RUNBOOK_SESSION
runbook_end_session() { # tenths of a second between TERM and KILL: ends everything of this session, this shell included
    trap '' TERM
    set -- "$runbook_kill_group
end_group $runbook_group:$runbook_started $RUNBOOK_SESSION $1 $runbook_cgroup"
    unset RUNBOOK_SESSION # what ends the session must not bear its mark
    if command -v setsid >/dev/null; then setsid sh -c "$1"; else sh -c "$1"; fi || kill -s KILL "-$runbook_group"
}
runbook_stat_of() { # pid: sets runbook_text to its fields, from the state on; fails where only its remains are there
    runbook_text=
    while IFS= read -r runbook_line || [ -n "$runbook_line" ]; do
        runbook_text=$runbook_text$runbook_line
    done 2>/dev/null <"/proc/$1/stat"
    runbook_text=${runbook_text##*) }
    case $runbook_text in '' | [ZXx]*) return 1 ;; esac
}
runbook_started_at() { # pid: sets runbook_text to when it was started; fails where only its remains are there
    runbook_stat_of "$1" || return 1
    # shellcheck disable=SC2086  # split into fields
    set -- $runbook_text
    runbook_text=${20}
}
runbook_end_own() { # pid, when it was started, signal: to that process, if it still is that one
    runbook_started_at "${1:-none}" && [ "$runbook_text" = "$2" ] || return 1
    kill -s "$3" "$1" 2>/dev/null
    kill -s CONT "$1" 2>/dev/null || :
}
runbook_is_alone() { # whether the shell of a change was killed by it, so that nobody else leaves its control group
    runbook_stat_of $$
    case $runbook_cgroup,$runbook_text in -,* | *,[SRDTt]*) return 1 ;; esac
}
runbook_watch() { # seconds, tenths of a second between TERM and KILL, alone: also when the connection is gone
    (
        runbook_sleep='' runbook_over='' # a signal may come before the sleep is known; TERM must have no trap, or one
        trap 'runbook_over=yes; [ -z "$runbook_sleep" ] || kill "$runbook_sleep"' USR1 # between fork and exec is lost
        sleep "$1" & runbook_sleep=$!
        if [ -n "$runbook_over" ]; then kill "$runbook_sleep"; else wait "$runbook_sleep"; fi
        runbook_sleep=''
        [ -n "$runbook_over" ] || runbook_end_session "$2"
        ! runbook_is_alone || runbook_leave_cgroup
    ) </dev/null >/dev/null 2>&1 3<&- &
    runbook_clock=$! runbook_reader=
    runbook_begun "$runbook_clock"
    runbook_clock_start=$runbook_text
    [ "${3:-}" != alone ] || return 0
    (
        while IFS= read -r runbook_line; do :; done
        runbook_end_session "$2"
    ) <&3 >/dev/null 2>&1 3<&- &
    runbook_reader=$!
    runbook_begun "$runbook_reader"
    runbook_reader_start=$runbook_text
}
runbook_begun() { # pid of a watcher: sets runbook_text to when it was started
    # shellcheck disable=SC3044  # in bash alone, which says on stderr, at any time, that somebody has killed a job of its own
    [ -z "${BASH_VERSION:-}" ] || disown "$1"
    runbook_started_at "$1"
}
runbook_rest() { # the batch is over, and what comes on the input is for this shell again
    while runbook_end_own "$runbook_reader" "$runbook_reader_start" TERM; do
        if [ -n "${BASH_VERSION:-}" ]; then sleep 0.01 2>/dev/null || sleep 1; else wait "$runbook_reader" 2>/dev/null; fi
    done
    [ -z "$runbook_clock" ] || runbook_end_own "$runbook_clock" "$runbook_clock_start" USR1 ||
        runbook_harm=' harmed' # it has left its `sleep`
    runbook_clock='' runbook_reader=''
}
runbook_keep_lock() { # directory of the lock: this shell keeps it, too; fails where it has ended with our connection
    runbook_started_at $$ && [ -d "$1/held" ] && echo "$$:$runbook_text" >>"$1/also" && [ ! -d "$1/gone" ]
}
runbook_let_lock() { # directory of the lock: the change is over, whatever it has left, and whatever has become of this shell
    runbook_started_at $$ && echo "$$:$runbook_text:0" >>"$1/also"
}
runbook_trusts() { # directory, paths, PATH, program and its arguments: whether root may run that (trusted_program.sh)
    [ -n "$runbook_root" ] || return 0
    if [ -z "$1$2" ]; then
        runbook_line=''
        for runbook_line; do
            case $runbook_line in
                */*) runbook_line=/; break ;;
                '' | -*) ;;
                *)
                    case $runbook_known in *" $runbook_line "*) continue ;; esac
                    ! command -v -- "$runbook_line" >/dev/null || { runbook_line=/; break; }
                    ;;
            esac
        done
        [ "$runbook_line" = / ] || return 0
    fi
    runbook_line=$({ eval "$runbook_trusted_program"; } </dev/null 3<&-) || return 1
    [ -n "$3" ] || runbook_known="$runbook_known$runbook_line"
}
exec 3<&0
runbook_trusted_program='' runbook_known=' '
runbook_kill_group='' runbook_cgroup=- runbook_clock='' runbook_reader=''
runbook_stat_of $$
runbook_group=${runbook_text#* * }; runbook_group=${runbook_group%% *}
[ "$runbook_group" = $$ ] || runbook_stat_of "${runbook_group:-none}"
# shellcheck disable=SC2086  # split into fields
set -- "${1:-}" $runbook_text
runbook_started=${21:-}
case $runbook_group in '') runbook_line=hidden ;; "$$" | "${1:-}") runbook_line=own ;; *) runbook_line=shared ;; esac
