#!/bin/sh
# A pretended amd-smi of a lab host: it lists the GPUs.
read -r faults </run/lab/state/faults
case " $faults " in *' amd_smi_hangs '*) trap '' TERM HUP; while :; do sleep 1000; done ;; esac
case $* in
  'list --json') ;;
  *) echo "amd-smi: error: unrecognized arguments: $*" >&2; exit 2 ;;
esac
cat <<'END'
[
    {
        "gpu": 0,
        "bdf": "0000:05:00.0",
        "uuid": "8cff74a1-0000-1000-802b-1d0e9a470000",
        "kfd_id": 4000,
        "node_id": 1,
        "partition_id": 0
    },
    {
        "gpu": 1,
        "bdf": "0000:26:00.0",
        "uuid": "8cff74a1-0000-1000-802b-1d0e9a470001",
        "kfd_id": 4001,
        "node_id": 2,
        "partition_id": 0
    }
]
END
