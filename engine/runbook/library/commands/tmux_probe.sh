unset TMUX
started_by() {  # pid, and a dot for each level: by the kernel's own lists, into which no process can write words
    [ "${#2}" -le 50 ] || return 0
    for child in $(cat "/proc/$1/task/"*/children 2>/dev/null); do
        echo "below $child"
        started_by "$child" "$2."
    done
}
if [ -d "$2" ] && [ "$safe_me" = 0 ] && ! folder_fits "$2"; then
    printf 'refused %s\nbecome %s\n' "$(printf %s "$why" | tr '\n' '?')" "$owner"
fi
# tmux makes the directory of its sockets where there is none, whatever it is asked: then there is no session either.
place=${TMUX_TMPDIR:-/tmp}
[ -d "$place" ] || place=/tmp
place=$place/tmux-$safe_me
if ! safe_resolve "$place" last || { [ "$kind" != absent ] && ! safe_step "$place"; }; then
    printf '%s\n' "$why" >&2
    exit 3
fi
[ "$kind" != absent ] || { echo none; exit 0; }
if said=$(tmux list-panes -s -t "=$1:" -F 'pane #{pane_pid} #{session_created} #{pane_dead}' 2>&1); then
    printf '%s\n' "$said"
    for pid in $(printf '%s\n' "$said" | sed -n 's/^pane \([0-9]*\) [0-9]* 0$/\1/p'); do started_by "$pid" .; done
    exit 0
fi
case $said in
    *"can't find"*|*'no server running'*|*'(No such file or directory)'*|*'(Connection refused)'*) echo none; exit 0 ;;
esac
printf '%s\n' "$said" >&2
exit 3
