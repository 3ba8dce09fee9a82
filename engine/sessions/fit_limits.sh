no() {
    case $owner in
        '') ;;
        *[!0-9]*) owner=": give the step \`become: $owner\`" ;;
        *) owner='; the host has no name for that user: give the directory to root, or to a user with a name' ;;
    esac
    printf '%s%s\n' "$(printf %s "$why" | tr '\n' '?')" "$owner" >&2
    exit 1
}
place() {  # path: sets at to it, from / on
    case $1 in /*) at=$1 ;; *) at=$from/$1 ;; esac
}
folder() {  # directory: that nobody else can put a file there
    place "$1"
    safe_resolve "$at" last || no
    if [ "$kind" = directory ]; then safe_step "$real" || no; fi
    [ "$shared" = no ] || { why="others can put files in $real"; no; }
}
program() {  # program, or script for one: that nobody else can put another one there
    place "$1"
    safe_resolve "$at" last || case $shared:$why in "no:there is no directory "*) return 0 ;; *) no ;; esac
    [ "$kind" != absent ] || [ "$shared" = no ] || { why="others can put a file there: $real"; no; }
    [ "$kind" = file ] || return 0
    safe_directory "$real" || no
    [ "$shared" = no ] || { why="others can write to $real"; no; }  # a sticky bit protects no file
}
[ "$safe_me" = 0 ] || exit 0
cwd=$1 paths=$2 from=$(pwd -P); shift 2
if [ -n "$cwd" ]; then
    place "$cwd"; cwd=$at
    cd -- "$cwd" 2>/dev/null || exit 0  # that is shown when it is tried
    now=$(pwd -P)
    folder "$cwd"
    [ "$real" = "$now" ] || { why="$cwd leads elsewhere than a moment ago"; no; }
    from=$now
fi
while [ -n "$paths" ]; do
    one=${paths%%:*}
    case $paths in *:*) paths=${paths#*:} ;; *) paths='' ;; esac
    if [ -n "$one" ] && [ -d "$one" ]; then folder "$one"; fi
done
while [ $# -gt 0 ]; do  # programs that only start another one
    case $1 in */*) program "$1" ;; esac
    case ${1##*/} in env|nice|nohup|timeout|setsid|stdbuf|ionice|time) shift ;; *) break ;; esac
    while case ${1-} in ''|*/*) false ;; -*|*=*|[0-9]*) true ;; *) ! command -v -- "$1" >/dev/null ;; esac; do shift; done
done
case ${1-} in '') exit 0 ;; esac
case ${1##*/} in
    perl*|ruby*|node|php*|lua*) code='-*[eEr]' ;;
    python*|pypy*|sh|bash|dash|ash|ksh|zsh|fish) code='-[cm]' ;;
    *) exit 0 ;;
esac
shift
for word; do
    # shellcheck disable=SC2254  # the pattern is an author's
    case $word in $code) exit 0 ;; -*) continue ;; esac  # the text itself is the author's
    place "$word"
    if [ -f "$at" ] || [ -L "$at" ]; then program "$word"; exit 0; fi
done
exit 0
