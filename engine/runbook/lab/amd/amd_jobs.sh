# Sourced by the first process of a lab host: amd-smi, and processes that hold GPUs of AMD, as its driver lists them.
mv /run/lab/amd-smi /run/lab/bin/amd-smi
every='/dev/kfd /dev/dri/renderD128 /dev/dri/renderD129' # as programs of ROCm open them
on_amd() { # bus id, the driver's number of the GPU, bytes: of the process that was started last, until it has ended
  mkdir -p "/sys/class/kfd/kfd/proc/$last/queues" # the driver makes it for every process
  echo "$3" >"/sys/class/kfd/kfd/proc/$last/vram_$2"; echo "$3" >"/sys/bus/pci/devices/$1/mem_info_vram_used"
  pid=$last bus=$1
  while [ -d "/proc/$pid" ] && ! grep -q '^State:.[ZX]' "/proc/$pid/status" 2>/dev/null; do sleep 0.1; done &&
    rm -r "/sys/class/kfd/kfd/proc/$pid" && echo 296013824 >"/sys/bus/pci/devices/$bus/mem_info_vram_used" &
}
if has amd_leftovers || has amd_smi_hangs; then
  job "$every" '' '' ./python3 sglang/launch_server.py --model-path Qwen2.5 --port 30000
  on_amd 0000:05:00.0 4000 171798691840
fi
if has amd_leftovers; then
  job "$every" '' '' ./python3 ./torchrun --nproc_per_node=1 train.py
  on_amd 0000:26:00.0 4001 96636764160
fi
if has amd_errors; then logged 300 'amdgpu 0000:26:00.0: amdgpu: 4 uncorrectable hardware errors detected in umc block'; fi
