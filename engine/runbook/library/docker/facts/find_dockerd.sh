find_dockerd() {  # the pid of the engine that docker asks here, by the file beside its socket, in $daemon; nothing where there is none
    daemon='' socket=${DOCKER_HOST:-unix:///var/run/docker.sock}
    case $socket in unix://*.sock) socket=${socket#unix://} ;; *) return 0 ;; esac
    { read -r daemon <"${socket%.sock}.pid"; } 2>/dev/null
    case $daemon in ''|*[!0-9]*) daemon=; return 0 ;; esac
    case $(readlink "/proc/$daemon/exe") in */dockerd|*/dockerd' (deleted)') ;; *) daemon= ;; esac
}
