LC_ALL=C; export LC_ALL
[ -r /proc/meminfo ] || { echo '/proc/meminfo cannot be read' >&2; exit 3; }
page=$(sed -n 's/^KernelPageSize: *\([0-9]*\) kB.*/\1/p;/^KernelPageSize/q' /proc/self/smaps 2>/dev/null)
walk() { printf '%s\n' /proc/[0-9]* | awk -v page="${page:-4}" '{
    f = $0 "/stat"; text = ""
    while ((getline l < f) > 0) text = text == "" ? l : text " " l
    close(f)
    at = 0
    while (k = index(substr(text, at + 1), ")")) at += k
    if (!at) next
    name = substr(text, index(text, "(") + 1, at - index(text, "(") - 1)
    split(substr(text, at + 2), w, " ")
    if (w[22] > 0) print w[22] * page, substr($0, 7), w[20], name
}'; }
n=0
while :; do
    read -r up rest </proc/uptime
    echo "sample $up"
    sed -n 's/^\(MemTotal\|MemAvailable\): *\([0-9]*\) kB.*/mem \1 \2/p' /proc/meminfo
    try=0
    until rows=$(walk 2>/dev/null); do  # a process that ends while it is being read makes some awks give up
        try=$((try + 1)); [ "$try" -lt 20 ] || { walk >/dev/null; exit 3; }
    done
    printf '%s\n' "$rows" | sort -rn |
        awk -v most="$3" 'NR <= most { print "held " $0 } END { if (NR > most) print "more" }'
    n=$((n + 1))
    [ $n -lt "$1" ] || exit 0
    sleep "$2"
done
