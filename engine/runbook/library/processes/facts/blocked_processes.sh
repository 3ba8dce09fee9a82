# The tasks that are in state D (uninterruptible) now and still are after so many seconds.  Parameter: the seconds.
#
# Neither the arguments of a process nor nvidia-smi is asked: the one waits for a lock of the process's memory, which a
# stuck task may hold, and the other for the driver. The name of a process can hold anything, so that each candidate's
# own file decides, from behind its last parenthesis.
#
# A task that was switched to in between has run: it is in state D by turns, as one that works on a disk is. This is
# the rule of the kernel's own hung-task detector. The driver is the exception, whose loops sleep in state D and wake
# to ask a dead GPU again, so that it is named and not left out here.
LC_ALL=C; export LC_ALL
blocked_state() { # pid, tid: sets state and start; fails where there is no such task
    blocked_line=''
    { while IFS= read -r blocked_part || [ -n "$blocked_part" ]; do blocked_line=$blocked_line$blocked_part; done \
        </proc/"$1"/task/"$2"/stat; } 2>/dev/null
    case $blocked_line in *') '*) ;; *) return 1 ;; esac
    # shellcheck disable=SC2086 # the fields behind the name are a letter and numbers
    set -- ${blocked_line##*) }
    state=$1 start=${20}
}
blocked_switches() { # pid, tid: sets switches, how often it left a processor; fails where there is no such task
    switches=''
    { while read -r word value _; do
        case $word in voluntary_ctxt_switches: | nonvoluntary_ctxt_switches:) switches=$switches.$value ;; esac
    done </proc/"$1"/task/"$2"/status; } 2>/dev/null
}
blocked_text() { tr -d '\n\000' <"$1" 2>/dev/null | tr -c ' -~' '?' | head -c 200; } # file: its text, on one line
[ -r /proc/self/stat ] || { echo 'there is no /proc' >&2; exit 3; }
found=''
for blocked_path in /proc/[0-9]*/task/[0-9]*; do
    pid=${blocked_path#/proc/} tid=${blocked_path##*/}
    pid=${pid%%/*}
    blocked_state "$pid" "$tid" || continue
    [ "$state" != D ] || ! blocked_switches "$pid" "$tid" || found="$found $pid:$tid:$start:$switches"
done
echo "sampled"
[ -n "$found" ] || exit 0
sleep "$1"
for blocked_one in $found; do
    before=${blocked_one##*:} rest=${blocked_one%:*}
    started=${rest##*:} rest=${rest%:*}
    pid=${rest%:*} tid=${rest#*:}
    blocked_state "$pid" "$tid" && [ "$state" = D ] && [ "$start" = "$started" ] && blocked_switches "$pid" "$tid" || continue
    uid=$(sed -n 's/^Uid:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$pid/task/$tid/status" 2>/dev/null | head -n 1)
    parent=$(sed -n 's/^PPid:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$pid/status" 2>/dev/null | head -n 1)
    user=$(id -un "${uid:-x}" 2>/dev/null)
    printf 'task %s %s %s %s %s %s\n' "$pid" "$tid" "$start" "${parent:-0}" "${uid:--}" "${user:--}"
    [ "$switches" = "$before" ] || echo ran
    printf 'name %s\n' "$(blocked_text "/proc/$pid/task/$tid/comm")"
    printf 'waits %s\n' "$(blocked_text "/proc/$pid/task/$tid/wchan")"
    head -n 20 "/proc/$pid/task/$tid/stack" 2>/dev/null | tr -c ' -~\n' '?' | sed 's/^/stack /'
    # shellcheck disable=SC2012 # where the links lead is what is asked
    ls -l "/proc/$pid/fd" 2>/dev/null | sed -n 's|.* -> \(/dev/nvidia[^ ]*\)$|gpu \1|p' | sort -u | head -n 20
done
