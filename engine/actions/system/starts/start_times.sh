LC_ALL=C; export LC_ALL
most=$1 left=$2 start=$(pwd); shift 2
printf 'clock %s %s\n' "$(date +%s)" "$(date +%z)"
IFS='
'
named() { printf '%s %s\n' "$1" "$(printf %s "$2" | tr '\n' '?')"; }  # a name may hold lines
unread() { named unreadable "$1"; printf 'because %s\n' "$2"; }
show() {
    if ! view_find "$1"; then named unreadable "$1"; view_reason | sed 's/^/because /'; return; fi
    if [ ! -r "./$name" ] || ! size=$(view_size); then unread "$1" 'this user may not read the file'; return; fi
    part=$((size < most ? size : most))
    left=$((left - part))
    if [ $left -lt 0 ]; then unread "$1" 'exceeds the size limit together with the files before it'; return; fi
    named file "$1"
    view_end "$part" "$size" | cut -c -1000 | sed 's/^/ /'
    echo
}
names=
for glob in "$@"; do
    case $glob in '~/'*) glob=$HOME/${glob#??} ;; esac
    any=
    for file in $glob; do
        [ -f "$file" ] || continue
        any=yes
        case $file in
            *"$IFS"*) unread "$file" 'the name of the file has a line break' ;;
            /*) names=$names$file$IFS ;;
            *) names=$names$start/$file$IFS ;;
        esac
    done
    [ -n "$any" ] || named missing "$glob"
done
set -f
for file in $names; do show "$file"; done
exit 0
