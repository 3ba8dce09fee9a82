# What a change starts on purpose so that it goes on by itself.

outlive() { # what this shell starts from now on is left alone by what ends the command: no mark of it, nor its control group
    unset RUNBOOK_SESSION
    while IFS= read -r outlive_group; do
        case $outlive_group in 0::*/runbook-command-*) outlive_group=${outlive_group#0::} ;; *) continue ;; esac
        outlive_group=${outlive_group%/runbook-command-*}
        for outlive_tree in /sys/fs/cgroup /sys/fs/cgroup/unified; do
            if [ -O "$outlive_tree$outlive_group/cgroup.procs" ]; then # 0: the process that writes it
                echo 0 >"$outlive_tree$outlive_group/cgroup.procs"
            fi
        done
    done </proc/self/cgroup
    unset outlive_group outlive_tree
} 2>/dev/null
