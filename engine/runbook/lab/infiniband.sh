# Sourced where the root of a lab host is made ($root is set), for what sysfs shows of its InfiniBand cards; and again by
# its first process, for what the kernel said of them.
ib_port() { # card, its place on the bus, state, physical state, rate, how often the link was lost
  port=$mnt/class/infiniband/$1/ports/1
  mkdir -p "$port/counters"
  ln -s "../../../bus/pci/devices/$2" "$mnt/class/infiniband/$1/device"
  echo MT_0000000838 >"$mnt/class/infiniband/$1/board_id"; echo 28.39.1002 >"$mnt/class/infiniband/$1/fw_ver"
  echo InfiniBand >"$port/link_layer"; echo "$3" >"$port/state"; echo "$4" >"$port/phys_state"; echo "$5" >"$port/rate"
  echo "$6" >"$port/counters/link_downed"
  echo 0 >"$port/counters/link_error_recovery"; echo 0 >"$port/counters/symbol_error"
}
if has ib_down || has nccl_waits || has nccl_cause; then
  if [ -n "${root:-}" ] && [ -d "$root/sys/class" ]; then
    ndr='400 Gb/sec (4X NDR)'
    ib_port mlx5_0 0000:18:00.0 '4: ACTIVE' '5: LinkUp' "$ndr" 1
    if has ib_down; then ib_port mlx5_1 0000:2a:00.0 '1: DOWN' '2: Polling' '10 Gb/sec (4X SDR)' 5
    else ib_port mlx5_1 0000:2a:00.0 '4: ACTIVE' '5: LinkUp' "$ndr" 1; fi
    if has nccl_cause; then ib_port mlx5_2 0000:3a:00.0 '4: ACTIVE' '5: LinkUp' '200 Gb/sec (2X NDR)' 0
    else ib_port mlx5_2 0000:3a:00.0 '4: ACTIVE' '5: LinkUp' "$ndr" 0; fi
    ib_port mlx5_3 0000:5d:00.0 '4: ACTIVE' '5: LinkUp' "$ndr" 0
  fi
  if [ -z "${root:-}" ] && has ib_down; then
    for it in 280 220 160 100; do
      logged $it 'mlx5_core 0000:2a:00.0 ib1: Link down'
      [ $it = 100 ] || logged $((it - 20)) 'mlx5_core 0000:2a:00.0 ib1: Link up'
    done
    logged 100 'mlx5_core 0000:2a:00.0: Port module event: module 0, Cable unplugged'
  fi
fi
