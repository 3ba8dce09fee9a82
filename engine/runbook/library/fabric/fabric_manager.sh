# Prints what is known of the fabric manager: one fact a line, with a tab behind its name. $1 is the name of its unit.
LC_ALL=C; export LC_ALL
PATH="$PATH:/usr/bin:/usr/sbin"
tab=$(printf '\t')
for device in /proc/driver/nvidia-nvswitch/devices/*; do [ -e "$device" ] && echo switch; done
if command -v nv-fabricmanager >/dev/null; then
    echo installed
    nv-fabricmanager --version 2>&1 </dev/null | while IFS= read -r line; do printf 'version\t%s\n' "$line"; done
fi
for file in /proc/[0-9]*/comm; do
    comm=; read -r comm 2>/dev/null <"$file"
    case $comm in nv-fabricmanage*) pid=${file#/proc/}; if really "${pid%/comm}"; then echo running; fi ;; esac
done
# Its own words since the boot. Only a process of that unit can have written them.
if [ -d /run/systemd/system ] && command -v journalctl >/dev/null; then
    journalctl --no-pager --quiet -b -n 40 -o cat -u "$1" 2>/dev/null </dev/null |
        while IFS= read -r line; do printf 'said%s%s\n' "$tab" "$line"; done
fi
echo end
exit 0
