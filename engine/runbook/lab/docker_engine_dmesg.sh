#!/bin/sh
# A pretended ring buffer, and after it what the machine's own says of this host's containers.
cat /run/lab/kernel
read -r group busybox </run/lab/group
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
dmesg 2>/dev/null | awk -v group="=$group/" -v program="] ${busybox}[" '
    index($0, "oom-kill:") && index($0, group) { print; pid = $0; sub(/.*,pid=/, "", pid); sub(/,.*/, "", pid); next }
    pid != "" && index($0, "Killed process " pid " ") { print; pid = ""; next }
    index($0, program) { print }
'
exit 0
