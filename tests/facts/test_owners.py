"""Whose a process is decides whether it is left over; how old and how idle it must be depends on that."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from engine.facts.gpu_jobs.classification import JobMatch, classify
from engine.facts.owners.evidence import OwnerEvidence, ask_owners, read_owners
from engine.facts.owners.owners import owners_of
from engine.shell import script
from engine.values.command import Completed
from engine.values.types import Unknown
from tests.facts.made_up_hosts import load, row, use, walk
from tests.tables import every_row

SITUATIONS = yaml.safe_load((Path(__file__).parent / "owner_situations.yaml").read_text())["situations"]
BOX = "ab" * 6
GROUPS = {
    "service": "/system.slice/ollama.service",
    "user service": "/user.slice/user-1000.slice/user@1000.service/app.slice/vllm.service",
    "ssh": "/system.slice/ssh.service",
    "container": f"/system.slice/docker-{BOX * 5}abab.scope",
    "pod": f"/kubepods.slice/kubepods-pod8f.slice/cri-containerd-{BOX * 5}abab.scope",
    "job": "/slurm/uid_1000/job_4711/step_0",
}
UNITS = {"service": "ollama.service", "user service": "vllm.service", "ssh": "ssh.service"}


def played(given: dict):
    """The process of a situation as a second look classifies it: the name of the list that it is in, and its owner."""
    group, inside = given.get("group", ""), given.get("inside", False)
    parent = {"launcher": 5, "shell": 6, "notebook": 7, "tmux": 8, "sshd": 9, "manager": 4}.get(
        given.get("under", ""), 1
    )
    made = row(10, parent, terminal=bool(given.get("terminal")))
    container = {"container": BOX, "pod": BOX, "job": "job_4711"}.get(group, "")
    process = replace(made.process, seconds=given.get("age", 7200.0), container=container, unit=UNITS.get(group, ""))
    leader = {"living": 6, "pid 1": 1, None: 0}[given.get("terminal")]
    made = replace(made, process=process, cgroup=GROUPS.get(group, ""), leader=leader)
    others = (
        row(4, argv=("/lib/systemd/systemd", "--user"), name="systemd"),
        row(5, argv=("python", "torchrun")),
        row(6, argv=("-bash",), terminal=True, name="bash"),
        row(7, argv=("python", "/opt/venv/bin/jupyter-lab")),
        row(8, argv=("tmux", "new"), name="tmux: server"),
        row(9, argv=("sshd: u@notty",), name="sshd"),
    )
    seen = walk(*others, made, holds={10: [0]})
    if inside:
        first = replace(seen.table.rows[1], process=replace(seen.table.rows[1].process, container=container))
        seen = replace(seen, table=replace(seen.table, rows={**seen.table.rows, 1: first}))
    keys = {it.process.key for it in seen.table.rows.values()}
    answer = Unknown(why="it gave no answer") if given.get("silent") else None
    evidence = OwnerEvidence(
        keys=keys,
        jobs_of={10: frozenset(["4711"])} if given.get("claims") else {},
        jobs={"4711": answer or tuple(given.get("job", "").split())},
        units={f"unit:{UNITS.get(group)}": answer or given.get("state", "active"),
               "user:1000:vllm.service": answer or given.get("state", "active")},
        containers={BOX: answer or (given.get("state", "running"), "/vllm")},
        ports={given.get("port_of", 10): (8000,)} if given.get("listens") else {},
        dark={10: "it may not be inspected"} if given.get("dark") else {},
        slurmd="slurmd gave no answer" if given.get("slurmd") == "silent" else "",
    )  # fmt: skip
    busy = 90 if given.get("busy") else 0
    job = {"starting": 300, **given.get("options", {})}
    closer = use(load(0, busy), seen, evidence, **job)
    match = classify((process,), keys, closer)
    return next((name for name in LISTS if getattr(match, name) and _has(match, name)), "nothing"), closer.owners[10]


LISTS = ("at_work", "owned", "starting", "listening", "protected", "leftover")


def _has(match: JobMatch, name: str) -> bool:
    found = getattr(match, name)
    return not isinstance(found, Unknown) and any(it.pid == 10 for it in found)


@every_row("number", range(len(SITUATIONS)))
def test_each_situation_comes_to_what_stands_in_the_table(number):
    """Mutants: classification.py without each of its lists; ORPHANED or LISTENING of 0; owners.py without an owner."""
    given = SITUATIONS[number]
    found, owner = played(given)
    assert (found, owner.kind) == (given["then"], given["owner"]), f"{given}: {owner.name}"


def test_there_are_enough_situations():
    assert len(SITUATIONS) >= 24


def test_what_does_not_answer_makes_every_owner_unknown():
    """Mutant: `read_owners` that takes a script that was cut off for one that found nothing."""
    seen = walk(row(10))
    done = ask_owners([10], seen.table)
    assert "pid:10" in done.argv
    for cut in (
        Completed(stdout="listen 10 8000\n", stderr="", exit_code=0, seconds=1.0),
        Completed(stdout="asked\n", stderr="sh: xargs", exit_code=3, seconds=1.0),
        Completed(stdout="", stderr="", exit_code=None, seconds=90.0, timed_out=True),
    ):
        (owner,) = owners_of([10], seen.table, read_owners(cut, [10], seen.table)).values()
        assert owner.kind == "unknown"
    good = Completed(stdout="asked\n", stderr="", exit_code=0, seconds=1.0)
    (owner,) = owners_of([10], seen.table, read_owners(good, [10], seen.table)).values()
    assert owner.kind == "orphan"


@pytest.mark.parametrize(
    "state", ["PENDING", "REQUEUED", "COMPLETING", "SUSPENDED", "SOME_NEW_STATE", "RUNNING COMPLETED"]
)
def test_only_a_state_that_is_known_as_an_end_is_one(state):
    assert played({"claims": True, "job": state})[1].kind == "allocated"


def asked(folder: Path, programs: dict[str, str], *words: str) -> list[str]:
    """What the script prints on a host with these programs."""
    for name, text in programs.items():
        (folder / name).write_text(f'#!/bin/sh\necho {name} >>"{folder}/calls"\n{text}\n')
        (folder / name).chmod(0o755)
    path = f"{folder}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-c", script("engine.facts.owners", "owners"), "sh", *words],
        capture_output=True, text=True, env={**os.environ, "PATH": path}, timeout=60, check=True,
    )  # fmt: skip
    return done.stdout.splitlines()


def test_who_gives_no_answer_is_asked_once(tmp_path):
    """Mutants: owners.sh without `is_silent` of jobs; of units."""
    silent = {"squeue": "exit 124", "systemctl": "exit 124"}
    said = asked(tmp_path, silent, "job:1", "job:2", "job:3", "unit:a.service", "unit:b.service")
    assert [line for line in said if line.startswith("failed")] == [
        *(f"failed job:{number} squeue gave no answer within 10 s" for number in (1, 2, 3)),
        *(f"failed unit:{name}.service systemctl gave no answer within 10 s" for name in "ab"),
    ]
    assert (tmp_path / "calls").read_text().split() == ["squeue", "systemctl"]
    assert said[-1] == "asked"


def test_no_name_of_a_container_can_say_anything_of_another_process(tmp_path):
    """Mutant: owners.sh that prints what the engine says as it is."""
    said = asked(tmp_path, {"docker": "printf 'running /x pod\\njob 7 GONE\\n'"}, f"box:{BOX}", "job:7")
    assert f"box {BOX} running /x pod" in said
    assert "job 7 GONE" not in said


def test_a_job_is_gone_only_by_slurm_s_own_word(tmp_path):
    """Mutants: any failure of squeue taken for an end; a list without the job; a state in other words."""
    words = {
        "1": "echo 1 RUNNING", "2": "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1", "3": ":",
        "4": "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1", "5": "echo 'what is this'",
    }  # fmt: skip
    cases = "".join(f"*' -j {number} '*) {text};;\n" for number, text in words.items())
    said = asked(tmp_path, {"squeue": f'case " $* " in\n{cases}esac'}, *(f"job:{number}" for number in words))
    assert [line for line in said if line.startswith("job ")] == ["job 1 RUNNING ", "job 2 GONE", "job 3 GONE"]
    assert sum(line.startswith(("failed job:4", "failed job:5")) for line in said) == 2


def of_job(ages: dict[int, float], evidence: OwnerEvidence) -> JobMatch:
    """A launcher (20) and its ranks, of which all hold a GPU, by how long each has run."""
    rows = [
        replace(made, process=replace(made.process, seconds=ages[made.process.pid]))
        for made in (row(pid, 1 if pid == 20 else 20) for pid in ages)
    ]
    seen = walk(*rows, holds={pid: [0] for pid in ages if pid != 20})
    keys = {it.process.key for it in seen.table.rows.values()}
    closer = use(load(0, 0), seen, replace(evidence, keys=keys), starting=300)
    return classify(tuple(it.process for it in rows), keys, closer)


def test_what_owns_one_process_of_a_job_owns_all_and_an_unknown_one_hides_all():
    """Mutant: `of_whole_job` that gives each process its own."""
    old = {20: 7200.0, 21: 7200.0, 22: 7200.0}
    running = OwnerEvidence(jobs_of={20: frozenset(["7"])}, jobs={"7": ("RUNNING",)})
    assert [it.pid for it in of_job(old, running).owned] == [20, 21, 22]
    silent = replace(running, jobs={"7": Unknown(why="no answer")})
    assert [it.pid for it in of_job(old, silent).protected] == [20, 21, 22]
    assert isinstance(of_job(old, silent).leftover, Unknown)
    both = replace(
        silent, jobs_of={20: frozenset(["7"]), 21: frozenset(["8"])}, jobs={**silent.jobs, "8": ("RUNNING",)}
    )
    assert [it.pid for it in of_job(old, both).owned] == [20, 21, 22]


def test_a_rank_that_was_started_again_makes_its_whole_job_starting():
    """Mutant: `_young` by the oldest holder."""
    again = of_job({20: 7200.0, 21: 7200.0, 22: 30.0}, OwnerEvidence())
    assert ([it.pid for it in again.starting], again.leftover) == ([20, 21, 22], ())
    assert [it.pid for it in of_job({20: 7200.0, 21: 7200.0}, OwnerEvidence()).leftover] == [20, 21]
