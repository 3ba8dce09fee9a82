# Sourced by the first process of a lab host, after its kernel's messages are there: what the ranks of a job of two hosts
# have printed.  The one host's ranks wait ten minutes for those of the other, which ended by themselves.
nccl=/run/lab/workspace/nccl
written() { touch -d "@$(($(date +%s) - $1))" "$nccl"/*.log; } # $1: how many seconds ago
started() { # rank
  echo "[rank$1]:[I1123 23:10:02.114417093 ProcessGroupNCCL.cpp:912] [PG ID 0 PG GUID 0(default_pg) Rank $1] ProcessGroupNCCL initialization options: size: 4, global rank: $1, TIMEOUT(ms): 600000"
  echo 'step 1579: loss 2.114, 3.2 s'
}
if has nccl_waits; then
  mkdir -p "$nccl"
  for rank in 0 1; do
    {
      started $rank
      echo "[rank$rank]:[E1123 23:31:38.408271257 ProcessGroupNCCL.cpp:632] [Rank $rank] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1580, OpType=ALLREDUCE, NumelIn=466119168, NumelOut=466119168, Timeout(ms)=600000) ran for 60006$rank milliseconds before timing out."
      echo "[rank$rank]:[E1123 23:31:38.465150152 ProcessGroupNCCL.cpp:2268] [PG ID 0 PG GUID 0(default_pg) Rank $rank]  failure detected by watchdog at work sequence id: 1580 PG status: last enqueued work: 1582, last completed work: 1579"
      echo "[rank$rank]:[E1123 23:31:38.465226410 ProcessGroupNCCL.cpp:698] [Rank $rank] To avoid data inconsistency, we are taking the entire process down."
    } >"$nccl/rank_$rank.log"
  done
  written 60
fi
if has nccl_cause; then
  mkdir -p "$nccl"
  for rank in 2 3; do started $rank >"$nccl/rank_$rank.log"; done
  {
    echo 'Traceback (most recent call last):'
    echo '  File "train.py", line 212, in save_checkpoint'
    echo "OSError: [Errno 28] No space left on device: '/workspace/checkpoints/step_1579/rank_3.pt'"
  } >>"$nccl/rank_3.log"
  written 640
fi
