"""What `training-crash` says of a log, by the words of its findings."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from runbook.codec import to_json
from runbook.commands.input_files import find_playbook, read_playbook
from runbook.language.arguments import build
from runbook.language.expressions.templates import Scope, evaluate, render
from runbook.language.lenient_read import unraw
from runbook.library.files import log_scan
from runbook.library.gpu import nccl_log
from runbook.library.jobs import job_log
from runbook.plugins import discover
from runbook.values.playbook import Playbook
from runbook.values.types import Unknown
from tests.support.probe_driver import Here, drive
from tests.support.tables import every_row

WATCHDOG = (
    "[E ProcessGroupNCCL.cpp:458] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum={number}, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 25625613 milliseconds before timing out."
)


@cache
def book() -> Playbook:
    return read_playbook(find_playbook("training-crash"), discover())


def said(folder: Path, *lines: str) -> str:
    """What `collective_timeout` says, where the trainer's log has *lines*."""
    (folder / "trainer.log").write_text("".join(f"{line}\n" for line in lines))
    ranks = build(nccl_log.Args, {"files": [str(folder / "trainer.log")]})
    looks = {
        "cause": to_json(drive(job_log.probe(job_log.Args(text="\n".join(lines))), Here())),
        "ranks": to_json(drive(nccl_log.probe(ranks), Here())),
    }
    (rule,) = (it for it in book().findings if it.id == "collective_timeout")
    return " ".join(str(render(rule.say, Scope(states=looks, let=book().let[""]))).split())


def test_the_rank_that_came_least_far_is_named(tmp_path):
    """Mutant: the finding without what `ranks` saw."""
    lines = [WATCHDOG.format(rank=rank, number=number) for rank, number in ((0, 9020), (3, 9020), (7, 6088))]
    assert said(tmp_path, *lines).endswith("of the ranks in this log 7 had come less far than the others, which waited")
    assert "less far" not in said(tmp_path, *lines[:2])
    several = [WATCHDOG.format(rank=0, number=number) for number in (9017, 9025)]
    assert "less far" not in said(tmp_path, *lines, *several), "waits of several groups, of which the log names none"
    row = [WATCHDOG.format(rank=rank, number=31) for rank in (3, 1, 2, 5, 4, 7, 6)]
    assert said(tmp_path, *row).endswith("; rank 0 is missing among those that waited: it did not come")
    plain = "dump signal due to a collective timeout from rank 13"
    assert said(tmp_path, plain).endswith(plain)


def found_in(
    *lines: str,
    age: float = 1200.0,
    working: bool = False,
    server: bool = False,
    trainer: bool = True,
    writers: object = (),
    warnings: bool = False,
) -> list[str]:
    """The causes that are told where the trainer's log ends with *lines*, and nothing else is wrong."""
    inputs = {it.name: it.default for it in book().inputs}
    steps = {it.id: unraw(it.args) for it in book().diagnose}

    def scan(step: str, *more: str) -> dict[str, object]:
        if step == "cause":
            return to_json(drive(job_log.probe(job_log.Args(text="\n".join(more))), Here()))
        signatures = steps[step]["signatures"]
        args = build(log_scan.Args, {"text": "\n".join(more), "signatures": signatures, "ignore_case": True})
        return {**to_json(drive(log_scan.probe(args), Here())), "last": [{"text": more[-1], "age": age, "file": "/x"}]}

    nothing = {"matches": [], "found": [], "counts": {}, "files": [], "missing": ["/s"], "last": []}
    looks: dict[str, object] = {it.id: Unknown(why="not asked") for it in book().diagnose}
    looks |= {
        "trainer": scan("trainer", *(["a quiet line"] if server else lines)) if trainer else nothing,
        "cause": scan("cause", *(["a quiet line"] if server and trainer else lines)),
        "server": scan("server", *lines) if server else nothing,
        "jobs": {"matches": [{"pid": 1}] if working else []},
        "writers": {"processes": [*writers] if isinstance(writers, tuple) else writers, "recorders": []},
        "loop_there": {"count": 0},
    }
    scope = Scope(inputs=inputs, host={"name": "h", "groups": []}, states=looks, let=book().let[""])
    own = [
        it
        for it in book().findings
        if (it.severity.drives or warnings) and not it.id.startswith(("loop_", "gpu_", "disk_"))
    ]
    own += [it for it in book().findings if it.id in ("gpu_memory", "gpu_not_built_for")]
    told = [it for it in own if evaluate(it.when, scope) is True]
    return [it.id for it in told if not {other.id for other in told} & set(it.unless)]


