[ -n "$nodes$pins" ] || { echo 'walked none'; exit 0; }
places() {  # where the open files of every process are listed: `light` or `heavy`, and the directory
    printf '%s\n' "$rows" | awk -v own="$uid" -v most=@SLOTS@ '
        function owner(uid,    i) {
            for (i = 1; i <= ranges; i++) if (uid >= first[i] && uid < first[i] + long[i]) return whose[i]
            return uid
        }
        BEGIN {
            while ((getline l < "/etc/subuid") > 0) {
                split(l, w, ":"); whose[++ranges] = w[1]; first[ranges] = w[2] + 0; long[ranges] = w[3] + 0
            }
            while ((getline l < "/etc/passwd") > 0) { split(l, w, ":"); number[w[1]] = w[3] }
            for (i = 1; i <= ranges; i++) if (whose[i] in number) whose[i] = number[whose[i]]
        }
        $1 == "p" {
            file = "/proc/" $2 "/status"; size = 0
            while ((getline l < file) > 0) if (l ~ /^FDSize:/) { split(l, w); size = w[2]; break }
            close(file)
            pid[++n] = $2; who[n] = owner($9)
            slots[who[n]] += size
            if ($3 == "Z" && $7 > 1) deep[n]
        }
        END {
            for (i = 1; i <= n; i++) {
                free = who[i] == 0 || who[i] == own
                print (free || slots[who[i]] <= most ? "light" : "heavy"), "/proc/" pid[i] "/fd"
                if (i in deep) print (free ? "light" : "heavy"), "/proc/" pid[i] "/task"
            }
        }'
}
try=0
until dirs=$(places 2>/dev/null); do  # a process that ends meanwhile makes some awks give up
    try=$((try + 1)); [ "$try" -lt 20 ] || { echo fault; break; }
done
of() {  # light or heavy: those directories; a thread that outlives the first one keeps its files open
    printf '%s\n' "$dirs" | sed -n "s/^$1 //p" | while IFS= read -r dir; do
        case $dir in */task) for dir in "$dir"/[0-9]*/fd; do echo "$dir"; done ;; *) echo "$dir" ;; esac
    done
}
IFS=$nl
q=q; ls -q / >/dev/null 2>&1 || q=
found=$({
    of light | "$xargs" -n 500 ls -ln$q /proc/self/fd 2>/dev/null
    case $nl$dirs in *"${nl}heavy "*)  # anybody who has very many files open comes last, and has no more time than this
        of heavy | briefly "$xargs" -n 500 ls -ln$q /proc/self/fd 2>/dev/null
        case $? in 124|137|143)
            printf '\n%s\nlate\n' "$(printf '%s\n' "$dirs" | sed -n 's|^heavy /proc/\([0-9]*\)/task|unsure \1|p')" ;;
        esac
    esac
} | awk '
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
    /^late$/ { at = ""; exit }  # the list that was cut off is none; who still writes it (busybox) has nobody to read it
    /^unsure [0-9]+$/ { print; next }
    /^l/ && at != "" {
        some++
        k = index($0, " -> "); if (!k) next
        links++
        to = substr($0, k + 4)
        if (to !~ /^\// || at ~ /self/ || to ~ /^\/memfd:/) next
        from = substr($0, 1, k - 1); sub(/.* /, "", from)
        if (!far_away(at, from, to)) print at "/" from
    }
    END { over(); print "seen" seen; print "blind" blind }
' || echo fault)
printf '%s\n' "$found" | grep -v '^/'
open=$(printf '%s\n' "$found" | grep '^/')
held=$(
    set -f
    {
        printf 'open %s\n' $open
        identified
        printf '%s\n' $open | briefly "$xargs" -n 1000 stat -L -c '%f %d %i %t %T %n|' 2>/dev/null
        case $? in 0|1|123) ;; 124|137|143) printf '\nlate\n' ;; *) echo fault ;; esac
    } | awk '
        $1 == "fault" { print; next }
        $1 == "open" { if ($2 != "") want[++wants] = $2; next }
        $1 == "late" { late = 1; exit }
        !/[|]$/ { next }  # it was cut off
        {
            kind = substr($1, 1, length($1) - 3)
            key = kind == "2" || kind == "6" ? kind ":" $4 ":" $5 : "i:" $2 ":" $3
            name = $0; sub(/^[^ ]+ [^ ]+ [^ ]+ [^ ]+ [^ ]+ /, "", name); sub(/[|]$/, "", name)
        }
        { shown[name] }
        name !~ /^\/proc\// { known[key]; print "node", key, $2, $3, name; next }
        key in known {
            split(name, w, "/")
            if (!((w[3], key) in done)) { done[w[3], key]; print "holds", w[3], key }
        }
        END {
            if (!late) exit
            for (i = 1; i <= wants; i++) {
                split(want[i], w, "/")
                if (!(want[i] in shown || w[3] in unsure)) { unsure[w[3]]; print "unsure", w[3] }
            }
        }
    ' || echo fault
)
printf '%s\n' "$held"
if printf '%s\n' "$shown" | grep -q '^left '; then  # a holder is described as holding whatever its user has left out
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
mapping() {  # seconds; pids on stdin: the maps of those that have one of the files in their memory
    set -- "$1" "$xargs" -n 1000 grep -lsF -- "$marks"
    if [ -z "$limit" ]; then shift; else set -- timeout "$@"; fi
    sed 's|.*|/proc/&/maps|' | "$@"
    case $? in 124|137|143) return 1 ;; esac
}
groups() {  # the pids of each user on a line, who has fewest first
    printf '%s\n' "$rows" | awk -v own="$uid" '
        $1 == "p" { of[$9] = of[$9] " " $2; many[$9]++ }
        END { for (who in of) print (who == 0 || who == own ? 0 : many[who]), of[who] }
    ' | sort -n | cut -d ' ' -f 2-
}
mapped=
if [ -n "$marks" ] && ! mapped=$(printf '%s\n' "$rows" | sed -n 's/^p \([0-9]*\) .*/\1/p' | mapping 5); then
    mapped='' turn=0
    for group in $(groups); do  # there is not time enough for all: what one user maps must not hide what others do
        turn=$((turn + 1))
        if [ "$turn" -le 8 ] && more=$(printf '%s\n' "$group" | tr ' ' '\n' | grep . | mapping 1); then
            mapped=$mapped$nl$more
            continue
        fi
        printf '%s\n' "$group" | tr ' ' '\n' | sed -n 's/^[0-9]/unsure &/p'
    done
fi
for file in $mapped; do
    pid=${file#/proc/}; pid=${pid%/maps}
    case $nl$held in *"${nl}holds $pid "*) continue ;; esac
    timeout 5 grep -F -- "$marks" "$file" | awk -v p="$pid" '{ print "maps", p, $4, $5 }' | sort -u
done
echo "walked $me"
