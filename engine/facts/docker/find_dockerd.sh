find_dockerd() {  # the pid of the engine that docker asks here, in $daemon; nothing where that is not seen from here
    daemon=
    case ${DOCKER_HOST:-} in
        ''|unix:///var/run/docker.sock|unix:///run/docker.sock)
            for file in /var/run/docker.pid /run/docker.pid; do
                { read -r daemon <"$file"; } 2>/dev/null; [ -z "$daemon" ] || break
            done ;;
        unix://*)
            for it in /proc/[0-9]*/comm; do
                { IFS= read -r name <"$it"; } 2>/dev/null && [ "$name" = dockerd ] || continue
                it=${it#/proc/}; it=${it%/comm}
                really "$it" && tr '\000' '\n' <"/proc/$it/cmdline" | grep -q -x -F -e "$DOCKER_HOST" || continue
                daemon=$it; break
            done ;;
    esac
    case $daemon in ''|*[!0-9]*) daemon=; return 0 ;; esac
    case $(readlink "/proc/$daemon/exe") in */dockerd|*/dockerd' (deleted)') ;; *) daemon= ;; esac
}
