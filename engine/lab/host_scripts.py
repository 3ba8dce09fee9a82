"""What runs inside a lab host: its first process, its jobs, and the pretended nvidia-smi."""

from __future__ import annotations

INIT = r"""#!/bin/sh
# The first process of a lab host, in its own root: $1 its name, $2 its faults, $3 whether minors run backwards, $4 its
# address, $5 this machine's Python, $6 descriptors at which a leader is reached from other networks; from $7 on
# what lets SSH in.
set -e
faults=" $2 " named=$2 backwards=$3 address=$4 python=$5 leads=$6
one=0 two=1; [ "$backwards" = 0 ] || { one=1 two=0; }
shift 6
has() { case $faults in *" $1 "*) return 0;; esac; return 1; }
cp /bin/sh /run/lab/jobs/python3; cp /bin/sh /run/lab/jobs/nvidia-persistenced
mkfifo /run/lab/jobs/wait
mv /run/lab/job /run/lab/jobs/job
has no_gpu || mv /run/lab/nvidia-smi /run/lab/bin/nvidia-smi
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
if has leftovers; then
  job "$gpu0 /dev/nvidiactl" '' '' ./python3 sglang/launch_server.py --model-path Qwen2.5 --port 30000; listed $A 21000
  job "$gpu0 /dev/nvidiactl" '' '' ./python3 ./torchrun --nproc_per_node=2 examples/gsm8k_grpo.py --config 'a b.yaml'
  listed $A 8000
  job "$gpu0" '' '' ./python3 examples/gsm8k_grpo.py --rank 1
  job '' '' '' ./python3 areal.launcher.local --config grpo.yaml
fi
if has stubborn; then job "$gpu0" '' 1 ./python3 sglang/launch_server.py --stubborn; fi
if has nameless; then job "$gpu0 /dev/nvidiactl" '' '' ./python3 exporter --listen 9400; listed $A 900; fi
if has daemon; then
  job "$gpu0 $gpu1 /dev/nvidiactl" '' '' /run/lab/jobs/nvidia-persistenced keeper --user nvidia-persistenced
fi
if has respawner; then
  setsid ./python3 ./keep-alive </dev/null >/dev/null 2>&1 &
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
if has leader; then
  (cd / && setsid "$python" -m engine.lab.cluster_leader "$address" "$(hostname)" /run/lab/state $leads </dev/null >/dev/null &)
  n=0; while [ ! -e /run/lab/state/leads ] && [ $n -lt 300 ]; do sleep 0.05; n=$((n+1)); done
fi
[ ! -f /run/lab/pipeline ] || . /run/lab/pipeline
export PATH=/run/lab/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TMUX_TMPDIR=/run/lab
[ ! -e /run/lab/docker ] || . /run/lab/docker
cd /
[ "$1" = embedded ] || exec "$@"
shift
exec 8<&0 # what runs in the background has none of our stdin
"$@" <&8 8<&- &
exec 0</dev/null 8<&-
while :; do wait; sleep 1; done
"""

JOB = r"""# A pretended job: holds $HOLD open and waits, without a child and without end.
[ -z "$DEAF" ] || trap '' TERM
n=3
for it in $HOLD; do eval "exec $n<\"$it\""; n=$((n+1)); done
case "$0 $*" in
  *--kept*) read -r one two </run/lab/state/minors; exec 3<"/dev/nvidia$one";;
  *--live*)
    set -- $LOAD
    for rank in 0 1; do
      HOLD="$2 /dev/nvidiactl" LOAD= /run/lab/jobs/python3 train.py --rank $rank &
      echo "$1 30000" >"/run/lab/state/listed/$!"
      [ $rank = 1 ] || echo "$1 87" >"/run/lab/state/busy/$!"
    done;;
esac
exec 9<>/run/lab/jobs/wait
while :; do read -r it <&9; done
"""

SSHD = """HostKey /run/lab/host_key
AuthorizedKeysFile /run/lab/authorized_keys
PidFile none
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
StrictModes no
UsePAM no
SetEnv PATH=/run/lab/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TMUX_TMPDIR=/run/lab
"""

