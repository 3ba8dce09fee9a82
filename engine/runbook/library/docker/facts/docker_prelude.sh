LC_ALL=C; export LC_ALL
PATH=$PATH:/usr/local/bin:/usr/bin:/bin:/snap/bin
if ! command -v docker >/dev/null 2>&1; then
    found=
    for it in "${DOCKER_HOST:-}" /var/run/docker.sock /run/docker.sock "/run/user/$(id -u)/docker.sock"; do
        [ -n "$it" ] && [ -S "${it#unix://}" ] && found="the socket ${it#unix://}" && break
    done
    [ -n "$found" ] || for it in /proc/[0-9]*/comm; do
        { IFS= read -r name <"$it"; } 2>/dev/null && [ "$name" = dockerd ] || continue
        pid=${it#/proc/}; if really "${pid%/comm}"; then found='a dockerd process'; break; fi
    done
    if [ -n "$found" ]; then printf 'no_client "%s"\n' "$found"; else echo 'no_docker ""'; fi
    exit 0
fi
case $(docker --version 2>/dev/null </dev/null) in *[Pp]odman*) echo 'podman ""'; exit 0 ;; esac
said=
ask() {  # docker, with its complaints kept in $said
    { said=$(docker "$@" 2>&1 >&3 3>&- </dev/null); } 3>&1
}
engine_failed() { printf '%s\n' "$said" >&2; exit 1; }
vanished() {  # whether all that docker complained about is that something is gone by now
    ! printf '%s\n' "$said" | grep -v -e 'No such' -e 'no such volume' -e '^WARNING' | grep -q .
}
list() {  # the ids that docker prints, in $ids
    ids=$(docker "$@" 2>&1 </dev/null) || { said=$ids; engine_failed; }
    ids=$(printf '%s\n' "$ids" | grep -E '^(sha256:)?[0-9a-f]{64}$' | sort -u)
}
inspect() {  # the kind of thing, and what to print of each of $ids; one that vanishes meanwhile is no fault
    [ -n "$ids" ] || return 0
    { said=$(printf '%s\n' "$ids" | xargs docker "$@" 2>&1 >&3 3>&-); } 3>&1 || vanished || engine_failed
}
ask version --format 'engine {"version":{{json .Server.Version}}}' || engine_failed
