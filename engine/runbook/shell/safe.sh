# The safe ways to work in directories of a host that other people use, too (law 9).
#
# A directory is safe when nobody but root and the user that runs this can rename, replace or remove what is on the way
# to it or in it: root or we own it and every directory above it, none of them can be written to by other groups or by
# everybody (an ACL shows as the group's permission), and every symbolic link on the way lies in such a directory. A
# directory with the sticky bit (/tmp) may be on the way, and private directories may be made in it; what lies in it
# counts only where root or we own it.
#
# What fails returns 1 and sets `why` to a sentence for people, and `owner` to the user to become instead, if known.

unset CDPATH
why='' owner='' shared=no uid='' gid='' links=''
safe_me=$(id -u)
case $safe_me in '' | *[!0-9]*) echo 'id does not say who this user is' >&2; exit 3 ;; esac
safe_outside='' # in a user namespace, the number that stands for everybody outside of it: also for the owner of /
if [ -r /proc/self/uid_map ]; then
    IFS=' ' read -r safe_first safe_base safe_count </proc/self/uid_map
    [ "${safe_first:-0} ${safe_base:-0} ${safe_count:-4294967295}" = '0 0 4294967295' ] ||
        safe_outside=$(cat /proc/sys/kernel/overflowuid 2>/dev/null) # a shell that reads byte by byte gets one digit
fi

safe_random() { # 16 hexadecimal digits that nobody can guess
    od -An -N8 -tx1 /dev/urandom | tr -dc 0-9a-f
}

safe_stat() { # path: sets mode (as ls shows it), links, uid and gid of what is there, never of what a link leads to
    safe_line=$(ls -ldn -- "$1" 2>/dev/null) || return 1
    mode=${safe_line%% *} safe_line=${safe_line#* }
    for safe_field in links uid gid; do
        while case $safe_line in ' '*) true ;; *) false ;; esac; do safe_line=${safe_line# }; done
        safe_word=${safe_line%% *} safe_line=${safe_line#* }
        case $safe_word in '' | *[!0-9]*) return 1 ;; esac
        eval "$safe_field=\$safe_word"
    done
}

safe_ours() { # uid: whether that is root or this user
    case $1 in 0 | "$safe_me") return 0 ;; esac
    [ -n "$safe_outside" ] && [ "$1" = "$safe_outside" ]
}

safe_belongs() { # path, uid, words: refuses what belongs to somebody else
    owner=$(id -un "$2" 2>/dev/null) && [ -n "$owner" ] || # that of busybox wants a name
        owner=$(sed -n "s/^\([^:]*\):[^:]*:$2:.*/\1/p" /etc/passwd 2>/dev/null | sed 1q) && [ -n "$owner" ] || owner=$2
    why="$1 belongs to $owner, $3"
}

safe_directory() { # path, after safe_stat of it: whether only we can change what is in it; sets shared
    shared=no
    safe_ours "$uid" || { safe_belongs "$1" "$uid" 'who could exchange what is in it meanwhile'; return 1; }
    case $mode in
        ????????w*) safe_writers=everybody safe_mend=go-w ;;
        ?????w*) safe_writers="others (group $gid, or an ACL)" safe_mend=g-w ;;
        *) return 0 ;;
    esac
    case $mode in ?????????[tT]*) shared=yes; return 0 ;; esac
    why="$safe_writers can write to $1, and exchange what is in it meanwhile: \`chmod $safe_mend $1\`"
    return 1
}

