"""The sh text that finds who has given files open, on any host: it needs neither fuser nor lsof."""

from __future__ import annotations

HOLDERS = r"""
nodes= names=
add() {  # a file, and whether it was asked for
    case $1 in *[[:cntrl:]]*) return ;; esac
    if [ -d "$1" ]; then
        case $1 in /dev/*) for f in "$1"/*; do [ ! -c "$f" ] || add "$f" "$2"; done ;; esac
        return
    fi
    [ -e "$1" ] || return
    if [ -S "$1" ]; then echo "socket $1"; return; fi
    case $nl$nodes in *"$nl$1$nl"*) ;; *) nodes=$nodes$1$nl ;; esac
    [ -z "$2" ] || echo "asked $1"
    names=$names${1##*/}$nl
    if [ -h "$1" ]; then f=$(readlink -f "$1"); names=$names${f##*/}$nl; fi
}
IFS=
for glob; do for node in $glob; do add "$node" asked; done; done
for node in /dev/nvidia*; do add "$node" ''; done
[ -n "$nodes" ] || { echo 'walked none'; exit 0; }
deep=
IFS=$nl
case $rows in *' Z '*)  # a thread that outlives the first one keeps its files open
    for row in $rows; do
        IFS=' '; set -- $row; IFS=$nl
        case $1.$3.$7 in p.Z.[01]) ;; p.Z.*) deep="$deep$(echo /proc/$2/task/[0-9]*/fd | tr ' ' '\n')$nl" ;; esac
    done
esac
q=q; ls -q / >/dev/null 2>&1 || q=
found=$(names=$names; export names; ls -ln$q /proc/self/fd /proc/[0-9]*/fd $deep 2>/dev/null | awk '
    function over() {
        if (at == "" || at ~ /self/) return
        split(at, w, "/")
        if (some && !links) blind = blind " " w[3]; else seen = seen " " w[3]
    }
    BEGIN { n = split(ENVIRON["names"], w, "\n"); for (i = 1; i <= n; i++) known[w[i]] }
    /^\/proc\/[0-9a-z\/]+\/fd:$/ { over(); at = substr($0, 1, length($0) - 1); some = links = 0; next }
    /^l/ {
        some++
        k = index($0, " -> "); if (!k) next
        links++
        to = substr($0, k + 4); sub(/ \(deleted\)$/, "", to)
        base = to; sub(/.*\//, "", base)
        if (!(base in known) && (to !~ /^\/dev\// || to ~ dull)) next
        if ((at, to) in done || at ~ /self/) next
        done[at, to]
        from = substr($0, 1, k - 1); sub(/.* /, "", from)
        print at "/" from
    }
    END { over(); print "seen" seen; print "blind" blind }
' dull='^/dev/(null|zero|full|u?random|tty.*|pts/.*|ptmx|console|shm/.*|mqueue/.*|fuse|kvm|kmsg|net/.*|infiniband/.*)$')
printf '%s\n' "$found" | grep -v '^/'
open=$(printf '%s\n' "$found" | grep '^/')
held=$(
    set -f
    { stat -L -c '%f %d %i %t %T %n' $nodes $open 2>/dev/null; [ $? -lt 2 ] || echo fault; } | awk '
        $1 == "fault" { print; next }
        {
            kind = substr($1, 1, length($1) - 3)
            key = kind == "2" || kind == "6" ? kind ":" $4 ":" $5 : "i:" $2 ":" $3
            name = $0; sub(/^[^ ]+ [^ ]+ [^ ]+ [^ ]+ [^ ]+ /, "", name)
        }
        name !~ /^\/proc\// { known[key]; print "node", key, $2, $3, name; next }
        key in known {
            split(name, w, "/")
            if (!((w[3], key) in done)) { done[w[3], key]; print "holds", w[3], key }
        }
    '
)
printf '%s\n' "$held"
listed=${found##*"${nl}seen"}; listed=" ${listed%%"$nl"*} "; listed=${listed#" seen"}
for row in $rows; do  # a process that has ended meanwhile is no riddle
    case $row in 'p '*) pid=${row#p }; pid=${pid%% *} ;; *) continue ;; esac
    case $listed in *" $pid "*) continue ;; esac
    line='Z '; { IFS= read -r line <"/proc/$pid/stat"; } 2>/dev/null
    case ${line##*) } in [ZX]*) echo "over $pid" ;; esac
done
mapped=$(timeout 5 grep -lsF -- "${nodes%"$nl"}" /proc/[0-9]*/maps)
for file in $mapped; do
    pid=${file#/proc/}; pid=${pid%/maps}
    case $nl$held in *"${nl}holds $pid "*) continue ;; esac
    timeout 5 grep -F -- "${nodes%"$nl"}" "$file" | awk -v p="$pid" '{ print "maps", p, $4, $5 }' | sort -u
done
echo "walked $me"
"""
"""Goes after ``PROCESSES``; ``$1`` ... are globs.  Lines:

``asked`` and ``node`` (key, device, inode, path): the files; ``holds`` (pid, key): what is open; ``maps`` (pid,
device, inode): what is only mapped; ``seen`` and ``blind``: the pids whose files could be looked at, or not;
``over``: a pid whose process ended during the walk; ``socket``: a file that this cannot be told of.

The link of an open file gives its name without touching its file system, which may hang; only what bears the name
of one of the nodes, or lies in /dev, is then followed to its device number, which tells for certain: in a container
a node may have any path.  ``ls`` writes a newline in a name as ``?``.
"""
