# Starts a reboot, once: $1 the boot that it is to end, $2 why and by whom, $3 GPUs that are expected afterwards,
# $4 seconds after which a shutdown that hangs is forced (0: never). Exit code 10: the host is in another boot; 12: refused. Nothing was started then.
LC_ALL=C; export LC_ALL
umask 077
was=$1 words=$2 gpus=$3 force=$4 work=''
trap '[ -z "$work" ] || rm -rf -- "./$work"' EXIT
read -r now </proc/sys/kernel/random/boot_id || die 12 '/proc/sys/kernel/random/boot_id cannot be read'
[ "$now" = "$was" ] || die 10 'the host has rebooted since it was inspected: nothing was sent'
[ "$safe_me" = 0 ] || die 12 'a reboot needs root'
if [ -d /run/systemd/system ]; then how=systemctl; else how=reboot; fi
command -v "$how" >/dev/null || die 12 "there is no $how on this host"
[ "$force" = 0 ] || [ "$how" = systemctl ] || die 12 'a shutdown is forced by systemd, which does not run this host'

notes=/var/lib/runbook
! lock_declared "${RUNBOOK_LOCK_PLACES-}" || notes=$RUNBOOK_LOCK_PLACES
safe_make_all "$notes" 700 || die 12 "the reboot cannot be noted, so that it could be sent twice: $why"
[ "$shared" = no ] || die 12 "$notes can be written to by others"
safe_workshop || die 12 "the reboot cannot be noted, so that it could be sent twice: $why"
printf '%s\n%s\n%s\n%s\n' "$was" "$(date +%s)" "$gpus" "$words" >"./$work/rebooted" || die 12 "there is no room in $notes"
sync "./$work/rebooted" 2>/dev/null
safe_put "./$work/rebooted" rebooted || die 12 "the reboot cannot be noted, so that it could be sent twice: $why"
sync . 2>/dev/null

refused() { rm -f -- ./rebooted; die 12 "$1"; }
if [ "$force" != 0 ]; then # a unit of its own, which the shutdown does not stop
    why=$(systemd-run --collect --quiet --slice=-.slice --unit=runbook-reboot-force -p DefaultDependencies=no \
        sh -c 'sleep "$1"; systemctl reboot --force' sh "$force" 2>&1 </dev/null) ||
        refused "the forced reboot could not be prepared, so that none was started: $why"
fi
code=0
if [ "$how" = systemctl ]; then why=$(systemctl reboot 2>&1 </dev/null) || code=$?; else why=$(reboot 2>&1 </dev/null) || code=$?; fi
case $code in
    0) ;;
    1 | 2 | 3 | 4 | 5 | 126 | 127) # it says so itself; a signal means that the shutdown has come to us first
        [ "$force" = 0 ] || systemctl stop runbook-reboot-force 2>/dev/null
        refused "$how refused it (exit code $code): $(printf %s "$why" | head -n 1 | cut -c 1-300)"
        ;;
esac
exit 0
