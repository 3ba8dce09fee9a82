runbook_nl='
'
runbook_field() {  # the next text on stdin: a number of lines, and these
    IFS= read -r runbook_more && IFS= read -r runbook_it || return 1
    while [ "$runbook_more" -gt 1 ]; do
        IFS= read -r runbook_line || return 1
        runbook_it=$runbook_it$runbook_nl$runbook_line runbook_more=$((runbook_more - 1))
    done
}
runbook_whose() {  # a line of stat: sets runbook_pid and runbook_key
    runbook_pid=${1%% *}
    set -- ${1##*) }
    runbook_key=$runbook_pid:${20}
}
runbook_now() {
    IFS=" " read -r runbook_up runbook_rest </proc/uptime
    runbook_up=${runbook_up%.*}${runbook_up#*.}; runbook_up=${runbook_up#0}
}
runbook_keep() {  # what, line: puts it there in one stroke
    printf "%s\n" "$2" >"$runbook_folder/.$runbook_name.$1" &&
        mv -f "$runbook_folder/.$runbook_name.$1" "$runbook_folder/$runbook_name.$1"
}
trap : HUP INT QUIT TERM
umask 077
IFS= read -r runbook_line </proc/$$/stat
runbook_whose "$runbook_line"
runbook_mine=$runbook_key
(
    set --
    runbook_field && runbook_env=$runbook_it && runbook_field || exit 125
    runbook_left=$((runbook_env * 2 + runbook_it))
    while [ "$runbook_left" -gt 0 ]; do
        runbook_field || exit 125
        set -- "$@" "$runbook_it"
        runbook_left=$((runbook_left - 1))
    done
    exec </dev/null
    IFS= read -r runbook_line </proc/self/stat
    runbook_whose "$runbook_line"
    runbook_now
    runbook_size=0
    if [ -f "$runbook_log" ]; then runbook_size=$(($(wc -c <"$runbook_log"))); fi
    runbook_line="$runbook_turn $runbook_key $runbook_mine $runbook_boot $runbook_up $(date +%s)"
    runbook_line="$runbook_line $runbook_size $runbook_digest"
    runbook_keep started "$runbook_line" || exit 125
    umask "$runbook_umask"
    exec >>"$runbook_log" 2>&1 || exit 126
    cd -- "$runbook_cwd" || exit 126
    unset OLDPWD
    while [ "$runbook_env" -gt 0 ]; do
        export "$1=$2"
        shift 2
        runbook_env=$((runbook_env - 1))
    done
    export "RUNBOOK_COMPONENT=$runbook_folder/$runbook_name;"
    set -- "$runbook_setsid" "$@"
    unset runbook_folder runbook_name runbook_turn runbook_boot runbook_setsid runbook_digest
    unset runbook_log runbook_cwd runbook_umask runbook_script
    exec "$@"
) 2>/dev/null
runbook_code=$?
runbook_now
runbook_keep ended "$runbook_turn $runbook_code $runbook_up $(date +%s)"
