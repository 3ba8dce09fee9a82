# Sourced by the first process of a lab host, after its jobs are there: what the driver logged about its GPUs.
# $gpu1, $B and the functions are those of that process.
NVRM_0='NVRM: Xid (PCI:0000:1a:00)' NVRM_1='NVRM: Xid (PCI:0000:3d:00)'
logged() { said "$1" 417093 "$2"; }
if has xid_reboot; then
  logged 300 'NVRM: GPU at PCI:0000:1a:00: GPU-1ab00000-0000-4000-8000-000000000000'
  logged 300 "$NVRM_0: 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
  logged 300 'NVRM: GPU 0000:1a:00.0: GPU has fallen off the bus.'
  for it in "$NVRM_0" "$NVRM_1"; do
    logged 299 "$it: 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
  done
fi
if has xid_reset; then
  for it in 400 355 310; do
    logged $it "$NVRM_0: 119, pid=1093, name=nvidia-smi, Timeout after 45s of waiting for RPC response from GPU0 GSP! Expected function 76 (GSP_RM_CONTROL) (0x2080a068 0x4)."
  done
  logged 309 "$NVRM_0: 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
fi
if has xid_application; then
  job "$gpu1 /dev/nvidiactl" '' '' ./python3 train.py --rank 3; listed $B 900
  logged 0 "$NVRM_1: 13, pid=$last, name=python3, Graphics SM Warp Exception on (GPC 0, TPC 1, SM 0): Out Of Range Address"
  logged 0 "$NVRM_1: 13, pid=$last, name=python3, Graphics Exception: ESR 0x504f30=0xc13000e 0x504f34=0x24 0x504f28=0xf812b60 0x504f2c=0x1174"
  logged 0 "$NVRM_1: 43, pid=$last, name=python3, Ch 00000010"
fi
if has xid_before_boot; then
  now=$(date +%s) began=$(awk '$1 == "btime" { print $2 }' /proc/stat)
  {
    echo "$((began - 9000)).000000 lab kernel: Linux version 6.1.0-lab (lab@lab) #1 SMP"
    echo "$((began - 700)).417093 lab kernel: $NVRM_0: 79, pid=900, name=python3, GPU has fallen off the bus."
    echo "$((began - 699)).417093 lab kernel: $NVRM_0: 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
    echo "$began.000000 lab kernel: Linux version 6.1.0-lab (lab@lab) #1 SMP"
    echo "$((began + 2)).114000 lab kernel: systemd[1]: Starting the lab."
  } >/run/lab/journal
fi
