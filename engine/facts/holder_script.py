"""The sh text that finds who has given files open, on any host: it needs neither fuser nor lsof."""

from __future__ import annotations

NODES = r"""
nodes= linked= plain= pins=
forged() {  # path: whether a link on the way to it lies where another user may put one; sets at to where it leads, and
            # theirs to yes where another user may exchange what is on the way there
    left=$1 at= links=0 theirs=
    while [ -n "$left" ]; do
        left=${left#/}; one=${left%%/*}
        case $left in */*) left=/${left#*/} ;; *) left= ;; esac
        case $one in ''|.) continue ;; ..) at=${at%/*}; continue ;; esac
        case $(stat -c '%u %A' "${at:-/}/.") in
            "0 d"????-??-?|"$uid d"????-??-?) ;;
            "0 d"????????[tT]|"$uid d"????????[tT])  # there only its owner can exchange an entry
                case $(stat -c %u "$at/$one" 2>/dev/null) in 0|"$uid") ;; *) theirs=yes ;; esac
                ;;
            *) theirs=yes ;;
        esac
        if [ -h "$at/$one" ]; then
            [ -z "$theirs" ] || return 0
            links=$((links + 1)); [ "$links" -lt 40 ] || return 0
            to=$(readlink "$at/$one") || return 0
            case $to in /*) at= left=$to$left ;; *) left=/$to$left ;; esac
        else at=$at/$one
        fi
    done
    return 1
}
pinned() (  # path without links: what lies there, by a directory entered step by step; 1 where that leads elsewhere
    cd / || exit 1
    left=${1#/}
    while :; do
        one=${left%%/*}
        case $left in
            */*) left=${left#*/} ;;
            *) stat -c '%f %d %i %t %T' "./$one"; missed $?; exit 0 ;;
        esac
        was=$(stat -c '%d:%i' "./$one"); missed $?
        cd -P "./$one" && [ "$(stat -c '%d:%i' .)" = "$was" ] || exit 1
    done 2>/dev/null
)
missed() {  # the exit code of stat: tells what that means
    case $1 in 0) return ;; 1) echo absent ;; *) echo fault ;; esac
    exit 0
}
add() {  # a file, and whether it was asked for
    case $1 in *[[:cntrl:]]*) return ;; esac
    if [ -d "$1" ]; then
        case $1 in /dev/*) for f in "$1"/*; do [ ! -c "$f" ] || add "$f" "$2"; done ;; esac
        return
    fi
    if [ -n "$2" ] && forged "$1"; then echo "forged $1"; return; fi
    if [ -n "$2" ] && [ "$theirs" = yes ]; then
        pin=$(pinned "$at") || pin=a
        case $pin in
            absent|4*) ;;
            fault) echo fault ;;
            a*) echo "forged $1" ;;
            c*) echo "socket $1" ;;
            *) pins="$pins$pin $1$nl"; echo "asked $1" ;;
        esac
        return
    fi
    [ -e "$1" ] || return
    if [ -S "$1" ]; then echo "socket $1"; return; fi
    case $nl$nodes in
        *"$nl$1$nl"*) ;;
        *) nodes=$nodes$1$nl; if [ -h "$1" ]; then linked=$linked$1$nl; else plain=$plain$1$nl; fi ;;
    esac
    [ -z "$2" ] || echo "asked $1"
}
IFS=
for glob; do for node in $glob; do add "$node" asked; done; done
for node in /dev/nvidia*; do add "$node" ''; done
identified() {  # type, device, inode and numbers of each, with its path
    printf '%s' "$pins"
    for node in $plain; do stat -c '%f %d %i %t %T %n' "$node" 2>/dev/null; [ $? -lt 2 ] || echo fault; done
    for node in $linked; do stat -L -c '%f %d %i %t %T %n' "$node" 2>/dev/null; [ $? -lt 2 ] || echo fault; done
}
"""
"""Goes after ``PROCESSES``; ``$1`` ... are globs: finds the files that are meant."""

