"""The root of a lab host: what it sees of this machine's files, and that nothing it writes reaches them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

OWN = "overlay"
"""All files are the host's own: copies of this machine's as soon as they are written to."""
READ_ONLY = "bind"
"""This machine's files are seen read-only, beside some directories that are the host's own."""

MADE = ("/dev", "/proc", "/run", "/sys")
"""What the script makes."""
EMPTY = ("/home", "/root", "/tmp", "/var/tmp")  # noqa: S108 - names of directories, nothing is opened
"""What is empty on a new host."""
EMPTY_TOO = ("/var/log", "/var/spool")
"""What is empty as well where nothing can be copied on writing."""
SYSTEM = frozenset(
    (
        *("/bin", "/etc", "/gnu", "/gnu/store", "/lib", "/lib64", "/nix", "/nix/store", "/opt", "/sbin", "/srv"),
        *("/usr", "/usr/local", "/var", "/var/cache", "/var/lib", "/var/log", "/var/spool"),
    )
)
"""What is seen also where it is a file system of its own; anything else that is one is not seen at all."""
KEPT_FLAGS = ("nosuid", "nodev", "noexec")


@dataclass(frozen=True, slots=True)
class Mounts:
    """Mount point to its options, and which of them are directories."""

    flags: Mapping[str, str]

    def above(self, path: str) -> str:
        """The mount point that *path* lies on."""
        return max((it for it in self.flags if _is_in(path, it)), key=len, default="/")

    def below(self, path: str) -> list[str]:
        """The mount points below *path*, without itself."""
        return sorted(it for it in self.flags if it != path and _is_in(it, path))


def mounts(text: str) -> Mounts:
    """The mounts that ``/proc/self/mountinfo`` tells of."""
    found = {}
    for line in text.splitlines():
        words = line.split(" ")
        point = words[4].encode().decode("unicode_escape").encode("latin-1").decode(errors="surrogateescape")
        found[point] = ",".join(it for it in words[5].split(",") if it in KEPT_FLAGS)
    return Mounts(found)


def plan(files: str, needed: Iterable[str], there: Mounts) -> str:
    """Lines ``VERB FLAGS PATH`` for the script that makes a host's root; *needed* are paths that it must see."""
    rows = _overlays(there) if files == OWN else _binds("/", there)
    for path in _outermost(it for it in needed if _is_hidden(it, there)):
        rows.append(("see", path))
        rows += [("shut", it) for it in there.below(path)]
    return "".join(f"{verb} {there.flags.get(there.above(it)) or '-'} {it}\n" for verb, it in rows if "\n" not in it)


def _overlays(there: Mounts) -> list[tuple[str, str]]:
    """What is to be mounted over an overlay of ``/``, which shows no other file system."""
    system = [it for it in sorted(there.flags) if it in SYSTEM]
    files = [it for it in sorted(there.flags) if it.startswith("/etc/") and os.path.isfile(it)]
    return [*(("over", it) for it in system), *(("copy", it) for it in files)]


def _binds(folder: str, there: Mounts) -> list[tuple[str, str]]:
    """What *folder* has, seen read-only; directories with other file systems below them entry by entry."""
    rows: list[tuple[str, str]] = []
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return rows
    for name in names:
        path = os.path.join(folder, name)
        if path in (*MADE, *EMPTY, *EMPTY_TOO) or (path in there.flags and path not in SYSTEM):
            continue
        if path == "/etc" or os.path.islink(path):
            rows.append(("copy", path))
        elif os.path.isdir(path) and (path == "/var" or there.below(path)):
            rows += [("dir", path), *_binds(path, there)]
        elif os.path.isdir(path) or os.path.isfile(path):
            rows.append(("bind", path))
    return rows


def needed_paths(paths: Iterable[str]) -> list[str]:
    """Those of *paths* that are there, as they are written and as they lie."""
    there = [os.path.abspath(it) for it in paths if it and os.path.exists(it)]
    return sorted({*there, *(os.path.realpath(it) for it in there)})


