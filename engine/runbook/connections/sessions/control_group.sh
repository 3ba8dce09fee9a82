# Has the shell enter a control group of its own (cgroup v2), and all that it starts with it, where its user may.
trap runbook_leave_cgroup EXIT
runbook_leave_cgroup() {
    [ "$runbook_cgroup" = - ] || (
        eval "$runbook_kill_group"
        cgroup=$runbook_cgroup
        remove_cgroup
    )
}
runbook_enter_cgroup() { # directory of the control group that it is in: makes one there and enters it
    [ -O "$1" ] && [ -O "$1/cgroup.procs" ] && [ -e "$1/cgroup.controllers" ] || return 1
    runbook_text=
    while IFS= read -r runbook_line; do [ "$runbook_line" != $$ ] || runbook_text=here; done <"$1/cgroup.procs"
    [ -n "$runbook_text" ] || return 1
    for runbook_text in "$1"/runbook-command-*; do
        while IFS= read -r runbook_line; do
            [ "$runbook_line" != 'populated 0' ] || rmdir "$runbook_text"
        done <"$runbook_text/cgroup.events"
    done
    mkdir -m 700 "$1/$runbook_name" || return 1
    if echo 0 >"$1/$runbook_name/cgroup.procs" && [ -O "$1/$runbook_name/cgroup.procs" ]; then
        runbook_cgroup=$1/$runbook_name
        return 0
    fi
    echo 0 >"$1/cgroup.procs"
    rmdir "$1/$runbook_name"
    return 1
}
runbook_text=
while IFS= read -r runbook_line; do
    case $runbook_line in 0::/*) runbook_text=${runbook_line#0::}; runbook_text=${runbook_text%/} ;; esac
done 2>/dev/null </proc/self/cgroup
case $runbook_text in
    *[!A-Za-z0-9_.:@/-]* | */.. | */../*) ;;
    *) { runbook_enter_cgroup "/sys/fs/cgroup$runbook_text" || runbook_enter_cgroup "/sys/fs/cgroup/unified$runbook_text"; } 2>/dev/null ;;
esac