STEPS = [f"2026-11-28 10:{minute:02}:00 step {minute} | loss 2.1" for minute in range(0, 60, 12)]


@every_row(
    ("lines", "age", "told"),
    [
        (["rank 0: Setting up process group for : env:// [rank=0, world_size=2]"], 2100, ["silent_hang"]),
        (["rank 0: Setting up process group for : env:// [rank=0, world_size=2]"], 300, []),
        (["ValueError: a rank failed, and the others wait"], 2100, ["silent_hang"]),
        (["[rank1]: PIL.UnidentifiedImageError: cannot identify image file 'a.jpg'"], 2100, ["silent_hang"]),
        (["ValueError: 8 heads are not divisible by 3"], 2100, ["silent_hang"]),
        (["Stalled ranks:", "6: [allreduce.0]"], 2100, ["ranks_stalled"]),
        (["Stalled ranks:", "6: [allreduce.0]"], 300, []),
        (["Stalled ranks:", "6: [allreduce.0]"] * 10, 5, ["ranks_stalled"]),
        (["step 9 | loss nan"] * 3, 2100, ["diverged"]),
        (["train_loss nan", "val_loss nan"], 60, ["diverged"]),
        (["step 8 | loss 2.1", "step 9 | loss nan"], 60, []),
        (["{'loss': 2.31, 'grad_norm': nan}"] * 2, 60, []),
        (["training completed"], 2100, []),
        (STEPS, 1200, []),
        (STEPS, 2400, ["silent_hang"]),
        (["Step: 3 | Loss: 1.2 | Time: 700s"], 1900, []),
        (["Step: 3 | Loss: 1.2 | Time: 700s"], 2200, ["silent_hang"]),
    ],
)
def test_a_training_that_lives_and_is_silent_is_hung_unless_its_pauses_are_as_long(lines, age, told):
    """Mutants: ``silent_after`` without the pauses of the log, or without its steps; ``usual_pause`` that is never known."""
    assert found_in(*lines, age=age, working=True) == told
    assert found_in(*lines, age=age, writers=({"pid": 2},)) == told


def test_a_training_that_has_ended_and_still_writes_its_log_is_a_warning():
    """Mutants: `lives_after_the_end` without the age; with the processes that only match `patterns`, as a server does."""
    told = "lives_after_the_end"
    assert told in found_in("training completed", writers=({"pid": 2},), warnings=True)
    assert told not in found_in("training completed", writers=({"pid": 2},), age=60, warnings=True)
    assert told not in found_in("training completed", working=True, warnings=True)


def test_a_training_whose_log_nobody_is_known_to_write_has_not_stopped():
    """Mutants: `silent_and_gone` without the writers; unknown writers are none."""
    assert found_in("a last line that says nothing") == ["silent_stop"]
    assert found_in("a last line that says nothing", writers=Unknown(why="no sudo")) == []
    assert found_in("ValueError: no more", writers=Unknown(why="no sudo")) == ["last_error"]


@every_row(
    ("age", "working", "wanted"), [(1200.0, False, ["last_error"]), (1200.0, True, ["last_error"]), (60.0, True, [])]
)
def test_a_server_whose_log_ends_with_an_error_is_told_whatever_lives_beside_it(age, working, wanted):
    """Mutant: ``server_is_silent`` left out. One that answers again writes its log, too."""
    line = "RuntimeError: Executor worker returned error"
    assert found_in(line, age=age, working=working, server=True, trainer=False) == wanted


