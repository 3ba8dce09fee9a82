# Sourced where the root of a lab host is made: what sysfs and /dev show of two GPUs of AMD. $mnt is what is mounted
# there later, $root the root; faults are as in the script that sources it.
amd_gpu() { # number, bus id, place on the bus as a number, percent busy, uncorrectable errors
  device=$mnt/pci/$2 node=$mnt/class/kfd/kfd/topology/nodes/$(($1 + 1)) render=$((128 + $1))
  mkdir -p "$device/hwmon/hwmon$1" "$device/ras" "$device/drm/card$1" "$node"
  echo 0x1002 >"$device/vendor"; echo 0x120000 >"$device/class"; echo 0x74a1 >"$device/device"
  echo AMD Instinct MI300X >"$device/product_name"; echo "8c5f2b1d0e9a470$1" >"$device/unique_id"
  echo "$4" >"$device/gpu_busy_percent"
  echo 206141652992 >"$device/mem_info_vram_total"; echo 296013824 >"$device/mem_info_vram_used"
  echo junction >"$device/hwmon/hwmon$1/temp2_label"; echo 44000 >"$device/hwmon/hwmon$1/temp2_input"
  printf 'ue: %s\nce: 0\n' "$5" >"$device/ras/umc_err_count"
  for it in current max; do echo '32.0 GT/s PCIe' >"$device/${it}_link_speed"; echo 16 >"$device/${it}_link_width"; done
  echo D0 >"$device/power_state"; printf '\002\020\241\164' >"$device/config"
  ln -s ../../../bus/pci/drivers/amdgpu "$device/driver"
  printf 'cpu_cores_count 0\nsimd_count 1216\nlocation_id %s\ndomain 0\ndrm_render_minor %s\n' "$3" "$render" >"$node/properties"
  echo "$((4000 + $1))" >"$node/gpu_id"
  : >"$root/dev/dri/renderD$render"; : >"$root/dev/dri/card$1"
}
load=0; if has amd_leftovers; then load=93; fi
errors=0; if has amd_errors; then errors=4; fi
mkdir -p "$root/dev/dri" "$mnt/class/kfd/kfd/topology/nodes/0" "$mnt/class/kfd/kfd/proc" "$mnt/module/amdgpu"
printf 'cpu_cores_count 96\nsimd_count 0\nlocation_id 0\n' >"$mnt/class/kfd/kfd/topology/nodes/0/properties"
echo 0 >"$mnt/class/kfd/kfd/topology/nodes/0/gpu_id"
echo 6.10.5 >"$mnt/module/amdgpu/version"; echo 2 >"$mnt/module/amdgpu/refcnt"; echo live >"$mnt/module/amdgpu/initstate"
: >"$root/dev/kfd"
amd_gpu 0 0000:05:00.0 1280 0 0
amd_gpu 1 0000:26:00.0 9728 "$load" "$errors"
chmod 666 "$root/dev/kfd" "$root"/dev/dri/*
