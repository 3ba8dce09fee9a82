#!/bin/sh
# A pretended scontrol of one node: answers from /run/lab/state/slurm, by the rules of the real one.
state=/run/lab/state/slurm
LC_ALL=C; export LC_ALL
echo "scontrol $*" >>/run/lab/state/calls
name=$(uname -n)
flags=$(cat $state/flags 2>/dev/null) reason=$(cat $state/reason 2>/dev/null)
jobs() { squeue -h -w "$name" | grep -c .; }
one=no details=no
while case ${1-} in -o|--oneliner) one=yes;; -d|--details) details=yes;; *) false;; esac; do shift; done
job() { # id
  row=$(grep "^$1 " $state/jobs 2>/dev/null) || { echo 'slurm_load_jobs error: Invalid job id specified'; exit 1; }
  read -r id what user gpu <<END
$row
END
  text="JobId=$id JobName=train UserId=$user(1000) GroupId=$user(1000) MCS_label=N/A JobState=$what Requeue=1 NodeList=$name"
  [ $details = no ] || text="$text JOB_GRES=gpu:h100:1 Nodes=$name CPU_IDs=0-15 Mem=0 GRES=gpu:h100:1${gpu:+(IDX:$gpu)}"
  echo "$text MinCPUsNode=1 Command=/home/$user/train.sh WorkDir=/home/$user"
}
show() {
  base=IDLE used=0
  [ "$(jobs)" = 0 ] || base=MIXED used=16
  text="NodeName=$name Arch=x86_64 CoresPerSocket=48
   CPUAlloc=$used CPUEfctv=192 CPUTot=192 CPULoad=0.31
   AvailableFeatures=h100 ActiveFeatures=h100 Gres=gpu:h100:2
   NodeAddr=$name NodeHostName=$name Version=24.05.3
   OS=Linux 6.8.0-45-generic #45-Ubuntu SMP PREEMPT_DYNAMIC
   RealMemory=2000000 AllocMem=0 FreeMem=1900000 Sockets=2 Boards=1
   State=$base${flags:++$flags} ThreadsPerCore=2 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Partitions=gpu BootTime=2026-11-23T09:00:00 SlurmdStartTime=2026-11-23T09:01:00
   CfgTRES=cpu=192,mem=2000000M,billing=192,gres/gpu=2 AllocTRES=
   CurrentWatts=0 AveWatts=0"
  [ -z "$reason" ] || text="$text
   Reason=$reason"
  if [ $one = yes ]; then printf '%s\n' "$text" | tr '\n' ' ' | sed 's/   */ /g'; echo; else printf '%s\n\n' "$text"; fi
}
case "${1-} ${2-}" in
  'show job'|'show jobs') job "$3"; exit 0;;
  'show node'|'show nodes')
    case ${3-$name} in "$name") show; exit 0;; *) echo "Node $3 not found"; exit 1;; esac;;
  'update '*)
    shift
    node='' to='' why=''
    for it; do case $it in
      [Nn]ode[Nn]ame=*) node=${it#*=};; [Ss]tate=*) to=${it#*=};; [Rr]eason=*) why=${it#*=};;
      *) echo "Invalid update request: $it"; exit 1;;
    esac; done
    [ "$node" = "$name" ] || { echo "slurm_update error: Invalid node name specified"; exit 1; }
    [ "$(id -u)" = 0 ] || { echo 'slurm_update error: Invalid user id'; exit 1; }
    case $to in
      DRAIN|drain)
        [ -n "$why" ] || { echo 'You must specify a reason when DRAINING a node. Request denied'; exit 1; }
        echo DRAIN >$state/flags
        echo "$why [$(id -un)@$(date +%Y-%m-%dT%H:%M:%S)]" >$state/reason
        date +%s >$state/drained_at;;
      RESUME|resume)
        [ -n "$flags" ] || { echo 'slurm_update error: Invalid node state specified'; exit 1; }
        : >$state/flags; : >$state/reason;;
      *) echo 'slurm_update error: Invalid node state specified'; exit 1;;
    esac
    exit 0;;
esac
echo "invalid keyword: $*"; exit 1
