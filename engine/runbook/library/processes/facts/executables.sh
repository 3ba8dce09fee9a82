wanted=$(printf '%s\n' "$shown" | sed -n 's/^want //p')
briefly() { if [ -n "$limit" ]; then timeout 4 "$@"; else "$@"; fi; }
q=q; ls -q / >/dev/null 2>&1 || q=
exes=$(
    [ -n "$wanted" ] || exit 0
    for pid in $wanted; do set -- "$@" "/proc/$pid/exe" "/proc/$pid/ns/mnt" "/proc/$pid/ns/user"; done
    ls -ln$q /proc/self/ns/mnt /proc/self/ns/user "$@" 2>/dev/null | awk '
        (k = index($0, " -> ")) && /^l/ {
            to = substr($0, k + 4); from = substr($0, 1, k - 1); sub(/.* /, "", from); sub(/^\/proc\//, "", from)
            link[from] = to
            if (from ~ /\/exe$/) pids[++n] = substr(from, 1, length(from) - 4)
        }
        END {
            for (i = 1; i <= n; i++) {
                p = pids[i]; kind = "foreign"
                if (link[p "/ns/mnt"] != "" && link[p "/ns/mnt"] == link["self/ns/mnt"]) kind = "same"
                else if (link[p "/ns/user"] != "" && link[p "/ns/user"] == link["self/ns/user"]) kind = "other"
                print "exe", p, kind, link[p "/exe"]
            }
        }'
)
if [ -n "$exes" ]; then
    printf '%s\n' "$exes"
    files=$(printf '%s\n' "$exes" | awk '$3 != "foreign" {
        path = $0; sub(/^[^ ]+ [^ ]+ [^ ]+ /, "", path); sub(/ \(deleted\)$/, "", path)
        if (path !~ /^\/(usr|bin|sbin|lib[0-9a-z]*|opt|snap|nix|gnu)\//) next
        before = $3 == "other" ? "/proc/" $2 "/root" : ""
        print "/proc/" $2 "/exe"
        while (path != "") {
            if (!((before, path) in had)) print before path
            had[before, path]; sub(/\/[^\/]*$/, "", path)
        }
        if (!(before in top)) print before "/."
        top[before]
    }')
    (
        IFS=$nl; set -f
        # shellcheck disable=SC2046  # split into words
        set -- $(printf '%s\n' "$files" | grep '^/proc/[0-9]*/exe$')
        [ $# = 0 ] || briefly stat -L -c 'inode %d:%i %u %f %h %n' "$@" 2>/dev/null
        # shellcheck disable=SC2046  # split into words
        set -- $(printf '%s\n' "$files" | grep -v '^/proc/[0-9]*/exe$')
        [ $# = 0 ] || briefly stat -c 'file %d:%i %u %f %h %n' "$@" 2>/dev/null
        :  # one that has ended meanwhile is no fault
    )
fi
