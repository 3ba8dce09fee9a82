"""gpu_allocations: the jobs that have a GPU are named; what Slurm does not say is unknown, and never nobody."""

from __future__ import annotations

import platform
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from runbook.errors import ProbeError
from runbook.language.arguments import build
from runbook.library.gpu.facts.model import ComputeProcess, Gpu, GpuPresence
from runbook.library.processes.facts.owners.model import Owner
from runbook.library.scheduler import gpu_allocations
from runbook.library.scheduler.facts.allocations import Allocation, contradictions, read_allocations
from runbook.values.command import Completed
from runbook.values.types import Unknown
from tests.support.fake_nvidia_smi import Pretended, gpu, plant, uuid
from tests.support.probe_driver import Here, drive
from tests.support.tables import every_row

LINE = (
    "JobId={id} JobName={name} UserId=bob(1000) GroupId=ml(1000) MCS_label=N/A JobState=RUNNING Reason=None Requeue=1"
    " NodeList=gpu[01-02] CoreSpec=* JOB_GRES=gpu:h100:2   {on} MinCPUsNode=8 Command=/home/bob/train.sh"
)
ON = "Nodes={nodes} CPU_IDs=0-15 Mem=64000 GRES={gres}"


def line(on: str, number: int = 7, name: str = "train") -> str:
    return LINE.format(id=number, name=name, on=on)


def of(*lines: str, users: str = "user 7 bob\n", end: str = "listed yes\n") -> tuple[Allocation, ...] | Unknown:
    rows = "".join(f"job 7 {text}\n" for text in lines)
    return read_allocations(Completed(exit_code=0, stdout=f"{users}{rows}{end}"), "gpu02")


@every_row(
    ("on", "gpus"),
    [
        (ON.format(nodes="gpu02", gres="gpu:h100:2(IDX:0-1)"), (0, 1)),
        (ON.format(nodes="gpu[01-02]", gres="gpu:2(IDX:0,3)"), (0, 3)),
        (ON.format(nodes="gpu02", gres="gpu:1(IDX:7),nic:2(IDX:0-1)"), (7,)),
        (ON.format(nodes="gpu02", gres="gpu:a100:1(IDX:0),gpu:h100:2(IDX:2-3)"), (0, 2, 3)),
        ("Nodes=gpu02 CPU_IDs=0-7 Mem=0 GRES_IDX=gpu(IDX:1)", (1,)),
        (ON.format(nodes="gpu02", gres=""), ()),
        (ON.format(nodes="gpu02", gres="license:1"), ()),
        (
            ON.format(nodes="gpu01", gres="gpu:2(IDX:0-1)") + " " + ON.format(nodes="gpu02", gres="gpu:2(IDX:2-3)"),
            (2, 3),
        ),
    ],
)
def test_the_gpus_of_a_job_are_those_of_this_node(on, gpus):
    """Mutants: the first node's; a range without its end; a card of another kind that counts as a GPU."""
    (only,) = of(line(on))
    assert only == Allocation(job="7", user="bob", gpus=gpus)
    assert str(only) == "job 7 of bob"


@every_row(
    ("on", "why"),
    [
        (ON.format(nodes="gpu02", gres="gpu:h100:2"), "does not say which GPUs job 7 has (gpu:h100:2)"),
        (ON.format(nodes="gpu02", gres="gpu:h100:2(IDX:N/A)"), "does not say which GPUs job 7 has"),
        (ON.format(nodes="gpu02", gres="gpu:h100:2(IDX:5-2)"), "does not say which GPUs"),
        (ON.format(nodes="gpu02", gres="gpu:h100:2(IDX:0-999)"), "does not say which GPUs"),
        (ON.format(nodes="gpu02", gres="shard:h100:4(0/8,4/8)"), "shares of GPUs (shard)"),
        (ON.format(nodes="gpu02", gres="mps:100(IDX:0)"), "shares of GPUs (mps)"),
        (ON.format(nodes="gpu01", gres="gpu:2(IDX:0-1)"), "says nothing of what job 7 has on gpu02"),
        ("", "says nothing of what job 7 has on gpu02"),
        (ON.format(nodes="gpu[", gres="gpu:2(IDX:0-1)"), "says nothing"),
    ],
)
def test_what_slurm_does_not_say_is_unknown(on, why):
    """Mutant: a job without an index that has no GPU."""
    (only,) = of(line(on))
    assert isinstance(only.gpus, Unknown)
    assert why in only.gpus.why


