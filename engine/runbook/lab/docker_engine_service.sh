#!/bin/sh
### BEGIN INIT INFO
# Provides:          docker
# Required-Start:
# Required-Stop:
# Default-Start:
# Default-Stop:
# Short-Description: The Docker engine of a lab host.
### END INIT INFO
PATH=/run/lab/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin; export PATH
unset DOCKER_HOST DOCKER_CONTEXT DOCKER_CONFIG DOCKER_TLS_VERIFY NOTIFY_SOCKET
pid=
runs() { { pid=$(cat /run/docker.pid) && read -r it <"/proc/$pid/comm" && [ "$it" = dockerd ]; } 2>/dev/null; }
start() {
    ! runs || return 0
    read -r group busybox </run/lab/group
    setsid dockerd -p /run/docker.pid -H unix:///run/docker.sock --exec-root /run/docker --bridge=none --iptables=false \
        --ip6tables=false --ip-forward=false --exec-opt native.cgroupdriver=cgroupfs --cgroup-parent="$group" \
        </dev/null >>/run/lab/dockerd.log 2>&1 &
    started=$! n=0
    until docker version >/dev/null 2>&1; do
        n=$((n + 1))
        if ! kill -0 $started 2>/dev/null || [ $n -gt 600 ]; then
            tail -n 1 /run/lab/dockerd.log >&2
            return 1
        fi
        sleep 0.05
    done
}
stop() {
    runs || return 0
    kill "$pid"
    n=0
    while runs && [ $n -lt 300 ]; do n=$((n + 1)); sleep 0.05; done
    ! runs
}
case $1 in
    start) start ;;
    stop) stop ;;
    restart | force-reload) stop && start ;;
    status) if runs; then echo "Docker is running ($pid)."; else echo 'Docker is not running.'; exit 3; fi ;;
    *) echo "Usage: service docker {start|stop|restart|status}" >&2; exit 2 ;;
esac
