unset TMUX
session=$1 folder=$2 wait=$3; shift 3
if [ -n "$folder" ] && ! folder_fits "$folder"; then
    [ -z "$why" ] || printf '%s\n' "$why" >&2
    exit 3
fi
( outlive; exec tmux new-session -d -s "$session" -- "$@" ) || exit
exec sleep "$wait"
