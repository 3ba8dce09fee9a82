LC_ALL=C; export LC_ALL
real() { r=$(readlink -f "$1" 2>/dev/null; echo x); r=${r%x}; r=${r%?}; [ -n "$r" ]; }
said() { printf '%s\0' "$@"; }
newest() { find "$1" -xdev -exec stat -c %Y -- {} + 2>/dev/null | sort -n | tail -n 1; }
IFS=
[ -r /proc/self/mountinfo ] || fail '/proc/self/mountinfo cannot be read, so the mounts are not known'
unused=$1 left=$2; shift 2
while [ "$left" -gt 0 ]; do
    if [ -d "$1" ] && real "$1"; then said root "$r"; fi
    shift; left=$((left - 1))
done
real "${HOME:-/root}" && said home "$r"
said now "$(date +%s)"
used='' blind=''
if [ -n "$unused" ]; then
    names=$(for glob; do for one in $glob; do printf '%s\n' "${one##*/}"; done; done)
    used=$(names_in_use "$names" || { printf '\n!%s\n' "$why"; exit 1; }) || blind=${used##*!}
fi
number=0 last='' dir=
for glob; do
    up=$glob
    while :; do
        case $up in *[*?[]*) ;; *) break ;; esac
        up=${up%/*}
        for one in $up; do
            [ ! -d "${one:-/}" ] || { [ -r "${one:-/}" ] && [ -x "${one:-/}" ]; } ||
                fail "$(id -un) cannot access the directory ${one:-/}, so the matches of $glob are not known"
        done
    done
    up=$glob
    while [ -n "$up" ] && [ ! -e "$up" ]; do up=${up%/*}; done
    [ ! -d "${up:-/}" ] || [ -x "${up:-/}" ] || fail "$(id -un) cannot access the directory $up, so $glob is not known"
    case $glob in *[*?[]*) set -- $glob ;; *) set -- "$glob" ;; esac
    if [ $# -gt 1 ] || [ -e "$1" ] || [ -L "$1" ]; then
        all=$(stat -c '%f %d:%i %Y %b %B %u %y' -- "$@" 2>&1) || fail "$all"
        said stats $number "$all"
        for one; do
            if [ "${one%/*}/" != "$last" ]; then
                last=${one%/*}/
                real "$last" || fail "$one: its directory cannot be resolved"
                dir=${r%/} unsafe='' become=
                safe_enter "${dir:-/}" || unsafe=$why become=$owner
            fi
            size='' young='' astray='' by=
            if [ -d "$one" ] && [ ! -L "$one" ]; then
                size=$(du -skx -- "$one" 2>/dev/null) || fail "$one: not all of it can be read"
                size=${size%%[!0-9]*}
                young=$(newest "$dir/${one##*/}")
                [ -n "$young" ] || fail "$one: when it was last written to is not known"
                if [ -z "$unsafe" ] && led_astray "$dir/${one##*/}"; then astray=$why by=$owner; fi
            fi
            [ -z "$blind" ] || [ -n "$unsafe$astray" ] || astray="whether a process uses it is not known: $blind"
            case $nl$used$nl in *"$nl${one##*/}$nl"*) held=used ;; *) held='' ;; esac
            said entry "$dir/${one##*/}" "$size" "$young" "${unsafe:-$astray}" "${unsafe:+$become}$by" "$held"
        done
    fi
    number=$((number + 1))
done
said mounts "$(cat /proc/self/mountinfo)"
