# Sourced by the first process of a lab host, after its own folders are there.
work=/run/lab/workspace logs=/run/lab/workspace/AReaL/outputs/grpo/logs/root/grpo/trial0
for it in dmesg journalctl; do mv /run/lab/$it /run/lab/bin/$it; done
if has disk_slow; then mv /run/lab/slow-dd /run/lab/bin/dd; fi
mkdir -p $work/outputs
IFS=' .' read -r up rest </proc/uptime
{
    echo '[    0.000000] Linux version 6.1.0-lab (lab@lab) #1 SMP'
    echo '[    2.114000] systemd[1]: Starting the lab.'
    if has oom; then
        echo "[$((up - 60)).100000] python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0"
        echo "[$((up - 60)).100100] oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/lab,task=python3,pid=4242,uid=0"
        echo "[$((up - 60)).100200] Out of memory: Killed process 4242 (python3) total-vm:99000000kB, anon-rss:61000000kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:120000kB oom_score_adj:0"
    fi
    if has disk_errors; then
        echo "[$((up - 50)).200000] blk_update_request: I/O error, dev nvme1n1, sector 123456 op 0x1:(WRITE) flags 0x800 phys_seg 1 prio class 0"
        echo "[$((up - 50)).200100] EXT4-fs error (device nvme1n1p1): ext4_find_entry:1663: inode #2: comm python3: reading directory lblock 0"
    fi
    if has gpu_lost && [ ! -e /run/lab/state/rebooted ]; then
        echo "[$((up - 90)).100000] NVRM: GPU at PCI:0000:3d:00: GPU-1ab00000-0000-4000-8000-000000000001"
        echo "[$((up - 90)).100100] NVRM: Xid (PCI:0000:3d:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
        echo "[$((up - 90)).100200] NVRM: GPU 0000:3d:00.0: GPU has fallen off the bus."
        echo "[$((up - 90)).100300] NVRM: Xid (PCI:0000:3d:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
    fi
    if has mismatch || has mismatch_held; then
        echo "[$((up - 80)).100000] NVRM: API mismatch: the client has the version 580.00.01, but"
        echo "[$((up - 80)).100001] NVRM: this kernel module has the version 570.00.02.  Please"
        echo "[$((up - 80)).100002] NVRM: make sure that this kernel module and all NVIDIA driver"
        echo "[$((up - 80)).100003] NVRM: components have the same version."
    fi
    if has remap_pending; then
        echo "[$((up - 70)).100000] NVRM: Xid (PCI:0000:1a:00): 63, pid='<unknown>', name=<unknown>, Row Remapper: New row (0x0000000000000001) marked for remapping, reset gpu to activate."
    fi
    if has remap_failed; then
        echo "[$((up - 70)).100000] NVRM: Xid (PCI:0000:1a:00): 64, pid='<unknown>', name=<unknown>, Row Remapper: Error writing row (0x0000000000000001) to the InfoROM"
    fi
} >/run/lab/kernel
now=$(date +%s)
ago() { date -u -d "@$((now - $1))" +%Y%m%d-%H:%M:%S.000; }
step() { echo "$(ago "$1") trainer INFO: Train step $2/250 done."; echo "$(ago "$1") trainer INFO: Loading weights from disk done in 1.52s"; }
if has disk_full; then
    mount -t tmpfs -o size=2m lab $work/outputs
    head -c 4000000 /dev/zero >$work/outputs/step_57.pt 2>/dev/null
fi
any=
for it in trained under_way update_timeout executor_crash server_crash silent_stop old_crash oom disk_errors disk_full leak; do
    has $it && any=yes
done
if [ -n "$any" ]; then
    mkdir -p $logs
    { echo "$(ago 900) llm_server INFO: server is ready, request_timeout: 3600, errors: 0"; echo "$(ago 400) llm_server INFO: update_weights_from_disk 200 OK"; } >$logs/llm_server.log
    { step 900 55; step 600 56; step 300 57; } >$logs/trainer.log
    yesterday=$(date -u -d "@$((now - 86400))" +%Y-%m-%d)
    for it in 02 19 36 53; do
        echo "${yesterday}T06:00:${it}Z start container for lab/areal: begin"
        echo "fatal: destination path 'AReaL' already exists and is not an empty directory."
    done >$work/container.log
    echo "${yesterday}T06:09:00Z start container for lab/areal: begin
