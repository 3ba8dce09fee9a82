id=$1 seen=$2; shift 2
now=$(docker container inspect --format '{{.State.StartedAt}} {{.State.Status}}' -- "$id" 2>&1 </dev/null) || {
    said=$now; engine_failed
}
[ "$now" = "$seen" ] || {
    printf 'left alone: the container was started or has ended since it was inspected (%s)\n' "$now" >&2; exit 3
}
ask container "$@" -- "$id" || engine_failed
