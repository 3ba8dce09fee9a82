#!/bin/sh
# The first process of a lab host, in its own root: $1 its name, $2 its faults, $3 whether minors run backwards, $4 its
# address, $5 this machine's Python, $6 descriptors at which a leader is reached from other networks; from $7 on
# what lets SSH in.
set -e
faults=" $2 " named=$2 backwards=$3 address=$4 python=$5 leads=$6
one=0 two=1; [ "$backwards" = 0 ] || { one=1 two=0; }
shift 6
has() { case $faults in *" $1 "*) return 0;; esac; return 1; }
[ ! -f /run/lab/amd-jobs ] || faults="${faults}no_gpu " # none of NVIDIA
cp /bin/sh /run/lab/jobs/python3; cp /bin/sh /run/lab/jobs/nvidia-persistenced
mkfifo /run/lab/jobs/wait
mv /run/lab/job /run/lab/jobs/job
if ! has no_gpu; then
  mv /run/lab/nvidia-smi /run/lab/bin/nvidia-smi
  for it in lspci modinfo rmmod modprobe ldconfig; do cp /run/lab/gpu-tools /run/lab/bin/$it; done
  mkdir /run/lab/lib; : >/run/lab/lib/libnvidia-ml.so.580.00.01
  ln -s libnvidia-ml.so.580.00.01 /run/lab/lib/libnvidia-ml.so.1
fi
# Each host is a pid namespace, and stands for a whole machine; a container does not.
if ! has pod && ! has elsewhere; then
  printf '%s\n' '#!/bin/sh' 'own=$(/usr/bin/readlink /proc/self/ns/pid)' 'case $* in' \
    '/proc/*/ns/pid) [ "$(/usr/bin/readlink "$1")" != "$own" ] || { echo "pid:[4026531836]"; exit; } ;;' 'esac' \
    'exec /usr/bin/readlink "$@"' >/run/lab/bin/readlink
  chmod 755 /run/lab/bin/readlink
fi
echo "$named" >/run/lab/state/faults
echo "$one $two" >/run/lab/state/minors
: >/run/lab/state/calls; mkdir -p /run/lab/state/busy /run/lab/state/listed
echo Enabled >/run/lab/state/pm.0; echo Enabled >/run/lab/state/pm.1
# Nor is this machine's Docker: what /run had of it is gone, and a command without a daemon would be a fault of its own.
foreign='docker dockerd podman'; [ ! -e /run/lab/docker ] || foreign=podman
for it in $foreign; do
  for place in /usr/local/sbin /usr/local/bin /usr/sbin /usr/bin /sbin /bin /snap/bin; do
    [ ! -f "$place/$it" ] || mount --bind /dev/null "$place/$it"
  done
done
set +e
. /run/lab/training
cd /run/lab/jobs || exit 1
mkdir -p sglang areal examples; cp job areal.launcher.local; cp job sglang/launch_server.py
cp job examples/gsm8k_grpo.py; cp job torchrun; cp job exporter; cp job keeper; cp job train.py; cp job selfplay.py
echo 'n=0; while [ $n -lt 200 ]; do ./python3 sglang/launch_server.py --kept; sleep 0.1; n=$((n+1)); done' >keep-alive
gpu0=/dev/nvidia$one gpu1=/dev/nvidia$two
job() { h=$1 l=$2 d=$3; shift 3; env HOLD="$h" LOAD="$l" DEAF="$d" setsid "$@" </dev/null >/dev/null 2>&1 & last=$!; }
listed() { echo "$1 $2" >"/run/lab/state/listed/$last"; }
A=GPU-1ab00000-0000-4000-8000-000000000000 B=GPU-1ab00000-0000-4000-8000-000000000001
. /run/lab/gpu-faults
if has leftovers; then
  job "$gpu0 /dev/nvidiactl" '' '' ./python3 sglang/launch_server.py --model-path Qwen2.5 --port 30000; listed $A 21000
  job "$gpu0 /dev/nvidiactl" '' '' ./python3 ./torchrun --nproc_per_node=2 examples/gsm8k_grpo.py --config 'a b.yaml'
  listed $A 8000
  # a launcher, which holds nothing, and the rank that it has started
  job "$gpu0" '' '' sh -c './python3 examples/gsm8k_grpo.py --rank 1 & HOLD= exec ./python3 areal.launcher.local --config grpo.yaml'
fi
if has stubborn; then job "$gpu0" '' 1 ./python3 sglang/launch_server.py --stubborn; fi
if has nameless; then job "$gpu0 /dev/nvidiactl" '' '' ./python3 exporter --listen 9400; listed $A 900; fi
if has daemon; then
  job "$gpu0 $gpu1 /dev/nvidiactl" '' '' /run/lab/jobs/nvidia-persistenced keeper --user nvidia-persistenced
fi
if has respawner; then
  setsid ./python3 ./keep-alive </dev/null >/dev/null 2>&1 &
fi
if has mismatch_held; then
  job "$gpu0 /dev/nvidiactl" '' '' ./python3 train.py --older; listed $A 21000
  # shellcheck disable=SC2010  # the names are ours
  while [ -d /sys/module/nvidia ]; do # the references that the kernel counts
    uses=$(ls -l /proc/[0-9]*/fd 2>/dev/null | grep -c -E -- '-> /dev/nvidia[0-9]')
    for it in /sys/module/nvidia/holders/*; do [ ! -L "$it" ] || uses=$((uses + 1)); done
    echo "$uses" >/sys/module/nvidia/refcnt; sleep 0.5
  done >/dev/null 2>&1 </dev/null &
fi
if has busy; then job '' "$B $gpu1" '' ./python3 ./torchrun --nproc_per_node=2 train.py --live; fi
if has stuck; then
  for rank in 0 1; do
    job "$gpu0 /dev/nvidiactl" '' '' ./python3 selfplay.py --board hex8 --rank $rank; listed $A 6000
  done
fi
if has selfplay; then
  job "$gpu1 /dev/nvidiactl" '' '' ./python3 selfplay.py --board square8
  listed $B 9000; echo "$B 87" >"/run/lab/state/busy/$last"
fi
. /run/lab/xids
if has fabric_down; then . /run/lab/fabric; fi
. /run/lab/infiniband
. /run/lab/nccl-job
if has leader; then
  (cd / && setsid "$python" -m runbook.lab.cluster_leader "$address" "$(hostname)" /run/lab/state $leads </dev/null >/dev/null &)
  n=0; while [ ! -e /run/lab/state/leads ] && [ $n -lt 300 ]; do sleep 0.05; n=$((n+1)); done
fi
[ ! -f /run/lab/amd-jobs ] || . /run/lab/amd-jobs
[ ! -f /run/lab/pipeline ] || . /run/lab/pipeline
[ ! -f /run/lab/node ] || . /run/lab/node
[ ! -f /run/lab/owned-jobs ] || . /run/lab/owned-jobs
. /run/lab/system
export PATH=/run/lab/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TMUX_TMPDIR=/run/lab
[ ! -e /run/lab/docker ] || . /run/lab/docker
cd /
[ "$1" = embedded ] || exec "$@"
shift
exec 8<&0 # what runs in the background has none of our stdin
"$@" <&8 8<&- &
exec 0</dev/null 8<&-
while :; do wait; sleep 1; done
