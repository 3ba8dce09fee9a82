LC_ALL=C; export LC_ALL
nl='
'
IFS=' ' read -r me rest </proc/self/stat || { echo '/proc cannot be read' >&2; exit 3; }
IFS=' ' read -r up rest </proc/uptime || up=-
walk() { printf '%s\n' /proc/[0-9]* | awk '
BEGIN { id = "[0-9a-f]"; while (length(id) < 512) id = id id }  # of a container: 64 digits
{
    d = $0
    f = d "/stat"; s = ""; n = 0
    while ((getline l < f) > 0) s = n++ ? s "\001" l : l
    close(f)
    cut = 0; t = s
    while ((k = index(t, ") ")) > 0) { cut += k + 1; t = substr(t, k + 2) }
    if (!cut || split(t, v, " ") < 20 || int(v[7] / 2097152) % 2) next
    u = c = "-"
    f = d "/status"
    while ((getline l < f) > 0) if (l ~ /^Uid:/) { split(l, w); u = w[2] ? w[2] : w[3]; break }
    close(f)
    f = d "/cgroup"; best = 0
    while ((getline l < f) > 0) {  # version 1 has a line for each controller: a container or a job tells most
        g = l ~ /\/job_[0-9]|\/lxc[.\/]|\/machine-/ || l ~ id ? 3 : l ~ /\.service/ ? 2 : l ~ /\.scope/
        if (g > best || g == 3) {
            best = g; c = substr(l, index(l, "/")); gsub(/ /, "_", c)
            if (length(c) > 1000) c = substr(c, 1, 500) "/.../" substr(c, length(c) - 499)
        }
    }
    close(f)
    used[u]
    a = index(s, "(")
    print "p", substr(d, 7), v[1], v[2], v[3], v[5] ? v[4] "." v[5] : 0, v[18], v[20], u, c, substr(s, a + 1, cut - a - 2)
}
END {
    while ((getline l < "/etc/passwd") > 0) {
        split(l, w, ":")
        if (w[3] in used) { print "u", w[3], w[1]; delete used[w[3]] }
    }
}'; }
try=0
until rows=$(walk 2>/dev/null); do
    try=$((try + 1)); [ "$try" -lt 20 ] || { walk >/dev/null; exit 3; }
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
uid=$(id -u)
printf 'self %s %s %s %s %s\n' "$me" "$$" "$uid" "$up" "$hide"
