#!/bin/sh
# Pretended lspci, modinfo, rmmod, modprobe and ldconfig: for the GPUs of a lab host and their driver; of anything else
# the machine's own are asked. The name by which this is called says which one is meant.
LC_ALL=C; export LC_ALL
tool=${0##*/} state=/run/lab/state modules=/sys/module
machines() { PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin; command -v "$tool" >/dev/null || exit 127; exec "$tool" "$@"; }
last() { for it in "$@"; do :; done; printf '%s' "$it"; }
root() { [ "$(id -u)" = 0 ] || { echo "$tool: ERROR: Operation not permitted" >&2; exit 1; }; }
using() { # how many open files of the GPUs' device nodes there are
  # shellcheck disable=SC2010  # the names are ours
  ls -l /proc/[0-9]*/fd 2>/dev/null | grep -c -E -- '-> /dev/nvidia[0-9]'
}
case $tool in
  lspci)
    for device in /sys/bus/pci/devices/*; do
      [ -e "$device" ] || continue
      rev=a1; [ "$(od -An -tx1 -N4 "$device/config" | tr -d ' \n')" != ffffffff ] || rev=ff
      case $(cat "$device/class") in 0x0680*) echo "${device##*/} Bridge [0680]: NVIDIA Corporation GH100 [H100 NVSwitch] [10de:22a3] (rev $rev)"; continue;; esac
      echo "${device##*/} 3D controller [0302]: NVIDIA Corporation GH100 [H100 (lab)] [10de:2330] (rev $rev)"
    done ;;
  modinfo)
    case $(last "$@") in nvidia|nvidia_uvm|nvidia_modeset) ;; *) machines "$@" ;; esac
    case " $* " in *' version '*) echo 580.00.01 ;; *) echo "filename: /lib/modules/lab/nvidia.ko" ;; esac ;;
  rmmod)
    name=$(last "$@")
    case $name in nvidia|nvidia_uvm|nvidia_modeset) ;; *) machines "$@" ;; esac
    root
    echo "rmmod $name" >>$state/calls
    for user in "$modules/$name"/holders/*; do
      [ ! -L "$user" ] || { echo "rmmod: ERROR: Module $name is in use by: ${user##*/}" >&2; exit 1; }
    done
    if [ "$name" = nvidia ] && [ "$(using)" -gt 0 ]; then
      echo "rmmod: ERROR: Module nvidia is in use" >&2; exit 1
    fi
    rm -rf "${modules:?}/$name"
    if [ "$name" = nvidia ]; then mv /proc/driver/nvidia /proc/driver/unloaded; exit 0; fi
    rm -f "$modules/nvidia/holders/$name"
    read -r uses <$modules/nvidia/refcnt; echo $((uses - 1)) >$modules/nvidia/refcnt ;;
  modprobe)
    name=$(last "$@")
    case $name in nvidia|nvidia_uvm|nvidia_modeset) ;; *) machines "$@" ;; esac
    root
    echo "modprobe $name" >>$state/calls
    [ ! -d "$modules/$name" ] || exit 0
    mkdir -p "$modules/$name/holders"
    echo 0 >"$modules/$name/refcnt"; echo 580.00.01 >"$modules/$name/version"; echo live >"$modules/$name/initstate"
    if [ "$name" = nvidia ]; then
      mv /proc/driver/unloaded /proc/driver/nvidia
      echo 'NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.00.01  (lab)' >/proc/driver/nvidia/version
      IFS=' .' read -r up rest </proc/uptime
      echo "[$up.${rest%% *}0000] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.00.01  (lab)" >>/run/lab/kernel
      exit 0
    fi
    ln -s "../../$name" "$modules/nvidia/holders/$name"
    read -r uses <$modules/nvidia/refcnt; echo $((uses + 1)) >$modules/nvidia/refcnt ;;
  ldconfig)
    [ "$1" = -p ] || machines "$@"
    echo "1 libs found in cache \`/etc/ld.so.cache'"
    printf '\tlibnvidia-ml.so.1 (libc6,x86-64) => /run/lab/lib/libnvidia-ml.so.1\n' ;;
esac
exit 0
