LC_ALL=C; export LC_ALL
timer=$1 after=$2 count=$3; shift 3
number=0 again=
for one do
    number=$((number + 1))
    [ "$number" -gt "$count" ] || again="$again $one"
done
shift "$count"
systemctl --no-ask-password --no-pager stop -- "$timer.timer" >/dev/null 2>&1
systemctl --no-pager reset-failed -- "$timer.service" >/dev/null 2>&1
# the names are those of services: letters, digits, _ @ . and -, none of them at the beginning
if ! said=$(systemd-run --quiet --unit="$timer" --on-active="${after}s" --timer-property=AccuracySec=1s \
        systemctl --no-ask-password start -- $again 2>&1); then
    echo "no service was stopped: systemd refused the timer that would start the services again: $said" >&2
    exit 1
fi
for one do
    systemctl --no-ask-password --no-pager stop -- "$one" && continue
    echo "$one could not be stopped" >&2
    exit 1
done
