LC_ALL=C; export LC_ALL
timer=$1; shift
rc=0
for one do
    systemctl --no-ask-password --no-pager start -- "$one" && continue
    echo "$one was stopped for the reset and could not be started again; start it by hand: systemctl start $one" >&2
    rc=1
done
[ "$rc" != 0 ] || systemctl --no-ask-password --no-pager stop -- "$timer.timer" >/dev/null 2>&1
exit $rc