HOLDERS = (
    NODES
    + r"""
[ -n "$nodes$pins" ] || { echo 'walked none'; exit 0; }
deep=
IFS=$nl
case $rows in *' Z '*)  # a thread that outlives the first one keeps its files open
    for row in $rows; do
        IFS=' '; set -- $row; IFS=$nl
        case $1.$3.$7 in p.Z.[01]) ;; p.Z.*) deep="$deep$(echo /proc/$2/task/[0-9]*/fd | tr ' ' '\n')$nl" ;; esac
    done
esac
q=q; ls -q / >/dev/null 2>&1 || q=
found=$(ls -ln$q /proc/self/fd /proc/[0-9]*/fd $deep 2>/dev/null | awk '
    function over() {
        if (at == "" || at ~ /self/) return
        split(at, w, "/")
        if (some && !links) blind = blind " " w[3]; else seen = seen " " w[3]
    }
    BEGIN {
        while ((getline l < "/proc/self/mountinfo") > 0) {
            n = split(l, w, " "); kind = l; sub(/.* - /, "", kind)
            if (kind ~ /^(nfs|cifs|smb|fuse|9p|ceph|afs|gluster|lustre|gpfs|beegfs|orangefs|ocfs2|gfs2)/) {
                far[w[1]]; place[++places] = w[5] "/"
            }
        }
    }
    function far_away(at, from, to,    i, l) {  # whether it lies on a file system that may hang, and holds no devices
        for (i = 1; i <= places; i++) if (index(to, place[i]) == 1) break
        if (i > places) return 0
        at = substr(at, 1, length(at) - 2) "fdinfo/" from; i = 0
        while ((getline l < at) > 0) if (l ~ /^mnt_id:/) { sub(/^mnt_id:[ \t]*/, "", l); i = l in far }
        close(at)
        return i
    }
    /^\/proc\/[0-9a-z\/]+\/fd:$/ { over(); at = substr($0, 1, length($0) - 1); some = links = 0; next }
    /^l/ {
        some++
        k = index($0, " -> "); if (!k) next
        links++
        to = substr($0, k + 4)
        if (to !~ /^\// || at ~ /self/ || to ~ /^\/memfd:/) next
        from = substr($0, 1, k - 1); sub(/.* /, "", from)
        if (!far_away(at, from, to)) print at "/" from
    }
    END { over(); print "seen" seen; print "blind" blind }
')
printf '%s\n' "$found" | grep -v '^/'
open=$(printf '%s\n' "$found" | grep '^/')
held=$(
    set -f
    {
        printf 'open %s\n' $open
        identified
        printf '%s\n' $open | briefly "$xargs" -n 1000 stat -L -c '%f %d %i %t %T %n' 2>/dev/null
        case $? in 0|1|123) ;; 124|137|143) echo late ;; *) echo fault ;; esac
    } | awk '
        $1 == "fault" { print; next }
        $1 == "open" { if ($2 != "") want[++wants] = $2; next }
        $1 == "late" { late = 1; next }
        {
            kind = substr($1, 1, length($1) - 3)
            key = kind == "2" || kind == "6" ? kind ":" $4 ":" $5 : "i:" $2 ":" $3
            name = $0; sub(/^[^ ]+ [^ ]+ [^ ]+ [^ ]+ [^ ]+ /, "", name)
        }
        { told[name] }
        name !~ /^\/proc\// { known[key]; print "node", key, $2, $3, name; next }
        key in known {
            split(name, w, "/")
            if (!((w[3], key) in done)) { done[w[3], key]; print "holds", w[3], key }
        }
        END {
            if (!late) exit
            for (i = 1; i <= wants; i++) {
                split(want[i], w, "/")
                if (!(want[i] in told || w[3] in unsure)) { unsure[w[3]]; print "unsure", w[3] }
            }
        }
    '
)
printf '%s\n' "$held"
if printf '%s\n' "$told" | grep -q '^left '; then  # a holder is told of whatever its user has left out
    printf '%s\n' "$held" - "$rows" | awk '
        past { if ($1 == "p" && ($2 in holds)) print; next }
        $0 == "-" { past = 1; next }
        $1 == "holds" { holds[$2] }
    '
fi
listed=$(printf '%s\n' "$found" | sed -n 's/^seen//p')
missed=$(printf '%s\n' "$listed" - "$rows" | awk '
    past { if ($1 == "p" && !($2 in had)) print $2; next }
    $0 == "-" { past = 1; next }
    { for (i = 1; i <= NF; i++) had[$i] }
')
for pid in $missed; do  # a process that has ended meanwhile is no riddle
    line='Z '; { IFS= read -r line <"/proc/$pid/stat"; } 2>/dev/null
    case ${line##*) } in [ZX]*) echo "over $pid" ;; esac
done
marks=$(printf '%s\n' "$held" | awk '$1 == "node" {
    printf "%02x:%02x %s \n", int($3 / 256) % 4096, $3 % 256 + int($3 / 1048576) * 256, $4
}' | sort -u)
mapped=; [ -z "$marks" ] || mapped=$(timeout 5 grep -lsF -- "$marks" /proc/[0-9]*/maps)
for file in $mapped; do
    pid=${file#/proc/}; pid=${pid%/maps}
    case $nl$held in *"${nl}holds $pid "*) continue ;; esac
    timeout 5 grep -F -- "$marks" "$file" | awk -v p="$pid" '{ print "maps", p, $4, $5 }' | sort -u
done
echo "walked $me"
"""
)
"""Goes after ``PROCESSES``; ``$1`` ... are globs.  Lines:

``asked`` and ``node`` (key, device, inode, path): the files; ``holds`` (pid, key): what is open; ``maps`` (pid,
device, inode): what is only mapped; ``seen`` and ``blind``: the pids whose files could be looked at, or not;
``over``: a pid whose process ended during the walk; ``socket``: a file that this cannot be told of; ``forged``: a path
with a link that another user may change.

Every open file is followed to its device number, or inode, which tells for certain: a node may have any path, and a
path may be anything in a mount namespace of a user's own. Left out is only what lies on a file system over the network
(by the number of its mount), which may hang, and where no user makes devices; the rest has a time limit, and the
processes which that cuts off are ``unsure``.  ``ls`` writes a newline in a name as ``?``.
"""
