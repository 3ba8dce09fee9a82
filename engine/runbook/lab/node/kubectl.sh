#!/bin/sh
# A pretended kubectl with one node: answers from /run/lab/state/kube, by the rules of the real one.
state=/run/lab/state/kube
name=$(uname -n)
echo "kubectl $*" >>/run/lab/state/calls
verb=$1; shift
what='' node='' form='' mark=''
while [ $# -gt 0 ]; do
  case $1 in
    -o) form=$2; shift;; -A|--no-headers|--overwrite|--request-timeout=*|--ignore-daemonsets|--timeout=*) ;;
    --field-selector) shift;; node|nodes|pods) what=$1;;
    runbook/*) mark=$1;; *) node=$1;;
  esac
  shift
done
if [ "$what" = pods ]; then
  echo 'kube-system   kube-proxy-x7k2p      DaemonSet   Running'
  [ -e $state/evicted ] || echo 'training      grpo-worker-0         Job         Running'
  exit 0
fi
[ "$node" = "$name" ] || { echo "Error from server (NotFound): nodes \"$node\" not found" >&2; exit 1; }
shut=$(cat $state/unschedulable 2>/dev/null) note=$(cat $state/note 2>/dev/null)
case $verb in
  get)
    case $form in jsonpath=*) echo "$shut|$note"; exit 0;; esac
    cat <<END
{
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {
        "annotations": {"node.alpha.kubernetes.io/ttl": "0"${note:+, \"runbook/drained\": \"$note\"}},
        "labels": {"kubernetes.io/hostname": "$name"},
        "name": "$name"
    },
    "spec": {"podCIDR": "10.244.1.0/24"${shut:+, \"unschedulable\": true}},
    "status": {"conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}]}
}
END
    ;;
  annotate)
    case $mark in *=*) echo "${mark#*=}" >$state/note;; *-) rm -f $state/note;; esac
    echo "node/$name annotated";;
  cordon) echo true >$state/unschedulable; echo "node/$name cordoned";;
  uncordon) rm -f $state/unschedulable; echo "node/$name uncordoned";;
  drain) : >$state/evicted; echo "node/$name drained";;
  *) echo "error: unknown command \"$verb\" for \"kubectl\"" >&2; exit 1;;
esac
exit 0
