#!/bin/sh
# A pretended squeue of one node: the jobs in /run/lab/state/slurm/jobs, as `ID STATE USER`.
state=/run/lab/state/slurm
read -r faults </run/lab/state/faults
case " $faults " in
  *' slurm_job '*) # it ends three seconds after the drain
    at=$(cat $state/drained_at 2>/dev/null) && [ $(($(date +%s) - at)) -ge 3 ] && : >$state/jobs;;
esac
case " $* " in *' -h '*|*' --noheader '*) ;; *) echo 'JOBID STATE USER';; esac
cat $state/jobs 2>/dev/null
exit 0
