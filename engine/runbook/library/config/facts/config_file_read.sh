set -f
path=$1 most=$2
peek "$path" follow
if [ "$kind" = absent ]; then
    nothing_there
    if command -v sha256sum >/dev/null 2>&1; then digest=sha256:absent; else digest=cksum:absent; fi
    printf '%s\0' absent "$path" "$target" $there $writable "$user" "$unsafe" "$become" $digest
    exit 0
fi
[ "$kind" != directory ] || fail "$path is a directory"
[ "$kind" = file ] || fail "$path is not a regular file"
[ -r "./$name" ] || fail "$path may not be read by $user"
size=$(bytes) && size=$((size)) || fail "$path could not be read"
[ $size -le $most ] || fail "$path has $size bytes; the limit for a configuration file is $most bytes"
# shellcheck disable=SC2046  # split into words
set -- $(ls -ldn "./$name") || fail "$path: ls failed"
mode=$1 links=$2
# shellcheck disable=SC2046  # split into words
set -- $(ls -ld "./$name")
owner=$3 group=$4
if command -v sha256sum >/dev/null 2>&1; then digest=$(content | sha256sum) && digest=sha256:${digest%% *}
else digest=$(content | cksum) && set -- $digest && digest=cksum:$1:$2
fi || fail "$path could not be read"
printf '%s\0' file "$path" "$target" $there $writable "$user" "$unsafe" "$become"
printf '%s\0' "$mode" "$links" "$owner" "$group" "$digest" $size
content
