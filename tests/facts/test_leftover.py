"""A job at work is spared whole; what is not known is never taken for left over."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from runbook.library.gpu.facts.model import Gpu, GpuPresence, SmiReading
from runbook.library.jobs.facts.arguments import JobArguments
from runbook.library.jobs.facts.by_open_files import HolderMatch, chosen, not_known
from runbook.library.jobs.facts.classification import JobMatch, classify, classify_into, described
from runbook.library.jobs.facts.leftover import Load, at_work, gpus_of
from runbook.library.processes.facts.open_files import OpenFile, OpenFileScan
from runbook.library.processes.facts.protected import daemon, protection, spared
from runbook.values.types import Unknown
from tests.facts.made_up_hosts import NO, load, row, use, walk
from tests.support.tables import every_row


def works(seen: OpenFileScan, known: Load) -> dict[int, object]:
    return {pid: type(it) if isinstance(it, Unknown) else it for pid, it in at_work(seen, known).items()}


def test_who_holds_a_busy_gpu_is_at_work_and_who_holds_an_idle_one_is_not():
    """GPU 0 of nvidia-smi is /dev/nvidia1 here: the order says nothing."""
    seen = walk(row(10), row(11), holds={10: [0], 11: [1]})
    assert works(seen, load(0, 90)) == {1: False, 10: True, 11: False}
    assert works(seen, load(90, 0)) == {1: False, 10: False, 11: True}


def test_a_gpu_that_nvidia_smi_does_not_list_the_holder_on_counts_all_the_same():
    """In another pid namespace it lists nobody, or other pids."""
    assert works(walk(row(10), holds={10: [0]}), load(0, 90, apps=[(4711, 1)]))[10] is True


@every_row(("first", "second"), [(90, 0), (0, 90), (6, 6), (90, Unknown(why="x")), (Unknown(why="x"), 90)])
def test_busy_on_one_of_two_looks_is_at_work(first, second):
    assert works(walk(row(10), holds={10: [1]}), load(first, 0, later=(second, 0)))[10] is True


def test_as_busy_as_is_allowed_is_left_over():
    assert works(walk(row(10), holds={10: [1]}), load(5, 0))[10] is False


def test_who_is_listed_on_a_busy_gpu_is_at_work_without_its_node():
    assert works(walk(row(10), holds={10: ["ctl"]}), load(0, 90, apps=[(10, 1)]))[10] is True
    assert works(walk(row(10), holds={10: ["ctl"]}), load(0, 90))[10] is False


def test_the_launcher_of_a_busy_worker_and_its_idle_ranks_are_at_work():
    """torchrun holds nothing, puts each rank into a session of its own, and rank 1 waits for rank 0."""
    seen = walk(
        row(10, argv=("torchrun", "train.py")), row(11, 10), row(12, 10), row(13, 12), row(20),
        holds={11: [0], 12: [1], 20: [1]},
    )  # fmt: skip
    assert works(seen, load(0, 90)) == {1: False, 10: True, 11: True, 12: True, 13: True, 20: False}


def test_a_family_ends_at_shells_that_people_type_into_and_at_daemons():
    shell = row(5, argv=("-bash",), terminal=True, name="bash")
    seen = walk(shell, row(10, 5), row(20, 5), holds={10: [0], 20: [1]})
    assert works(seen, load(0, 90)) == {1: False, 5: False, 10: True, 20: False}
    for argv, name in ((("tmux", "new", "-d", "torchrun"), "tmux: server"), (("sshd: u@pts/0",), "sshd")):
        seen = walk(row(5, argv=argv, name=name), row(10, 5), row(20, 5), holds={10: [0], 20: [1]})
        assert works(seen, load(0, 90))[20] is False


def test_who_runs_us_is_no_part_of_a_job():
    """A test bed, a scheduler: what starts this tool and jobs, too, does not make one job of them."""
    us = row(7, 5, argv=("/opt/venv/bin/python3", "/opt/venv/bin/runbook", "run", "zombie-gpu"))
    seen = walk(
        row(5, argv=("python", "bed.py")), us, row(10, 5, group=5), row(20, 5, group=5), holds={10: [0], 20: [1]}
    )
    assert works(seen, load(0, 90))[20] is False
    assert works(seen, load(0, 90))[10] is True
    alone = walk(row(5, argv=("python", "bed.py")), row(10, 5), row(20, 5), holds={10: [0], 20: [1]})
    assert works(alone, load(0, 90))[20] is True


def test_a_shell_that_runs_a_script_is_part_of_the_job():
    for argv in (
        ("bash", "run.sh"),
        ("bash", "-c", "torchrun x; true"),
        ("/bin/sh", "-ec", "x"),
        ("bash", "-x", "run.sh"),
    ):
        seen = walk(row(5, argv=argv, terminal=True), row(10, 5), row(20, 5), holds={10: [0], 20: [1]})
        assert works(seen, load(0, 90)) == {1: False, 5: True, 10: True, 20: True}
    piped = walk(row(5, argv=("bash",)), row(10, 5), row(20, 5), holds={10: [0], 20: [1]})
    assert works(piped, load(0, 90))[20] is True


def test_orphans_of_one_process_group_belong_together():
    seen = walk(row(10, group=7), row(20, group=7), row(30, group=8), holds={10: [0], 20: [1], 30: [1]})
    assert works(seen, load(0, 90)) == {1: False, 10: True, 20: True, 30: False}


def test_a_container_belongs_together_where_we_look_from_outside_of_it():
    """Ranks of a batch job are children of slurmstepd, which is not a part of the job, and share only its number."""
    rows = (row(10, container="job_7"), row(20, container="job_7"), row(30, container="job_8"))
    seen = walk(*rows, holds={10: [0], 20: [1], 30: [1]})
    assert works(seen, load(0, 90)) == {1: False, 10: True, 20: True, 30: False}
    inside = replace(seen.table, rows=seen.table.rows | {1: row(1, 0, ("sh", "start.sh"), container="job_7")})
    assert works(replace(seen, table=inside), load(0, 90))[20] is False


def test_where_the_driver_does_not_say_which_gpu_a_node_opens_any_busy_one_spares_the_holder():
    seen = walk(row(10), row(20), holds={10: [0], 20: ["ctl"]})
    assert works(seen, load(0, 90, minors=False)) == {1: False, 10: True, 20: False}
    assert works(seen, load(0, 0, minors=False)) == {1: False, 10: False, 20: False}
    one = walk(row(10), holds={10: [0]}, gpus=1)
    assert works(one, load(0, minors=False))[10] is False
    assert works(one, load(50, minors=False))[10] is True


def test_without_an_answer_of_nvidia_smi_who_holds_something_is_not_known():
    seen = walk(row(10), row(11, 10), row(20), row(30), holds={11: [0], 30: ["ctl"]})
    assert works(seen, load(0, 0, reading=NO)) == {1: False, 10: Unknown, 11: Unknown, 20: False, 30: Unknown}


def test_a_gpu_that_does_not_say_how_busy_it_is_makes_its_holders_unknown():
    """MIG prints [N/A]."""
    seen = walk(row(10), row(20), row(30), holds={10: [0], 20: [1]})
    assert works(seen, load(Unknown(why="MIG"), 0)) == {1: False, 10: False, 20: Unknown, 30: False}


def test_a_gpu_that_nvidia_smi_does_not_show_makes_its_holders_unknown():
    seen = walk(row(10), row(20), holds={10: [0], 20: [2]}, gpus=3)
    known = load(0, 0)
    lost = replace(known, presence=replace(known.presence, minors={**known.presence.minors, "0000:99:00.0": 2}))
    assert works(seen, lost) == {1: False, 10: False, 20: Unknown}


def test_who_could_not_be_looked_into_may_hold_the_busy_gpu():
    seen = walk(row(10), row(11, 10), row(20), unseen=[11])
    assert works(seen, load(0, 90)) == {1: False, 10: Unknown, 11: Unknown, 20: False}
    assert works(seen, load(0, 0)) == {1: False, 10: False, 11: False, 20: False}


def test_on_a_host_without_a_gpu_everybody_is_left_over():
    assert works(walk(row(10)), load(reading=NO, absent=True)) == {1: False, 10: False}


def test_one_unknown_hides_no_other_answer_and_who_has_just_started_is_at_work():
    """Mutants: an Unknown for all; nothing at all where only what is unknown is there."""
    seen = walk(row(10), row(20), row(30), holds={10: [0], 20: [1]})
    rows = tuple(seen.table.rows[it].process for it in (10, 20, 30))
    every = {it.key for it in rows}
    blind = classify(rows, every, use(load(Unknown(why="MIG"), 0), seen))
    assert [it.pid for it in blind.leftover] == [10, 30]
    assert [it.pid for it in blind.protected] == [20]
    assert isinstance(blind.at_work, Unknown)
    alone = classify(rows[1:2], every, use(load(Unknown(why="MIG"), 0), seen))
    assert isinstance(alone.leftover, Unknown)
    clear = classify(rows, every - {rows[2].key}, use(load(90, 0), seen))
    assert [it.pid for it in clear.leftover] == [10]
    assert [it.pid for it in clear.at_work] == [20, 30]


def test_where_nobody_is_left_over_and_not_all_could_be_searched_it_is_not_known_whether_anybody_is():
    """Mutants: `classify_into` without *blind*; with *blind* for those that are left over; without who was protected before."""
    seen = walk(row(10), row(20), holds={10: [0], 20: [1]})
    rows = tuple(seen.table.rows[it].process for it in (10, 20))
    every, why = {it.key for it in rows}, Unknown(why="pid 9: its command line was not searched")
    before = JobMatch(protected=(spared(rows[0], "it is a daemon"),))
    busy = classify_into(before, rows, every, use(load(90, 90), seen), why)
    assert (busy.leftover, pids(busy.at_work)) == (why, [10, 20])
    idle = classify_into(before, rows, every, use(load(0, Unknown(why="MIG")), seen), why)
    assert (pids(idle.leftover), pids(idle.protected)) == ([20], [10, 10])


def test_only_what_has_no_use_for_a_gpu_and_holds_one_is_misplaced():
    """Mutants: every protected holder; those that hold no GPU; those of which it is not known what they run."""
    vim, top, known = (replace(row(it), names=names) for it, names in ((10, ("vim",)), (20, ("nvtop",)), (30, None)))
    idle = replace(row(40), names=("vim",))
    seen = walk(vim, top, known, idle, row(50), holds={10: [0], 20: [0], 30: [0], 50: [0]})
    log = OpenFile(path="/var/log/job.log", key="1:2", asked=True, file=(6, 9))
    seen = replace(seen, open={**seen.open, 40: (log,)})
    found = chosen(seen, (), JobArguments())
    assert pids(found.misplaced) == [10]
    assert (pids(found.protected), pids(found.processes)) == ([10, 20, 40], [30, 50])


def test_what_is_not_known_of_a_scan_leaves_nothing_of_it_known():
    """Mutants: each of the fields left out of `not_known`."""
    why = Unknown(why="/proc cannot be read")
    found = not_known(HolderMatch(), why)
    assert (found.leftover, found.at_work, found.devices, found.gpus, found.unlisted) == (why,) * 5


def test_the_gpus_that_a_process_holds_are_those_of_its_nodes_and_of_nvidia_smi():
    seen = walk(row(10), row(20), row(30), holds={10: [0], 20: ["ctl"], 30: [0, 1]})
    known = load(0, 0, apps=[(20, 0)])
    assert [it.uuid for it in gpus_of(10, seen, known)] == ["GPU-1"]
    assert [it.uuid for it in gpus_of(20, seen, known)] == ["GPU-0"]
    unmapped = load(0, 0, minors=False)
    assert isinstance(gpus_of(10, seen, unmapped), Unknown)
    assert {it.uuid for it in gpus_of(30, seen, unmapped)} == {"GPU-0", "GPU-1"}


PERCENT = st.one_of(st.sampled_from([0.0, 5.0, 6.0, 100.0]), st.just(Unknown(why="[N/A]")))


def test_a_process_is_described_with_its_gpus_by_index_and_with_its_memory_there():
    """Mutants: classification.py that takes the memory of another process, or the order of the nodes."""
    seen = walk(row(10), row(11), row(12), holds={10: [0, 1], 11: [1]})
    known = load(0, 0, apps=[(10, 0)])
    assert described(10, seen, use(known, seen)).gpus == ("GPU 0 (5 MiB)", "GPU 1")
    assert described(10, seen, use(load(0, 0), seen)).gpus == ("GPU 0", "GPU 1")  # its nodes are in the other order
    assert described(11, seen, use(known, seen)).gpus == ("GPU 0",)
    assert described(12, seen, use(known, seen)).gpus == ()
    assert described(10, seen, use(load(0, 0, reading=Unknown(why="no answer")), seen)).gpus == ()
    assert described(11, seen, use(load(0, 0, apps=Unknown(why="not listed")), seen)).gpus == ("GPU 0",)


@st.composite
def hosts(draw):
    """A made-up host: processes in any tree, holding anything, and any reading of the GPUs."""
    gpus = draw(st.integers(1, 3))
    pids = list(range(10, 10 + draw(st.integers(1, 8))))
    rows = [
        row(
            pid,
            draw(st.sampled_from([1, *pids[:at]])),
            draw(st.sampled_from([("python", "x"), ("-bash",), ("bash", "run.sh"), ("dockerd",)])),
            group=draw(st.sampled_from([0, 10, 11])),
            container=draw(st.sampled_from(["", "", "job_1"])),
        )
        for at, pid in enumerate(pids)
    ]
    holds = {it: draw(st.lists(st.sampled_from(["ctl", *range(gpus)]), unique=True, max_size=2)) for it in pids}
    unseen = draw(st.sets(st.sampled_from(pids), max_size=1))
    seen = walk(
        *rows, holds={pid: those for pid, those in holds.items() if pid not in unseen}, gpus=gpus, unseen=unseen
    )
    apps = draw(st.one_of(
        st.lists(st.tuples(st.sampled_from([*pids, 4711]), st.integers(0, gpus - 1)), max_size=3), st.just(NO)
    ))  # fmt: skip
    first, second = (draw(st.lists(PERCENT, min_size=gpus, max_size=gpus)) for _ in range(2))
    reading = NO if draw(st.integers(0, 4)) == 0 else None
    return seen, load(*first, later=second, apps=apps, minors=draw(st.booleans()), reading=reading)


def innocent(gpu: Gpu) -> bool:
    return all(not isinstance(it, Unknown) and it <= 5 for it in gpu.samples)


@given(hosts())
def test_nobody_is_left_over_who_may_hold_a_gpu_that_is_not_known_to_be_idle(host):
    seen, known = host
    for pid, answer in at_work(seen, known).items():
        if answer is not False:
            continue
        nodes = [it for it in seen.open.get(pid, ()) if it.gpu is not None]
        if isinstance(known.reading, Unknown):
            assert not seen.open.get(pid)
            continue
        held = gpus_of(pid, seen, known)
        suspects = known.gpus if isinstance(held, Unknown) else held
        assert all(map(innocent, suspects)) or (isinstance(held, Unknown) and not nodes)
        assert pid not in seen.unseen or all(map(innocent, known.gpus))


@given(hosts())
def test_whose_parent_or_child_is_not_left_over_is_not_either_unless_a_border_lies_between(host):
    seen, known = host
    answers = at_work(seen, known)
    for pid, it in seen.table.rows.items():
        parent = it.process.ppid
        if parent <= 1 or any(seen.table.rows[one].argv[0] in ("-bash", "dockerd") for one in (pid, parent)):
            continue
        assert (answers[pid] is False) == (answers[parent] is False)


@given(hosts())
def test_knowing_less_never_makes_anybody_left_over(host):
    seen, known = host
    before = at_work(seen, known)
    for less in (
        replace(known, reading=NO),
        replace(known, presence=replace(known.presence, minors={}))
        if isinstance(known.presence, GpuPresence)
        else known,
    ):
        if isinstance(known.reading, Unknown):
            continue
        for pid, answer in at_work(seen, less).items():
            if before[pid] is not False and seen.open.get(pid) and pid not in seen.unseen:
                holds_gpu = any(it.gpu is not None for it in seen.open[pid])
                assert answer is not False or not holds_gpu


@every_row(
    ("argv", "name"),
    [
        (("/usr/sbin/sshd", "-D"), "sshd"),
        (("sshd: root@notty",), "sshd"),
        (("/lib/systemd/systemd-logind",), "systemd-logind"),
        (("/usr/bin/nvidia-persistenced", "--user", "x"), "nvidia-persiste"),
        (("odd",), "nvidia-persiste"),
        (("nv-hostengine", "-n"), "nv-hostengine"),
        (("/usr/bin/dcgm-exporter",), "dcgm-exporter"),
        (("/usr/bin/nv-fabricmanager",), "nv-fabricmanage"),
        (("nvsm_core",), "nvsm_core"),
        (("/usr/lib/xorg/Xorg", ":0"), "Xorg"),
        (("/usr/bin/containerd-shim-runc-v2", "-id", "x"), "containerd-shim"),
        (("/usr/bin/kubelet",), "kubelet"),
        (("slurmstepd: [7.0]",), "slurmstepd"),
        (("nvidia-cuda-mps-server",), "nvidia-cuda-mps"),
        (("tmux", "new", "-d", "torchrun train.py"), "tmux: server"),
        (("vim", "train_sglang.py"), "vim"),
        (("docker", "logs", "-f", "sglang"), "docker"),
        (("ssh", "gpu-02", "torchrun train.py"), "ssh"),
        (("git", "clone", "https://x/areal"), "git"),
        (("/usr/bin/python3", "/usr/bin/pip", "install", "sglang"), "pip"),
        (("python3.11", "-m", "pip", "install", "sglang"), "python3.11"),
        (("python3", "/opt/venv/bin/jupyter-lab", "--notebook-dir=sglang"), "jupyter-lab"),
        (("/opt/venv/bin/python3", "/opt/venv/bin/runbook", "run", "zombie-gpu", "-e", "patterns=sglang"), "runbook"),
    ],
)
def test_daemons_are_spared_by_the_program_that_they_are(argv, name):
    seen = walk(row(10, argv=argv, name=name))
    assert protection(seen.table.rows[10], seen.table)


@every_row(
    "argv",
    [("python", "/data/sshd/train.py"), ("python", "-m", "sglang", "--log", "/var/log/dockerd"), ("torchrun", "systemd"),
     ("sleep", "runbook"), ("xray", "watch"), ("python", "ssh"), ("python", "-m", "git.train"), ("python", "train.py", "pip"),
     ("python", "-c", "pip")],
)  # fmt: skip
def test_a_daemon_s_name_elsewhere_on_the_line_spares_nobody(argv):
    seen = walk(row(10, argv=argv, name=argv[0]))
    assert not protection(seen.table.rows[10], seen.table)


def test_asked_for_by_name_a_daemon_may_be_ended_but_never_pid_1_nor_our_way_in():
    mps = row(10, argv=("nvidia-cuda-mps-server",), name="nvidia-cuda-mps")
    sshd = row(900, argv=("sshd: root@notty",), name="sshd")
    seen = walk(mps, sshd)
    assert protection(mps, seen.table, ("nvidia-cuda-mps-control",))
    assert protection(mps, seen.table, ("nvidia-cuda-mps-server",)) == ""
    assert protection(mps, seen.table, ("dockerd",))
    assert "our own connection" in protection(sshd, seen.table, ("sshd",))
    assert "pid 1" in protection(seen.table.rows[1], seen.table, ("systemd", "init"))
    assert daemon(row(30, argv=("sshd: u@pts/1",), name="sshd"), ("sshd",)) == ""


def apart(seen, known):
    processes = tuple(it.process for pid, it in seen.table.rows.items() if pid != 1)
    return classify_into(JobMatch(), processes, {it.key for it in processes}, use(known, seen))


def pids(processes) -> list[int]:
    return [it.pid for it in processes]


def test_what_holds_only_a_lost_gpu_is_not_left_over_and_the_rest_is():
    """Mutants: every holder spared; the launcher of a lost worker ended; the nodes in the order of nvidia-smi."""
    seen = walk(
        row(10), row(20), row(30, ppid=40), row(40), row(50), row(60, ppid=70), row(61, ppid=70), row(70),
        holds={10: (1, "ctl"), 20: (0,), 30: (1,), 50: (0, 1), 60: (1,), 61: (0,)},
    )  # fmt: skip
    lost = replace(load(0, 0), lost=frozenset({"0000:90:00.0"}))  # GPU 0 has node 1
    sides = apart(seen, lost)
    assert pids(sides.beyond_help) == [10, 30, 40, 60]
    assert pids(sides.leftover) == [20, 50, 61, 70]
    assert "holds GPU 0000:90:00.0, which is lost" in sides.beyond_help[0].why
    assert pids(apart(seen, load(0, 0)).leftover) == [10, 20, 30, 40, 50, 60, 61, 70]


def test_where_it_is_not_known_which_node_is_the_lost_gpu_s_nobody_is_ended():
    seen = walk(row(10), row(20), row(30), holds={10: (0,), 20: (1,)})
    sides = apart(seen, replace(load(0, 0, minors=False), lost=frozenset({"0000:90:00.0"})))
    assert pids(sides.beyond_help) == [10, 20]
    assert pids(sides.leftover) == [30]
    one = walk(row(10), holds={10: (0,)}, gpus=1)
    assert pids(apart(one, replace(load(0, minors=False), lost=frozenset({"0000:90:00.0"}))).beyond_help) == [10]


@every_row("how", ["complaint", "row", "action"])
def test_nvidia_smi_s_own_word_of_a_lost_gpu_counts_too(how):
    seen = walk(row(10), row(20), holds={10: (1,), 20: (0,)})
    known = load(0, 0)
    first, second = known.reading.gpus
    readings = {
        "complaint": SmiReading(gpus=(second,), lost=("0000:90:00.0",), errors=("GPU is lost",)),
        "row": SmiReading(gpus=(replace(first, faults=("memory.used: [GPU is lost]",)), second)),
        "action": SmiReading(gpus=(replace(first, recovery_action="Reboot"), second)),
    }
    sides = apart(seen, replace(known, reading=readings[how]))
    assert pids(sides.beyond_help) == [10]
    assert pids(sides.leftover) == [20]


def test_who_is_at_work_is_never_called_beyond_help():
    seen = walk(row(10), holds={10: (1,)})
    sides = apart(seen, replace(load(90, 0), lost=frozenset({"0000:90:00.0"})))
    assert (pids(sides.at_work), sides.beyond_help) == ([10], ())
