full=$1 core=$2 small=$3 interval=$4 apps=$5
shift 5
each() {  # fields with commas between them: asked for one by one
    left=$1
    while [ -n "$left" ]; do
        usable || return 0
        gpus part "index,${left%%,*}"
        case $left in *,*) left=${left#*,} ;; *) left= ;; esac
    done
}
grouped() {  # groups of fields, one a parameter; behind a slash what an older nvidia-smi calls them
    whole=
    for group in "$@"; do whole=$whole,${group%%/*}; done
    gpus part "index$whole"
    [ "$rc" = 2 ] || return
    for group in "$@"; do
        usable || return 0
        gpus part "index,${group%%/*}"
        [ "$rc" = 2 ] || continue
        case $group in
            */*) gpus part "index,${group#*/}" ;;
            *,*) each "$group" ;;
        esac
    done
}
virtual() {  # whether this may be a virtual machine with a share of a GPU, which needs a license
    grep -q '^flags.* hypervisor' /proc/cpuinfo 2>/dev/null ||
        grep -q -E '^Model:.*-[0-9]+[ABCQ]([^0-9A-Za-z]|$)' /proc/driver/nvidia/gpus/*/information 2>/dev/null
}
asked=
gpus gpus "$full"
if [ $rc = 2 ]; then  # a field that this nvidia-smi does not know: ask for the core, then for the others one by one
    others=${full#"$core",}
    gpus gpus "$core"
    if [ $rc = 2 ]; then others=$full; gpus gpus "$small"; fi
    if [ $rc != 2 ]; then
        IFS=,
        for one in $others; do
            case ",index,$small," in *",$one,"*) continue ;; esac
            ! usable || gpus part "index,$one"
        done
        unset IFS
        if usable; then whole status -q; asked=1; fi
    fi
fi
if ! usable; then  # it is not asked again: what a second probe was to tell is not known
    [ -z "$interval" ] || printf '%s begin again index,uuid,utilization.gpu\n\n%s end %s\n' "$frame" "$frame" "$rc"
    exit 0
fi
if [ $# -gt 0 ]; then
    grouped "$@"
    if [ -z "$asked" ] && usable && virtual; then whole status -q; fi
fi
if uptime; then printf '%s begin at\n%s\n\n%s end 0\n' "$frame" "$up" "$frame"; fi
times=${interval#* } interval=${interval% *}
while [ -n "$interval" ] && [ "$times" -gt 0 ]; do
    sleep "$interval"
    gpus again index,uuid,utilization.gpu
    usable || break
    times=$((times - 1))
done
if [ -n "$apps" ]; then listed "$apps"; fi
exit 0
