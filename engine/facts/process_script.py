"""The sh text that lists a host's processes; what a process says of itself cannot break it, nor pass for another's."""

from __future__ import annotations

PROCESSES = r"""
LC_ALL=C; export LC_ALL
nl='
'
IFS=' ' read -r me rest </proc/self/stat || { echo '/proc cannot be read' >&2; exit 3; }
IFS=' ' read -r up rest </proc/uptime || up=-
walk() { awk 'BEGIN {
    for (i = 1; i < ARGC; i++) {
        f = ARGV[i] "/stat"; s = ""; n = 0
        while ((getline l < f) > 0) s = n++ ? s "\001" l : l
        close(f)
        cut = 0; t = s
        while ((k = index(t, ") ")) > 0) { cut += k + 1; t = substr(t, k + 2) }
        if (!cut || split(t, v, " ") < 20 || int(v[7] / 2097152) % 2) continue
        u = c = "-"
        f = ARGV[i] "/status"
        while ((getline l < f) > 0) if (l ~ /^Uid:/) { split(l, w); u = w[3]; break }
        close(f)
        f = ARGV[i] "/cgroup"
        while ((getline l < f) > 0)
            if (l ~ /job_[0-9]|[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f]/) {
                c = substr(l, index(l, "/")); gsub(/ /, "_", c)
            }
        close(f)
        used[u]
        a = index(s, "(")
        print "p", substr(ARGV[i], 7), v[1], v[2], v[3], v[5], v[18], v[20], u, c, substr(s, a + 1, cut - a - 2)
    }
    while ((getline l < "/etc/passwd") > 0) {
        split(l, w, ":")
        if (w[3] in used) { print "u", w[3], w[1]; delete used[w[3]] }
    }
}' "$@"; }
try=0
until rows=$(walk /proc/[0-9]* 2>/dev/null); do
    try=$((try + 1)); [ "$try" -lt 20 ] || { walk /proc/[0-9]* >/dev/null; exit 3; }
done
hide=-
while IFS=' ' read -r dev at kind options rest; do
    [ "$at" = /proc ] || continue
    hide=-
    case ,$options, in
        *,hidepid=[1-9]*|*,hidepid=no*|*,hidepid=in*|*,hidepid=pt*) hide=hidden ;;
    esac
    case ,$options, in *,gid=*)
        gid=${options##*gid=}; gid=${gid%%,*}
        case " $(id -G) " in *" $gid "*) hide=- ;; esac ;;
    esac
done </proc/self/mounts
printf 'self %s %s %s %s %s\n%s\n' "$me" "$$" "$(id -u)" "$up" "$hide" "$rows"
bulk() {  # the arguments of the processes in those files; rc says how it went
    if [ "$(printf 'a\0b\0' | grep -azc '' 2>/dev/null)" != 2 ]; then
        for f; do tr '\n\0' '\001\n' <"$f" | sed "s,^,$f:," | tr '\n\001' '\0\n'; done
        return 0
    fi
    printf '%s\n' "$@" | timeout 5 xargs -n 500 grep -azH ''; rc=$?
    [ $rc = 127 ] && grep -azH '' "$@"
}
late() { case $rc in 124|137|143) return 0 ;; esac; return 1; }
hanging() {  # the pids whose arguments cannot be read: something in the kernel holds their memory
    n=0
    for d in /proc/[0-9]*; do
        { timeout 1 cat "$d/cmdline" >/dev/null; rc=$?; late && echo "${d#/proc/}"; } &
        n=$((n + 1)); [ $((n % 50)) -ne 0 ] || wait
    done
    wait
}
{
    rc=0; bulk /proc/[0-9]*/cmdline
    if late; then
        stuck=" $(hanging | tr '\n' ' ')"
        set --
        for d in /proc/[0-9]*; do
            case $stuck in *" ${d#/proc/} "*) ;; *) set -- "$@" "$d/cmdline" ;; esac
        done
        printf '\0/proc/again/cmdline:1\0'; rc=0; bulk "$@"
        late && stuck=' all '
        printf '\0/proc/stuck/cmdline:%s\0' "$stuck"
    fi
} 2>/dev/null | tr '\n\0' '\001\n' | sed '/^[^:]*:$/d;s,^/proc/\([0-9a-z]*\)/cmdline:,a \1 ,' | awk '{
    n = length($0); if (n > 65536) { n = 65536; $0 = substr($0, 1, n) }
    pid = substr($0, 3, index(substr($0, 3, 12), " ") - 1)
    if (pid == "again") split("", used)
    if ((used[pid] += n) <= 131072) print
}'
"""
"""Lines: ``self``, ``p`` (a process), ``u`` (a user's name), ``a`` (one argument of a process).

A newline within a name or an argument is sent as byte 1.  grep writes the file's name before each argument, so that
no argument can pass for another process's.  Names and start times are read before the arguments: a pid that is
used anew in between then carries the old start time, and is left alone later.  Kernel threads (PF_KTHREAD,
0x200000) are left out.  Of one argument 64 KiB are read, and of one process 128 KiB: whoever writes more on its
command line shall not use up the answer for all.  The last word of ``self`` is ``hidden`` where /proc is mounted so
that it shows some processes to some users only.  A process that ends while it is being read makes some awks give up,
so that the walk is begun again.  Reading arguments takes a lock that a process stuck in the kernel may hold for ever
(proc(5), mmap_lock), hence ``timeout``.
"""
