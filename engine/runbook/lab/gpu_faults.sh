# Sourced by the first process of a lab host, once its kernel log is there: faults of the GPU driver itself.
has no_gpu || mv /run/lab/nvidia-bug-report.sh /run/lab/bin/nvidia-bug-report.sh
said() { # how many seconds ago, digits, what; on a machine that was booted later than that, right after its boot
    IFS=' .' read -r up rest </proc/uptime
    at=$((up - $1)); [ $at -ge 3 ] || at=3
    echo "[$at.$2] $3" >>/run/lab/kernel
}
# What root writes to the kernel's log stands in it with the time.
if [ ! -e /dev/kmsg ] && mkfifo -m 644 /dev/kmsg 2>/dev/null; then
    while IFS= read -r line; do
        IFS= read -r up </proc/uptime
        echo "[${up%% *}0000] ${line#<*>}" >>/run/lab/kernel
    done <>/dev/kmsg &
fi
# A process that is truly in state D, since it waits for a child of vfork(2); what it waits in is pretended. It is none by
# the name of nvidia-smi: this machine's own programs can see it, and take that for a driver that hangs.
blocked() { # name, device, function of the kernel
    "$python" - "$1" "$2" <<'END' &
import ctypes, sys
libc = ctypes.CDLL(None)
held = open(sys.argv[2])
libc.prctl(15, sys.argv[1].encode(), 0, 0, 0)
if libc.vfork() == 0:
    while True:
        libc.pause()
END
    last=$!
    tries=0; while ! grep -q '^State:.D' /proc/$last/status 2>/dev/null && [ $tries -lt 100 ]; do sleep 0.05; tries=$((tries+1)); done
    printf %s "$3" >/run/lab/state/wchan.$last
    printf '[<0>] %s+0x2e/0x60 [nvidia]\n[<0>] nvidia_ioctl+0x5d/0x850 [nvidia]\n' "$3" >/run/lab/state/stack.$last
    for it in wchan stack; do
        mount --bind /run/lab/state/$it.$last /proc/$last/task/$last/$it 2>/dev/null
    done
}
if has lock_held; then
    cp job holder; job "$gpu0 /dev/nvidiactl" '' '' ./python3 holder --lock; owner=$last
    blocked dcgm-exporter /dev/nvidiactl os_acquire_rwlock_write; waiter=$last
    said -10 100000 "INFO: task dcgm-exporter:$waiter blocked for more than 120 seconds."
    said -10 100100 "INFO: task dcgm-exporter:$waiter <writer> blocked on an rw-semaphore likely owned by task python3:$owner <writer>"
    while [ -d "/proc/$owner" ] && ! grep -q '^State:.[ZX]' "/proc/$owner/status"; do sleep 0.2; done && kill -9 "$waiter" &
fi
if has driver_hang; then
    blocked python3 /dev/nvidia0 rpcRecvPoll_GA102; owner=$last
    blocked dcgm-exporter /dev/nvidiactl os_acquire_rwlock_write
    blocked nv-hostengine /dev/nvidiactl os_acquire_rwlock_write
    said 400 100000 "NVRM: Xid (PCI:0000:1a:00): 119, pid=$owner, name=python3, Timeout after 45s of waiting for RPC response from GPU0 GSP! Expected function 76 (GSP_RM_CONTROL) (0x20803032 0x58c)."
    said 240 100000 "INFO: task nv-hostengine:$last blocked for more than 120 seconds."
    said 240 100100 "INFO: task nv-hostengine:$last is blocked on an rw-semaphore likely owned by task python3:$owner <writer>"
fi
if has uncontained; then
    echo 600.00 >/run/lab/state/pl.0
    said 300 100000 'NVRM: Xid (PCI:0000:1a:00): 95, pid=4711, name=python3, Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No'
fi
if has exclusive; then echo Exclusive_Process >/run/lab/state/cm.0; fi