SMI = r"""#!/bin/sh
# A pretended nvidia-smi: answers from /run/lab/state, by the rules of the real one.
state=/run/lab/state
LC_ALL=C; export LC_ALL
read -r faults <$state/faults; faults=" $faults "
has() { case $faults in *" $1 "*) return 0;; esac; return 1; }
echo "$*" >>$state/calls
if has smi_hangs; then trap '' TERM HUP; while :; do sleep 1000; done; fi
if has smi_fails; then
  echo "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running."
  exit 9
fi
read -r one two <$state/minors
uuid() { echo GPU-1ab00000-0000-4000-8000-00000000000$1; }
bus() { [ "$1" = 0 ] && echo 00000000:1A:00.0 || echo 00000000:3D:00.0; }
minor() { [ "$1" = 0 ] && echo "$one" || echo "$two"; }
number() {
  case $1 in 0|"$(uuid 0)"|*1[aA]:00.0|*1[aA]:00) echo 0;; 1|"$(uuid 1)"|*3[dD]:00.0|*3[dD]:00) echo 1;; *) return 1;; esac
}
holders() { ls -l /proc/[0-9]*/fd 2>/dev/null | grep -c -E -- "-> /dev/nvidia$(minor "$1")( |\$)"; }
alive() { [ -d "/proc/$1" ] && ! grep -q '^State:.[ZX]' "/proc/$1/status" 2>/dev/null; }
sum() { # of the second words of the files in $1 whose first word is $2, for pids that live
  total=0
  for f in "$state/$1"/*; do
    [ -e "$f" ] || continue
    alive "${f##*/}" || continue
    read -r u v <"$f"; [ "$u" = "$2" ] && total=$((total+v))
  done
  echo $total
}
util() {
  if has mig && [ "$1" = 0 ]; then echo '[N/A]'; return; fi
  if { has wedged || has elsewhere; } && [ "$1" = 0 ]; then echo 100; return; fi
  sum busy "$(uuid "$1")"
}
memory() { m=$(sum listed "$(uuid "$1")"); if { has wedged || has elsewhere; } && [ "$1" = 0 ]; then m=$((m+40000)); fi; echo $((m+4)); }
needs() { has resettable && [ "$1" = 0 ] && [ ! -e "$state/was_reset.0" ]; }
field() { # $1 GPU, $2 field
  case $2 in
    index) echo "$1";; uuid|gpu_uuid) uuid "$1";; pci.bus_id|gpu_bus_id) bus "$1";; name|gpu_name) echo 'NVIDIA H100 (lab)';;
    count) echo 2;; driver_version) echo 580.00.01;; persistence_mode) cat $state/pm.$1;;
    memory.used) echo "$(memory "$1") MiB";; memory.total) echo '81559 MiB';; memory.free) echo "$((81559-$(memory "$1"))) MiB";;
    memory.reserved) echo '479 MiB';; utilization.gpu) u=$(util "$1"); [ "$u" = '[N/A]' ] && echo "$u" || echo "$u %";;
    utilization.memory) echo '0 %';; temperature.gpu) echo 41;; pstate) echo P0;;
    compute_mode) has exclusive && [ "$1" = 0 ] && echo Exclusive_Process || echo Default;;
    mig.mode.current|mig.mode.pending) has mig && [ "$1" = 0 ] && echo Enabled || echo Disabled;;
    ecc.mode.current) needs "$1" && echo '[GPU requires reset]' || echo Enabled;;
    gpu_recovery_action) needs "$1" && echo Reset || echo None;;
    remapped_rows.pending|remapped_rows.failure|retired_pages.pending) echo No;; power.draw) echo '70.12 W';;
    *) echo "Field \"$2\" is not a valid field to query."; exit 2;;
  esac
}
rows() { # $1 fields, $2 format, $3 GPUs
  for f in $(echo "$1" | tr , ' '); do (field 0 "$f") >/dev/null || { field 0 "$f"; exit 2; }; done
  case $2 in *noheader*) ;; *) echo "$1" | sed 's/,/, /g';; esac
  bad=0
  for g in $3; do
    if has smi_noise && [ "$g" = 1 ]; then
      echo 'Unable to determine the device handle for GPU0000:3D:00.0: GPU is lost.  Reboot the system to recover this GPU'
      bad=15; continue
    fi
    line=
    for f in $(echo "$1" | tr , ' '); do
      v=$(field "$g" "$f"); case $2 in *nounits*) v=${v% %}; v=${v% MiB}; v=${v% W};; esac
      line="$line${line:+, }$v"
    done
    echo "$line"
  done
  exit $bad
}
apps() { # $1 fields, $2 format
  case $2 in *noheader*) ;; *) echo "$1" | sed 's/,/, /g';; esac
  if has elsewhere; then set -- "$1" "$2" 400001; fi
  for f in "$state/listed"/* ${3:+foreign}; do
    if [ "$f" = foreign ]; then p=$3 u=$(uuid 0) m=40000 n='[Not Found]'
    else
      [ -e "$f" ] || continue
      p=${f##*/}; alive "$p" || continue
      read -r u m <"$f"; n=$(tr '\0' '\n' <"/proc/$p/cmdline" | head -n 1)
    fi
    line=
    for it in $(echo "$1" | tr , ' '); do
      case $it in
        pid) v=$p;; gpu_uuid) v=$u;; process_name|name) v=$n;;
        used_gpu_memory|used_memory) v="$m MiB"; case $2 in *nounits*) v=$m;; esac;;
        gpu_name) v='NVIDIA H100 (lab)';; gpu_bus_id) [ "$u" = "$(uuid 0)" ] && v=$(bus 0) || v=$(bus 1);;
        *) echo "Field \"$it\" is not a valid field to query."; exit 2;;
      esac
      line="$line${line:+, }$v"
    done
    echo "$line"
  done
  exit 0
}
reset() {
  echo "reset $1" >>$state/calls
  [ "$(id -u)" = 0 ] || { echo 'Unable to reset: Insufficient Permissions'; exit 4; }
  has wedged && { echo 'Unable to reset GPU: Insufficient Permissions'; exit 4; }
  busy=
  for g in $1; do
    if [ "$(holders "$g")" -gt 0 ] || [ "$(cat $state/pm.$g)" = Enabled ]; then busy="$busy $g"; fi
  done
  if [ -n "$busy" ]; then
    echo 'The following GPUs could not be reset:'
    for g in $busy; do echo "  GPU $(bus "$g"): In use by another client"; done
    exit 255
  fi
  for g in $1; do : >"$state/was_reset.$g"; echo "GPU $(bus "$g") was successfully reset."; done
  echo 'All done.'
  exit 0
}
which='0 1' query= apps= format= verb= value=
while [ $# -gt 0 ]; do
  case $1 in
    --query-gpu=*) query=${1#*=};; --query-compute-apps=*) apps=${1#*=};; --format=*) format=${1#*=};;
    -i|--id) shift; which=; for it in $(echo "$1" | tr , ' '); do n=$(number "$it") || { echo 'No devices were found'; exit 6; }; which="$which $n"; done;;
    -i=*|--id=*) set -- "$1" "-i" "${1#*=}" ;;
    -r|--gpu-reset) verb=reset;; -pm|--persistence-mode) verb=pm; shift; value=$1;;
    -L|--list-gpus) verb=list;; -q|--query) verb=q;; nvlink) verb=nvlink;; -h|--help) verb=help;; --help-query-gpu) verb=help;;
    *) : ;;
  esac
  shift
done
case $verb in
  reset) reset "$which";;
  pm)
    [ "$(id -u)" = 0 ] || { echo 'Insufficient Permissions'; exit 4; }
    for g in $which; do case $value in 0|DISABLED) echo Disabled;; *) echo Enabled;; esac >$state/pm.$g; done
    echo "persistence $value $which" >>$state/calls; echo 'All done.'; exit 0;;
  list) for g in $which; do echo "GPU $g: NVIDIA H100 (lab) (UUID: $(uuid "$g"))"; done; exit 0;;
  nvlink) for g in $which; do echo "GPU $g: NVIDIA H100 (lab) (UUID: $(uuid "$g"))"; done; exit 0;;
  q) for g in $which; do echo "GPU $(bus "$g")"; echo "    Minor Number                          : $(minor "$g")"; done; exit 0;;
  help) echo 'NVIDIA System Management Interface (pretended)'; exit 0;;
esac
[ -z "$query" ] || rows "$query" "$format" "$which"
[ -z "$apps" ] || apps "$apps" "$format"
echo '| GPU  Name                 Persistence-M | Bus-Id | GPU-Util  Compute M. |'
for g in $which; do echo "|  $g  NVIDIA H100 (lab)  $(cat $state/pm.$g) | $(bus "$g") | $(util "$g")%  $(field "$g" compute_mode) |"; done
"""