@every_row(
    "name",
    [
        f"x {ON.format(nodes='gpu02', gres='gpu:1(IDX:5)')}",
        f"x {ON.format(nodes='gpu02', gres='')}",
    ],
)
def test_a_jobs_name_that_says_where_it_runs_makes_it_doubtful(name):
    """Mutants: the first of several; the last."""
    (only,) = of(line(ON.format(nodes="gpu02", gres="gpu:2(IDX:0-1)"), name=name))
    assert isinstance(only.gpus, Unknown)
    assert "in several ways" in only.gpus.why


def test_a_name_of_several_lines_makes_it_doubtful():
    (only,) = of(*line(ON.format(nodes="gpu02", gres="gpu:2(IDX:0-1)"), name="x\ny").split("\n"))
    assert isinstance(only.gpus, Unknown)
    (other,) = of(line(ON.format(nodes="gpu02", gres="gpu:2(IDX:0-1)"), number=77))
    assert isinstance(other.gpus, Unknown), "another job's line"


@every_row(
    ("done", "why"),
    [
        (Completed(exit_code=None, timed_out=True, seconds=75), "no answer in time"),
        (Completed(exit_code=0, stdout="failed squeue failed (exit code 1): error\nlisted yes\n"), "squeue failed"),
        (Completed(exit_code=0, stdout="user 7 bob\n"), "incomplete"),
        (Completed(exit_code=3, stdout="listed yes\n"), "incomplete"),
    ],
)
def test_a_list_that_is_not_whole_is_unknown(done, why):
    found = read_allocations(done, "gpu02")
    assert isinstance(found, Unknown)
    assert why in found.why
    assert read_allocations(Completed(exit_code=0, stdout="listed yes\n"), "gpu02") == ()


def test_numbers_that_the_processes_contradict_are_not_believed():
    """Mutant: ``contradictions`` that finds none."""
    jobs = (Allocation(job="7", user="bob", gpus=(0, 1)), Allocation(job="8", user="eve", gpus=Unknown(why="?")))
    assert contradictions(jobs, {"7": {0}, "8": {5}, "9": {1}}) == ""
    assert "job 7 runs on GPU 3" in contradictions(jobs, {"7": {0, 3}})


# ---- with a pretended Slurm ------------------------------------------------------------------------------------------

SQUEUE = '#!/bin/sh\ncase "$*" in *"%A %u"*) printf "7 bob\\n8 eve\\n";; *) printf "7 RUNNING bob\\n8 RUNNING eve\\n";; esac\n'
SCONTROL = """\
#!/bin/sh
case "$*" in
  *"show node"*) echo "NodeName={node} State=MIXED NodeHostName={node} Gres=gpu:2";;
  *"show job 7"*) echo '{seven}';;
  *"show job 8"*) echo '{eight}';;
esac
"""


@pytest.fixture
def ask(tmp_path: Path):
    """Probes with GPUs of a node on which jobs 7 and 8 have what is given."""
    node = platform.node().partition(".")[0]
    root = plant(tmp_path / "root", gpus=2)

    def probe(seven: str, eight: str, *gpus: str, **keys):
        folder = Pretended(gpus=[gpu(0), gpu(1)], **keys).install(tmp_path / "bin")
        texts = {
            "seven": line(ON.format(nodes=node, gres=seven)),
            "eight": line(ON.format(nodes=node, gres=eight), number=8),
        }
        for name, text in (("squeue", SQUEUE), ("scontrol", SCONTROL.format(node=node, **texts))):
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        here = Here(path=folder, root=root)
        return drive(gpu_allocations.probe(build(gpu_allocations.Args, {"gpus": list(gpus), "kind": "slurm"})), here)

    return probe


