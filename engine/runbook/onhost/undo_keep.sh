LC_ALL=C; export LC_ALL
umask 077
verb=keep run=$1 path=$2 seen=$3 most=$4 work=''
trap '[ -z "$work" ] || rm -rf -- "./$work"' EXIT
trap 'exit 12' HUP INT TERM
safe_beside "$path" || die 12 "$why"
[ -f "./$name" ] && [ ! -L "./$name" ] || die 12 "$path is not a regular file any more"
exec 9<"./$name" || die 12 "$path cannot be read"
size=$(wc -c <"./$name") && [ "$size" -le "$most" ] || die 12 "$path has $((size)) bytes, and copies have at most $most"
undo_place "$run" || die 12 "$why"
safe_tidy
safe_workshop || die 12 "$why"
why=$(head -c "$most" 2>&1 <&9 >"./$work/copy") || die 12 "${why:-there is no room for a copy}"
sum=$(sha256sum <"./$work/copy") || die 12 'there is no sha256sum on this host'
[ "${sum%% *}" = "$seen" ] || die 12 "$path has changed since it was inspected, or there is no room for a copy of it"
sync "./$work/copy" 2>/dev/null
safe_put "./$work/copy" "$seen" || die 12 "$why"
sync . 2>/dev/null
echo kept
