# Sourced by the first process of a lab host: a service nvidia-fabricmanager that does not run, and a systemd that has it.
# What fabric-tools asks of systemd is done here, so that what it starts is not a child of anybody who asked.
mkdir -p /run/systemd/system
for it in systemctl nv-fabricmanager; do cp /run/lab/fabric-tools /run/lab/bin/$it; done
cp /bin/sh /run/lab/jobs/nv-fabricmanager
echo inactive >/run/lab/state/fabric; echo '0 0' >/run/lab/state/fabric_run
mkfifo -m 600 /run/lab/fabric-asked
while :; do
  while read -r verb; do
    read -r pid since </run/lab/state/fabric_run
    case $verb in
      start|restart|stop)
        if [ "$verb" = start ] && [ "$pid" != 0 ]; then continue; fi
        [ "$pid" = 0 ] || kill "$pid"
        pid=0
        if [ "$verb" != stop ]; then
          job /dev/nvidiactl '' '' /run/lab/jobs/nv-fabricmanager job -c /usr/share/nvidia/nvswitch/fabricmanager.cfg; pid=$last
        fi
        read -r since rest </proc/uptime
        echo "$pid ${since%.*}${since#*.}0000" >/run/lab/state/fabric_run
        if [ "$pid" = 0 ]; then echo inactive; else echo active; fi >/run/lab/state/fabric ;;
    esac
  done </run/lab/fabric-asked
done &