Cloning into 'AReaL'...
Training step 1 of 250" >>$work/container.log
fi
if has trained || has leak; then echo "$(ago 200) trainer INFO: Training completes! Total time elapsed 3000.00s" >>$logs/trainer.log; fi
if has update_timeout || has old_crash; then
    echo "$(ago 180) trainer ERROR: update_weights failed
Traceback (most recent call last):
  File \"areal/engine/sglang_remote.py\", line 412, in _update_weights
    save_timestamp = float(name_resolve.wait(update_name, timeout=120))
TimeoutError: Timeout waiting for key 'update_weights_from_disk/57' after 120 seconds" >>$logs/trainer.log
fi
if has executor_crash; then
    echo "$(ago 180) trainer ERROR: update_weights failed
concurrent.futures.process.BrokenProcessPool: A process in the process pool was terminated abruptly while the future was running or pending." >>$logs/trainer.log
fi
if has server_crash; then
    echo "$(ago 190) llm_server ERROR: Scheduler hit an exception: Traceback (most recent call last):
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.16 GiB." >>$logs/llm_server.log
fi
if has short_timeouts || [ -n "$any" ]; then
    mkdir -p $work/AReaL/examples/lab
    echo '# Two GPUs, one hour.
experiment_name: lab-grpo
cluster:
  fileroot: /run/lab/workspace/outputs   # kept
rollout:
  experiment_name: ${experiment_name}
  request_timeout: 7200   # seconds
  request_retries: 5
  setup_timeout: 300
  queue_size: null
train_dataset:
    batch_size: 8' >$work/AReaL/examples/lab/grpo.yaml
    if has short_timeouts; then
        sed -i -e '/_retries\|setup_timeout/d' -e 's/7200/3600/' $work/AReaL/examples/lab/grpo.yaml
    fi
fi
if has silent_stop; then for it in $logs/*.log; do touch -d "@$((now - 1200))" $it; done; fi
if has old_crash; then
    touch -d "@$((now - 5000))" $logs/*.log
    mkdir -p "${logs%/*}/trial1"
    step 60 1 >"${logs%/*}/trial1/trainer.log"
    echo "$(ago 60) llm_server INFO: update_weights_from_disk 200 OK" >"${logs%/*}/trial1/llm_server.log"
fi
if has leak; then
    (c=$(head -c 1000000 /dev/zero | tr '\0' x) n=0
    while [ $n -lt 600 ]; do n=$((n + 1)); eval "x$n=\$c"; sleep 0.2; done; exec sleep 1000) </dev/null >/dev/null 2>&1 &
fi
if has restart_loop || has dies_again; then
    export HOME=$work GIT_CONFIG_NOSYSTEM=1
    git -c init.defaultBranch=main init -q /run/lab/upstream && (
        cd /run/lab/upstream || exit 1
        git config user.name lab; git config user.email lab@localhost
        echo 'print("training")' >train.py; echo outputs/ >.gitignore; git add -A; git commit -qm first
        git clone -q file:///run/lab/upstream $work/AReaL
        echo 'print("better training")' >train.py; git commit -qam second
    ) >/dev/null 2>&1
    if has unsaved; then mkdir -p $work/AReaL/outputs; echo weights >$work/AReaL/outputs/step_57.pt; fi
    if has broken_clone; then echo broken >$work/AReaL/.git/HEAD; fi
    if has git_aware; then set -- git_aware "$@"; else set -- plain "$@"; fi
    if has restart_loop; then
        setsid sh /run/lab/restarting "$1" </dev/null >/dev/null 2>&1 &
        n=0 # a loop is one when it has gone round
        while [ $n -lt 100 ] && [ "$(grep -c begin $work/container.log 2>/dev/null || :)" -lt 4 ]; do n=$((n + 1)); sleep 0.1; done
    fi
    shift; unset GIT_CONFIG_NOSYSTEM; HOME=$(echo ~root); export HOME
fi
