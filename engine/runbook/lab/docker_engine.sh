# Sourced by the first process of a lab host that has a Docker engine, after all else of it is there.
fails() { echo "its Docker engine: $1"; exit 1; }
# This machine's own configuration and containers are not seen.
mkdir -p /etc/docker /etc/init.d /var/lib/docker
room=1g; ! has docker_full || room=80m
mount -t tmpfs -o mode=755 lab /etc/docker && mount -t tmpfs -o "mode=711,size=$room" lab /var/lib/docker ||
    fails 'no file system for it'
rm -f /etc/init.d/docker; mv /run/lab/docker-service /etc/init.d/docker
keys=
has unbounded_logs || keys='"log-driver": "json-file", "log-opts": {"max-size": "100m", "max-file": "5", "compress": "true"}, "live-restore": true'
if ! has no_toolkit && ! has no_gpu; then
    printf '#!/bin/sh\n# A pretended runtime: the devices of this host are not real.\nexec runc "$@"\n' >/run/lab/bin/nvidia-container-runtime
    chmod 755 /run/lab/bin/nvidia-container-runtime
    keys="$keys${keys:+, }\"runtimes\": {\"nvidia\": {\"args\": [], \"path\": \"nvidia-container-runtime\"}}"
fi
[ -z "$keys" ] || echo "{$keys}" >/etc/docker/daemon.json
/etc/init.d/docker start || fails 'it does not start'

read -r group busybox </run/lab/group  # by the second name the kernel's words on this host's faults are known
image=/run/lab/image
mkdir -p $image/bin
cp "$(command -v busybox)" $image/bin/busybox; ln $image/bin/busybox $image/bin/$busybox
for it in sh sleep echo tail dd mkdir ls date kill cat; do ln -s busybox $image/bin/$it; done
cat >$image/bin/git <<'END'
#!/bin/sh
# What git says of `git clone ADDRESS FOLDER`.
if [ -n "$(ls -A "$3" 2>/dev/null)" ]; then
    echo "fatal: destination path '$3' already exists and is not an empty directory." >&2
    exit 128
fi
echo "Cloning into '$3'..." >&2
mkdir -p "$3" && echo 'print("training")' >"$3/train.py"
END
chmod 755 $image/bin/git
tar -C $image -c . | docker import - lab/areal:1 >/dev/null || fails 'no image can be made'
box() { # $1 its name; then more options, the image and its command: a container that runs to its end
    it=$1; shift
    docker run --network none --name "$it" "$@" </dev/null >/dev/null 2>/run/lab/said
    docker inspect "$it" >/dev/null 2>&1 || fails "$(tail -n 1 /run/lab/said)"
}
if has docker_full; then
    made=
    for n in 1 2 3 4 5 6 7 8; do
        box "run-$n" lab/areal:1 sh -c "echo competition $n; dd if=/dev/zero of=/submission bs=1M count=8 2>/dev/null; exit 1" &
        made="$made $!"
    done
    # shellcheck disable=SC2086  # split into words; the host's own daemons, which are waited for by nobody, are others
    wait $made
    # Images without a name, made long ago, as `docker build` leaves them.
    layers=/run/lab/layers; mkdir -p $layers
    for n in 1 2; do
        head -c 4000000 /dev/urandom >$layers/model
        tar -C $layers -cf $layers/layer.tar model
        # shellcheck disable=SC2046  # split into words
        set -- $(sha256sum $layers/layer.tar) "$@"; digest=$1; shift 2
        case $(uname -m) in x86_64) machine=amd64;; aarch64) machine=arm64;; *) machine=$(uname -m);; esac
        echo "{\"architecture\": \"$machine\", \"os\": \"linux\", \"created\": \"$(date -u -d '-9 days' +%Y-%m-%dT%H:%M:%SZ)\", \"config\": {\"Labels\": {\"n\": \"$n\"}}, \"rootfs\": {\"type\": \"layers\", \"diff_ids\": [\"sha256:$digest\"]}, \"history\": [{\"created_by\": \"COPY model /\"}]}" >$layers/config.json
        echo '[{"Config": "config.json", "RepoTags": null, "Layers": ["layer.tar"]}]' >$layers/manifest.json
        tar -C $layers -c manifest.json config.json layer.tar | docker load >/dev/null 2>&1
    done
    rm -rf $layers
    # Nobody waits for days: while the engine is down, the times of the dead are set back.
    /etc/init.d/docker stop
    n=8
    for it in /var/lib/docker/containers/*/config.v2.json; do
        n=$((n - 1)); then=$(date -u -d "-3 days -$n hours" +%Y-%m-%dT%H:%M:%S)
        sed -i -E "s/\"(StartedAt|FinishedAt|Created)\":\"20[0-9-]*T[0-9:]*/\"\1\":\"$then/g" "$it"
    done
    /etc/init.d/docker start || fails 'it does not start again'