@every_row(
    ("lines", "cause"),
    [
        (["step 3 of 250", "OSError: [Errno 122] Disk quota exceeded"], ["quota"]),
        (["RuntimeError: CUDA error: uncorrectable ECC error encountered", WATCHDOG.format(rank=0, number=1)], ["sick_memory"]),
        (["terminate called after throwing an instance of 'c10::Error'", "  what():  CUDA error: uncorrectable NVLink error detected during the execution"], ["nvlink_failed"]),
        (["RuntimeError: CUDA error: an error", WATCHDOG.format(rank=0, number=1), "cudaErrorNvlinkUncorrectable"], ["nvlink_failed"]),
        (["CUDA_ERROR_NVLINK_UNCORRECTABLE: uncorrectable NVLink error detected during the execution"], ["nvlink_failed"]),
        (["NCCL WARN Cuda failure 220 'uncorrectable NVLink error detected during the execution'"], ["nvlink_failed"]),
        (["CUDA driver error: 220"], ["nvlink_failed"]),
        (["RuntimeError: CUDA Runtime API error = 0220"], ["last_error"]),
        (["torch.AcceleratorError: CUDA error 220 at model.cu:12"], ["nvlink_failed"]),
        (["step 220: CUDA error: uncorrectable ECC error encountered"], ["sick_memory"]),
        (["cudaErrorECCUncorrectable"], ["sick_memory"]),
        (["step 219 | loss 2.20", "step 220 | loss 2.1"], ["silent_stop"]),
        (["CUDA error: an illegal memory access was encountered", "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions."], ["program_fault"]),
        (["exits with return code = -7"], ["bus_error"]),
        (["[INFO] [launch.py:315:sigkill_handler] Killing subprocess 2726715"], ["silent_stop"]),
        (["/tmp/slurmd/job1/slurm_script: line 9:  4727 Killed "], ["killed"]),
        (["DEADLINE_EXCEEDED: Barrier timed out. Timed out task names: 1"], ["rendezvous"]),
        (["wandb.errors.errors.CommError: Run initialization has timed out after 90.0 sec."], ["not_tracked"]),
        (["TimeoutError: no answer"], ["timed_out"]),
        (["ibvwrap.cc:284 NCCL WARN Call to ibv_modify_qp failed with error Invalid argument"], ["rdma_not_set_up"]),
        (["ibvwrap.c:262 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out"], ["network_fault"]),
        (["NCCL WARN Call to ibv_reg_mr_iova2 failed with error Bad address"], ["rdma_not_set_up"]),
        (["Loss.cu:94: operator(): block: [1,0,0], thread: [8,0,0] Assertion `input_val >= zero && input_val <= one` failed.", "RuntimeError: CUDA error: device-side assert triggered"], ["failed_assertion"]),
        (["NLLLoss.cu:66: Assertion `t >= 0 && t < n_classes` failed."], ["failed_assertion"]),
        (["Indexing.cu:1289: block: [9,0,0] Assertion `srcIndex < srcSelectDimSize` failed."], ["index_error"]),
        (["IndexKernel.cu:92: Assertion `-sizes[i] <= index && index < sizes[i] && \"index out of bounds\"` failed."], ["index_error"]),
        (["Shard process was signaled to shutdown with signal 4 rank=0"], ["illegal_instruction"]),
        (["./go.sh: line 3: 771 Illegal instruction     (core dumped) python3 fit.py"], ["illegal_instruction"]),
        (["CUDA error: an illegal instruction was encountered"], ["program_fault"]),
        (["python: can't open file '/var/spool/slurmd/job7/fit.py': [Errno 2] No such file or directory", "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 2) local_rank: 0 (pid: 8)"], ["program_not_there"]),
        (["bash: line 4: torchrun: command not found"], ["program_not_there"]),
        (["/tmp/job: line 9: ./run.sh: No such file or directory"], ["silent_stop"]),
        (["update_weights begins", "TimeoutError: no answer"], ["update_timeout"]),
        (["Exception: Current loss scale already at minimum - cannot decrease scale anymore."], ["diverged"]),
        (["{'loss': 0.0, 'grad_norm': nan}"] * 3, ["diverged"]),
        (["{'loss': 0.1, 'grad_norm': nan}", "{'loss': 0.1, 'grad_norm': 1.0}"], ["silent_stop"]),
        ([*["loss: nan"] * 3, "loss: 0.31"], ["silent_stop"]),
        (["`Trainer.fit` stopped: `max_epochs=1` reached."], []),
        (["EarlyStopping: Training stopped early as no improvement observed"], []),
        (["training completed", "OSError: [Errno 28] No space left on device"], ["failed_after_the_end"]),
        (["training completed", "Received sigterm"], []),
        (["NCCL WARN Net : Connection closed by remote peer node7<47861>"], ["peer_gone"]),
        (["Duplicate GPU detected : rank 1 and rank 0 both on CUDA device b3000"], ["nccl_not_set_up"]),
        (["RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory"], ["checkpoint_broken"]),
        (["torch.distributed.elastic.multiprocessing.api.SignalException: Process 1313 got signal: 2"], ["ended_from_outside"]),
        (["jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4770354232 bytes."], ["gpu_memory"]),
        (["RuntimeError: write(): fd 29 failed with Input/output error"], ["not_written"]),
        (["OpenBLAS blas_thread_init: RLIMIT_NPROC 4096 current, 513046 max"], ["system_limit"]),
        (["Warning  Evicted  109s  kubelet  Pod ephemeral local storage usage exceeds the total limit of containers 5Gi."], ["ended_from_outside"]),
        (["TERM_MEMLIMIT: job killed after reaching LSF memory usage limit."], ["memory_limit"]),
        (["Epoch 8: early stopping", "Restoring model weights from the end of the best epoch: 6."], []),
        (["iteration 5428 | loss scale: 1.0 | grad norm: nan | samples per second: 1.9"] * 3, ["diverged"]),
        (["Gradient overflow. Skipping step, loss scaler 0 reducing loss scale to 4.1e-202"] * 3, ["diverged"]),
        (["Gradient overflow. Skipping step, loss scaler 0 reducing loss scale to 256.0"] * 3, ["silent_stop"]),
        (["ResourceExhaustedError (see above for traceback): OOM when allocating tensor with shape[256,112]"], ["gpu_memory"]),
        (["slurmstepd: error: Detected 1 oom_kill event in StepId=7.0.", "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-01-01T00:00:00 ***"], ["memory_limit"]),
        (["(raylet) A worker died or was killed while executing a task", "ray.exceptions.RayTaskError(KeyError): ray::train()", "KeyError: 'idz'"], ["last_error"]),
        (["ValueError: No available memory for the cache blocks.", "RuntimeError: Engine core initialization failed"], ["gpu_memory"]),
        (["(raylet) A worker died or was killed while executing a task. (3) The worker is crashed unexpectedly due to SIGSEGV or other unexpected errors."], ["worker_failed"]),
        (["task:37 has been set to ERROR: UNAVAILABLE: heartbeat timeout. This indicates that the remote task has failed"], ["peer_gone"]),
        (["HorovodBroadcast_dense_bias_0 [missing ranks: 1]"], ["ranks_stalled"]),
        (["[ERROR] [launch.py:321:sigkill_handler] ['python', 'train.py'] exits with return code = 1"], ["last_error"]),
        (['{"current_steps": 3235, "total_steps": 3235, "loss": null, "percentage": 100.0}'], []),
        (["a last line that says nothing"], ["silent_stop"]),
        (["[exiting program after 30.5 minutes] datetime: 2024-01-01"], []),
        (["100 epochs completed in 0.1 hours.", "FileNotFoundError: best.pt"], []),
        (["Caught signal SIGHUP on n1: this job is preempted.", "Requeued job 5 (1 remaining timeouts)"], ["ended_from_outside"]),
        (["  exitcode  : -15 (pid: 4)"], ["ended_from_outside"]),
        (["Task launch for StepId=2.0 failed on node n7: Socket timed out on send/recv operation"], ["not_launched"]),
        (["NCCL WARN Call to ibv_create_cq failed with error Cannot allocate memory"], ["locked_memory"]),
        (["torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device"], ["gpu_not_built_for"]),
        (["ray.exceptions.RayTaskError(TimeoutError): ray::RolloutManager.generate()"], ["rollout_timeout"]),
        (["torch.distributed.elastic.multiprocessing.errors.ChildFailedError:", "  exitcode  : 1 (pid: 2)"], ["last_error"]),
        (["NaN detected in loss function, aborting training"], ["diverged"]),
        (["./go.sh: line 18:    36 Killed   python3 fit.py"], ["killed"]),
        (["ranks [3] are the lagging ranks that caused this timeout", WATCHDOG.format(rank=0, number=1)], ["ranks_stalled"]),
        (["ncclUnhandledCudaError: Call to CUDA function failed."], ["nccl_not_set_up"]),
        (["RuntimeError: NCCL error: unhandled system error"], ["nccl_not_set_up"]),
        (["terminate called after throwing an instance of 'std::bad_alloc'", "  what():  std::bad_alloc"], ["host_memory"]),
        (["train.py: error: unrecognized arguments: --fast"], ["setting_refused"]),
        (["pyarrow.lib.ArrowInvalid: Parquet magic bytes not found in footer."], ["data_unreadable"]),
        (["RuntimeError: DataLoader worker (pid(s) 4110) exited unexpectedly"], ["worker_failed"]),
        (["FloatingPointError: Loss became infinite or NaN at iteration=7!"], ["diverged"]),
        (["the grad norm is nan. Skipping the update"], ["silent_stop"]),
        (["KeyError: 'x'", "[rank1]: ProcessGroupNCCL's watchdog got stuck for 480 seconds"], ["last_error"]),
    ],
)  # fmt: skip
def test_one_cause_is_told_the_one_with_the_strongest_evidence(lines, cause):
    """Mutants: the order of the signatures; a cause without its condition."""
    assert found_in(*lines) == cause


