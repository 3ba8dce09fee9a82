# The safe way to read a file where other users of the host may exchange what is on the way to it (law 9); behind SAFE.
#
# The way is gone step by step, so that nobody can exchange what was checked. Symbolic links are followed, `latest.log`
# is one, but a link that another user may have made leads only to what that user, or everybody, may read.

view_dir=''

view_find() { # path, absolute: goes to the directory of the regular file that it leads to; sets name, uid and exposed
    # Fails where it leads to no regular file, or where it must not be followed: why and owner are as in safe.sh.
    why='' owner=''
    case $1 in
        /*) ;;
        *) why="$1 is not an absolute path"; return 1 ;;
    esac
    if [ -n "$view_dir" ] && [ "${1%/*}" = "$view_dir" ]; then # still there: only the name is new
        view_left=${1##*/} here=$view_here shared=$view_shared exposed=$view_exposed makers=$view_dir_makers
        by=$view_by by_owner=$view_by_owner
    else
        view_dir='' view_left=$1 here='' shared=no exposed=no makers='' by='' by_owner=''
        view_root || return 1
    fi
    view_hops=0 view_asked=$1
    while :; do
        while case $view_left in /*) true ;; *) false ;; esac; do view_left=${view_left#/}; done
        name=${view_left%%/*}
        case $view_left in */*) view_left=${view_left#*/} ;; *) view_left='' ;; esac
        case $name in
            '') why="$1 is not a regular file"; return 1 ;;
            .) continue ;;
            ..) here=${here%/*}; view_enter .. || return 1; continue ;;
        esac
        if [ -z "$view_left" ] && [ "$view_hops" = 0 ]; then
            view_dir=${1%/*} view_here=$here view_shared=$shared view_exposed=$exposed view_dir_makers=$makers
            view_by=$by view_by_owner=$by_owner
        fi
        safe_stat "./$name" || { why="there is no $here/$name, or it cannot be inspected"; return 1; }
        if [ "$shared" = yes ] && ! safe_ours "$uid"; then
            safe_belongs "$here/$name" "$uid" 'who could exchange it meanwhile'
            view_exposed
        fi
        case $shared:$mode:$links in
            yes:-*:1) ;;
            yes:-*) # anybody may have made one of its names
                why="$here/$name has $links names (hard links)"
                view_exposed
                ;;
        esac
        case $mode in
            l*) view_follow || return 1 ;;
            d*) here=$here/$name; view_enter "./$name" || return 1 ;;
            -*)
                [ -z "$view_left" ] || { why="$here/$name is not a directory"; return 1; }
                view_permitted
                return
                ;;
            *) why="$here/$name is not a regular file"; return 1 ;;
        esac
    done
}

view_exposed() { # remembers why others can exchange what comes now
    [ "$exposed" = yes ] || { by=$why by_owner=$owner; }
    exposed=yes why='' owner=''
}

view_root() {
    view_dir=''
    cd / || return 1
    safe_stat . || { why='/ cannot be inspected'; return 1; }
    safe_directory / || view_exposed
}

view_enter() { # ./name or .., of which `here` is the path: goes there, unless it has become another one
    view_dir=''
    cd -P -- "$1" 2>/dev/null || { why="$here may not be entered by $(id -un)"; return 1; }
    # by the kernel: bash makes it from names, which may have been exchanged twice meanwhile
    view_now=$(env pwd -P && echo x) && view_now=${view_now%?x}
    [ "$view_now" = "${here:-/}" ] || { why="$here leads elsewhere than a moment ago" owner=$by_owner; return 1; }
    safe_stat . || { why="$here cannot be inspected"; return 1; }
    safe_directory "${here:-/}" || view_exposed
}

view_follow() { # goes on with what the link $name leads to
    view_hops=$((view_hops + 1))
    [ "$view_hops" -le 20 ] || { why="$view_asked leads through too many symbolic links"; return 1; }
    [ "$exposed" = no ] || makers="$makers$uid "
    view_to=$(readlink -- "./$name" && echo x) || view_to=''
    view_to=${view_to%?x}
    case $view_to in
        '') why="$here/$name is a symbolic link that cannot be followed"; return 1 ;;
        /*) here=''; view_root || return 1 ;;
    esac
    view_left=$view_to/$view_left
    view_left=${view_left%/}
}

view_permitted() { # whether the regular file ./$name may be read for those who may have led us to it
    [ "$exposed" = yes ] || return 0
    owner=$by_owner
    if ! dd if=/dev/null iflag=nofollow,nonblock,skip_bytes 2>/dev/null; then
        why="$by, and the dd of this host cannot keep from following links"
        return 1
    fi
    view_uid=$uid view_makers=$makers
    while [ -n "$view_makers" ]; do
        view_maker=${view_makers%% *} view_makers=${view_makers#* }
        [ "$view_maker" != "$view_uid" ] || continue
        if view_public; then return 0; fi
        safe_belongs "$name" "$view_maker" '' # sets owner
        why="$view_asked is a symbolic link of $owner's to $here/$name, which not everybody may read"
        return 1
    done
    [ "$links" -gt 1 ] || return 0
    view_links=''
    { IFS= read -r view_links </proc/sys/fs/protected_hardlinks; } 2>/dev/null
    [ "$view_links" != 1 ] || return 0 # the kernel lets people link only what they may write to
    if view_public; then return 0; fi
    why="$here/$name has $links names (hard links), and not everybody may read it"
    return 1
}

view_public() ( # whether everybody may read ./$name, where it lies
    safe_stat "./$name" || exit 1
    case $mode in -??????r*) ;; *) exit 1 ;; esac
    while :; do
        safe_stat . || exit 1
        case $mode in d????????[xt]*) ;; *) exit 1 ;; esac
        # by the kernel: bash makes it from names, and says / where one of them leads elsewhere meanwhile
        view_now=$(env pwd -P && echo x) || exit 1
        [ "${view_now%?x}" != / ] || exit 0
        cd -P .. || exit 1
    done
)

view_size() { # bytes of the file that was found
    if [ "$exposed" = no ]; then wc -c <"./$name"; else stat -c %s "./$name"; fi
}

view_end() { # bytes, size of the file: the last ones, at most so many, of the file that was found
    if [ "$exposed" = no ]; then tail -c "$1" -- "./$name"; return; fi
    view_skip=$(($2 > $1 ? $2 - $1 : 0))
    dd if="./$name" iflag=nofollow,nonblock,skip_bytes bs=65536 count=$(($1 / 65536 + 1)) skip="$view_skip" 2>/dev/null
}

view_reason() { # why and owner in a line each, whatever names are in them
    printf '%s' "$why" | tr '\n' '?'
    printf '\n%s\n' "$owner"
}
