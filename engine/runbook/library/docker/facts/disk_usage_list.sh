images=$2 about=$3
list images -aq --no-trunc
inspect image inspect --format "$images"
ask info --format "$about" || engine_failed
ask context inspect --format 'endpoint {{json .Endpoints.docker.Host}}' || :
shift 3
for it in "$@"; do
    for verb in ps images; do
        list $verb -aq --no-trunc --filter "label=${it#*:}"
        [ -z "$ids" ] || printf '%s\n' "$ids" | sed "s/.*/${it%%:*} \"&\"/"
    done
done
