LC_ALL=C; export LC_ALL
start=$(pwd)
lines=$1 most=$2 left=$3 newest=$4 rotated=$5 within=$6; shift 6
now=$(date +%s)
IFS='
'
names=
for glob in "$@"; do
    case $glob in '~/'*) glob=$HOME/${glob#??} ;; esac
    any=
    for file in $glob; do
        [ -f "$file" ] || continue
        any=yes
        case $file in
            *"$IFS"*)
                printf 'unreadable %s\n the name of the file has a line break\n' "$(printf %s "$file" | tr '\n' '?')"
                continue
                ;;
            /*) ;;
            *) file=$start/$file ;;
        esac
        case "$IFS$names" in *"$IFS$file$IFS"*) ;; *) names=$names$file$IFS ;; esac
    done
    [ -n "$any" ] || printf 'missing %s\n' "$glob"
done
set -f
[ -n "$names" ] || exit 0
if [ "$newest" -gt 0 ]; then names=$(ls -1td -- $names | head -n "$newest"); fi
if [ "$within" -gt 0 ] && last=$(stat -c %Y -- ${names%%"$IFS"*} 2>/dev/null); then
    names=$(for file in $names; do at=$(stat -c %Y -- "$file" 2>/dev/null); [ $((last - ${at:-0})) -gt "$within" ] || printf '%s\n' "$file"; done)
fi
show() {  # file or rotated, and its path
    if ! view_find "$2"; then printf 'unreadable %s\n' "$2"; view_reason | sed 's/^/ /'; return; fi
    if [ ! -r "./$name" ] || ! size=$(view_size); then printf 'unreadable %s\n this user may not read the file\n' "$2"; return; fi
    written=$(stat -c %Y -- "./$name" 2>/dev/null)
    part=$((size < most ? size : most))
    left=$((left - part))
    if [ $left -lt 0 ]; then printf 'unreadable %s\n exceeds the size limit together with the files before it\n' "$2"; return; fi
    printf '%s %s %s %s\n' "$1" $((size > most)) "${written:+$((now - written))}" "$2"
    view_end "$part" "$size" | tail -n "$((lines + 1))" | sed 's/^/ /'
    echo
}
for file in $names; do
    if [ -n "$rotated" ] && [ -f "$file.1" ]; then show rotated "$file.1"; fi
    show file "$file"
done
exit 0
