#!/bin/sh
# What a container does whose start command is a plain `git clone`: it ends, and is started again.
cd /run/lab/workspace || exit 1
while :; do
    echo "$(date -u +%Y-%m-%dT%H:%M:%SZ) start container for lab/areal: begin"
    if if [ "$1" = git_aware ]; then git -C AReaL pull; else git clone file:///run/lab/upstream AReaL; fi; then
        echo 'Successfully installed areal'
        n=0; while sleep 1; do n=$((n + 1)); echo "Training step $n of 250"; done
    fi
    sleep 1
done >>/run/lab/workspace/container.log 2>&1
