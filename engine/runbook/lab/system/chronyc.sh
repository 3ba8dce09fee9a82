#!/bin/sh
# Simulates `chronyc -n -c tracking` on a lab host, in the format of chrony 4; /run/lab/state/clock says what is so.
case " $* " in *' tracking '*) ;; *) echo 'chronyc: this lab only knows -n -c tracking' >&2; exit 1 ;; esac
read -r state </run/lab/state/clock
now=$(date +%s)
if [ "$state" = synchronized ]; then
    echo "C0000201,192.0.2.1,3,$((now - 40)).281373000,0.000006523,-0.000006747,0.000035822,-3.225,-0.000,0.129,0.013639022,0.001100737,64.2,Normal"
else
    echo '00000000,,0,0.000000000,0.000000000,0.000000000,0.000000000,0.000,0.000,0.000,1.000000000,1.000000000,0.0,Not synchronised'
fi