safe_resolve() { # path, absolute, `last` to follow also the last name where that is a link: sets real to where it leads
    # The last name may be missing (kind is then absent) and may be anybody's, unless it lies in a shared directory.
    why='' owner='' real='' kind=directory safe_left=$1 safe_hops=0
    case $1 in
        /*) ;;
        *) why="$1 is not an absolute path"; return 1 ;;
    esac
    safe_step / || return 1
    while :; do
        while case $safe_left in /*) true ;; *) false ;; esac; do safe_left=${safe_left#/}; done
        [ -n "$safe_left" ] || break
        safe_next=${safe_left%%/*}
        case $safe_left in */*) safe_left=${safe_left#*/} ;; *) safe_left='' ;; esac
        safe_end=$safe_left
        while case $safe_end in /*) true ;; *) false ;; esac; do safe_end=${safe_end#/}; done
        case $safe_next in
            .) continue ;;
            ..) real=${real%/*}; safe_step "${real:-/}" || return 1; continue ;;
        esac
        if ! safe_stat "$real/$safe_next"; then
            [ -z "$safe_end" ] || { why="there is no directory $real/$safe_next"; return 1; }
            real=$real/$safe_next kind=absent
            return 0
        fi
        if [ "$shared" = yes ] && ! safe_ours "$uid"; then
            safe_belongs "$real/$safe_next" "$uid" 'who could exchange it meanwhile'
            return 1
        fi
        case $shared:$mode in
            yes:[!d]*)
                [ "$links" -le 1 ] || {
                    why="$real/$safe_next has $links names (hard links), and anybody may have made one of them"
                    return 1
                }
                ;;
        esac
        case $mode in
            l*)
                [ -n "$safe_end" ] || [ "${2-}" = last ] || { real=$real/$safe_next kind=link; return 0; }
                safe_follow "$1" || return 1
                continue
                ;;
        esac
        real=$real/$safe_next
        case $mode in
            d*) [ -n "$safe_end" ] || { kind=directory; return 0; }; safe_directory "$real" || return 1 ;;
            *)
                [ -z "$safe_end" ] || { why="$real is not a directory"; return 1; }
                case $mode in -*) kind='file' ;; *) kind=other ;; esac
                return 0
                ;;
        esac
    done
    real=${real:-/}
}

safe_step() { # directory: whether it is safe
    safe_stat "$1" || { why="$1 cannot be inspected"; return 1; }
    safe_directory "$1"
}

safe_follow() { # path: goes on, in safe_resolve, with what the link $real/$safe_next leads to
    safe_hops=$((safe_hops + 1))
    [ "$safe_hops" -le 20 ] || { why="$1 leads through too many symbolic links"; return 1; }
    safe_link=$(readlink -- "$real/$safe_next" && echo x) || safe_link=''
    safe_link=${safe_link%?x}
    case $safe_link in
        '') why="$real/$safe_next is a symbolic link that cannot be followed"; return 1 ;;
        /*) real='' ;;
    esac
    safe_left=$safe_link/$safe_left
    safe_step "${real:-/}"
}

safe_enter() { # directory, absolute: goes there, where it is safe to work with names relative to it
    safe_resolve "$1" last || return 1
    [ "$kind" = directory ] || { why="there is no directory $1"; return 1; }
    safe_step "$real" || return 1
    cd -P -- "$real" 2>/dev/null || { why="$real may not be entered by $(id -un)"; return 1; }
}

safe_beside() { # path, absolute, and as in safe_resolve: goes to the directory that it lies in; sets name and kind
    safe_resolve "$@" || return 1
    name=${real##*/} safe_dir=${real%/*} safe_kind=$kind safe_real=$real
    [ -n "$name" ] || { why="$1 is the root of the file system"; return 1; }
    safe_enter "${safe_dir:-/}" || return 1
    kind=$safe_kind real=$safe_real
}

safe_make() { # name, mode: makes that directory in the current one; fails where anything of that name is there
    why=$(mkdir -m "${2:-755}" -- "./$1" 2>&1) || return 1
    if safe_stat "./$1" && [ "$uid" = "$safe_me" ]; then return 0; fi
    safe_belongs "$1" "${uid:-nobody}" 'although it was just made: this file system takes us for that user'
    rmdir -- "./$1" 2>/dev/null
    return 1
}

safe_make_all() { # directory, absolute, mode: makes what is missing of it, then goes there
    safe_up=$1 safe_down=''
    case $1/ in */../*) why="$1 leads upwards"; return 1 ;; esac
    while [ -n "${safe_up%/}" ] && [ ! -e "$safe_up" ] && [ ! -L "$safe_up" ]; do
        safe_up=${safe_up%/}
        safe_down=${safe_up##*/}${safe_down:+/$safe_down}
        safe_up=${safe_up%/*}
    done
    safe_enter "${safe_up:-/}" || return 1
    while [ -n "$safe_down" ]; do
        safe_next=${safe_down%%/*}
        case $safe_down in */*) safe_down=${safe_down#*/} ;; *) safe_down='' ;; esac
        case $safe_next in '' | .) continue ;; esac
        safe_make "$safe_next" "${2-}" || return 1
        cd -P -- "./$safe_next" || { why="$safe_next may not be entered"; return 1; }
        shared=no
    done
}

