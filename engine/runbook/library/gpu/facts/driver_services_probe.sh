LC_ALL=C SYSTEMD_PAGER='' SYSTEMD_COLORS=0; export LC_ALL SYSTEMD_PAGER SYSTEMD_COLORS
[ -d "$1" ] || exit 0
shift
command -v systemctl >/dev/null || exit 0
for one do
    systemctl --no-pager show -p Id,ActiveState,MainPID -- "$one" || exit 3
    for other in $(systemctl --no-pager show --value -p RequiredBy,BoundBy,ConsistsOf -- "$one"); do
        state=$(systemctl --no-pager show --value -p ActiveState -- "$other")
        case $state in inactive|failed) ;; *) echo "Pulls=$other" ;; esac
    done
    echo
done
