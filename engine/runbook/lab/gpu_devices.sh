# Sourced where the root of a lab host is made: what sysfs and /proc show of its GPUs and their driver. $mnt is what is
# mounted there later; faults and backwards are as in the script that sources it.
loaded=580.00.01
if has mismatch || has mismatch_held; then loaded=570.00.02; fi
one=0 two=1; [ "$backwards" = 0 ] || { one=1 two=0; }
plant() { # bus id, number of the device node
  card=$mnt/drv/nvidia/gpus/$1 device=$mnt/pci/$1
  mkdir -p "$card" "$device"
  printf 'Model: \t\t NVIDIA H100 (lab)\nDevice Minor: \t %s\n' "$2" >"$card/information"
  echo 0x10de >"$device/vendor"; echo 0x030200 >"$device/class"; echo 0x2330 >"$device/device"
  echo '32.0 GT/s PCIe' >"$device/current_link_speed"; echo '32.0 GT/s PCIe' >"$device/max_link_speed"
  echo 16 >"$device/current_link_width"; echo 16 >"$device/max_link_width"
  echo D0 >"$device/power_state"
  printf '\336\020\060\043' >"$device/config"
  ln -s ../../../bus/pci/drivers/nvidia "$device/driver"
}
plant 0000:1a:00.0 $one
[ -e "$home/state/gpu_missing" ] || plant 0000:3d:00.0 $two
if has gpu_lost && [ ! -e "$home/state/rebooted" ]; then
  printf '\377\377\377\377' >"$mnt/pci/0000:3d:00.0/config"
  echo Unknown >"$mnt/pci/0000:3d:00.0/current_link_speed"; echo 63 >"$mnt/pci/0000:3d:00.0/current_link_width"
fi
if has fabric_down; then
  switch=$mnt/pci/0000:c1:00.0
  mkdir -p "$switch" "$mnt/drv/nvidia-nvswitch/devices/0000:c1:00.0"
  echo 0x10de >"$switch/vendor"; echo 0x068000 >"$switch/class"; echo 0x22a3 >"$switch/device"
  echo '16.0 GT/s PCIe' >"$switch/current_link_speed"; echo '16.0 GT/s PCIe' >"$switch/max_link_speed"
  echo 2 >"$switch/current_link_width"; echo 2 >"$switch/max_link_width"
  echo D0 >"$switch/power_state"
  printf '\336\020\243\042' >"$switch/config"
  ln -s ../../../bus/pci/drivers/nvidia-nvswitch "$switch/driver"
fi
if has narrow_link; then echo 4 >"$mnt/pci/0000:1a:00.0/current_link_width"; fi
printf 'NVRM version: NVIDIA UNIX x86_64 Kernel Module  %s  (lab)\n' "$loaded" >"$mnt/drv/nvidia/version"
module() { # name, references, version, then the modules that use it
  mkdir -p "$mnt/module/$1/holders"
  echo "$2" >"$mnt/module/$1/refcnt"; echo "$3" >"$mnt/module/$1/version"; echo live >"$mnt/module/$1/initstate"
  place=$mnt/module/$1/holders; shift 3
  for it in "$@"; do ln -s "../../$it" "$place/$it"; done
}
module nvidia 2 "$loaded" nvidia_uvm nvidia_modeset
module nvidia_uvm 0 "$loaded"; module nvidia_modeset 0 "$loaded"