def test_the_jobs_of_a_gpu_are_named_and_the_others(ask):
    """Mutants: the jobs of the other GPUs; of all."""
    state = ask("gpu:h100:1(IDX:0)", "gpu:h100:1(IDX:1)", "1")
    assert (state.jobs, state.others, state.doubtful) == (("job 8 of eve",), ("job 7 of bob",), ())
    assert state.summary == (
        "GPU 1 is given to job 8 of eve: end it, or `scontrol requeue` it; nvidia-smi lists no process on it"
    )
    assert ask("gpu:h100:1(IDX:0)", "", "1").summary.startswith("Slurm has given GPU 1 to no job; ")


def test_a_job_of_unknown_gpus_is_told_beside_those_that_are_known(ask):
    """Mutant: an unknown job that is left out."""
    state = ask("gpu:h100:1(IDX:1)", "gpu:h100:1", "1")
    assert state.jobs == ("job 7 of bob",)
    assert "job 8 of eve: Slurm does not say which GPUs job 8 has" in state.doubtful[0]
    assert "not known of job 8 of eve" in state.summary
    only = ask("", "gpu:h100:1", "1")
    assert only.jobs == ()
    assert "no job" not in only.summary


@every_row("gpus", [("9",), ("0", "GPU-nobody")])
def test_a_mistyped_gpu_is_told_with_those_that_are_there(ask, gpus):
    with pytest.raises(ProbeError, match=rf"there is no GPU {gpus[-1]} on this host; there are: 0, 1"):
        ask("", "", *gpus)


def test_a_host_that_is_no_node_of_slurm_names_the_processes_alone():
    processes = ("pid 12 of bob: python train.py",)
    why = Unknown(why="only Slurm says which job has which GPU")
    said = gpu_allocations._summary([], why, (), processes)
    assert said.endswith(
        "is not known: only Slurm says which job has which GPU; on it runs pid 12 of bob: python train.py"
    )
    assert "what runs on it is not known: x" in gpu_allocations._summary([], why, (), Unknown(why="x"))


def test_a_contradiction_leaves_all_jobs_unknown():
    """Mutants: processes that are not compared; those of other jobs that are."""
    gpus = tuple(Gpu(index=at, uuid=uuid(at), bus_id=f"0000:9{at}:00.0") for at in (0, 1))
    there = GpuPresence(pci=2, nodes=(), tool=True, minors={gpu.bus_id: gpu.index for gpu in gpus})
    jobs = (Allocation(job="7", user="bob", gpus=(0,)), Allocation(job="8", user="eve", gpus=(1,)))
    apps = (ComputeProcess(gpu_uuid=uuid(1), pid=12, name="python", memory_mib=900.0),)

    def by_gpu(container: str):
        table = SimpleNamespace(rows={12: SimpleNamespace(process=SimpleNamespace(container=container))})
        return gpu_allocations._by_gpu(jobs, [gpus[1]], there, gpus, apps, table)

    assert by_gpu("job_8") == (("job 8 of eve",), ("job 7 of bob",), ())
    assert by_gpu("0f1e2d3c4b5a") == by_gpu("job_8")
    wrong, others, doubtful = by_gpu("job_7")
    assert isinstance(wrong, Unknown)
    assert "job 7 runs on GPU 1" in wrong.why
    assert (others, doubtful) == (wrong, ())
    unnumbered = gpu_allocations._by_gpu(jobs, [gpus[1]], replace(there, minors={}), gpus, (), SimpleNamespace(rows={}))
    assert isinstance(unnumbered[0], Unknown)


def test_a_process_on_the_gpu_is_named_with_its_owner():
    """Mutant: owners that are not asked for."""
    gpus = [Gpu(index=at, uuid=uuid(at), bus_id=f"0000:9{at}:00.0") for at in (0, 1)]
    apps = tuple(ComputeProcess(gpu_uuid=uuid(at), pid=12 + at, name="python", memory_mib=900.0) for at in (0, 1))
    rows = {pid: SimpleNamespace(process=SimpleNamespace(user="root", command="python train.py")) for pid in (12, 13)}
    table = SimpleNamespace(rows=rows)
    assert gpu_allocations._pids_on(gpus[1:], apps, table) == {13}
    owners = {13: Owner(kind="allocated", name="kubernetes pod ml/train-0 (running)")}
    assert gpu_allocations._processes(apps, gpus[1:], table, owners) == (
        "pid 13 of root: python train.py (kubernetes pod ml/train-0 (running))",
    )
