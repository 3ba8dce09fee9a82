LC_ALL=C; export LC_ALL
[ -d "$1/sys/bus" ] && echo probed
for device in "$1"/sys/bus/pci/devices/*; do
    vendor=; class=
    { read -r vendor <"$device/vendor" && read -r class <"$device/class"; } 2>/dev/null
    case $vendor/$class in 0x10de/0x030[02]*) ;; *) continue ;; esac
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
exit 0
