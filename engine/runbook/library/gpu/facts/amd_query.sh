LC_ALL=C; export LC_ALL
root=$1 interval=$2 times=$3
shift 3
PATH="$PATH:/usr/bin:/opt/rocm/bin"
stuck() {  # the pid of an amd-smi or rocm-smi of root's or ours that has been in uninterruptible sleep for 30 s; none: status 1
    IFS=' .' read -r up rest </proc/uptime || return 1
    for file in /proc/[0-9]*/stat; do
        line=; read -r line 2>/dev/null <"$file" || continue
        set -- ${line##*) }
        [ "$1" = D ] && [ $((up - ${20} / 100)) -gt 30 ] || continue
        # Python runs it, and gives the process its own name
        timeout 2 head -c 4096 "${file%/stat}/cmdline" 2>/dev/null | tr '\0' '\n' |
            grep -qE '(^|/)(amd-smi|rocm-smi|amdsmi_cli\.py|rocm_smi\.py)$' && really "${line%% *}" || continue
        echo "${line%% *}"; return 0
    done
    return 1
}
if pid=$(stuck); then
    echo "amd-smi (pid $pid) is stuck in the driver" >&2
    exit 75
fi
value() {  # bus, name, file: its first line, or that it cannot be read
    line=
    if { read -r line <"$3"; } 2>/dev/null && [ -n "$line" ]; then echo "value $1 $2 $line"
    elif [ -e "$3" ]; then echo "fails $1 $2"
    fi
}
sample() {  # number, then the buses
    number=$1; shift
    for bus in "$@"; do value "$bus" "busy.$number" "$root/sys/bus/pci/devices/$bus/gpu_busy_percent"; done
}
sample 0 "$@"
for bus in "$@"; do
    device=$root/sys/bus/pci/devices/$bus
    for name in product_name unique_id mem_info_vram_used mem_info_vram_total current_link_width max_link_width; do
        value "$bus" "$name" "$device/$name"
    done
    value "$bus" driver "$root/sys/module/amdgpu/version"
    for label in "$device"/hwmon/hwmon[0-9]*/temp[0-9]*_label; do
        kind=; { read -r kind <"$label"; } 2>/dev/null
        value "$bus" "temperature.${kind:-edge}" "${label%_label}_input"
    done
    for counts in "$device"/ras/*_err_count; do
        [ -e "$counts" ] || continue
        lines=$(sed -n 's/^ue: */value /p' "$counts" 2>/dev/null)
        case $lines in '') echo "fails $bus ue" ;; *) printf '%s\n' "$lines" | sed "s/^value /value $bus ue /" ;; esac
    done
done
if command -v amd-smi >/dev/null; then
    said=$(amd-smi list --json </dev/null 2>&1); rc=$?
    printf '%s\n' "$said" | sed 's/^/smi /'
    echo "answered $rc"
fi
number=0
while [ "$number" -lt "$times" ]; do
    sleep "$interval"
    number=$((number + 1))
    sample "$number" "$@"
done
processes=$root/sys/class/kfd/kfd/proc
[ ! -d "$processes" ] || echo listed
for directory in "$processes"/[0-9]*; do
    [ -d "$directory" ] || continue
    pid=${directory##*/}
    case $pid in *[!0-9]*) echo "unread ${pid%%[!0-9]*}"; continue ;; esac
    # an entry that is not read or not known may stand for any GPU
    [ -d "$directory/queues" ] && [ -r "$directory/queues" ] || echo "unread $pid"
    for file in "$directory"/*; do
        case ${file##*/} in
        queues|pasid|pasid_*|sdma_*|counters_*) ;;
        stats_*|cu_occupancy_*) # how much of the GPU is at work for it now
            busy=$file; [ ! -d "$file" ] || busy=$file/cu_occupancy
            [ -e "$busy" ] || continue
            line=; { read -r line <"$busy"; } 2>/dev/null
            case $line in 0) ;; *[!0-9]*|'') echo "unread $pid" ;; *) echo "queue $pid ${file##*_}" ;; esac
            ;;
        vram_*)
            line=; { read -r line <"$file"; } 2>/dev/null
            echo "uses $pid ${file##*_} $line"
            ;;
        *) echo "unread $pid" ;;
        esac
    done
    for queue in "$directory"/queues/*; do
        [ -e "$queue" ] || continue
        line=; { read -r line <"$queue/gpuid"; } 2>/dev/null
        echo "queue $pid $line"
    done
    name=; { IFS= read -r name <"/proc/$pid/comm"; } 2>/dev/null
    line=; { IFS= read -r line <"/proc/$pid/stat"; } 2>/dev/null
    line=${line##*) }
    [ -z "$name" ] || echo "name $pid ${line%% *} $name"
done
echo complete
exit 0