safe_process() { # pid, or self: sets safe_pid, _parent, _group and _start; fails where there is none, or only a dead one
    read_stat "$1" || return 1
    safe_pid=${stat_text%% *}
    # shellcheck disable=SC2086 # the fields behind the name are a letter and numbers
    set -- ${stat_text##*) }
    case $1 in [ZXx]) return 1 ;; esac
    # shellcheck disable=SC2034 # parent and group are for the scripts behind this
    safe_parent=$2 safe_group=$3 safe_start=${20}
}

safe_lives() { # pid, start: whether that process lives; also where that cannot be seen at all
    [ -r /proc/self/stat ] || return 0
    safe_process "$1" && [ "$safe_start" = "$2" ]
}

safe_where() { # sets safe_realm to the boot and the process namespace that process ids count in here, as far as known
    safe_realm='' safe_word=$(readlink /proc/self/ns/pid 2>/dev/null | tr -dc 0-9)
    { IFS= read -r safe_realm </proc/sys/kernel/random/boot_id; } 2>/dev/null || safe_realm=''
    safe_realm=${safe_realm%%-*}${safe_realm##*-} # 20 digits of 32 are enough to distinguish boots
    [ -n "$safe_realm" ] && [ -n "$safe_word" ] || safe_realm=0 safe_word=0
    safe_realm=$safe_realm-$safe_word
}

safe_workshop() { # makes a directory in the current one that only we can look into; sets work to its name
    safe_where
    safe_process self || safe_pid=0 safe_start=0
    work=.runbook-$safe_realm-$safe_pid-$safe_start-$(safe_random)
    safe_make "$work" 700 || { work=''; return 1; }
}

safe_tidy() { # removes from the current directory the workshops of ours whose makers are dead, with what is in them
    # Whether a maker of another boot or namespace (a container, another host of a shared file system) lives cannot be
    # seen from here: what it left goes when nothing was made or removed in it for a day.
    safe_where
    for safe_one in ./.runbook-*-*-*-*-*; do
        safe_maker=${safe_one#./.runbook-}
        case $safe_maker in *[!0-9a-f-]* | *-*-*-*-*-* | -* | *--* | *-) continue ;; esac
        safe_stat "$safe_one" || continue
        case $uid-${mode%.} in "$safe_me-drwx------") ;; *) continue ;; esac
        safe_maker=${safe_maker%-*}
        case $safe_maker in
            0-* | *-0-0) ;;
            "$safe_realm"-*)
                safe_maker=${safe_maker#"$safe_realm-"}
                safe_lives "${safe_maker%-*}" "${safe_maker#*-}" || rm -rf -- "$safe_one" 2>/dev/null
                continue
                ;;
        esac
        [ -z "$(find "$safe_one" -prune -mmin +1440 2>/dev/null)" ] || rm -rf -- "$safe_one" 2>/dev/null
    done
    return 0
}

safe_put() { # path, name: moves what lies at the relative path to that name of the current directory, in one stroke
    if why=$(mv -fT -- "$1" "./$2" 2>&1); then return 0; fi
    case $why in *option*) ;; *) return 1 ;; esac # an mv without -T would go into a directory of that name
    [ "$shared" = no ] || { why="mv of this host knows no -T, and ${why%%:*} is not safe without it"; return 1; }
    [ ! -d "./$2" ] || { why="$2 is a directory"; return 1; }
    why=$(mv -f -- "$1" "./$2" 2>&1)
}
