# In a mount namespace of its own: makes every file system read-only but those of /dev and /proc, and goes on as a session.
# A mount of another kind than these may wait for a server.
remount() {
    keep=''
    for flag in nosuid nodev noexec; do case ,$options, in *",$flag,"*) keep=$keep,$flag ;; esac; done
    set -- mount -o "remount,bind,ro$keep" none "$point"
    case $type in
        ext[234] | xfs | btrfs | zfs | tmpfs | ramfs | overlay | squashfs | vfat | sysfs | cgroup | cgroup2 | bpf | nsfs | debugfs | tracefs | securityfs | pstore | configfs | fusectl) ;;
        *) set -- timeout -s KILL 5 "$@" ;;
    esac
    "$@" </dev/null >/dev/null 2>&1 || :
}
is_reached() ( # whether its path leads to that mount: another one may hide it, and a container may have ended meanwhile
    [ ! -p "$point" ] || exit 0
    exec 9<"$point" || exit 1
    while read -r key value; do [ "$key" != mnt_id: ] || exit "$((value != number))"; done </proc/self/fdinfo/9
)
fail_if_reached() { ! is_reached 2>/dev/null || { printf '%s cannot be made read-only' "$point"; return 1; }; }
each_writable() { # command: for each mount that can be written: its number, point, options and type; fails where that does
    table=$(cat /proc/self/mountinfo) && [ -n "$table" ] || { printf 'its mounts are not known'; return 1; }
    printf '%s\n' "$table" | while read -r number parent device root point options type; do
        type=${type#*- }; type=${type%% *}
        case $point in /dev | /dev/* | /proc | /proc/*) continue ;; esac
        case ,$options, in *,ro,*) continue ;; esac
        [ "$type" != autofs ] || continue # it keeps no files, and to look there mounts something
        case $point in
            *\\*)
                point=$(printf '%b.' "$(printf '%s' "$point" | sed 's/\\\([0-7][0-7][0-7]\)/\\0\1/g')")
                point=${point%.}
                ;;
        esac
        "$1" || exit 1
    done
}
name=$0
# What others mount, or remove, shows here, too; nothing that is mounted here shows there.
mount --make-rslave / 2>/dev/null || { printf '\nconfined %s no mount --make-rslave is refused\n' "$name"; exit 1; }
tries=1
until why=$(each_writable remount && each_writable fail_if_reached); do # others may mount something meanwhile
    [ "$tries" -lt 4 ] || { printf '\nconfined %s no %s\n' "$name" "$why"; exit 1; }
    tries=$((tries + 1))
done
# Programs that need a temporary file have a directory of their own; /tmp stays as it is, for logs lie there.
for place in /media /srv /mnt /opt /var/opt; do
    [ -d "$place" ] && [ ! -L "$place" ] && [ -z "$(ls -A "$place" 2>/dev/null)" ] || continue
    mount -t tmpfs -o nosuid,nodev,mode=700,size=256m runbook "$place" 2>/dev/null || continue
    export TMPDIR="$place"
    break
done
printf '\nconfined %s yes\n' "$name"
exec sh -s "$1"
