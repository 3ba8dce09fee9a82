# Sourced by the first process of a lab host with a pipeline, once its jobs' folder is there.
place=/run/lab/workspace/pipeline
run=$place/outputs/wordle port=8000 model=small reads=$run waited=3600
has wrong_address && port=8001
has no_model && model=
has unseen && reads=$place/outputs/other
if has pipeline || has pipeline_ended; then waited=; fi
mkdir -p $place/.venv/bin $place/logs $place/trainer/rl $place/environments/wordle $place/models/small $run/rollouts
ln -s "$python" $place/.venv/bin/python
for it in inference orchestrator trainer/rl/train.py; do
    { echo "#!$place/.venv/bin/python -IS"; cat /run/lab/parts; } >$place/$it; chmod 755 $place/$it
done
{ cat /etc/hosts; echo "$address inference"; } >/run/lab/names; mount --bind /run/lab/names /etc/hosts
echo '{}' >$place/models/small/config.json
echo "# The inference server.
[model]
name = \"$model\"

[server]
host = \"inference\"
port = 8000" >$place/infer.toml
echo "# The orchestrator.
output_dir = \"$run\"
batch_size = 512  # samples

[client]
base_url = \"http://inference:$port/v1\"

[environment]
id = \"wordle\"" >$place/orch.toml
echo "# The trainer.
output_dir = \"$reads\"
max_steps = 1000

[model]
name = \"small\"  # ours

[optim]
lr = 1e-6" >$place/train.toml
for it in 9 10; do mkdir $run/rollouts/step_$it; echo x >$run/rollouts/step_$it/rank_0.pt; done
touch -d "@$((now - 1800))" $run/rollouts/step_*/rank_0.pt
if has outputs_read_only; then mount --bind $place/outputs $place/outputs; mount -o remount,bind,ro $place/outputs; fi
if has rollouts_read_only; then mount --bind $run $run; mount -o remount,bind,ro $run; fi
if has outputs_missing; then rm -r $place/outputs; fi
if has no_environment; then rmdir $place/environments/wordle; fi
if has trainer_died; then rm -r $place/models/small; fi
# $1 the part's file, $2 the name of its settings, $3 its environment, $4 what it says once it has begun.
part() {
    log=$place/logs/$(basename $1 .py).log
    (cd $place && exec env $3 setsid ./$1 @ $2.toml </dev/null >>$log 2>&1 &)
    n=0; until grep -q "$4" $log || [ $n -ge 200 ]; do sleep 0.03; n=$((n + 1)); done
}
if has pipeline_ended; then
    echo '06:40:01 INFO Shutting down' >$place/logs/inference.log
    echo '06:40:00 INFO Orchestrator finished.' >$place/logs/orchestrator.log
    echo '06:40:00 INFO RL trainer finished!' >$place/logs/trainer.log
else
    if has started_early; then part orchestrator orch TRIES=2 'Giving up'; fi
    if has inference_died; then
        echo '06:00:10 INFO Starting vLLM API server on http://inference:8000
06:00:31 ERROR EngineCore failed to start.
Traceback (most recent call last):
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 14.00 GiB.' >$place/logs/inference.log
    else
        sick=; if has inference_sick; then sick=1; fi
        part inference infer SICK=$sick 'complete'
    fi
    if has orchestrator_died; then
        echo "06:00:50 INFO Starting orchestrator (async_level=2), inference at http://inference:8000/v1
Traceback (most recent call last):
IndexError: list index out of range" >$place/logs/orchestrator.log
    elif ! has started_early; then
        idle=; if has idle; then idle=1; fi
        part orchestrator orch IDLE=$idle 'INFO W\|Error\|HTTPException'
    fi
    part trainer/rl/train.py train WAITED=$waited 'Waiting\|Error'
    mv $place/logs/train.log $place/logs/trainer.log
fi
