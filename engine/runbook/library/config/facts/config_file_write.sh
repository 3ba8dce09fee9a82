LC_ALL=C; export LC_ALL
umask 077
path=$1 target=$2 seen=$3 wanted=$4 backup=$5 bits=$6; shift 6
there=yes kept='' work=''
case $seen in *:absent) there=no ;; esac
not() { die 12 "$path: nothing was written: $*"; }
digest() {
    case $wanted in
        sha256:*) sum=$(sha256sum <"$1") && printf 'sha256:%s' "${sum%% *}" ;;
        *) sum=$(cksum <"$1") && set -- $sum && printf 'cksum:%s:%s' "$1" "$2" ;;
    esac
}
unchanged() {
    now=$path
    if [ -L "$path" ]; then now=$(readlink -f "$path"; echo x); now=${now%x}; now=${now%?}; fi
    [ "$now" = "$target" ] || die 10 "$path leads to another file than when it was inspected: nothing was written"
    if [ $there = no ]; then
        [ ! -e "./$name" ] && [ ! -L "./$name" ] ||
            die 10 "$path has appeared since it was inspected: nothing was written"
    else
        [ -f "./$name" ] && [ ! -L "./$name" ] && [ "$(digest "./$name" 2>/dev/null)" = "$seen" ] ||
            die 10 "$path has changed since it was inspected: nothing was written"
    fi
}
copy() { cp --preserve=all -- "$1" "$2" 2>/dev/null || cp -p -- "$1" "$2"; }
attributes() {
    label=$(stat -c %C -- "$1" 2>/dev/null)
    list=$(getfacl -cp -- "$1" 2>/dev/null)
    # shellcheck disable=SC2046  # split into words
    set -- $(ls -ldn "$1")
    printf '%s\n' "$1 $3 $4" "$label" "$list"
}
quoted() { printf "'%s'" "$(printf %s "$1" | sed "s/'/'\\\\''/g")"; }
safe_beside "$path" last || not "$why${owner:+ (become: $owner)}"
dir=${real%/*}
unchanged
safe_tidy
set -f
trap '[ -z "$kept" ] || rm -f -- "./$kept"; [ -z "$work" ] || rm -rf -- "./$work"' EXIT
trap 'exit 12' HUP INT TERM
safe_workshop && why=$(mkdir -- "./$work/new" "./$work/old" 2>&1) || not "$why"
new=./$work/new/$name was=./$work/old/$name
if [ $there = yes ]; then
    why=$(copy "./$name" "$new" 2>&1) || not "$why"
    [ -w "$new" ] || chmod u+w "$new" 2>/dev/null
fi
why=$(cat 2>&1 >"$new") || not "${why:-there is no room for it}"
[ "$(digest "$new")" = "$wanted" ] || not 'the new text arrived incomplete'
why=$(chmod "$bits" "$new" 2>&1) || die 13 "$path: nothing was written: $why"
if [ $there = yes ]; then
    if command -v chcon >/dev/null 2>&1; then chcon --reference="./$name" -- "$new" 2>/dev/null; fi
    [ "$(attributes "$new")" = "$(attributes "./$name")" ] ||
        die 13 "$path: nothing was written: $(id -un) cannot give its owner, mode, ACL or label to a new file"
fi
sync "$new" 2>/dev/null
if [ $# -gt 0 ]; then
    left=$#
    while [ $left -gt 0 ]; do
        word=$1; shift
        case $word in *'{}'*) word=${word%%'{}'*}$dir${new#.}${word#*'{}'} ;; esac
        set -- "$@" "$word"; left=$((left - 1))
    done
    why=$(cd / && "$@" 2>&1 </dev/null) ||
        die 11 "$path: nothing was written: $1 rejects the new text (exit code $?): $why"
    [ "$(digest "$new")" = "$wanted" ] || die 11 "$path: nothing was written: $1 has changed the new text"
fi
put_beside() {  # the copy, under the name $place, unless there is something of that name
    if [ -e "./$place" ] || [ -L "./$place" ]; then return 1; fi
    if [ "$shared" = no ] && ln -- "$was" "./$place" 2>/dev/null; then return 0; fi
    safe_put "$was" "$place" || not "no backup: $why"
}
if [ "$backup" = yes ] && [ $there = yes ]; then
    why=$(copy "./$name" "$was" 2>&1) || not "no backup: $why"
    [ "$(digest "$was")" = "$seen" ] || die 10 "$path has changed since it was inspected: nothing was written"
    moment=$(date +%Y%m%d-%H%M%S) number=1 place=$name.backup-$moment
    until put_beside; do number=$((number + 1)); place=$name.backup-$moment-$number; done
    kept=$place
    sync "./$kept" 2>/dev/null
fi
unchanged
safe_put "$new" "$name" || not "$why"
sync . 2>/dev/null
if [ -n "$kept" ]; then
    printf 'to put it back by hand: cp -p -- %s %s\n' "$(quoted "${target%/*}/$kept")" "$(quoted "$path")"
fi
kept=
exit 0
