"""Whose a process is decides whether it is left over; how old and how idle it must be depends on that."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from runbook.library.jobs.facts import by_command_line, by_open_files
from runbook.library.jobs.facts.arguments import JobArguments
from runbook.library.jobs.facts.classification import JobMatch, classify
from runbook.library.processes import end
from runbook.library.processes.facts.control_groups import container_in, unit_in
from runbook.library.processes.facts.owners.evidence import OwnerEvidence, ask_owners, read_owners
from runbook.library.processes.facts.owners.owners import owners_of, without_owned
from runbook.shell import script
from runbook.values.command import Completed
from runbook.values.types import Unknown
from tests.facts.made_up_hosts import load, row, use, walk
from tests.support.real_processes import each, shell
from tests.support.tables import every_row

SITUATIONS = yaml.safe_load((Path(__file__).parent / "owner_situations.yaml").read_text())["situations"]
BOX = "ab" * 6
SCOPE = "/user.slice/user-1000.slice/session-7.scope"
USER_SERVICE = "/user.slice/user-1000.slice/user@1000.service/app.slice/vllm.service"
GROUPS = {
    "service": "/system.slice/ollama.service",
    "user service": USER_SERVICE,
    "ssh": "/system.slice/ssh.service",
    "container": f"/system.slice/docker-{BOX * 5}abab.scope",
    "pod": f"/kubepods.slice/kubepods-pod8f.slice/cri-containerd-{BOX * 5}abab.scope",
    "job": "/slurm/uid_1000/job_4711/step_0",
    "lxc": "/lxc.payload.web",
    "service in lxc": "/lxc.payload.web/system.slice/vllm.service",
    "service in old lxc": "/lxc/web/ns/system.slice/vllm.service",
    "service in proxmox": "/lxc.payload/101/system.slice/vllm.service",
    "docker in lxc": f"/lxc.payload.web/system.slice/docker-{BOX * 5}abab.scope",
    "job in lxc": "/lxc.payload.job_4711/init.scope",
    "service of a user in lxc": "/lxc.payload.web" + USER_SERVICE,
    "service in a container": f"/system.slice/docker-{BOX * 5}abab.scope/system.slice/vllm.service",
    "nspawn": "/machine.slice/machine-web.scope/payload/system.slice/vllm.service",
    "nspawn service": "/machine.slice/systemd-nspawn@web.service/payload/system.slice/vllm.service",
    "service in a scope": "/system.slice/box.scope/system.slice/vllm.service",
    "service in garden": "/garden/7f/system.slice/vllm.service",
    "too long": f"/a/{'x' * 480}/.../{'x' * 400}/system.slice/vllm.service",
    "too long and no service": f"/a/{'x' * 480}/.../{'x' * 490}",
    "login": SCOPE,
    "below login": f"{SCOPE}/app",
    "login in lxc": f"/lxc.payload.web{SCOPE}",
}
STATES = ("unit:ollama.service", "user:1000:vllm.service", "unit:machine-web.scope", "unit:systemd-nspawn@web.service",
          "unit:box.scope")  # fmt: skip
"""What the host's managers are asked; of `vllm.service`, which they do not know, they say what systemctl says then."""
PEOPLE = {
    "sshd": {"argv": ("sshd: u@notty",), "name": "sshd"},
    "bash": {"argv": ("-bash",), "name": "bash"},
    "login": {"argv": ("/bin/login", "-f"), "name": "login"},
    "gdm": {"argv": ("gdm-session-worker",), "name": "gdm-session-wor"},
    "defunct sshd": {"argv": (), "name": "sshd", "state": "Z"},
    "script": {"argv": ("bash", "run.sh"), "name": "bash"},
    "cron": {"argv": ("/usr/sbin/CRON", "-f"), "name": "cron"},
}


