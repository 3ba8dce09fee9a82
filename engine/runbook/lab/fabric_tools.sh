#!/bin/sh
# Pretended systemctl and nv-fabricmanager of a lab host that has the service nvidia-fabricmanager, and no other unit.
# The name by which this is called says which one is meant.
LC_ALL=C; export LC_ALL
state=/run/lab/state unit=nvidia-fabricmanager.service
read -r active <$state/fabric; read -r pid since <$state/fabric_run
if [ "${0##*/}" = nv-fabricmanager ]; then
  case $1 in -v|--version) echo 'Fabric Manager version is : 580.00.01'; exit 0;; esac
  exit 1
fi
full() { case $1 in *.service|*.socket|*.timer|*.path) echo "$1";; *) echo "$1.service";; esac; }
verb='' only='' plain='' names=''
while [ $# -gt 0 ]; do
  case $1 in
    -p) shift; only=$1;; --property=*) only=${1#*=};; --value) plain=1;; -n) shift;; -*) ;;
    *) if [ -z "$verb" ]; then verb=$1; else names="$names $(full "$1")"; fi;;
  esac
  shift
done
value() { # property, unit
  if [ "$2" != $unit ]; then
    case $1 in Id|Names) echo "$2";; LoadState) echo not-found;; ActiveState) echo inactive;; SubState) echo dead;;
      MainPID|NRestarts|ExecMainStatus|*Monotonic) echo 0;; Result) echo success;; *) echo;; esac
    return
  fi
  case $1 in
    Id|Names) echo $unit;; LoadState) echo loaded;; ActiveState) echo "$active";;
    SubState) [ "$active" = active ] && echo running || echo dead;;
    Type) echo forking;; MainPID) echo "$pid";; UnitFileState) echo enabled;; Result) echo success;;
    InvocationID) [ "$since" = 0 ] && echo || printf '%032d\n' "$since";;
    ActiveEnterTimestampMonotonic|StateChangeTimestampMonotonic) echo "$since";; NRestarts|ExecMainStatus) echo 0;;
    CanReload|NeedDaemonReload|RemainAfterExit) echo no;; FragmentPath) echo /lib/systemd/system/$unit;; *) echo;;
  esac
}
set -- $names
case $verb in
  show)
    for one in "$@"; do
      for it in $(echo "$only" | tr , ' '); do
        if [ -n "$plain" ]; then value "$it" "$one"; else echo "$it=$(value "$it" "$one")"; fi
      done
    done ;;
  list-unit-files) echo "$unit enabled enabled" ;;
  list-units) ;;
  is-active) value ActiveState "$1"; [ "$(value ActiveState "$1")" = active ] || exit 3 ;;
  start|stop|restart)
    [ "$1" = $unit ] || { echo "Failed to $verb $1: Unit $1 not found." >&2; exit 5; }
    [ "$(id -u)" = 0 ] || { echo "Failed to $verb $unit: Access denied" >&2; exit 4; }
    echo "systemctl $verb $unit" >>$state/calls
    before="$pid $since" n=0
    echo "$verb" >/run/lab/fabric-asked
    if [ "$verb" = start ] && [ "$pid" != 0 ]; then exit 0; fi
    while [ "$(cat $state/fabric_run)" = "$before" ] && [ $n -lt 100 ]; do sleep 0.05; n=$((n+1)); done ;;
  *) echo "systemctl (pretended): no $verb here" >&2; exit 1 ;;
esac
exit 0
