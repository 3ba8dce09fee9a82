LC_ALL=C; export LC_ALL
[ -d "$1/sys/bus" ] && echo probed
for device in "$1"/sys/bus/pci/devices/*; do
    vendor=; class=
    { read -r vendor <"$device/vendor" && read -r class <"$device/class"; } 2>/dev/null
    case $vendor/$class in
        0x10de/0x030[02]*) ;;
        0x1002/0x1200*|0x1002/0x0380*)  # an accelerator of AMD, or a controller without a display, which a laptop has, too
            driver=$(readlink "$device/driver")
            case ${driver##*/} in ''|amdgpu) ;; *) continue ;; esac
            case $class in 0x1200*) ;; *) [ -e "$1/dev/kfd" ] || continue ;; esac
            echo "accelerator ${device##*/}"
            continue ;;
        *) continue ;;
    esac
    echo "pci ${device##*/}"
    driver=$(readlink "$device/driver")
    case ${driver##*/} in ''|nvidia) echo "bus ${device##*/}" ;; esac
done
case $(readlink "$1/proc/self/ns/pid") in 'pid:[4026531836]') echo machine ;; esac # PROC_PID_INIT_INO of linux/proc_ns.h: the first one
for mark in /.dockerenv /run/.containerenv /run/systemd/container; do [ ! -e "$1$mark" ] || echo container; done
# a directory is what Docker makes of a node that the machine does not have
for node in "$1"/dev/nvidia[0-9]*; do
    [ -e "$node" ] && [ ! -d "$node" ] && echo "node ${node#"$1"}"
done
PATH="$PATH:/usr/bin:/usr/local/nvidia/bin:/usr/lib/wsl/lib"
if command -v nvidia-smi >/dev/null; then echo tool; fi
for file in "$1"/proc/driver/nvidia/gpus/*/information; do
    card=${file%/information}
    { while read -r one two three rest; do
        case "$one $two" in 'Device Minor:') echo "minor ${card##*/} $three" ;; esac
    done <"$file"; } 2>/dev/null
done
# what AMD's driver calculates on (a GPU that only draws has no node there), and how each of them is called elsewhere
[ ! -e "$1/dev/kfd" ] || for file in "$1"/sys/class/kfd/kfd/topology/nodes/[0-9]*; do
    [ -d "$file" ] || continue
    file=$file/properties units='' place='' domain=0 render='' id=''
    { while read -r key value; do
        case $key in
            simd_count) units=$value ;; location_id) place=$value ;; domain) domain=$value ;;
            drm_render_minor) render=$value ;;
        esac
    done <"$file" && read -r id <"${file%/*}/gpu_id"; } 2>/dev/null
    case $units/$place/$domain/$render/$id in
        0/*) continue ;; # a processor
        *[!0-9/]*|/*|*//*|*/) echo hidden; continue ;; # where it may not be used, it may not be read
    esac
    bus=$(printf '%04x:%02x:%02x.%x' "$domain" "$((place / 256))" "$((place / 8 % 32))" "$((place % 8))")
    vendor='' class='' card=-
    { read -r vendor <"$1/sys/bus/pci/devices/$bus/vendor" && read -r class <"$1/sys/bus/pci/devices/$bus/class"; } 2>/dev/null
    case $vendor/$class in 0x1002/0x03*|0x1002/0x12*) ;; *) bus=part ;; esac  # a part of a GPU has no address of its own
    for one in "$1/sys/bus/pci/devices/$bus"/drm/card[0-9]*; do [ ! -e "$one" ] || card=${one##*/card}; done
    for one in "$1/sys/bus/pci/devices/$bus"/drm/renderD[0-9]*; do
        [ ! -e "$one" ] || [ "${one##*/renderD}" = "$render" ] || [ "$bus" = part ] || echo hidden # it contradicts itself
    done
    echo "kfd $bus $render $card $id"
    [ ! -e "$1/dev/dri/renderD$render" ] || echo "render $render"
done
exit 0
