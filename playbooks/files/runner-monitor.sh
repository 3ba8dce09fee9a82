#!/bin/sh
# Writes a snapshot of this host to FOLDER/runner-HOSTNAME-TIME.log, again and again: memory, processes, GPUs, containers, disks,
# kills for memory since the start, and what the Docker daemon complains about.
# Usage: runner-monitor.sh FOLDER SECONDS [SAMPLES]; without SAMPLES, or with 0, until it is ended.
# What cannot be known is said to be unknown. A log is followed by a new one at 50 MB, and the newest ten stay.
folder=$1 every=$2 samples=${3:-0}
case $every$samples in ''|*[!0-9]*) echo 'usage: runner-monitor.sh FOLDER SECONDS [SAMPLES]' >&2; exit 2 ;; esac
case $folder in '~') folder=$HOME ;; '~/'*) folder=$HOME/${folder#??} ;; esac
LC_ALL=C; export LC_ALL
umask 077
mkdir -p -- "$folder" && cd -- "$folder" || exit
name=$(hostname 2>/dev/null || cat /proc/sys/kernel/hostname)

have() { command -v "$1" >/dev/null 2>&1; }
limit=; timeout 1 true >/dev/null 2>&1 && limit='timeout 10'

ask() {  # a title, then a program with its arguments: what it says, or why nothing is known
    title=$1; shift
    echo "--- $title"
    have "$1" || { echo "unknown: no $1 on this host"; return; }
    $limit "$@" 2>&1 </dev/null || echo "unknown: $1 ended with exit code $?"
}

kills() {  # how many processes the kernel has killed for memory since it was booted
    if found=$(awk '$1 == "oom_kill" { print $2; seen = 1 } END { exit !seen }' /proc/vmstat 2>/dev/null); then
        echo "$found"
    elif found=$(dmesg 2>/dev/null); then
        printf '%s\n' "$found" | grep -i -c 'killed process' || :  # grep has printed its 0
    else
        echo unknown
    fi
}

memory() {
    echo '--- memory'
    if have free; then free -m; else grep -E '^(MemTotal|MemAvailable|SwapTotal|SwapFree):' /proc/meminfo || echo 'unknown: /proc/meminfo cannot be read'; fi
}

processes() {  # programs only: a command line may hold a secret
    echo '--- processes that take most of the CPU'
    if found=$(ps -eo pid,pcpu,pmem,rss,comm --sort=-pcpu 2>/dev/null); then printf '%s\n' "$found" | head -n 6
    elif found=$(top -b -n 1 2>/dev/null); then
        printf '%s\n' "$found" | awk '/PID/ && /COMMAND/ { print; rows = 1; next } rows && rows++ < 6 { if (NF > 8) NF = 8; print }'
    else echo 'unknown: neither ps nor top can tell'; fi
}

gpus() {
    if ! have nvidia-smi && ! ls /dev/nvidia[0-9]* >/dev/null 2>&1; then echo '--- GPUs'; echo 'no NVIDIA GPU'; return; fi
    ask GPUs nvidia-smi --query-gpu=index,name,utilization.gpu,utilization.memory,memory.used,memory.total,temperature.gpu --format=csv
}

containers() {
    if ! have docker; then echo '--- containers'; echo 'unknown: no docker command on this host'; return; fi
    ask containers docker ps -a --format '{{.Names}}: {{.Status}} ({{.Image}})'
    ask 'what they take' docker stats --no-stream --format '{{.Name}}: CPU {{.CPUPerc}}, memory {{.MemUsage}}, {{.PIDs}} processes'
}

disks() {
    echo '--- disks'
    set -- /
    [ ! -d /var/lib/docker ] || set -- / /var/lib/docker
    $limit df -h -- "$@" 2>&1 || echo 'unknown: df did not answer'
}

killed() {
    now=$(kills)
    echo '--- killed for memory since this log began'
    case $before$now in
        *unknown*) echo 'unknown: neither /proc/vmstat nor dmesg tells' ;;
        *) [ "$now" -ge "$before" ] || before=0
           echo $((now - before))
           [ "$now" -eq "$before" ] || dmesg 2>/dev/null | grep -i 'killed process' | tail -n 5 ;;
    esac
}

daemon() {
    have journalctl || return 0
    echo '--- Docker daemon, last minute'
    $limit journalctl -u docker.service --since '1 minute ago' --no-pager -q 2>&1 | grep -i -E 'error|kill|oom' | tail -n 10
}

begin() {  # a new log; of the older ones the newest nine stay
    log=runner-$name-$(date +%Y%m%d-%H%M%S).log
    ls -1 "runner-$name"-*.log 2>/dev/null | sort -r | tail -n +10 | while IFS= read -r old; do rm -f -- "$old"; done
    : >>"$log" || exit
}

begin
before=$(kills)
n=0
while :; do
    { echo "===== $(date '+%Y-%m-%d %H:%M:%S') $name"; memory; processes; gpus; containers; disks; killed; daemon; echo; } >>"$log" || exit
    n=$((n + 1))
    [ "$samples" -eq 0 ] || [ $n -lt "$samples" ] || exit 0
    size=$(wc -c <"$log")
    [ "$size" -lt 50000000 ] || begin
    sleep "$every"
done