def advised(finding: str, *lines: str) -> str:
    """The first advice of *finding*, where the log of the training has *lines*."""
    (rule,) = (it for it in book().findings if it.id == finding)
    cause = to_json(drive(job_log.probe(job_log.Args(text="\n".join(lines))), Here()))
    scope = Scope(states={"cause": cause}, host={"name": "h", "groups": []}, let=book().let[""])
    return " ".join(str(render(rule.advise[0], scope)).split())


def test_the_advice_on_an_error_names_the_first_line_of_it():
    """Mutants: the advice that sends to the first error where there is only one; without its line."""
    alone = advised("last_error", "step 1", "KeyError: 'labels'")
    assert (
        alone
        == "That is the only error in text (line 2): the lines above it, its traceback, name the place in the program."
    )
    several = advised("last_error", "KeyError: 'labels'", "step 1", "RuntimeError: a child failed")
    assert several.startswith("Read text from its first error on (line 1): KeyError: 'labels'. What follows")


def test_a_failed_link_is_no_broken_memory():
    """Mutant: the words of NVLink among those of ECC."""
    assert found_in("CUDA error: uncorrectable NVLink error detected", server=True) == ["nvlink_failed"]
    (rule,) = (it for it in book().findings if it.id == "nvlink_failed")
    assert "runbook run nvlink " in rule.advise[0]
    assert not any("row-remap" in it or "memory" in it for it in rule.advise)


