# A session: a shell that runs the text on its standard input, a batch of commands after the other.  While one runs, two
# watchers end the session's process group: one when time is up, and one, which reads the rest of the input, when that is
# at its end, because the connection is gone.
export RUNBOOK_SESSION
runbook_end_session() { # tenths of a second between TERM and KILL: ends everything of this session, this shell included
    trap '' TERM
    set -- "$runbook_kill_group
end_group $runbook_group $RUNBOOK_SESSION $1 $runbook_cgroup"
    unset RUNBOOK_SESSION # what ends the session must not bear its mark
    if command -v setsid >/dev/null; then setsid sh -c "$1"; else sh -c "$1"; fi || kill -s KILL "-$runbook_group"
}
runbook_stat() { # sets runbook_text to the fields of this shell, from its state on
    runbook_text=
    while IFS= read -r runbook_line || [ -n "$runbook_line" ]; do runbook_text=$runbook_text$runbook_line; done 2>/dev/null </proc/$$/stat
    runbook_text=${runbook_text##*) }
}
runbook_is_alone() { # whether the shell of a change was killed by it, so that nobody else leaves its control group
    runbook_stat
    case $runbook_cgroup,$runbook_text in -,* | *,[SRDTt]*) return 1 ;; esac
}
runbook_watch() { # seconds, tenths of a second between TERM and KILL, alone: also when the connection is gone
    (
        trap 'kill "$runbook_sleep"; exit' TERM
        trap 'kill "$runbook_sleep"; runbook_is_alone && runbook_leave_cgroup; exit' USR1
        sleep "$1" & runbook_sleep=$!
        wait "$runbook_sleep"
        runbook_end_session "$2"
    ) </dev/null >/dev/null 2>&1 3<&- &
    runbook_clock=$! runbook_reader=
    [ "${3:-}" != alone ] || return 0
    (
        while IFS= read -r runbook_line; do :; done
        runbook_end_session "$2"
    ) <&3 >/dev/null 2>&1 3<&- &
    runbook_reader=$!
}
runbook_rest() { # the batch is over, and what comes on the input is for this shell again
    [ -z "$runbook_reader" ] || { kill "$runbook_reader"; wait "$runbook_reader"; } 2>/dev/null
    [ -z "$runbook_clock" ] || kill -s USR1 "$runbook_clock" 2>/dev/null
    runbook_clock='' runbook_reader=''
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
    runbook_known="$runbook_known$runbook_line"
}
exec 3<&0
runbook_trusted_program='' runbook_known=' '
runbook_kill_group='' runbook_cgroup=- runbook_clock='' runbook_reader=''
runbook_stat; runbook_group=${runbook_text#* * }; runbook_group=${runbook_group%% *}
case $runbook_group in '') runbook_line=hidden ;; "$$" | "${1:-}") runbook_line=own ;; *) runbook_line=shared ;; esac
