nodes='' linked='' plain='' pins='' sure='|'
forged() {  # path: whether a link on the way to it lies where another user may put one; sets at to where it leads, and
            # theirs to yes where another user may exchange what is on the way there
    left=$1 at='' links=0 theirs=
    while [ -n "$left" ]; do
        left=${left#/}; one=${left%%/*}
        case $left in */*) left=/${left#*/} ;; *) left= ;; esac
        case $one in ''|.) continue ;; ..) at=${at%/*}; continue ;; esac
        case $sure in *"|${at:-/}|"*) mode='0 drwxr-xr-x' ;; *) mode=$(stat -c '%u %A' "${at:-/}/.") ;; esac
        case $mode in
            "0 d"????-??-?) sure="$sure${at:-/}|" ;;  # only root could change that meanwhile
            "$uid d"????-??-?) ;;
            "0 d"????????[tT]|"$uid d"????????[tT])  # there only its owner can exchange an entry
                case $(stat -c %u "$at/$one" 2>/dev/null) in 0|"$uid") ;; *) theirs=yes ;; esac
                ;;
            *) theirs=yes ;;
        esac
        if [ -h "$at/$one" ]; then
            [ -z "$theirs" ] || return 0
            links=$((links + 1)); [ "$links" -lt 40 ] || return 0
            to=$(readlink "$at/$one") || return 0
            case $to in /*) at='' left=$to$left ;; *) left=/$to$left ;; esac
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
    printf '%s' "$pins" | sed 's/$/|/'
    for node in $plain; do stat -c '%f %d %i %t %T %n|' "$node" 2>/dev/null; [ $? -lt 2 ] || echo fault; done
    for node in $linked; do stat -L -c '%f %d %i %t %T %n|' "$node" 2>/dev/null; [ $? -lt 2 ] || echo fault; done
}
