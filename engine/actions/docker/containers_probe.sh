ask info --format 'clock {{json .SystemTime}}' || engine_failed
shift
at=0
for label in "$@"; do
    list ps -aq --no-trunc --filter "label=$label"
    [ -z "$ids" ] || printf '%s\n' "$ids" | sed "s/.*/label$at \"&\"/"
    at=$((at + 1))
done
