wanted=$1 settle=$2
command -v curl >/dev/null 2>&1 || exit 127
answer=$({
    { curl -q --config - --output /dev/fd/3 3>&1 1>&4; echo "exit $?" >&4; } |
        { head -c 300; echo; cat >/dev/null; } | sed 's/^/body /'
} 4>&1 2>&4)
status=$(printf '%s\n' "$answer" | sed -n 's/^status \([0-9][0-9]*\)$/\1/p' | tail -n 1)
case $status in
    [45]??) printf '%s\n' "$answer" ;;
    *) printf '%s\n' "$answer" | grep -v '^body ' ;;
esac
case $wanted in
    '') case $status in 2??) ;; *) exit 9 ;; esac ;;
    *) case " $wanted " in *" $status "*) ;; *) exit 9 ;; esac ;;
esac
[ "$settle" = 0 ] || sleep "$settle"
exit 0
