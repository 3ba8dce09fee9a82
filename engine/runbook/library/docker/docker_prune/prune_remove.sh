root=$1 unused=$2 of_container=$3 of_image=$4 of_volume=$5; shift 5
room() {  # bytes available where Docker keeps its files
    df -Pk -- "$root" 2>/dev/null | {
        read -r line; read -r device blocks used available rest && printf '%s\n' "$((available * 1024))"
    }
}
before=$(room)
try() {  # what it is called, and the docker command that removes it
    what=$1; shift
    if said=$(docker "$@" 2>&1 </dev/null); then printf 'removed %s\n' "$what"; return 0; fi
    case $said in
        *'No such'*|*'no such volume'*|*'already in progress'*) printf 'gone %s\n' "$what"; return 0 ;;
        *onnect\ to\ the\ [Dd]ocker*|*'permission denied while trying'*|*'connect: '*) engine_failed ;;
    esac
    return 1
}
left() { printf 'left %s: %s\n' "$what" "$(printf '%s' "$said" | tail -n 1)"; }
same() {  # kind, id, format, what was seen: whether it is there and still so
    what="$1 $2"
    if ! now=$(docker "$1" inspect --format "$3" -- "$2" 2>&1 </dev/null); then
        case $now in *'No such'*|*'no such volume'*) printf 'gone %s\n' "$what"; return 1 ;; esac
        said=$now; engine_failed
    fi
    [ "$now" = "$4" ] && return 0
    said="it has changed since it was inspected ($now)"; left
    return 1
}
untag() {  # an image with several names: each name that is still its own, then itself
    docker image inspect --format '{{range .RepoTags}}{{println .}}{{end}}' -- "$1" 2>/dev/null </dev/null |
        while IFS= read -r tag; do
            [ -n "$tag" ] || continue
            [ "$(docker image inspect --format '{{.Id}}' -- "$tag" 2>/dev/null </dev/null)" = "$1" ] || continue
            docker image rm --no-prune -- "$tag" >/dev/null 2>&1 </dev/null
        done
    what="image $1"  # its last name takes the image with it
    if docker image inspect -- "$1" >/dev/null 2>&1 </dev/null; then try "$what" image rm --no-prune -- "$1"; return; fi
    printf 'removed %s\n' "$what"
}
cached=
while [ $# -gt 0 ]; do
    kind=$1 id=$2 seen=$3; shift 3
    case $kind in
        container) same container "$id" "$of_container" "$seen" && { try "$what" container rm -- "$id" || left; } ;;
        volume) same volume "$id" "$of_volume" "$seen" && { try "$what" volume rm -- "$id" || left; } ;;
        image)
            same image "$id" "$of_image" "$seen" || continue
            try "$what" image rm --no-prune -- "$id" && continue
            case $said in *'multiple repositories'*) untag "$id" || left ;; *) left ;; esac ;;
        build-cache) cached="$cached $id" ;;
    esac
done
DOCKER_BUILDKIT=0; export DOCKER_BUILDKIT  # the engine's own cache, whatever builder buildx has chosen
progress=yes
while [ -n "$cached" ] && [ -n "$progress" ]; do  # a record goes only after those that were built on it
    progress='' rest=
    for id in $cached; do
        what="build-cache $id"
        if ! said=$(docker builder prune -f --filter "id=$id" --filter "until=${unused}s" 2>&1 </dev/null); then
            case $said in *onnect*|*'permission denied'*) engine_failed ;; esac
        fi
        case $said in
            *"$id"*) printf 'removed %s\n' "$what"; progress=yes ;;
            *) rest="$rest $id" ;;
        esac
    done
    cached=$rest
done
for id in $cached; do
    what="build-cache $id" said='Docker keeps it: in use, shared with a remaining image, or needed by another record'
    left
done
after=$(room)
[ -n "$before" ] && [ -n "$after" ] || exit 0
printf 'available before %s after %s freed %s\n' "$before" "$after" "$((after - before))"
exit 0
