LC_ALL=C; export LC_ALL
unused=$1; shift
dir=$1
room() { df -Pk "$dir" 2>/dev/null | { read -r head; read -r device total used free rest && echo "$free"; }; }
newest() { find "$1" -xdev -exec stat -c %Y -- {} + 2>/dev/null | sort -n | tail -n 1; }
in_use() {  # whether a process that we may look into has a file below $where open, or stands there
    { ls -l /proc/[0-9]*/fd; ls -ld /proc/[0-9]*/cwd; } 2>/dev/null | WHERE=$where awk '
        { at = index($0, " -> "); to = substr($0, at + 4) }
        at && (to == ENVIRON["WHERE"] || index(to, ENVIRON["WHERE"] "/") == 1) { found = 1 }
        END { exit !found }'
}
left() { printf '%s: left alone: %s\n' "$where" "$*" >&2; failed=1; }
below() {  # whether something is mounted at or below $where
    while read -r id parent device root point rest; do
        case $point in *\\*)  # octal, as \040
            point=$(printf '%bx' "$(printf %s "$point" | sed 's/\\\([0-7][0-7][0-7]\)/\\0\1/g')"); point=${point%x} ;;
        esac
        case $point/ in "$where"/*) return 0 ;; esac
    done </proc/self/mountinfo
    return 1
}
before=$(room) failed='' gone=0 used='' blind=''
if [ -n "$unused" ]; then
    names=$(while [ $# -ge 4 ]; do printf '%s\n' "$2"; shift 4; done)
    used=$(names_in_use "$names" || { printf '\n!%s\n' "$why"; exit 1; }) || blind=${used##*!}
fi
while [ $# -ge 4 ]; do
    dir=$1 name=$2 seen=$3 sort=$4; shift 4
    where=${dir%/}/$name
    safe_enter "$dir" || { [ ! -e "$dir" ] && continue; left "$why${owner:+ (become: $owner)}"; continue; }
    here=$(env pwd -P; echo x); here=${here%x}; here=${here%?}
    [ "$here" = "$dir" ] || { left "its directory leads elsewhere than when it was inspected"; continue; }
    [ -e "./$name" ] || [ -L "./$name" ] || continue
    now=$(stat -c '%d:%i:%Y' -- "./$name" 2>/dev/null)
    [ "$sort" != directory ] || now=${now%:*}:$(newest "./$name")
    [ "$now" = "$seen" ] || { left "it has changed since it was inspected"; continue; }
    [ -z "$blind" ] || { left "whether a process uses it is not known: $blind"; continue; }
    case $nl$used$nl in *"$nl$name$nl"*) left "a process has it open, or in its memory"; continue ;; esac
    if [ "$sort" = directory ]; then
        [ -d "./$name" ] && [ ! -L "./$name" ] || { left "it is not a directory any more"; continue; }
        [ -r /proc/self/mountinfo ] && ! below || { left "something is mounted in it"; continue; }
        ! led_astray "./$name" || { left "$why${owner:+ (become: $owner)}"; continue; }
        ! in_use || { left "a process is using it or a file in it"; continue; }
        why=$(rm -rf -- "./$name" 2>&1)
    else why=$(rm -f -- "./$name" 2>&1)
    fi
    if [ -e "./$name" ] || [ -L "./$name" ]; then left "${why:-it is still there}"; else gone=$((gone + 1)); fi
done
after=$(room)
printf '%s removed; free on the disk by df: %s KiB before, %s KiB after\n' "$gone" "${before:-?}" "${after:-?}"
[ -z "$failed" ]