@every_row(
    ("finding", "line"),
    [
        ("nvlink_failed", "CUDA error: uncorrectable NVLink error detected"),
        ("sick_memory", "RuntimeError: CUDA error: uncorrectable ECC error encountered"),
        ("index_error", "CUDA error: device-side assert triggered"),
    ],
)
def test_the_line_that_tells_the_fault_is_quoted_not_the_first_of_the_log(finding, line):
    """Mutant: the brackets around both logs left out."""
    looks = {
        "cause": to_json(
            drive(job_log.probe(job_log.Args(text=f"Traceback (most recent call last):\n{line}")), Here())
        ),
        "trainer": {"files": ["/t.log"]},
        "server": {"files": [], "matches": [], "found": []},
    }
    (rule,) = (it for it in book().findings if it.id == finding)
    assert str(render(rule.say, Scope(states=looks, let=book().let[""]))).endswith(f": {line}")


@every_row("line", ["ValueError: bad", "a quiet line", "Connection reset by peer"])
def test_a_job_at_work_has_not_ended_with_an_error(line):
    assert found_in(line, age=3.0, working=True) == []


def test_a_log_of_long_ago_is_another_incident():
    assert found_in("OSError: [Errno 122] Disk quota exceeded", age=30 * 3600.0) == []


@every_row(
    ("lines", "words"),
    [
        (["Watchdog timeout (self.watchdog_timeout=300)", "Killed"], "its own watchdog ended it"),
        (["Traceback (most recent call last):", "ValueError: The model's max seq len is too large"], "ValueError: The model"),
        (["Traceback (most recent call last):", "torch.OutOfMemoryError: CUDA out of memory."], "CUDA out of memory"),
        (["Error: ShardCannotStart"], "ShardCannotStart"),
        (["terminate called after throwing an instance of 'X'", "  what():  MPI error 6"], "what(): MPI error 6"),
        (["(4.26 GiB is needed, which is larger than the available KV cache memory (4.25 GiB)."], "KV cache memory"),
        (["The model's max seq len (29000) is larger than the maximum number of tokens that can be stored in KV cache (23648)."], "KV cache"),
        (["huggingface_hub.errors.RepositoryNotFoundError: 401 Client Error."], "401 Client Error"),
        (["Error: Download process was signaled to shutdown with signal 7"], "with signal 7"),
    ],
)  # fmt: skip
def test_a_server_that_crashed_is_told_by_what_it_said_first(lines, words):
    steps = {it.id: unraw(it.args) for it in book().diagnose}
    args = build(
        log_scan.Args, {"text": "\n".join(lines), "signatures": steps["server"]["signatures"], "ignore_case": True}
    )
    (rule,) = (it for it in book().findings if it.id == "server_crash")
    looks = {"server": to_json(drive(log_scan.probe(args), Here()))}
    assert words in " ".join(str(render(rule.say, Scope(states=looks, let=book().let[""]))).split())
    assert found_in(*lines, server=True)[-1:] == ["server_crash"]
