# Makes a lab host a node of its scheduler, at each boot; read by the host's first process.
for it in reboot scontrol squeue; do
  case $it:$faults in scontrol:*' kubernetes '* | squeue:*' kubernetes '*) continue;; esac
  mv /run/lab/$it /run/lab/bin/$it
done
if has kubernetes; then
  mv /run/lab/kubectl /run/lab/bin/kubectl
  mkdir -p /var/lib/kubelet /run/lab/state/kube; : >/var/lib/kubelet/config.yaml
else
  mkdir -p /etc/slurm /run/lab/state/slurm; : >/etc/slurm/slurm.conf
  if [ ! -e /run/lab/state/slurm/flags ]; then # the first boot
    : >/run/lab/state/slurm/flags
    if has slurm_drained; then
      echo DRAIN >/run/lab/state/slurm/flags
      echo 'bad DIMM, ticket 4711 [alice@2026-11-20T10:11:12]' >/run/lab/state/slurm/reason
    fi
    ! has slurm_job && ! has slurm_busy || echo '4242 RUNNING bob 0' >/run/lab/state/slurm/jobs
    ! has slurm_busy || echo '4243 RUNNING eve 1' >>/run/lab/state/slurm/jobs
  fi
fi
