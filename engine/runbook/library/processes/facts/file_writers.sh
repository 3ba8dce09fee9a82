# Who has one of the files open for writing.  Comes after the process table; parameters: the files.
#
# A file is known by its device and inode. Only descriptors with its name are followed, so that no other file system is
# asked, which may hang; a container may have the file at another path, but hardly with another name.
IFS=' '
for file; do stat -L -c 'written %d:%i %u %n' -- "$file" 2>/dev/null; done
open=$({
    for file; do printf 'name %s\n' "${file##*/}"; done
    printf '%s\n' /proc/[0-9]*/fd | "$xargs" -n 500 ls -ln$q /proc/self/fd 2>/dev/null
} | awk '
    /^name / { wanted[substr($0, 6)]; next }
    /^\/proc\/[0-9a-z]+\/fd:$/ { at = substr($0, 1, length($0) - 1); next }
    /^l.w/ && at !~ /self/ {
        k = index($0, " -> "); if (!k) next
        name = substr($0, k + 4); sub(/.*\//, "", name)
        fd = substr($0, 1, k - 1); sub(/.* /, "", fd)
        if (name in wanted) print at "/" fd
    }
')
[ -z "$open" ] || printf '%s\n' "$open" | briefly "$xargs" -n 200 stat -L -c 'descriptor %d:%i %n' 2>/dev/null
printf '%s\n' "$rows" | while read -r kind pid rest; do
    [ "$kind" != p ] || [ -r "/proc/$pid/fd" ] || [ ! -e "/proc/$pid" ] || echo "closed $pid"
done
echo "walked"
