LC_ALL=C; export LC_ALL
path=$1 seen=$2
safe_beside "$path" || die 12 "$path: nothing was removed: $why"
[ -f "./$name" ] && [ ! -L "./$name" ] || die 10 "$path has changed since it was inspected: nothing was removed"
sum=$(sha256sum <"./$name") && [ "${sum%% *}" = "$seen" ] ||
    die 10 "$path has changed since it was inspected: nothing was removed"
why=$(rm -f -- "./$name" 2>&1) || die 12 "$path: nothing was removed: $why"
sync . 2>/dev/null
exit 0
