#!/bin/sh
# Pretended squeue, scontrol, systemctl and crictl of a lab host, by the rules of the real ones.
state=/run/lab/state
LC_ALL=C; export LC_ALL
case ${0##*/} in
  squeue)
    job=''
    while [ $# -gt 0 ]; do case $1 in -j) job=$2; shift ;; esac; shift; done
    [ -e $state/slurm-jobs ] || { echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1; }
    read -r first <$state/slurm-jobs
    [ "$first" != silent ] || { echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1; }
    [ -n "$job" ] || { cat $state/slurm-jobs; exit 0; }
    found=$(grep "^$job " $state/slurm-jobs) || { echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1; }
    echo "$job $found" ;; # as `%A %i %T`
  scontrol)
    [ "${1-}" = listpids ] || exit 1
    echo 'PID      JOBID    STEPID LOCALID GLOBALID'; echo 'No job steps exist on this node.' >&2; exit 1 ;;
  systemctl)
    for it; do unit=$it; done
    active=$(sed -n "s/^$unit //p" $state/units 2>/dev/null)
    echo "ActiveState=${active:-inactive}" ;;
  crictl)
    for it; do box=$it; done
    found=$(grep "^$box" $state/boxes 2>/dev/null) ||
      { echo "E1127 rpc error: code = NotFound desc = an error occurred when try to find container \"$box\": not found" >&2; exit 1; }
    echo "${found#* }" ;;
esac
exit 0