def played(given: dict):
    """The process of a situation as a second look classifies it: the name of the list that it is in, and its owner."""
    cgroup = GROUPS.get(given.get("group", ""), "")
    first = {"no": "", "at its top": cgroup, "in a group": given.get("first", "")}[given.get("inside", "no")]
    above = {"launcher": 5, "shell": 6, "notebook": 7, "tmux": 8, "sshd": 9, "manager": 4, "slurmstepd": 11}
    made = row(10, above.get(given.get("under", ""), 1), terminal=bool(given.get("terminal")))
    process = replace(
        made.process,
        seconds=given.get("age", 7200.0),
        container=container_in(cgroup, first),
        unit=unit_in(cgroup, first),
    )
    leader = {"living": 6, "pid 1": 1, None: 0}[given.get("terminal")]
    made = replace(made, process=process, cgroup=cgroup, leader=leader)
    others = (
        row(4, argv=("/lib/systemd/systemd", "--user"), name="systemd"),
        row(5, argv=("python", "torchrun")),
        row(6, argv=("-bash",), terminal=True, name="bash"),
        row(7, argv=given.get("argv", ("python", "/opt/venv/bin/jupyter-lab"))),
        row(8, argv=("tmux", "new"), name="tmux: server"),
        row(9, argv=("sshd: u@notty",), name="sshd"),
        row(11, argv=("slurmstepd: [4711.0]",), name="slurmstepd"),
    )
    login = row(12, **PEOPLE[given.get("beside", "script")])
    others = (*others, replace(login, cgroup=given.get("beside_in", SCOPE), threads=1))
    seen = walk(*others, made, holds={10: [0]})
    one = seen.table.rows[1]
    one = replace(one, cgroup=first, process=replace(one.process, container=container_in(first, first)))
    seen = replace(seen, table=replace(seen.table, rows={**seen.table.rows, 1: one}))
    keys = {it.process.key for it in seen.table.rows.values()}
    answer = Unknown(why="it gave no answer") if given.get("silent") else None
    evidence = OwnerEvidence(
        keys=keys,
        jobs_of={10: frozenset(["4711"])} if given.get("claims") else {},
        jobs={"4711": answer or tuple(given.get("job", "").split())},
        units={"unit:vllm.service": "inactive"}
        | dict.fromkeys(STATES, answer or given.get("state", "active")),
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


def asked(folder: Path, programs: dict[str, str], *words: str, shell=("sh",)) -> list[str]:
    """What the script prints on a host with these programs."""
    for name, text in programs.items():
        (folder / name).write_text(f'#!/bin/sh\necho {name} >>"{folder}/calls"\n{text}\n')
        (folder / name).chmod(0o755)
    path = f"{folder}:{os.environ['PATH']}"
    done = subprocess.run(
        [*shell, "-c", script("runbook.library.processes.facts.owners", "owners"), "sh", *words],
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


NO_JOB = "slurm_load_jobs error: Invalid job id specified"
NO_SLURM = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"


@every_row(
    ("text", "code", "states"),
    [
        ("7 7 RUNNING", 0, "RUNNING"),
        ("7 7 COMPLETED", 0, "COMPLETED"),
        ("7 5_2 FAILED", 0, "FAILED"),  # a task of an array, by its own number
        ("9 7_1 COMPLETED\n10 7_2 RUNNING\n7 7_[3-9%2] PENDING", 0, "COMPLETED PENDING RUNNING"),
        ("9 7_1 COMPLETED", 0, "COMPLETED"),
        ("7 7+0 COMPLETED\n8 7+1 COMPLETED", 0, "COMPLETED"),  # the parts of a heterogeneous job
        (NO_JOB, 1, "GONE"),
        (f"squeue: error: {NO_JOB}", 1, "GONE"),
        (f"{NO_JOB}\n\n{NO_JOB}", 1, "GONE"),
        ("", 0, None),
        ("", 1, None),
        (NO_JOB, 0, None),
        (NO_SLURM, 1, None),
        (f"{NO_SLURM}\n{NO_JOB}", 1, None),
        (f"{NO_JOB}\n{NO_SLURM}", 1, None),
        (f"7 7 RUNNING\n{NO_JOB}", 1, None),
        (f"7 7 COMPLETED\n{NO_SLURM}", 0, None),
        ("7 7 COMPLETED", 1, None),
        ("what is this", 0, None),
        ("it is said: Invalid job id specified", 1, None),
        ("JOBID NAME STATE\n7 7 COMPLETED", 0, None),
        ("8 8 COMPLETED", 0, None),  # another job's
        ("8 8 COMPLETED\n7 7 COMPLETED", 0, None),
        ("70 70_1 COMPLETED", 0, None),
        ("7 7 COMPLETED by user", 0, None),
    ],
)
def test_a_job_has_ended_only_by_the_whole_of_slurm_s_answer(text, code, states, tmp_path):
    """Mutants: of squeue's lines those that fit only; another job's; GONE without the exit code; a part of the line."""
    (tmp_path / "text").write_text(text)
    said = asked(tmp_path, {"squeue": f'cat "{tmp_path}/text" >&{2 if code else 1}; exit {code}'}, "job:7")
    assert [line.split() for line in said if line.startswith("job ")] == (
        [["job", "7", *states.split()]] if states else []
    )
    assert any(line.startswith("failed job:7 squeue ") for line in said) == (states is None)


HEAD = "PID      JOBID    STEPID   LOCALID GLOBALID\n"
NO_STEPS = "No job steps exist on this node.\n"


@every_row(
    ("text", "code", "listed"),
    [
        (HEAD, 0, []),
        (f"{HEAD}10       7        batch    0       0       \n-1       7        extern   -       -\n", 0, ["10 7"]),
        (f"{HEAD}10       7        0+1      1       9\n11       8        4294967291 -       -\n", 0, ["10 7", "11 8"]),
        (f"{HEAD}{NO_STEPS}", 1, []),
        (NO_STEPS, 1, []),
        (f"scontrol: error: {NO_STEPS}", 1, []),
        ("", 0, None),
        ("", 1, None),
        (NO_STEPS, 0, None),
        (f"{HEAD}{NO_STEPS}", 0, None),
        ("slurm has been replaced here, see the wiki\n", 0, None),
        ("10       7        batch    0       0\n", 0, None),
        (f"{HEAD}10       7        batch    0       0\nscontrol: error: Unable to connect to slurmstepd\n", 0, None),
        (f"scontrol: error: Unable to read the spool directory\n{HEAD}{NO_STEPS}", 1, None),
        (f"{HEAD}{NO_STEPS}slurmd is not answering\n", 1, None),
        (f"{HEAD}10       7        batch    0       0\n{NO_STEPS}", 1, None),
        (HEAD, 1, None),
    ],
)
def test_slurm_has_no_jobs_here_only_by_the_whole_of_its_table(text, code, listed, tmp_path):
    """Mutants: any text with exit code 0 taken for the table; a line that is no row of it left out."""
    (tmp_path / "text").write_text(text)
    said = asked(tmp_path, {"scontrol": f'cat "{tmp_path}/text"; exit {code}', "squeue": "exit 1"}, "pid:999999999")
    failed = [line for line in said if line.startswith("failed slurmd ")]
    assert (len(failed), failed[:1]) == ((1, failed[:1]) if listed is None else (0, []))
    if listed is not None:
        assert [line.removeprefix("listed ") for line in said if line.startswith("listed ")] == listed
        jobs = [line.split()[1] for line in said if line.startswith("failed job:")]
        assert jobs == [f"job:{row.split()[1]}" for row in listed], "each is asked for"


@pytest.mark.parametrize("name", each(["dash", "bash", "busybox", "only busybox"]))
def test_every_shell_reads_the_answers_of_slurm_alike(name, tmp_path):
    """Mutant: owners.sh with what only one awk knows."""
    programs = {
        "scontrol": f"printf '{HEAD}10 7 batch 0 0\\n'",
        "squeue": f"case \" $* \" in *' -j 7 '*) echo 7 7 RUNNING ;; *) echo '{NO_JOB}' >&2; exit 1 ;; esac",
    }
    started = shell(name, tmp_path)
    folder = tmp_path / "busybox-only" if name == "only busybox" else tmp_path
    said = asked(folder, programs, "pid:999999999", "job:8", shell=started)
    assert [line.rstrip() for line in said if line.startswith(("listed", "job", "failed"))] == [
        "listed 10 7",
        "job 8 GONE",
        "job 7 RUNNING",
    ]


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


def test_only_who_has_no_owner_is_left_of_those_to_be_ended():
    """21 is a rank of a running job, of 30 the owner does not answer, 40 has none.

    Mutants: `without_owned` without `living`, without `hidden`, without the family of those given, without `spare`.
    """
    seen = walk(row(20), row(21, 20), row(30), row(40))
    given = tuple(seen.table.rows[pid].process for pid in (21, 30, 40))
    said = "asked\nenv 20 7\njob 7 RUNNING\nenv 30 8\nfailed job:8 no answer\n"

    def asked(processes, *, spare=True):
        steps = without_owned(end.State(alive=()), processes, seen.table, spare=spare)
        assert {"pid:20", "pid:21"} <= set(next(steps).argv)
        with pytest.raises(StopIteration) as stopped:
            steps.send(Completed(stdout=said, stderr="", exit_code=0, seconds=1.0))
        return stopped.value.value

    free, state = asked(given)
    assert [process.pid for process in free] == [40]
    assert [process.pid for process in state.owned] == [21]
    assert [(one.pid, "no answer" in one.why) for one in state.protected] == [(30, True)]
    assert isinstance(asked(given[:2])[0], Unknown)
    assert asked(given[:1])[0] == ()
    free, state = asked(given, spare=False)
    assert [process.pid for process in free] == [21, 30, 40]
    assert (state.owned, state.protected) == ((), ())


@every_row("spare", [True, False])
def test_each_action_that_ends_processes_at_work_too_spares_those_with_an_owner(monkeypatch, spare):
    """Mutants: ``spare=False``, and ``spare=True``, in `end`, in `by_command_line` and in `by_open_files`."""
    seen = walk(row(20), row(40), holds={20: [0], 40: [0]})
    monkeypatch.setattr(end, "read_processes", lambda done: seen.table)
    monkeypatch.setattr(by_command_line, "read_processes", lambda done: seen.table)
    monkeypatch.setattr(by_open_files, "read_holders", lambda done: seen)
    given = tuple({"pid": pid, "start": pid * 10} for pid in (20, 40))
    job = JobArguments(spare_owned=spare)

    def probed(steps):
        said = Completed(stdout="asked\nenv 20 7\njob 7 RUNNING\n", stderr="", exit_code=0, seconds=1.0)
        next(steps)
        steps.send(said)
        with pytest.raises(StopIteration) as stopped:
            steps.send(said)
        return stopped.value.value

    left = [40] if spare else [20, 40]
    by_line = by_command_line.probe_by_command_line(["python"], (), job, classified=False)
    by_file = by_open_files.probe_by_open_files(("/dev/nvidia0",), (), job, classified=False)
    assert [one.pid for one in probed(end.probe(end.Args(processes=given, spare_owned=spare))).alive] == left
    assert [one.pid for one in probed(by_line).matches] == left
    assert [one.pid for one in probed(by_file).processes] == left


def test_a_rank_that_was_started_again_makes_its_whole_job_starting():
    """Mutant: `_young` by the oldest holder."""
    again = of_job({20: 7200.0, 21: 7200.0, 22: 30.0}, OwnerEvidence())
    assert ([it.pid for it in again.starting], again.leftover) == ([20, 21, 22], ())
    assert [it.pid for it in of_job({20: 7200.0, 21: 7200.0}, OwnerEvidence()).leftover] == [20, 21]
