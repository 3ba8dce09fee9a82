# Before root runs what an author's words name (law 9): $1 is the directory to run in, or empty, $2 directories in which
# programs and libraries are sought, $3 its PATH, or empty, $4 ... the program and its arguments.  Whatever may be run is
# checked, for no list of the options of all programs is complete: each word, and each part of one, that names a program,
# also in the directories that other words name; of an interpreter, a file that it may read as its program; and what the
# first line of a script names.  Fails, with the reason on stderr, where another user can exchange that, or change the
# directory; prints the names that were found.
newline='
'
refuse() {
    case $owner in
        '') ;;
        *[!0-9]*) owner=": give the step \`become: $owner\`" ;;
        *) owner='; the host has no name for that user: give the directory to root, or to a user with a name' ;;
    esac
    printf '%s%s\n' "$(printf %s "$why" | tr '\n' '?')" "$owner" >&2
    exit 1
}
place() { # path: sets at to it, from / on
    case $1 in /*) at=$1 ;; *) at=$from/$1 ;; esac
}
folder() { # directory: that nobody else can put a file there
    place "$1"
    safe_resolve "$at" last || refuse
    if [ "$kind" = directory ]; then safe_step "$real" || refuse; fi
    [ "$shared" = no ] || { why="others can put files in $real"; refuse; }
}
folders() { # directories, between colons, in which programs and libraries are sought
    left=$1:
    while [ -n "$left" ]; do
        dir=${left%%:*} left=${left#*:}
        if [ -n "$dir" ] && [ -d "$dir" ]; then folder "$dir"; fi
    done
}
program() { # path: that nobody else can put another one there
    place "$1"
    safe_resolve "$at" last || case $shared:$why in "no:there is no directory "*) return 0 ;; *) refuse ;; esac
    [ "$kind" != absent ] || [ "$shared" = no ] || { why="others can put a file there: $real"; refuse; }
    [ "$kind" = file ] || return 0
    safe_directory "$real" || refuse
    [ "$shared" = no ] || { why="others can write to $real"; refuse; } # a sticky bit protects no file
    first_line=$(head -c 256 -- "$real" 2>/dev/null | tr -d '\000')
    case $first_line in '#!'*) ;; *) return 0 ;; esac
    first_line=${first_line%%"$newline"*}
    scripts=$((scripts + 1))
    # shellcheck disable=SC2086  # its words
    (check ${first_line#??}) || exit 1
    scripts=$((scripts - 1))
}
named() { # name: the program that PATH has by it; fails where there is none
    left=$sought: found='' # not by `command -v`, which knows the shell's own functions and builtins first
    while [ -z "$found" ] && [ -n "$left" ]; do
        dir=${left%%:*} left=${left#*:}
        [ ! -f "$dir/$1" ] || [ ! -x "$dir/$1" ] || found=$dir/$1
    done
    [ -n "$found" ] || return 1
    program "$found"
}
file() { # path that a word may stand for: sets is_file where it is a file that may be run, which is checked
    place "$1"
    if [ -d "$at" ]; then
        [ -z "$is_changer" ] || folder "$at"
        case $newline$dirs in *"$newline$at$newline"*) ;; *) dirs=$dirs$at$newline ;; esac
    elif [ -f "$at" ]; then
        if [ -x "$at" ] || [ -n "$code" ] || [ -n "$is_code" ]; then program "$at"; is_file=yes; fi
    fi
}
path() { # word, or part of one: in the directory to run in, and in those that are named before it
    case $1 in /*) file "$1" ;; *) file "$from/$1" ;; esac
    others=$dirs
    while [ -n "$others" ]; do
        file "${others%%"$newline"*}/$1"
        others=${others#*"$newline"}
    done
}
parts() { # word: what may name a file, as a whole or in it: `NAME=FILE`, `-XFILE`, words between blanks
    case $1 in
        -* | *=*) ;;
        */*) path "$1" ;;
        *)
            path "$1"
            if named "$1"; then is_named=yes; fi
            return
            ;;
    esac
    case $1 in
        PATH=*) sought=${1#*=}; folders "$sought" ;;
        LD_LIBRARY_PATH=* | PYTHONPATH=* | PERL5LIB=* | RUBYLIB=* | NODE_PATH=*) folders "${1#*=}" ;;
    esac
    case $1 in *=*/*) path "${1#*=}" ;; esac
    case $1 in -*/*) path "/${1#*/}"; path "${1#-?}" ;; esac
    case $1 in *[[:blank:]]*) ;; *) return 0 ;; esac
    for part in $1; do
        case $part in -*/*) path "/${part#*/}" ;; */*) path "$part" ;; *) ! named "$part" || is_named=yes ;; esac
    done
}
is_one_of() { # word, patterns
    for pattern in $2; do
        # shellcheck disable=SC2254  # a pattern
        case $1 in $pattern) return 0 ;; esac
    done
    return 1
}
check() { # program and its arguments
    [ "$scripts" -lt 5 ] || { why="$real is a script for a script for a script"; refuse; }
    dirs='' is_changer='' code='' is_code='' files='' only='' here=yes before=''
    for word; do
        [ -n "$word" ] || continue
        ! is_one_of "$word" "$code" || return 0 # the text itself is the author's
        case $code,$word in ?*,-m) code=--no-text ;; esac # a module of Python's: the options behind it are its own
        if is_one_of "$before" "$files"; then is_code=yes; else is_code=''; fi
        [ -n "$only" ] && [ -z "$is_code" ] && { before=$word; continue; }
        is_named='' is_file='' is_program=''
        if [ -n "$here" ]; then # a program is expected: the first word, or behind one that runs another, and its options
            case ${before:+x}$word in x-* | x*=* | x[0-9]*) ;; *) is_program=yes ;; esac
        fi
        case $is_program$word in yes*/*) program "$word" ;; esac
        parts "$word"
        case $is_file:$before in yes:-*) ;; yes:*) [ -z "$code" ] || return 0 ;; esac # what is behind it is for that
        before=$word
        case ${word##*/} in
            perl*) code='-[eE] -[0acilnpsStTuUvwWX]*[eE]' here='' ;;
            ruby*) code='-e -[anplsSwW]*e' here='' ;;
            node | nodejs | deno | bun) code='-e -p -pe --eval --print' here='' ;;
            php*) code=-r here='' ;;
            lua* | tclsh* | expect | wish* | guile | julia | Rscript) code='-[ec]' here='' ;;
            java) code=-version here='' ;;
            python* | pypy* | sh | bash | dash | ash | ksh* | mksh | zsh | fish | csh | tcsh | rbash | rksh | yash)
                code='-c -[a-zA-Z]*c' here=''
                ;;
            env | sudo | runuser | su | chroot | unshare | nsenter | systemd-run | start-stop-daemon) is_changer=yes ;;
            make | gmake | gdb | m4 | bc | dc) files='-f -x --file --makefile --command' ;;
            *) [ -z "$is_named" ] || [ "$scripts" -gt 0 ] || printf '%s ' "$word" ;; # need not be checked again
        esac
        [ -z "$is_program" ] || case ${word##*/} in
            env | sudo | nice | nohup | setsid | stdbuf | ionice | timeout | time | taskset | busybox | toybox) ;;
            awk | gawk | mawk | nawk | sed) files='-f -[a-zA-Z]*f -E --file --exec' only=yes ;;
            '[' | test | base32 | base64 | basename | cat | chgrp | chmod | chown | cksum | cmp | comm | cp | cut | df | diff | \
                dirname | du | echo | file | fuser | getcap | getfacl | grep | head | journalctl | jq | ln | ls | lsattr | \
                lsof | md5sum | mkdir | mv | namei | nl | od | paste | pgrep | pkill | printf | ps | readlink | realpath | \
                rm | rmdir | sha*sum | stat | strings | tac | tail | touch | umount | uniq | wc | xxd)
                return 0 # what is named to these they do not run
                ;;
            find) case "$*" in *-exec* | *-ok*) here='' ;; *) return 0 ;; esac ;;
            sort) case "$*" in *--compress*) here='' ;; *) return 0 ;; esac ;;
            tar) case "$*" in *' --'* | *' -'*[IF]*) here='' ;; *) return 0 ;; esac ;;
            *) here='' ;;
        esac
    done
}
[ "$safe_me" = 0 ] || exit 0
set -f
cwd=$1 sought=${3:-$PATH} from=$(pwd -P) scripts=0
folders "$2"
if [ -n "$cwd" ]; then
    place "$cwd"; cwd=$at
    cd -- "$cwd" 2>/dev/null || exit 0 # that is shown when it is tried
    now=$(pwd -P)
    folder "$cwd"
    [ "$real" = "$now" ] || { why="$cwd leads elsewhere than a moment ago"; refuse; }
    from=$now
fi
shift 3
check "$@"
exit 0
