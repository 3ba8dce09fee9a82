full=$1 core=$2 small=$3 interval=$4 apps=$5
shift 5
each() {  # fields with commas between them: asked for one by one
    left=$1
    while [ -n "$left" ]; do
        case $rc in 0|2|6|14|15) ;; *) return ;; esac
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
        case $rc in 0|2|6|14|15) ;; *) return ;; esac
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
            case $rc in 0|2) gpus part "index,$one" ;; esac
        done
        unset IFS
        case $rc in 0|2) whole status -q; asked=1 ;; esac
    fi
fi
case $rc in
    0|2|6|14|15) ;;
    *)  # it does not work, and is not asked again: what a second probe was to tell is not known
        [ -z "$interval" ] || printf '%s begin again index,uuid,utilization.gpu\n\n%s end %s\n' "$frame" "$frame" "$rc"
        exit 0 ;;
esac
if [ $# -gt 0 ]; then
    grouped "$@"
    if [ -z "$asked" ] && virtual; then
        case $rc in 0|2) whole status -q ;; esac
    fi
fi
times=${interval#* } interval=${interval% *}
while [ -n "$interval" ] && [ "$times" -gt 0 ]; do
    sleep "$interval"
    gpus again index,uuid,utilization.gpu
    case $rc in 0|2|6|14|15) ;; *) break ;; esac
    times=$((times - 1))
done
if [ -n "$apps" ]; then listed "$apps"; fi
exit 0
