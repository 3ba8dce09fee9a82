LC_ALL=C; export LC_ALL
start=$(pwd)
lines=$1 most=$2 left=$3 newest=$4 rotated=$5 within=$6 share=$7 skipped=$8; shift 8
now=$(date +%s)
printf 'clock %s %s\n' "$now" "$(date +%z)"
IFS='
'
named() {  # the globs: each file once; what cannot be named is written to fd 3
    for glob in "$@"; do
        case $glob in '~/'*) glob=$HOME/${glob#??} ;; esac
        any=
        for file in $glob; do
            [ -f "$file" ] || continue
            any=yes
            case $file in
                *"$IFS"*)
                    printf 'unreadable %s\n the name of the file has a line break\n' "$(printf %s "$file" | tr '\n' '?')" >&3
                    ;;
                /*) printf '%s\n' "$file" ;;
                *) printf '%s\n' "$start/$file" ;;
            esac
        done
        [ -n "$any" ] || printf 'missing %s\n' "$glob" >&3
    done | awk '!seen[$0]++'
}
chosen() {  # the newest files of each user, so that nobody's hide another's; what is left out is written to fd 3
    printf '%s\n' "$names" | tr '\n' '\0' | xargs -0 stat -c '%Y %u %n' -- 2>/dev/null | sort -rn |
        awk -v me="$(id -u)" -v most="$share" -v newest="$newest" -v within="$within" '
        BEGIN {
            while ((getline l < "/etc/subuid") > 0) { n++; split(l, w, ":"); of[n] = w[1]; first[n] = w[2]; long[n] = w[3] }
        }
        {
            uid = $2
            for (i = 1; i <= n; i++) if (uid >= first[i] + 0 && uid < first[i] + long[i]) uid = of[i]
            name = substr($0, length($1) + length($2) + 3)
            if (!(uid in top)) top[uid] = $1
            if (within > 0 && top[uid] - $1 > within || newest > 0 && count[uid] >= newest) next
            if (count[uid]++ < most || uid == 0 || uid == me) print name
            else if (!more[uid]++) last[uid] = name
        }
        END { for (uid in more) print "unreadable " last[uid] "\n one of " more[uid] " files that are left out: user " uid " has more than " most | "cat >&3" }'
}
exec 4>&1
names=$(named "$@" 3>&4)
if [ "$newest" -gt 0 ] || [ "$within" -gt 0 ]; then names=$(chosen 3>&4)
elif [ "$(printf '%s\n' "$names" | head -n "$((share + 1))" | wc -l)" -gt "$share" ]; then names=$(chosen 3>&4 | sort)
fi
set -f
[ -n "$names" ] || exit 0
show() {  # file or rotated, and its path
    if ! view_find "$2"; then printf 'unreadable %s\n' "$2"; view_reason | sed 's/^/ /'; return; fi
    if [ ! -r "./$name" ] || ! size=$(view_size); then printf 'unreadable %s\n this user may not read the file\n' "$2"; return; fi
    written=$(stat -c %Y -- "./$name" 2>/dev/null)
    [ "$skipped" -lt "$size" ] || [ "$skipped" = 0 ] || return 0
    size=$((size - skipped)) part=$((size < most ? size : most))
    most_of=$((most * 8)) # of the bytes that one user's files may take
    [ -z "$makers" ] || uid=${makers%% *} # who made the link that led there
    if ! safe_ours "$uid"; then eval "most_of=\$((\${most_of_$uid:-most_of} - part)) most_of_$uid=\$most_of"; fi
    [ $most_of -lt 0 ] || left=$((left - part))
    if [ $left -lt 0 ] || [ $most_of -lt 0 ]; then printf 'unreadable %s\n exceeds the size limit together with the files before it\n' "$2"; return; fi
    printf '%s %s %s %s\n' "$1" $((size - part)) "${written:+$((now - written))}" "$2"
    view_end "$((part + skipped))" "$((size + skipped))" | head -c "$part" | tail -n "$((lines + 1))" | sed 's/^/ /'
    echo
}
for file in $names; do
    if [ -n "$rotated" ] && [ -f "$file.1" ]; then show rotated "$file.1"; fi
    show file "$file"
done
exit 0
