#!/bin/sh
# What a container does whose start command is a plain `git clone`: it ends, and is started again. It has done so for
# some seconds when the host is up, so that a probe sees the loop at once.
cd /run/lab/workspace || exit 1

begin() { # $1: when, in seconds since the epoch
    echo "$(date -u -d "@$1" +%Y-%m-%dT%H:%M:%SZ) start container for lab/areal: begin"
}

clone() { git clone file:///run/lab/upstream AReaL; }

{
    now=$(date +%s)
    [ "$1" = git_aware ] || for ago in 6 5 4 3 2 1; do begin $((now - ago)); clone; done
    while :; do
        begin "$(date +%s)"
        if if [ "$1" = git_aware ]; then git -C AReaL pull; else clone; fi; then
            echo 'Successfully installed areal'
            n=0; while sleep 1; do n=$((n + 1)); echo "Training step $n of 250"; done
        fi
        sleep 1
    done
} >>/run/lab/workspace/container.log 2>&1
