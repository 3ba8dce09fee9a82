LC_ALL=C; export LC_ALL
IFS= read -r fence </proc/sys/kernel/random/uuid || { echo '/proc/sys/kernel/random/uuid cannot be read' >&2; exit 3; }
frame="#: runbook $fence"
PATH="$PATH:/usr/bin:/usr/local/nvidia/bin:/usr/lib/wsl/lib"
command -v nvidia-smi >/dev/null || { echo 'no nvidia-smi on this host' >&2; exit 127; }
stuck() {  # the pid of an nvidia-smi of root's or ours that has been in uninterruptible sleep for 30 s; none: status 1
    IFS=' .' read -r up rest </proc/uptime || return 1
    for file in /proc/[0-9]*/comm; do
        comm=; read -r comm 2>/dev/null <"$file" || continue
        [ "$comm" = nvidia-smi ] || continue
        line=; read -r line 2>/dev/null <"${file%/comm}/stat" || continue
        set -- ${line##*) }
        [ "$1" = D ] && [ $((up - ${20} / 100)) -gt 30 ] && really "${line%% *}" || continue
        echo "${line%% *}"; return 0
    done
    return 1
}
if pid=$(stuck); then
    echo "nvidia-smi (pid $pid) is stuck in the driver" >&2
    exit 75
fi
ask() {  # name, fields, then the words of the query; its exit code is kept in rc
    echo "$frame begin $1 $2"; echo "$frame begin $1 $2" >&2
    shift 2
    nvidia-smi "$@" </dev/null; rc=$?
    printf '\n%s end %s\n' "$frame" "$rc"
}
listed() {  # fields, of which the second is the pid: the processes on GPUs, each one's state and what the kernel calls it
    said=$(ask apps "$1" "--query-compute-apps=$1" --format=csv,noheader,nounits)
    printf '%s\n' "$said"
    echo "$frame begin names"
    printf '%s\n' "$said" | sed -n 's/^[^,]*, *\([0-9][0-9]*\) *,.*/\1/p' | while IFS= read -r pid; do
        name=; { IFS= read -r name <"/proc/$pid/comm"; } 2>/dev/null
        [ -n "$name" ] || continue
        line=; { IFS= read -r line <"/proc/$pid/stat"; } 2>/dev/null
        line=${line##*) }
        printf '%s %s %s\n' "$pid" "${line%% *}" "$name"
    done
    printf '\n%s end 0\n' "$frame"
}
whole() {  # name, then the words of a question about everything; only the lines on resets and licenses are kept
    echo "$frame begin $1"; echo "$frame begin $1" >&2
    shift
    said=$(nvidia-smi "$@" </dev/null); rc=$?
    printf '%s\n' "$said" | awk '
        /^GPU / { named = 0 }
        /^ *Processes/ { named = 1 }  # their names come now, with whatever lines are in them
        /^GPU / || !named && /Reset Required|Drain and Reset Recommended|License Status/'
    printf '\n%s end %s\n' "$frame" "$rc"
}
gpus() { ask "$1" "$2" "--query-gpu=$2" --format=csv,noheader,nounits; }
