#!/bin/sh
# A pretended reboot: leaves the order where anybody who keeps the lab host running finds it.
[ "$(id -u)" = 0 ] || { echo 'reboot: must be superuser.' >&2; exit 1; }
read -r faults </run/lab/state/faults
echo "reboot" >>/run/lab/state/calls
for it in reboot_ignored never_back gpu_missing; do
  case " $faults " in *" $it "*) break;; esac
  it=reboot
done
[ "$it" = reboot_ignored ] || echo "$it" >/run/lab/state/reboot
exit 0
