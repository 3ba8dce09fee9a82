# Idle processes that hold GPU 0, each with another owner; read by the host's first process.
for it in squeue scontrol systemctl crictl; do
  [ -e "/run/lab/bin/$it" ] || cp /run/lab/owners-tool "/run/lab/bin/$it"
done
box=0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0
idle() { # SLURM_JOB_ID or nothing, command line ...
  it=$1; shift
  [ -z "$it" ] || { SLURM_JOB_ID=$it; export SLURM_JOB_ID; }
  job "$gpu0 /dev/nvidiactl" '' '' ./python3 "$@"; listed $A 21000
  unset SLURM_JOB_ID
}
group() { # pid, path: that process is in that control group; the kernel's own word on it is hidden
  printf '0::%s\n' "$2" >"/run/lab/state/cgroup.$1"
  mount --bind "/run/lab/state/cgroup.$1" "/proc/$1/cgroup"
}
if has slurm_allocated; then echo '4711 RUNNING' >/run/lab/state/slurm-jobs; idle 4711 sglang/launch_server.py --allocated; fi
if has slurm_adopted; then
  echo '4712 RUNNING' >/run/lab/state/slurm-jobs
  idle '' train.py --adopted; group "$last" /system.slice/slurmstepd.scope/job_4712/step_0/user/task_0
fi
if has slurm_ended; then : >/run/lab/state/slurm-jobs; idle 4713 sglang/launch_server.py --ended; fi
if has slurm_cancelled; then echo '4714 CANCELLED' >/run/lab/state/slurm-jobs; idle 4714 train.py --cancelled; fi
if has slurm_silent; then echo silent >/run/lab/state/slurm-jobs; idle 4715 train.py --asked; fi
if has idle_service; then
  echo 'ollama.service active' >/run/lab/state/units
  cp job ollama; idle '' ./ollama serve; group "$last" /system.slice/ollama.service
fi
if has left_by_service; then
  echo 'trainer.service failed' >/run/lab/state/units
  idle '' train.py --left; group "$last" /system.slice/trainer.service
fi
if has idle_container; then
  echo "$box CONTAINER_RUNNING vllm" >/run/lab/state/boxes
  idle '' train.py --boxed; group "$last" "/system.slice/docker-$box.scope"
fi
if has left_by_container; then
  echo "$box CONTAINER_EXITED vllm" >/run/lab/state/boxes
  idle '' train.py --boxed; group "$last" "/system.slice/docker-$box.scope"
fi
if has strange_container; then idle '' train.py --boxed; group "$last" "/system.slice/docker-$box.scope"; fi
if has idle_pod; then
  echo "$box CONTAINER_RUNNING main llama-7d9f" >/run/lab/state/boxes
  idle '' train.py --pod
  group "$last" "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod8f0c.slice/cri-containerd-$box.scope"
fi
if has inside_container; then
  idle '' train.py --inside; group "$last" "/system.slice/docker-$box.scope"; group 1 "/system.slice/docker-$box.scope"
fi
if has terminal_job; then
  cp job on_a_terminal.py
  env HOLD="$gpu0" LOAD= DEAF= setsid "$python" -c 'import pty, sys; pty.spawn(sys.argv[1:])' ./python3 on_a_terminal.py \
    </dev/null >/dev/null 2>&1 &
fi
if has notebook; then
  cp job ipykernel_launcher.py; cp job jupyter-lab
  job '' '' '' sh -c "HOLD='$gpu0' ./python3 ipykernel_launcher.py -f kernel.json & exec ./python3 ./jupyter-lab --no-browser"
fi
if has launched; then
  job '' '' '' sh -c "HOLD='$gpu0' ./python3 train.py --rank 0 & exec ./python3 ./torchrun --nproc_per_node=1 train.py"
fi
serve() { # held or engine, device: a server on port 8000 that holds it, or has started who does
  setsid "$python" -c '
import socket, subprocess, sys, time
door = socket.create_server(("127.0.0.1", 8000))
held = open(sys.argv[2]) if sys.argv[1] == "held" else None
if sys.argv[1] == "engine":
    subprocess.Popen(["env", "HOLD=" + sys.argv[2], "LOAD=", "DEAF=", "./python3", "train.py", "--engine-core"])
while True:
    time.sleep(3600)
' "$@" vllm.entrypoints.openai.api_server </dev/null >/dev/null 2>&1 &
}
if has idle_server; then serve held "$gpu0"; fi
if has idle_engine; then serve engine "$gpu0"; fi
