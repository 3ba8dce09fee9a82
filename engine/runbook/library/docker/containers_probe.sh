ask info --format 'clock {{json .SystemTime}}' || engine_failed
shift
at=0
for label in "$@"; do
    list ps -aq --no-trunc --filter "label=$label"
    [ -z "$ids" ] || printf '%s\n' "$ids" | sed "s/.*/label$at \"&\"/"
    at=$((at + 1))
done
find_dockerd
[ -z "$daemon" ] || grep -q '^[^ ]* /proc/uptime ' /proc/mounts ||
    { IFS= read -r stat <"/proc/$daemon/stat" && IFS=' ' read -r up rest </proc/uptime; } 2>/dev/null || daemon=
if [ -n "$daemon" ] && [ -n "${up:-}" ]; then
    # shellcheck disable=SC2086
    set -- ${stat##*) }
    printf 'daemon {"up":%s,"began":%s}\n' "$up" "${20}"
fi
