path=$1 follow=$2 most=$3 their_user=$4 their_group=$5
[ "$follow" = yes ] && peek "$path" follow || peek "$path" stay
path=$target
uid_of=
[ -z "$their_user" ] || uid_of=$(id -u "$their_user" 2>/dev/null)
gid_of=$(
    { if command -v getent >/dev/null 2>&1; then getent group "$their_group"; else cat /etc/group; fi; } 2>/dev/null |
        while IFS=: read -r entry _ number _; do [ "$entry" != "$their_group" ] || { echo "$number"; break; }; done
)
leads='' digest='' mode='' owner='' group='' uid='' gid='' links='' inode='' size=0
dir=${path%/*}; [ -n "$dir" ] || dir=/
[ "$kind" != absent ] || nothing_there
if [ $there = yes ]; then parent=yes
elif [ -e "$dir" ] || [ -L "$dir" ]; then parent="$dir is not a directory"
else
    parent=no
    [ -n "$unsafe" ] || (safe_enter "${up:-/}") || { safe_enter "${up:-/}"; unsafe=$why become=$owner owner='' kind=absent; }
fi
if [ "$kind" != absent ]; then
    [ "$kind" != link ] || leads=$(readlink "./$name")
    # shellcheck disable=SC2046  # split into words
    set -- $(stat -c '%a %U %G %d:%i %s %u %g %h' "./$name") || fail "$path: stat failed"
    [ $# -eq 8 ] || fail "$path: the output of stat could not be parsed"
    mode=$1 owner=$2 group=$3 inode=$4 size=$5 uid=$6 gid=$7 links=$8
fi
if [ "$kind" = file ]; then
    [ -r "./$name" ] || fail "$path may not be read by $user"
    digest=$(whole | sha256sum) || fail "$path could not be read"
    digest=${digest%% *}
fi
printf '%s\0' place "$path" "$kind" "$leads" "$digest" "$mode" "$owner" "$group" "$uid" "$gid" "$uid_of" "$gid_of"
printf '%s\0' "$links" "$inode" "$parent" "$user" "$unsafe" "$become"
[ "$kind" != file ] || [ "$size" -gt "$most" ] || content
exit 0
