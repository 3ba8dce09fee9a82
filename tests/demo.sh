#!/bin/sh
# The main job in the lab: what would be done, the same done, and a second run that changes nothing.
# The jobs of a lab are seconds old, and would be spared as starting: hence `older_than=0s`, which no real host needs.
set -u
folder=$(mktemp -d)
say() { printf '\n\033[1m$ %s\033[0m\n' "$*"; }
finish() { runbook lab down --dir "$folder/lab" > /dev/null; rm -rf "$folder"; }
trap finish EXIT

lab="--host gpu-01=leftovers --host gpu-02=leftovers+busy --host gpu-03=stubborn+nameless --host gpu-04=healthy --host cpu-01=no_gpu"
say "runbook lab up $lab"
runbook lab up --dir "$folder/lab" $lab || exit 1
inventory=$folder/lab/distributed_hosts.yaml

say "runbook run zombie-gpu -e older_than=0s --hosts all --dry-run     # which processes would be ended, host by host; nothing is changed"
runbook run zombie-gpu -e older_than=0s --hosts all -i "$inventory" --dry-run || exit 1

say "runbook run zombie-gpu -e older_than=0s --hosts all --yes         # the same, done"
runbook run zombie-gpu -e older_than=0s --hosts all -i "$inventory" --yes || exit 1

say "runbook run zombie-gpu -e older_than=0s --hosts all --yes         # again: healthy, and nothing is sent"
runbook run zombie-gpu -e older_than=0s --hosts all -i "$inventory" --yes --report "$folder/second.json" || exit 1
writes=$(grep -c '"effect": "write"' "$folder/second.json")
echo
echo "writes sent by the second run: $writes"
[ "$writes" -eq 0 ]
