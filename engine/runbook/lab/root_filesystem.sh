#!/bin/sh
# Makes the root of a lab host and goes there: $1 its folder, $2 "overlay" or "bind", $3 whether its network is its own;
# from $4 on what /run/lab/init takes.
set -e
umask 022
home=$1 files=$2 network=$3 folder=${1%/hosts/*} common=${1%/hosts/*}/common; shift 3
name=$1 faults=" $2 " backwards=$3 python=$5
has() { case $faults in *" $1 "*) return 0;; esac; return 1; }
[ ! -e "$home/files/amd-devices" ] || faults="${faults}no_gpu " # none of NVIDIA
mount --make-rprivate /
hostname "$name"
[ "$network" = shared ] || ip link set lo up 2>/dev/null || "$python" -IS "$common/lo"
# All that the host writes is in memory: nobody else sees it, and it is gone with the host's last process.
mnt=$home/mnt root=$home/mnt/root
mkdir -p "$mnt"
mount -t tmpfs -o mode=700,size=1g lab "$mnt"
mkdir "$mnt/root" "$mnt/empty" "$mnt/drv" "$mnt/pci" "$mnt/module" "$mnt/class"
layers=0
overlay() { # $1 what lies below, $2 where
  layers=$((layers + 1)); mkdir -p "$mnt/layer$layers/upper" "$mnt/layer$layers/work"
  mount -t overlay -o "lowerdir=$1,upperdir=$mnt/layer$layers/upper,workdir=$mnt/layer$layers/work" lab "$2"
}
shut() { # $1 where, $2 the flags that it has: nothing can be written there
  case $2 in -) mount -o remount,bind,ro "$1";; *) mount -o "remount,bind,ro,$2" "$1";; esac
}
place() { # a place in the root for what is at $1
  if [ -d "$1" ]; then mkdir -p "$root$1"; else mkdir -p "$root${1%/*}"; [ -e "$root$1" ] || : >"$root$1"; fi
}
if [ "$files" = overlay ]; then overlay / "$root"; else mount --bind "$root" "$root"; fi
chmod 755 "$root"
for it in /dev /proc /run /sys; do mkdir -p "$root$it"; done
grep -v -e '^see ' -e '^shut ' "$common/plan" >"$mnt/first" || :
grep -e '^see ' -e '^shut ' "$common/plan" >"$mnt/then" || :
while read -r verb flags path; do
  case $verb in
    over) place "$path"; overlay "$path" "$root$path";;
    copy) cp -RP "$path" "$root${path%/*}/" 2>/dev/null || [ -e "$root$path" ] || [ -L "$root$path" ];;
    dir) mkdir -p "$root$path";;
    bind) place "$path"; mount --bind "$path" "$root$path"; shut "$root$path" "$flags";;
  esac
done <"$mnt/first"
# A lab host is a machine, also where this one is a container.
umount "$root/.dockerenv" 2>/dev/null || :
rm -f "$root/.dockerenv"
empty() { # $1 where, $2 its mode
  mkdir -p "$root$1" "$mnt/empty$1"; chmod "$2" "$mnt/empty$1"; mount --bind "$mnt/empty$1" "$root$1"
}
empty /tmp 1777; empty /var/tmp 1777; empty /home 755; empty /root 700
[ "$files" = overlay ] || { empty /var/log 755; empty /var/spool 755; }
while IFS=: read -r user x uid gid y house z; do
  case $house in /home/?*) ;; *) continue;; esac
  mkdir -p "$root$house"; chmod 700 "$root$house"; chown "$uid:$gid" "$root$house" 2>/dev/null || :
done <"$root/etc/passwd"
# The lab's own folder has its key, and what the other hosts have.
if [ -d "$root$home" ]; then mkdir "$mnt/nothing"; mount --bind "$mnt/nothing" "$root$folder"; fi

mount -t tmpfs -o mode=755 lab "$root/dev"
for it in null zero full random urandom tty; do : >"$root/dev/$it"; mount --bind "/dev/$it" "$root/dev/$it"; done
if has nfs_hang && [ -c /dev/fuse ]; then : >"$root/dev/fuse"; mount --bind /dev/fuse "$root/dev/fuse"; fi
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 lab "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
for it in 0:stdin 1:stdout 2:stderr; do ln -s "/proc/self/fd/${it%:*}" "$root/dev/${it#*:}"; done
mount -t tmpfs -o mode=1777 lab "$root/dev/shm"
if ! has no_gpu; then
  : >"$root/dev/nvidiactl"; : >"$root/dev/nvidia-uvm"; : >"$root/dev/nvidia0"; : >"$root/dev/nvidia1"
  chmod 666 "$root"/dev/nvidia*
  . "$common/gpu-devices"
fi
[ ! -e "$home/files/amd-devices" ] || . "$home/files/amd-devices"

mount -t tmpfs -o mode=755 lab "$root/run"
mkdir -p "$root/run/sshd" "$root/run/lock" "$root/run/old"
mkdir -p "$root/run/lab/bin" "$root/run/lab/jobs" "$root/run/lab/state" "$root/run/lab/shared" "$root/run/lab/ways"
cp "$common"/* "$root/run/lab/"; cp "$home"/files/* "$root/run/lab/"
mkdir -p "$home/state"
mount --bind "$home/state" "$root/run/lab/state"
mount --bind "$folder/shared" "$root/run/lab/shared"
mount --bind "$folder/ways" "$root/run/lab/ways"
read -r flags <"$common/flags"; shut "$root/run/lab/ways" "$flags"
# A pretended driver and no settings of the kernel, which is this machine's.
mount -t proc proc "$root/proc"
mount --bind "$mnt/drv" "$root/proc/driver"
for it in /proc/sys /proc/sysrq-trigger; do
  [ ! -e "$root$it" ] || { mount --bind "$root$it" "$root$it"; shut "$root$it" nosuid,nodev,noexec; }
done
if [ -e "$home/boot_id" ]; then # a host that can be rebooted has boots of its own, and a disk that survives them
  mount --bind "$home/boot_id" "$root/proc/sys/kernel/random/boot_id"
  mkdir -p "$root/var/lib/runbook"; mount --bind "$home/disk" "$root/var/lib/runbook"
fi
mount -t sysfs -o nosuid,nodev,noexec sysfs "$root/sys" 2>/dev/null || mount --rbind /sys "$root/sys"
[ ! -d "$root/sys/bus/pci/devices" ] || mount --bind "$mnt/pci" "$root/sys/bus/pci/devices"
if [ -d "$root/sys/module" ]; then
  for it in apparmor overlay; do # what a Docker engine reads
    [ ! -d "$root/sys/module/$it" ] || { mkdir "$mnt/module/$it"; mount --bind "$root/sys/module/$it" "$mnt/module/$it"; }
  done
  mount --rbind "$mnt/module" "$root/sys/module"
fi
. "$common/infiniband"
if [ -n "$(ls -A "$mnt/class")" ] && [ -d "$root/sys/class" ]; then
  for it in "$root"/sys/class/*/; do # what else there is stays where it was
    it=${it%/}; mkdir "$mnt/class/${it##*/}" 2>/dev/null || continue
    mount --bind "$it" "$mnt/class/${it##*/}"
  done
  mount --rbind "$mnt/class" "$root/sys/class"
fi
[ ! -e "$home/files/docker" ] || mount --rbind /sys/fs/cgroup "$root/sys/fs/cgroup"
shut "$root/sys" nosuid,nodev,noexec
while read -r verb flags path; do
  case $verb in
    see) place "$path"; mount --rbind "$path" "$root$path"; shut "$root$path" "$flags";;
    shut) shut "$root$path" "$flags";;
  esac
done <"$mnt/then"
cd "$root"
pivot_root . run/old
cd /
umount -l /run/old
rmdir /run/old
exec /bin/sh /run/lab/init "$@"