fi
if has at_work; then
    box run-at-work -d lab/areal:1 sh -c 'n=0; while sleep 1; do n=$((n + 1)); echo "Training step $n of 250"; done'
fi
if has hung; then
    box run-hung -d lab/areal:1 sh -c 'echo "Training step 57 of 250"; echo "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.16 GiB." >&2; exec sleep 100000'
fi
if has dies_again; then
    box areal -d --restart=always -v /run/lab/workspace:/workspace -w /workspace lab/areal:1 sh -c '
        echo "start container for lab/areal: begin"
        git clone https://github.com/inclusionAI/AReaL AReaL || exit
        echo "Successfully installed areal"
        n=0; while sleep 1; do n=$((n + 1)); echo "Training step $n of 250"; done'
    n=0
    until [ "$(docker inspect --format '{{.RestartCount}}' areal)" -ge 3 ] || [ $n -gt 200 ]; do n=$((n + 1)); sleep 0.1; done
fi
if has lost_gpu; then # what was opened before stays open; a new life of the container has its device rules again
    box run-lost -d --tmpfs /run lab/areal:1 sh -c '
        : >/dev/nvidiactl
        echo "#!/bin/sh
[ ! -e /run/lost ] || { echo Failed to initialize NVML: Unknown Error; exit 255; }
echo \"GPU 0: NVIDIA H100 (lab) (UUID: GPU-1ab00000-0000-4000-8000-000000000000)\"" >/bin/nvidia-smi; busybox chmod 755 /bin/nvidia-smi
        trap "exit 0" TERM; n=0; while sleep 1; do n=$((n + 1)); echo "Training step $n of 250"; done'
    n=0; until docker exec run-lost nvidia-smi >/dev/null 2>&1 || [ $n -gt 100 ]; do n=$((n + 1)); sleep 0.1; done
    docker exec run-lost sh -c ': >/run/lost'
fi
if has died_silently; then box run-silent lab/areal:1 sh -c 'exit 1'; fi
if has died_of_itself; then
    box run-itself lab/areal:1 sh -c 'echo "Training step 57 of 250"; echo "Traceback (most recent call last):
  File \"/workspace/train.py\", line 88, in <module>
    config = load(path)
ValueError: batch_size must be divisible by the number of workers" >&2; exit 1'
fi
if has died_of_disk; then
    box run-disk --tmpfs /out:size=64k lab/areal:1 sh -c 'echo "Training step 57 of 250"; dd if=/dev/zero of=/out/step_57.pt bs=1M count=1 || exit 1'
fi
if has died_of_gpu_memory; then
    box run-gpu-memory lab/areal:1 sh -c 'echo "Training step 57 of 250"; echo "Traceback (most recent call last):
  File \"/workspace/train.py\", line 120, in forward
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.16 GiB. GPU 0 has a total capacity of 79.33 GiB" >&2; exit 1'
fi
if has died_of_segfault; then # a stack that has no end
    box run-segfault lab/areal:1 $busybox sh -c 'echo "Training step 57 of 250"; f() { f; }; f'
fi
if has died_of_kill; then
    box run-kill -d lab/areal:1 sh -c 'echo "Training step 57 of 250"; exec sleep 1000'
    n=0 # it is killed at its work: what is killed sooner has not said anything yet
    until docker logs run-kill 2>&1 | grep -q step || [ $n -gt 200 ]; do n=$((n + 1)); sleep 0.1; done
    docker kill run-kill >/dev/null
fi
if has died_of_memory; then
    box run-memory --memory=20m --memory-swap=20m lab/areal:1 sh -c 'echo "Training step 57 of 250"; echo "Loading the dataset"; exec tail /dev/zero'
fi
if has docker_dead; then
    box run-on -d lab/areal:1 sh -c 'n=0; while sleep 1; do n=$((n + 1)); echo "Training step $n of 250"; done'
    kill -s KILL "$(cat /run/docker.pid)"
fi
cd / || exit 1