def _is_hidden(path: str, there: Mounts) -> bool:
    """Whether a host would not see *path*: it is in what is made or empty there, or on another file system."""
    if path == "/" or path in (*MADE, *EMPTY):
        return False  # else all of it would be seen
    above = there.above(path)
    return any(_is_in(path, it) for it in (*MADE, *EMPTY)) or (above != "/" and above not in SYSTEM)


def _outermost(paths: Iterable[str]) -> list[str]:
    """*paths*, without those below another one."""
    kept: list[str] = []
    for path in sorted(paths):
        if not kept or not _is_in(path, kept[-1]):
            kept.append(path)
    return kept


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def mounts_here() -> Mounts:
    """The mounts of this program."""
    return mounts(Path("/proc/self/mountinfo").read_text(errors="surrogateescape"))


ROOT = r"""#!/bin/sh
# Makes the root of a lab host and goes there: $1 its folder, $2 "overlay" or "bind", $3 whether its network is its own;
# from $4 on what /run/lab/init takes.
set -e
umask 022
home=$1 files=$2 network=$3 folder=${1%/hosts/*} common=${1%/hosts/*}/common; shift 3
name=$1 faults=" $2 " backwards=$3 python=$5
has() { case $faults in *" $1 "*) return 0;; esac; return 1; }
mount --make-rprivate /
hostname "$name"
[ "$network" = shared ] || ip link set lo up 2>/dev/null || "$python" -IS "$common/lo"
# All that the host writes is in memory: nobody else sees it, and it is gone with the host's last process.
mnt=$home/mnt root=$home/mnt/root
mkdir "$mnt"
mount -t tmpfs -o mode=700,size=1g lab "$mnt"
mkdir "$mnt/root" "$mnt/empty" "$mnt/drv" "$mnt/pci"
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
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 lab "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
for it in 0:stdin 1:stdout 2:stderr; do ln -s "/proc/self/fd/${it%:*}" "$root/dev/${it#*:}"; done
mount -t tmpfs -o mode=1777 lab "$root/dev/shm"
if ! has no_gpu; then
  : >"$root/dev/nvidiactl"; : >"$root/dev/nvidia-uvm"; : >"$root/dev/nvidia0"; : >"$root/dev/nvidia1"
  chmod 666 "$root"/dev/nvidia*
  mkdir -p "$mnt/drv/nvidia/gpus/0000:1a:00.0" "$mnt/drv/nvidia/gpus/0000:3d:00.0"
  one=0 two=1; [ "$backwards" = 0 ] || { one=1 two=0; }
  printf 'Model: \t\t NVIDIA H100 (lab)\nDevice Minor: \t %s\n' $one >"$mnt/drv/nvidia/gpus/0000:1a:00.0/information"
  printf 'Model: \t\t NVIDIA H100 (lab)\nDevice Minor: \t %s\n' $two >"$mnt/drv/nvidia/gpus/0000:3d:00.0/information"
  echo 'NVRM version: NVIDIA UNIX x86_64 Kernel Module (lab)' >"$mnt/drv/nvidia/version"
  for it in 0000:1a:00.0 0000:3d:00.0; do
    mkdir "$mnt/pci/$it"; echo 0x10de >"$mnt/pci/$it/vendor"; echo 0x030200 >"$mnt/pci/$it/class"
  done
fi

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
mount -t sysfs -o nosuid,nodev,noexec sysfs "$root/sys" 2>/dev/null || mount --rbind /sys "$root/sys"
[ ! -d "$root/sys/bus/pci/devices" ] || mount --bind "$mnt/pci" "$root/sys/bus/pci/devices"
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
"""

LO = """import fcntl, socket, struct
with socket.socket() as it:
    flags, = struct.unpack_from("16xh", fcntl.ioctl(it, 0x8913, struct.pack("16sh14x", b"lo", 0)))
    fcntl.ioctl(it, 0x8914, struct.pack("16sh14x", b"lo", flags | 1))
"""
"""Brings the loopback up (netdevice(7)), for machines without iproute2."""
