# $1: columns of each GPU. Where one is in MIG mode: its instances, those that it offers, and the devices that there are.
said=$(gpus gpus "$1"; exit "$rc"); rc=$?
printf '%s\n' "$said"
if [ "$rc" = 2 ]; then gpus gpus "${1%,mig.mode.current*}"; exit 0; fi
usable || exit 0
case $said in *', Enabled'*) ;; *) exit 0 ;; esac
for what in lgi lci lgip lgipp; do ask $what '' mig -$what; done
ask list '' -L
exit 0
