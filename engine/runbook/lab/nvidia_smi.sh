#!/bin/sh
# A pretended nvidia-smi: answers from /run/lab/state, by the rules of the real one.
state=/run/lab/state
LC_ALL=C; export LC_ALL
read -r faults <$state/faults; faults=" $faults "
has() { case $faults in *" $1 "*) return 0;; esac; return 1; }
echo "$*" >>$state/calls
if has smi_hangs || has driver_hang || { has lock_held && grep -qs '^State:.D' /proc/[0-9]*/status; }; then trap '' TERM HUP; while :; do sleep 1000; done; fi
if has smi_fails; then
  echo "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running."
  exit 9
fi
read -r loaded 2>/dev/null </sys/module/nvidia/version || loaded=580.00.01
if [ "$loaded" != 580.00.01 ]; then
  echo 'Failed to initialize NVML: Driver/library version mismatch'; echo 'NVML library version: 580.00'
  exit 18
fi
read -r one two <$state/minors
uuid() { echo GPU-1ab00000-0000-4000-8000-00000000000$1; }
bus() { [ "$1" = 0 ] && echo 00000000:1A:00.0 || echo 00000000:3D:00.0; }
minor() { [ "$1" = 0 ] && echo "$one" || echo "$two"; }
number() {
  case $1 in 0|"$(uuid 0)"|*1[aA]:00.0|*1[aA]:00) echo 0;; 1|"$(uuid 1)"|*3[dD]:00.0|*3[dD]:00) echo 1;; *) return 1;; esac
}
# shellcheck disable=SC2010  # the names are ours
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
dead_context() { has dead_context && [ ! -e "$state/was_reset.0" ]; }
foreign() { [ "$1" = 0 ] && { has wedged || has elsewhere || has pod || dead_context; }; } # GPU $1 is busy for nobody here
util() {
  if has mig && [ "$1" = 0 ]; then echo '[N/A]'; return; fi
  if foreign "$1"; then echo 100; return; fi
  sum busy "$(uuid "$1")"
}
memory() { m=$(sum listed "$(uuid "$1")"); if foreign "$1"; then m=$((m+40000)); fi; echo $((m+4)); }
mask() { # why the clocks are low
  if has throttled && [ "$1" = 0 ]; then echo 0x0000000000000048
  elif [ "$(util "$1")" = 0 ]; then echo 0x0000000000000001
  else echo 0x0000000000000000; fi
}
waits() { has remap_pending && [ "$1" = 0 ] && [ ! -e "$state/was_reset.0" ]; }
failed() { has remap_failed && [ "$1" = 0 ]; }
remapped() { # sets rows: those of GPU $1 that were replaced, or are to be, after an uncorrected error
  rows=0
  if has remap_failed && [ "$1" = 0 ]; then rows=512; elif has remap_pending && [ "$1" = 0 ]; then rows=1; fi
}
in_fabric() { ! has fabric_down || { [ "$(cat $state/fabric)" = active ] && [ ! -e $state/fabric_stuck ]; }; }
throttled() { has throttled && [ "$1" = 0 ]; }
in_mig() { has mig && [ "$1" = 0 ]; }
needs() { { has resettable || has xid_reset; } && [ "$1" = 0 ] && [ ! -e "$state/was_reset.0" ]; }
common() { # $1 GPU, $2 field: sets v where that needs no program: most fields do not
  v=
  case $2 in
    index) v=$1;; name|gpu_name) v='NVIDIA H100 (lab)';; uuid|gpu_uuid) v=GPU-1ab00000-0000-4000-8000-00000000000$1;;
    count) v=2;; driver_version) v=580.00.01;; persistence_mode) read -r v <"$state/pm.$1";;
    pci.bus_id|gpu_bus_id) v=00000000:1A:00.0; [ "$1" = 0 ] || v=00000000:3D:00.0;;
    memory.total) v='81559 MiB';; memory.reserved) v='479 MiB';; utilization.memory) v='0 %';; pstate) v=P0;;
    retired_pages.pending) v='[N/A]';; ecc.errors.uncorrected.volatile.total) v=0;;
    ecc.errors.uncorrected.aggregate.sram.thresholdExceeded) v=No;;
    pcie.link.gen.current|pcie.link.gen.max) v=5;; pcie.link.width.max) v=16;;
    power.default_limit|power.max_limit) v='700.00 W';; clocks.max.sm) v='1980 MHz';; temperature.memory) v=48;; fan.speed) v="[N/A]";;
    clocks.applications.memory|clocks.default_applications.memory) v='2619 MHz';;
    clocks.applications.graphics|clocks.default_applications.graphics) v='1980 MHz';;
    mig.mode.current|mig.mode.pending) v=Disabled; if in_mig "$1"; then v=Enabled; fi;;
    gpu_recovery_action) v=None; if needs "$1"; then v=Reset; fi;;
    ecc.mode.current) v=Enabled; if needs "$1"; then v='[GPU requires reset]'; fi;;
    temperature.gpu) v=41; if throttled "$1"; then v=89; fi;;
    temperature.gpu.tlimit) v=46; if throttled "$1"; then v=-2; fi;;
    clocks.current.sm|clocks.sm) v='1980 MHz'; if throttled "$1"; then v='345 MHz'; fi;;
    pcie.link.width.current) v=16; if has narrow_link && [ "$1" = 0 ]; then v=4; fi;;
    fabric.state) v=Completed; in_fabric || v='In Progress';; fabric.status) v=Success; in_fabric || v='[N/A]';;
    compute_mode) v=Default; if [ -e "$state/cm.$1" ]; then read -r v <"$state/cm.$1"; fi;;
    power.limit|enforced.power.limit) v=700.00; if [ -e "$state/pl.$1" ]; then read -r v <"$state/pl.$1"; fi; v="$v W";;
    ecc.errors.uncorrected.aggregate.total) remapped "$1"; v=$rows;;
    remapped_rows.pending|remapped_rows.failure|remapped_rows.correctable|remapped_rows.uncorrectable)
      if in_mig "$1"; then v='[N/A]'; return; fi
      case $2 in
        *.pending) v=No; if waits "$1"; then v=Yes; fi;; *.failure) v=No; if failed "$1"; then v=Yes; fi;;
        *.correctable) v=0;; *) remapped "$1"; v=$rows;;
      esac;;
    *) return 1;;
  esac
}
field() { # $1 GPU, $2 field
  if common "$1" "$2"; then echo "$v"; return; fi
  case $2 in
    memory.used) echo "$(memory "$1") MiB";; memory.free) echo "$((81559-$(memory "$1"))) MiB";;
    utilization.gpu) u=$(util "$1"); [ "$u" = '[N/A]' ] && echo "$u" || echo "$u %";;
    power.draw) case $(util "$1") in 0|'[N/A]') echo '70.12 W';; *) echo '520.40 W';; esac;;
    clocks_event_reasons.active|clocks_throttle_reasons.active) mask "$1";;
    *) echo "Field \"$2\" is not a valid field to query."; exit 2;;
  esac
}
rows() { # $1 fields, $2 format, $3 GPUs
  fields=$(echo "$1" | tr , ' ')
  for f in $fields; do common 0 "$f" || (field 0 "$f") >/dev/null || { field 0 "$f"; exit 2; }; done
  case $2 in *noheader*) ;; *) echo "$1" | sed 's/,/, /g';; esac
  bad=0
  for g in $3; do
    if { { has smi_noise || { has gpu_lost && [ ! -e $state/rebooted ]; }; } && [ "$g" = 1 ]; } || { has xid_reboot && [ "$g" = 0 ]; }; then
      lost=$(bus "$g")
      echo "Unable to determine the device handle for GPU${lost#0000}: GPU is lost.  Reboot the system to recover this GPU"
      bad=15; continue
    fi
    line=
    for f in $fields; do
      common "$g" "$f" || v=$(field "$g" "$f")
      case $2 in *nounits*) v=${v% %}; v=${v% MiB}; v=${v% W}; v=${v% MHz};; esac
      line="$line${line:+, }$v"
    done
    echo "$line"
  done
  exit $bad
}
apps() { # $1 fields, $2 format
  case $2 in *noheader*) ;; *) echo "$1" | sed 's/,/, /g';; esac
  if has elsewhere || dead_context; then set -- "$1" "$2" 400001; fi
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
  has xid_reset && case " $1 " in *" 0 "*)
    read -r since_boot _ </proc/uptime
    echo "[$since_boot] NVRM: Xid (PCI:0000:1a:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)" >>/run/lab/kernel;;
  esac
  for g in $1; do : >"$state/was_reset.$g"; rm -f "$state/pl.$g" "$state/cm.$g"; echo "GPU $(bus "$g") was successfully reset."; done
  echo 'All done.'
  exit 0
}
mig_devices() { # of GPU $1: a line for each instance that has a compute instance
  [ "$1" = 0 ] && [ -e $state/mig.0 ] || return
  n=0
  while read -r gi profile _ _ _ ci; do
    if [ "$ci" = 1 ]; then echo "  MIG $profile     Device  $n: (UUID: MIG-1ab00000-0000-4000-8000-00000000010$gi)"; n=$((n+1)); fi
  done <$state/mig.0
}
links() { # GPU, option of nvlink; link 3 of GPU 0 is down, and what comes over link 5 is damaged, ever more
  has link_down || return
  IFS=' .' read -r up _ </proc/uptime
  n=0
  while [ $n -lt 18 ]; do
    damaged=0; if [ "$1.$n" = 0.5 ]; then damaged=$up; fi
    case $2 in
      -s|--status) if [ "$1.$n" = 0.3 ]; then echo "	 Link $n: <inactive>"; else echo "	 Link $n: 26.562 GB/s"; fi;;
      -e|--errorcounters)
        printf '\t Link %s: Replay Errors: %s\n\t Link %s: Recovery Errors: 0\n\t Link %s: CRC Errors: %s\n\n' $n $damaged $n $n $damaged;;
    esac
    n=$((n+1))
  done
}
if [ "$1" = mig ]; then shift; . /run/lab/mig-tool; fi
both='0 1'; [ ! -e $state/gpu_missing ] || both=0
which=$both query='' apps='' format='' verb='' value=
while [ $# -gt 0 ]; do
  case $1 in
    --query-gpu=*) query=${1#*=};; --query-compute-apps=*) apps=${1#*=};; --format=*) format=${1#*=};;
    -i|--id) shift; which=; for it in $(echo "$1" | tr , ' '); do n=$(number "$it") || { echo 'No devices were found'; exit 6; }; which="$which $n"; done;;
    -i=*|--id=*) set -- "$1" "-i" "${1#*=}" ;;
    -r|--gpu-reset) verb=reset;; -pm|--persistence-mode) verb=pm; shift; value=$1;;
    -pl|--power-limit) verb=pl; shift; value=$1;; -c|--compute-mode) verb=cm; shift; value=$1;;
    -L|--list-gpus) verb=list;; -q|--query) verb=q;; nvlink) verb=nvlink;; -s|--status|-e|--errorcounters) value=$1;; -h|--help) verb=help;; --help-query-gpu) verb=help;;
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
  pl) for g in $which; do echo "$value" >"$state/pl.$g"; done; echo "power $value $which" >>$state/calls; echo 'All done.'; exit 0;;
  cm)
    case $value in EXCLUSIVE_PROCESS|3) value=Exclusive_Process;; PROHIBITED|2) value=Prohibited;; *) value=Default;; esac
    for g in $which; do echo "$value" >"$state/cm.$g"; done
    echo "mode $value $which" >>$state/calls; echo 'All done.'; exit 0;;
  list) for g in $which; do echo "GPU $g: NVIDIA H100 (lab) (UUID: $(uuid "$g"))"; mig_devices "$g"; done; exit 0;;
  nvlink) for g in $which; do echo "GPU $g: NVIDIA H100 (lab) (UUID: $(uuid "$g"))"; links "$g" "$value"; done; exit 0;;
  q) for g in $which; do echo "GPU $(bus "$g")"; echo "    Minor Number                          : $(minor "$g")"; done; exit 0;;
  help) echo 'NVIDIA System Management Interface (pretended)'; exit 0;;
esac
[ -z "$query" ] || rows "$query" "$format" "$which"
[ -z "$apps" ] || apps "$apps" "$format"
echo '| GPU  Name                 Persistence-M | Bus-Id | GPU-Util  Compute M. |'
for g in $which; do echo "|  $g  NVIDIA H100 (lab)  $(cat $state/pm.$g) | $(bus "$g") | $(util "$g")%  $(field "$g" compute_mode) |"; done
