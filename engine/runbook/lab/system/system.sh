# Sourced by the first process of a lab host, once its kernel log is there: faults of the operating system.
# $python and the functions are those of that process.
# The mount is a real one (FUSE) that hangs until /run/lab/state/filer_answers is there; that it is NFS, and the function of
# the kernel that its readers wait in, are pretended. The readers are truly in state D: a first signal takes them there.
waiting() { # name: a process that waits for /datasets
    "$python" - "$1" <<'END' &
import ctypes, os, signal, sys
signal.signal(signal.SIGUSR1, lambda *_: None)
ctypes.CDLL(None).prctl(15, sys.argv[1].encode(), 0, 0, 0)
os.statvfs("/datasets")
END
    last=$!
    n=0; while ! grep -q request_wait /proc/$last/wchan 2>/dev/null && [ $n -lt 200 ]; do sleep 0.05; n=$((n+1)); done
    kill -s USR1 $last
    n=0; while ! grep -q '^State:.D' /proc/$last/status 2>/dev/null && [ $n -lt 100 ]; do sleep 0.05; n=$((n+1)); done
    printf rpc_wait_bit_killable >/run/lab/state/wchan.$last
    printf '[<0>] rpc_wait_bit_killable+0x24/0xa0 [sunrpc]\n[<0>] nfs4_proc_statfs+0xb8/0x120 [nfsv4]\n' >/run/lab/state/stack.$last
    for it in wchan stack; do
        mount --bind /run/lab/state/$it.$last /proc/$last/task/$last/$it 2>/dev/null
    done
}
if has nfs_hang && [ ! -e /dev/fuse ]; then
    echo 'lab: nfs_hang needs /dev/fuse, which this machine lacks: /datasets is not mounted' >&2
elif has nfs_hang; then
    mkdir -p /datasets
    (cd / && setsid "$python" -m runbook.lab.system.file_server /datasets fuse.nfs filer-1:/export/datasets \
        /run/lab/state/filer_answers </dev/null >/run/lab/state/filer 2>&1 &)
    n=0; while ! grep -q up /run/lab/state/filer 2>/dev/null && [ $n -lt 200 ]; do sleep 0.05; n=$((n+1)); done
    waiting dataloader; waiting python3
    said 720 100000 'nfs: server filer-1 not responding, still trying'
    said 715 200000 'nfs: server filer-1 not responding, still trying'
    {
        while [ ! -e /run/lab/state/filer_answers ]; do sleep 0.3; done
        said 0 100000 'nfs: server filer-1 OK'
    } >/dev/null 2>&1 </dev/null &
fi
if has shm_full; then
    mount -o remount,size=8m /dev/shm
    "$python" - <<'END' &
import mmap, os, time
def left(name, size):
    with open("/dev/shm/" + name, "wb") as file:
        file.write(b"x" * size)
    os.utime("/dev/shm/" + name, (time.time() - 7200,) * 2)
left("torch_3341_2718281828_0", 3 << 20)
left("torch_3341_2718281828_1", 1 << 20)
left("nccl-Xa3fQ1", 2 << 20)
left("sem.mp-q2c8v1ab", 32)
left("torch_4711_3141592653_0", 3 << 19)
file = os.open("/dev/shm/torch_4711_3141592653_0", os.O_RDWR)
memory = mmap.mmap(file, 0)
for it in os.listdir("/proc/self/fd"): # Python keeps one of its own
    if os.path.exists("/proc/self/fd/" + it) and "torch_4711" in os.readlink("/proc/self/fd/" + it):
        os.close(int(it))
open("/run/lab/state/shm", "w").close()
time.sleep(1 << 20)
END
    n=0; while [ ! -e /run/lab/state/shm ] && [ $n -lt 200 ]; do sleep 0.05; n=$((n+1)); done
fi
mv /run/lab/chronyc /run/lab/bin/chronyc
echo synchronized >/run/lab/state/clock
if has clock_unsynced; then
    echo alone >/run/lab/state/clock
    cp "$(command -v sleep)" /run/lab/jobs/chronyd
    setsid /run/lab/jobs/chronyd 1000000 </dev/null >/dev/null 2>&1 &
fi
