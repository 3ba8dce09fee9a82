# Which boot this host is in: lines `KIND REST`. boot, up, uid, now, container, systemd, stopping, last (four lines: the
# boot that our last reboot was to end, when it was sent, how many GPUs were expected after it, why).
LC_ALL=C; export LC_ALL
read -r boot </proc/sys/kernel/random/boot_id || die 3 '/proc/sys/kernel/random/boot_id cannot be read'
read -r up idle </proc/uptime || die 3 '/proc/uptime cannot be read'
echo "boot $boot"
echo "up $up"
echo "uid $safe_me"
echo "now $(date +%s)"
for mark in /.dockerenv /run/.containerenv /run/systemd/container; do
    [ ! -e "$mark" ] || { echo 'container yes'; break; }
done
if [ -d /run/systemd/system ]; then
    echo 'systemd yes'
    if command -v timeout >/dev/null; then # a manager that hangs says nothing
        running=$(timeout 5 systemctl is-system-running 2>/dev/null </dev/null) || :
        [ "$running" != stopping ] || echo 'stopping yes'
    fi
fi
notes=/var/lib/runbook
! lock_declared "${RUNBOOK_LOCK_PLACES-}" || notes=$RUNBOOK_LOCK_PLACES
[ -d "$notes" ] || exit 0
safe_enter "$notes" && [ "$shared" = no ] || die 3 "our notes in $notes cannot be read: $why"
[ -e ./rebooted ] || exit 0
safe_stat ./rebooted && safe_ours "$uid" && [ -r ./rebooted ] || die 3 "$notes/rebooted cannot be believed"
head -n 4 ./rebooted | cut -c 1-300 | sed 's/^/last /'
