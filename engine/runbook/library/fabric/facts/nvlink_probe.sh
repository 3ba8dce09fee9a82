gpus kinds "$1"
! usable || ask links '' nvlink -s
echo "$frame begin fabric"
for device in /proc/driver/nvidia-nvswitch/devices/*; do [ -e "$device" ] && echo switch; done
for file in /proc/[0-9]*/comm; do
    comm=; read -r comm 2>/dev/null <"$file"
    case $comm in nv-fabricmanage*) pid=${file#/proc/}; if really "${pid%/comm}"; then echo manager; fi ;; esac
done
printf '\n%s end 0\n' "$frame"
exit 0
