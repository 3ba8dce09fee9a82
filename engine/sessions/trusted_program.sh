# Before root runs what an author's words name (law 9): $1 is the directory to run in, or empty, $2 directories in which
# programs and libraries are sought, $3 its PATH, or empty, $4 ... the program and its arguments.  Each word that is a program is looked at, by
# what really runs: the file that a name or a link leads to, and the interpreter that its first line names.  Fails, with
# the reason on stderr, where another user can exchange that, or change the directory; prints the names that were found.
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
program() { # path, number of scripts that have led to it: that nobody else can put another one there
    place "$1"
    safe_resolve "$at" last || case $shared:$why in "no:there is no directory "*) return 0 ;; *) refuse ;; esac
    [ "$kind" != absent ] || [ "$shared" = no ] || { why="others can put a file there: $real"; refuse; }
    [ "$kind" = file ] || return 0
    safe_directory "$real" || refuse
    [ "$shared" = no ] || { why="others can write to $real"; refuse; } # a sticky bit protects no file
    first_line=$(head -c 256 -- "$real" 2>/dev/null | tr -d '\000')
    case $first_line in '#!'*) ;; *) return 0 ;; esac
    [ "${2:-0}" -lt 4 ] || { why="$real is a script for a script for a script"; refuse; }
    first_line=${first_line%%"$newline"*}
    interpreter "$((${2:-0} + 1))" "${first_line#??}"
}
interpreter() { # number of scripts that have led here, what the first line of one says
    set -f
    # shellcheck disable=SC2086  # its words
    set -- "$1" $2
    [ $# -gt 1 ] || return 0
    program "$2" "$1"
    case ${2##*/} in env) ;; *) return 0 ;; esac
    scripts=$1
    shift 2
    while case ${1-} in -* | *=*) true ;; *) false ;; esac; do shift; done
    [ -z "${1-}" ] || named "$1" "$scripts" || return 0
}
named() { # name, number of scripts that have led to it: the program that PATH has by it; fails where there is none
    left=$sought: found='' # not by `command -v`, which knows the shell's own functions and builtins first
    while [ -z "$found" ] && [ -n "$left" ]; do
        dir=${left%%:*} left=${left#*:}
        [ ! -f "$dir/$1" ] || [ ! -x "$dir/$1" ] || found=$dir/$1
    done
    [ -n "$found" ] || return 1
    program "$found" "${2:-0}"
}
[ "$safe_me" = 0 ] || exit 0
cwd=$1 paths=$2 sought=${3:-$PATH} from=$(pwd -P); shift 3
if [ -n "$cwd" ]; then
    place "$cwd"; cwd=$at
    cd -- "$cwd" 2>/dev/null || exit 0 # that is shown when it is tried
    now=$(pwd -P)
    folder "$cwd"
    [ "$real" = "$now" ] || { why="$cwd leads elsewhere than a moment ago"; refuse; }
    from=$now
fi
while [ -n "$paths" ]; do
    one=${paths%%:*}
    case $paths in *:*) paths=${paths#*:} ;; *) paths='' ;; esac
    if [ -n "$one" ] && [ -d "$one" ]; then folder "$one"; fi
done
is_first=yes is_folder='' is_changer='' code=''
for word; do
    # shellcheck disable=SC2254  # a pattern
    case $word in '') continue ;; $code) exit 0 ;; esac # the text itself is the author's
    is_named=''
    if [ -n "$is_folder" ]; then
        folder "$word" # relative names behind it are sought there
        from=$real is_folder=''
        continue
    fi
    case $word in
        -C | -D | --chdir | --directory) [ -z "$is_changer" ] || is_folder=yes ;;
        --chdir=* | --directory=*) [ -z "$is_changer" ] || { folder "${word#*=}"; from=$real; } ;;
        -* | [A-Za-z_]*=*) ;;
        */*)
            is_changer=''
            place "$word"
            if [ -n "$is_first" ] || [ -x "$at" ] && [ ! -d "$at" ]; then program "$word"; fi
            if [ -n "$code" ] && [ -f "$at" ]; then program "$word"; exit 0; fi
            ;;
        *)
            is_changer=''
            if [ -n "$code" ] && [ -f "$from/$word" ]; then program "$word"; exit 0; fi
            if named "$word"; then is_named=yes; fi
            ;;
    esac
    is_first=''
    case ${word##*/} in
        env | sudo | runuser | chroot) is_changer=yes ;;
        perl* | ruby* | node | php* | lua*) code='-*[eEr]' ;;
        python* | pypy* | sh | bash | dash | ash | ksh | zsh | fish) code='-[cm]' ;;
        '[' | test | cat | chgrp | chmod | chown | cksum | cmp | cp | df | diff | du | echo | file | fuser | grep | head | ln | ls | lsof | \
            md5sum | mkdir | mv | pgrep | pkill | printf | ps | readlink | realpath | rm | rmdir | sha*sum | stat | tail | touch | umount | \
            wc) exit 0 ;; # what is named to these they do not run
        *) [ -z "$is_named" ] || printf '%s ' "$word" ;;
    esac
done
exit 0
