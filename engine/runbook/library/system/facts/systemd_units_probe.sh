LC_ALL=C SYSTEMD_PAGER='' SYSTEMD_COLORS=0; export LC_ALL SYSTEMD_PAGER SYSTEMD_COLORS
[ -d "$1" ] || { echo absent; exit 0; }
command -v systemctl >/dev/null || { echo 'systemd runs on this host, but systemctl was not found' >&2; exit 3; }
echo "user=$(id -u)"
said=$(systemctl --no-pager show -p "$3" -- "$2") || exit 3
printf '%s\n' "$said"
case $said in *LoadState=not-found*)
    systemctl --no-pager --no-legend --plain list-unit-files --type=service,socket,timer,path 2>/dev/null |
        while read -r one rest; do printf 'there=%s\n' "$one"; done ;;
esac
exit 0
