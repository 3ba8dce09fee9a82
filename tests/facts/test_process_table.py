"""The table of processes is right whatever a process calls itself, on any POSIX shell, and cheap."""

from __future__ import annotations

import os
import secrets
import shutil
import sys

import pytest

from runbook.errors import ProbeError
from runbook.library.jobs import processes
from runbook.library.processes.facts.table import ask_processes, read_processes, table_of
from runbook.library.processes.facts.table_script import BUDGET, CROWD, CROWDED, SHARE
from runbook.values.command import Command, Completed, Effect
from runbook.values.types import Unknown
from tests.support.probe_driver import broken_awk, drive
from tests.support.real_processes import NOBODY, Machine, children_in, computed, start_of
from tests.support.tables import every_row
from tests.support.waiting import until


def table(machine: Machine):
    return read_processes(machine.run(ask_processes())[0])


def test_a_process_is_known_by_pid_and_start_with_user_age_and_whole_command_line(machine, stage):
    job = stage.start(["bash", "-c", "echo up; sleep 600; true", stage.word, "a  b", "c"])
    row = table(machine).rows[job.pid]
    assert row.process.start == start_of(job.pid)
    assert row.process.ppid == os.getpid()
    assert row.process.user in ("root", str(os.getuid())) or os.getuid()
    assert row.line == f"bash -c echo up; sleep 600; true {stage.word} a  b c"
    assert not isinstance(row.process.seconds, Unknown)
    assert 0 <= row.process.seconds < 60
    assert row.group == job.pid


@pytest.mark.parametrize("name", ["x) S 1 1 1", "a\nb) Z 1", "((", ") ", "\t 9 ü"])
def test_a_name_cannot_break_the_table(machine, stage, name):
    """The kernel keeps 15 bytes of whatever a process calls itself, newlines and brackets too."""
    job = stage.start([sys.executable, "-c", CALLS_ITSELF, name])
    row = table(machine).rows[job.pid]
    assert row.process.start == start_of(job.pid)
    assert row.process.ppid == os.getpid()
    assert row.process.state in "RS"
    assert row.name.encode("utf-8", "surrogateescape") == name.encode()[:15]


CALLS_ITSELF = """
import ctypes, sys, time
ctypes.CDLL(None).prctl(15, sys.argv[1].encode())
print("up", flush=True)
time.sleep(600)
"""


def test_an_argument_cannot_pass_for_another_process_nor_for_a_line_of_ours(machine, stage):
    victim = stage.job()
    lie = f"x\n/proc/{victim.pid}/cmdline:sglang\na {victim.pid} sglang\np 1 S 0 0 0 1 1 0 - x\nself 1 1 0 1"
    liar = stage.start(["bash", "-c", "echo up; sleep 600; true", stage.word, lie, "'\"\\ $(true)", "", "end"])
    seen = table(machine)
    assert "sglang" not in seen.rows[victim.pid].line
    assert seen.rows[liar.pid].argv[-3:] == (lie, "'\"\\ $(true)", "end")
    assert seen.rows[1].process.ppid == 0


def test_bytes_that_are_no_text_are_kept_apart(machine, stage):
    job = stage.start([b"bash", b"-c", b"echo up; sleep 600; true", stage.word.encode(), b"\xff\x80\x01z"])
    assert table(machine).rows[job.pid].argv[3] == stage.word


def test_we_ourselves_and_all_that_we_started_are_not_in_it(machine):
    seen = table(machine)
    assert os.getpid() in seen.way_in
    assert all(it.process.ppid not in seen.own for it in seen.rows.values())
    ours = [it for it in seen.rows.values() if it.process.ppid == os.getpid()]  # another test may run the same script
    assert not any("cmdline" in it.line and "again" in it.line for it in ours)


def test_kernel_threads_are_left_out_and_the_first_process_is_not(machine):
    seen = table(machine)
    assert 1 in seen.rows
    assert 2 not in seen.rows or seen.rows[2].argv


def test_a_zombie_is_listed_as_one(machine, stage):
    late = "until read -r called </proc/$PPID/comm && [ $called = sleep ]; do :; done; exec sleep 0.1"  # a bash would bury it
    parent = stage.start(["bash", "-c", f"bash -c '{late}' & echo up; exec sleep 600"])
    until(lambda: children_in(parent.pid, "Z"))
    mine = [it for it in table(machine).rows.values() if it.process.ppid == parent.pid]
    assert [it.process.state for it in mine] == ["Z"]
    assert mine[0].defunct
    assert mine[0].process.command == "[sleep]"


@pytest.mark.real("root", "setpriv")
def test_another_user_sees_the_same_processes(stage):
    job = stage.job()
    assert table(Machine(before=NOBODY)).rows[job.pid].process.user == "root"


@pytest.mark.slow
@pytest.mark.parametrize(
    "code", [pytest.param(124, id="coreutils"), pytest.param(143, id="busybox", marks=pytest.mark.soak)]
)
def test_a_process_that_hangs_its_reader_costs_only_itself(stage, tmp_path, code):
    """Behind a lock that a process stuck in the kernel holds, a reader of its arguments waits for ever."""
    hung, other = stage.job(), stage.job()
    for name in ("head", "cat"):
        slow = f'case " $* " in *" /proc/{hung.pid}/cmdline "*) exec sleep 60 ;; esac; unset PWD OLDPWD'
        (tmp_path / name).write_text(f'#!/bin/sh\n{slow}\nexec {shutil.which(name)} "$@"\n')
        (tmp_path / name).chmod(0o755)
    late = f'{shutil.which("timeout")} "$@"; r=$?; [ $r = 124 ] && exit {code}; exit $r'
    (tmp_path / "timeout").write_text(f"#!/bin/sh\n{late}\n")
    (tmp_path / "timeout").chmod(0o755)
    seen = table(Machine(path=tmp_path))
    assert [it.pid for it in seen.unread()] == [hung.pid]
    assert stage.word in seen.rows[other.pid].line


def test_the_pids_of_another_namespace_are_not_believed():
    lines = ["self 30 40 0 100.0 -", "p 1 S 0 0 0 1 5 0 - init", "p 30 S 1 30 0 1 9 0 - sh", "p 40 S 1 40 0 1 9 0 - x"]
    with pytest.raises(ProbeError, match="another pid namespace"):
        table_of(lines)


def test_processes_stand_in_the_order_of_their_numbers():
    """Mutant: the order of the host's shell, which sorts pids as text."""
    pids = (1, 1200, 2, 30, 99)
    lines = [f"p {pid} S 1 {pid} 0 1 {pid} 0 - x" for pid in pids]
    seen = table_of(["self 30 30 0 100.0 -", *lines, "a 30 sh", "a 1 init"])
    assert [*seen.rows] == [1, 2, 99, 1200]


def test_processes_that_may_not_be_seen_are_missed():
    seen = table_of(["self 30 30 7 100.0 -", "p 30 S 29 30 0 1 9 7 - sh", "a 30 sh"])
    assert "hidepid" in seen.hidden
    there = ["p 1 S 0 0 0 1 5 0 - init", "p 30 S 1 30 0 1 9 7 - sh", "a 30 sh"]
    assert "hidepid" in table_of(["self 30 30 7 100.0 hidden", *there]).hidden
    assert table_of(["self 30 30 0 100.0 hidden", *there]).hidden == ""
    assert table_of(["self 30 30 7 100.0 -", *there]).hidden == ""


@pytest.mark.real("root", "setpriv", "lab")
@pytest.mark.parametrize(
    ("option", "missed"), [("hidepid=2", True), ("hidepid=1", True), ("hidepid=2,gid=65533", False)]
)
def test_a_proc_that_hides_processes_is_noticed_also_where_the_first_one_is_ours(stage, option, missed):
    """In a container pid 1 may be this very user's, and still other processes are hidden."""
    before = ("unshare", "--mount", "--pid", "--fork", "sh", "-c",
              f'mount -t proc -o {option} proc /proc; exec setpriv --reuid=65534 --regid=65534 --groups=65533 "$@"', "sh")  # fmt: skip
    seen = table(Machine(shell=("sh", "-c", 'sh "$@"; exit $?', "sh"), before=before))
    assert 1 in seen.rows
    assert bool(seen.hidden) is missed


def test_the_user_who_started_us_on_the_host_itself_sees_what_else_he_started():
    """Jobs started from the same SSH session as a local run are not our own."""
    lines = [
        "self 50 50 0 100.0 -",
        "p 1 S 0 0 0 1 5 0 - init", "p 20 S 1 20 0 1 9 0 - sshd", "p 30 S 20 30 0 1 9 0 - sshd",
        "p 40 S 30 40 1 1 9 0 - bash", "p 41 S 40 41 1 1 9 0 - python3", "p 42 S 40 42 1 1 9 0 - python3",
        "p 50 S 42 50 0 1 9 0 - sh", "p 51 S 50 50 0 1 9 0 - awk",
        "a 40 -bash", "a 41 python3", "a 41 torchrun", "a 42 python3", "a 42 /usr/bin/runbook", "a 50 sh", "a 20 sshd", "a 30 sshd: u",
    ]  # fmt: skip
    seen = table_of(lines)
    assert seen.own == {50, 51}
    assert 41 in seen.rows


def test_arguments_that_could_not_be_read_are_a_fault_and_not_nothing():
    """Mutants: processes.py without the check of our own shell's arguments."""
    with pytest.raises(ProbeError, match="even of our own"):
        table_of(["self 30 30 0 100.0 -", "p 1 S 0 0 0 1 5 0 - init", "p 30 S 1 30 0 1 9 0 - sh"])


def test_a_process_that_ends_while_it_is_read_does_no_harm(stage, tmp_path):
    """Mutants: table_script.py without its second try (mawk gives up: ``read error (No such process)``)."""
    job = stage.job()
    (tmp_path / "awk").write_text(
        f'#!/bin/sh\nif mkdir {tmp_path}/once 2>/dev/null; then echo "awk: read error" >&2; exit 2; fi\nexec {shutil.which("awk")} "$@"\n'
    )
    (tmp_path / "awk").chmod(0o755)
    assert stage.word in table(Machine(path=tmp_path)).rows[job.pid].line
    (tmp_path / "awk").write_text("#!/bin/sh\necho no luck >&2; exit 2\n")
    with pytest.raises(ProbeError, match="no luck"):
        table(Machine(path=tmp_path))


@pytest.mark.parametrize("call", range(1, 12))
def test_whichever_awk_gives_up_no_process_is_hidden(stage, tmp_path, call):
    """Mutants: a list whose awk failed, taken for the whole."""
    job = stage.job()
    path = broken_awk(tmp_path, first=call, last=call)
    try:
        seen = table(Machine(path=path))
    except ProbeError:
        return
    assert stage.word in seen.rows[job.pid].line or seen.rows[job.pid].cut


@pytest.mark.alone
def test_one_who_writes_a_lot_on_his_command_line_hides_nobody(machine, stage):
    """Mutants: table_script.py without the limit of one process; without the mark on what was cut."""
    lots = ["x" * 120_000] * 8
    loud = stage.start(["bash", "-c", "echo up; sleep 600; true", stage.word, *lots])
    other = stage.job()
    done = machine.run(ask_processes())[0]
    seen = read_processes(done)
    assert stage.word in seen.rows[loud.pid].line
    assert stage.word in seen.rows[other.pid].line
    assert seen.rows[loud.pid].line == f"bash -c echo up; sleep 600; true {stage.word} {'x' * 120_000}"[:SHARE]
    assert (seen.rows[loud.pid].cut, seen.rows[other.pid].cut) == (True, False)
    assert len(done.stdout) < 2_000_000


def somebody() -> int:
    """A uid that no other test uses."""
    return 100_000 + secrets.randbelow(1_000_000_000)


LONG = """
import ctypes, os, sys, time
os.setgid(65534); os.setuid(int(sys.argv[2]))
for it in range(int(sys.argv[1])):
    if os.fork() == 0:
        try:
            ctypes.CDLL(None).prctl(1, 9)  # it ends with its parent
            time.sleep(120)
        finally:
            os._exit(0)
print("up", flush=True)
time.sleep(120)
"""


@pytest.mark.alone
@pytest.mark.real("root")
def test_one_user_s_many_long_command_lines_hide_nobody_and_he_is_named(machine, stage):
    """What a probe may say is 4 MiB: 70 processes with 130 kB each would be 9 MB.

    Mutants: table_script.py without the budget; with one that counts what root says.
    """
    nobody = str(somebody())
    before = stage.job()
    stage.start([sys.executable, "-c", LONG, "70", nobody, "x" * 130_000, f"sglang{stage.word}"])
    after = stage.job()
    done = machine.run(ask_processes())[0]
    seen = read_processes(done)
    assert len(done.stdout) < 4 * 1024 * 1024
    assert all(stage.word in seen.rows[it.pid].line and not seen.rows[it.pid].cut for it in (before, after))
    assert all(not it.cut for it in seen.rows.values() if it.process.user == "root")
    (said,) = [it for it in seen.shortened() if f"user {nobody}" in it]
    assert f"the command lines of 71 processes of user {nobody} read only in part" in said
    found = drive(processes.probe(processes.Args(patterns=(f"train_{stage.word}",))), Machine())
    assert {it.pid for it in found.matches} == {before.pid, after.pid}
    assert f"user {nobody}" in found.shortened[0]
    hidden = drive(processes.probe(processes.Args(patterns=(f"sglang{stage.word}$",))), Machine())
    assert isinstance(hidden.matches, Unknown)
    assert f"user {nobody}" in hidden.matches.why


@pytest.mark.real("root")
def test_of_each_process_of_a_crowd_less_is_read_and_of_the_others_as_much_as_before(stage):
    """Mutants: table_script.py with the same share for all."""
    nobody = str(somebody())
    small = Command(script=ask_processes().script.replace(f"> {CROWD} &&", "> 30 &&"), effect=Effect.READ)
    stage.start([sys.executable, "-c", LONG, "60", nobody, "x" * 20_000])
    other = stage.start(["bash", "-c", "echo up; sleep 600; true", stage.word, "y" * 20_000])
    seen = read_processes(Machine().run(small)[0])
    theirs = [it for it in seen.rows.values() if it.process.user == nobody]
    assert len(theirs) == 61
    assert all(it.cut and len(it.line) <= CROWDED for it in theirs)
    assert not seen.rows[other.pid].cut


@pytest.mark.real("root")
def test_more_processes_than_can_be_told_leave_out_those_of_that_user_only(stage):
    """Users that say little are reported whole; made up, because no machine starts 100000 processes for a test."""
    budget = ask_processes().script.replace(f"budget={BUDGET}", "budget=10000")
    nobody = str(somebody())
    stage.start([sys.executable, "-c", LONG, "400", nobody, stage.word])
    other = stage.job()
    seen = read_processes(Machine().run(Command(script=budget, effect=Effect.READ))[0])
    assert seen.left_out[nobody] > 100
    assert "root" not in seen.left_out
    assert f"{seen.left_out[nobody]} processes of user {nobody} not inspected" in seen.shortened()[0]
    assert stage.word in seen.rows[other.pid].line


FENCE = """
import ctypes, os, sys, time
print("up", flush=True)
time.sleep(600)
"""


@pytest.mark.real("root", "setpriv")
def test_arguments_that_look_like_a_fence_forge_nothing(machine, stage):
    """Mutants: table_script.py with a nonce that stands in its text."""
    victim = stage.job()
    nonce = "00000000-0000-0000-0000-000000000000"
    lies = [f"n={nonce}", "", f"x\na {victim.pid} sglang", f"cut {victim.pid}", f"left 7 {stage.word}", "n="]
    user = str(somebody())
    liar = stage.start(["setpriv", f"--reuid={user}", "--clear-groups", sys.executable, "-c", FENCE, *lies])
    seen = table(machine)
    assert seen.rows[victim.pid].line.split(" ")[:2] == ["python", f"train_{stage.word}.py"]
    assert not seen.rows[victim.pid].cut
    assert seen.rows[liar.pid].argv[-5:] == tuple(it for it in lies if it)
    assert seen.left_out == {}


def test_no_answer_is_a_fault():
    with pytest.raises(ProbeError, match="within 30 s"):
        read_processes(Completed(exit_code=None, timed_out=True, seconds=30))
    with pytest.raises(ProbeError, match="exit code 3"):
        read_processes(Completed(exit_code=3, stderr="/proc cannot be read"))


def test_over_ssh_everything_below_our_connection_is_ours():
    """Another lane of the same connection may have the very pattern on its command line."""
    lines = [
        "self 50 50 0 100.0 -",
        "p 1 S 0 0 0 1 5 0 - init", "p 20 S 1 20 0 1 9 0 - sshd", "p 30 S 20 30 0 1 9 0 - sshd",
        "p 40 S 30 40 0 1 9 0 - sh", "p 41 S 30 41 0 1 9 0 - sh", "p 42 S 41 41 0 1 9 0 - pgrep",
        "p 50 S 40 50 0 1 9 0 - sh", "p 60 S 20 60 0 1 9 0 - sshd", "p 61 S 60 61 0 1 9 0 - bash",
        "a 42 pgrep", "a 42 -f", "a 42 torchrun", "a 20 sshd: listener", "a 30 sshd: root@notty", "a 40 sh", "a 50 sh",
    ]  # fmt: skip
    seen = table_of(lines)
    assert seen.own == {41, 42, 50}
    assert seen.way_in == (40, 30, 20, 1)
    assert {60, 61} <= set(seen.rows)


def test_containers_and_batch_jobs_are_read_from_the_control_group():
    docker, half = "0123456789ab" + "c" * 52, "d" * 63
    lines = [
        "self 30 30 0 100.0 -", "p 1 S 0 0 0 1 5 0 - init",
        f"p 30 S 1 30 0 1 9 0 /system.slice/docker-{docker}.scope sh",
        f"p 31 S 1 31 0 1 9 0 /kubepods/besteffort/pod1/{docker} a b",
        "p 32 S 1 32 0 1 9 0 /slurm/uid_0/job_417/step_0 a", f"p 33 S 1 33 0 1 9 0 /x/{half} a",
        "a 30 sh",
    ]  # fmt: skip
    rows = table_of(lines).rows
    assert [rows[it].process.container for it in (31, 32, 33)] == ["0123456789ab", "job_417", ""]
    assert rows[31].name == "a b"


def test_an_age_that_cannot_be_is_unknown():
    rows = table_of(["self 30 30 0 1.0 -", "p 1 S 0 0 0 1 5 0 - init", "p 30 S 1 30 0 1 900 0 - sh", "a 30 sh"]).rows
    assert rows == {1: rows[1]}
    old = table_of(["self 30 30 0 1.0 -", "p 1 S 0 0 0 1 5000 0 - init", "p 30 S 1 30 0 1 900 0 - sh", "a 30 sh"]).rows[
        1
    ]
    assert isinstance(old.process.seconds, Unknown)


@pytest.mark.soak
def test_a_thousand_processes_are_listed_in_half_a_second(stage):
    crowd = stage.start(["bash", "-c", "for i in $(seq 1000); do sleep 700 & done; echo up; wait"])
    began = computed()
    seen = table(Machine())
    spent = computed() - began
    mine = [pid for pid, it in seen.rows.items() if it.process.ppid == crowd.pid]
    assert len(mine) == 1000
    assert spent < 1.5, "half a second on a quick machine"


HEX, INNER = "0123456789ab" + "c" * 52, "ba9876543210" + "d" * 52


@every_row(
    ("cgroup", "first", "unit", "container"),
    [
        ("/system.slice/jupyter.service", "/init.scope", "jupyter.service", ""),
        ("/system.slice/system-vllm.slice/vllm@1.service/worker", "", "vllm@1.service", ""),
        ("/user.slice/user-1000.slice/user@1000.service/app.slice/lab.service", "", "lab.service", ""),
        ("/user.slice/user-1000.slice/user@1000.service/app.slice", "", "", ""),
        ("/user.slice/user-1000.slice/session-7.scope", "", "", ""),
        ("/system.slice/docker-0123.scope", "", "", ""),
        ("/../../system.slice/a.service", "", "a.service", ""),
        ("", "", "", ""),
        # a service that is a manager itself: its units are none of ours
        (
            "/machine.slice/systemd-nspawn@web.service/payload/system.slice/a.service",
            "",
            "systemd-nspawn@web.service",
            "",
        ),
        ("/machine.slice/machine-web.scope/payload/system.slice/a.service", "", "", "machine-web.scope"),
        ("/machine.slice/machine-web.scope", "", "", "machine-web.scope"),
        ("/lxc.payload.web", "", "", "lxc/web"),
        ("/lxc.monitor.web", "", "", "lxc/web"),
        ("/lxc.payload/101/system.slice/a.service", "", "", "lxc/101"),
        ("/lxc/web/system.slice/a.service", "", "", "lxc/web"),
        ("/system.slice/lxc.service", "", "lxc.service", ""),
        (f"/system.slice/docker-{HEX}.scope/system.slice/a.service", "", "", HEX[:12]),
        (f"/system.slice/docker-{HEX}.scope/docker/{INNER}", "", "", HEX[:12]),
        (f"/machine.slice/machine-libpod_pod_{HEX}.slice/libpod-{INNER}.scope", "", "", INNER[:12]),
        (f"/libpod_parent/{HEX}/libpod-{INNER}", "", "", INNER[:12]),
        (f"/system.slice/slurmstepd.scope/job_7/step_0/user/task_0/{HEX}", "", "", "job_7"),
        ("/garden/7f/system.slice/a.service", "", "", "garden/7f"),
        ("/gpu_users/alice", "", "", ""),
        # from within
        ("/lxc.payload.web/system.slice/a.service", "/lxc.payload.web/init.scope", "a.service", "lxc/web"),
        (f"/lxc.payload.web/system.slice/docker-{HEX}.scope", "/lxc.payload.web/init.scope", "", HEX[:12]),
        (f"/docker/{HEX}", f"/docker/{HEX}", "", HEX[:12]),
        (f"/docker/{HEX}/docker/{INNER}", f"/docker/{HEX}", "", INNER[:12]),
        ("/system.slice/runner.service", "/system.slice/runner.service", "", ""),
        ("/system.slice/runner.service/a.service", "/system.slice/runner.service", "a.service", ""),
        ("/system.slice/runner.service2/a", "/system.slice/runner.service", "", ""),
    ],
)
def test_the_manager_nearest_to_the_host_says_what_a_process_is_in(cgroup, first, unit, container):
    """Mutants: the innermost unit; the innermost container; a user's own manager; without pid 1's own group."""
    lines = ["self 30 30 0 100.0 -", f"p 1 S 0 0 0 1 5 0 {first or '-'} init", "p 30 S 1 30 0 1 9 0 - sh", "a 30 sh"]
    process = table_of([*lines, f"p 31 S 1 31 0 1 9 0 {cgroup or '-'} a"]).rows[31].process
    assert (process.unit, process.container) == (unit, container)


@every_row(
    ("text", "cgroup"),
    [
        ("0::/user.slice/user-1000.slice/session-7.scope", "/user.slice/user-1000.slice/session-7.scope"),
        ("0::/lxc.payload.web", "/lxc.payload.web"),
        ("0::/", ""),
        ("9:pids:/\n4:memory:/box/18a6b6472f0f5955e8a72dd37b4a89a5\n1:name=systemd:/a.service", "/a.service"),
        ("9:pids:/user.slice/b.scope\n1:name=systemd:/a.service\n0::/c.scope", "/a.service"),
        (f"9:pids:/a.service\n8:cpu:/docker/{HEX}\n1:name=systemd:/b.service", f"/docker/{HEX}"),
        ("9:pids:/lxc/web\n1:name=systemd:/system.slice/a.service", "/lxc/web"),
        ("0::/x y.service", "/x_y.service"),
        (f"0::/{'a' * 997}.scope", f"/{'a' * 499}/.../{'a' * 494}.scope"),
        (f"0::/lxc.payload.web/{'a/' * 600}b.service", f"/lxc.payload.web/{'a/' * 241}a/.../{'/a' * 245}/b.service"),
    ],
)
def test_a_group_is_told_by_the_controller_that_says_most_and_never_without_its_beginning(text, cgroup, stage):
    """Mutants: process_table_open.sh with the end of a long path only; without scopes; the first line of any kind."""
    job = stage.job()
    place = stage.folder / f"cgroup-{job.pid}"
    place.write_text(f"{text}\n")
    asked = ask_processes().script.replace('f = d "/cgroup"', f'f = "{stage.folder}/cgroup-" substr(d, 7)')
    assert "cgroup-" in asked
    seen = read_processes(Machine().run(Command(script=asked, effect=Effect.READ))[0])
    assert seen.rows[job.pid].cgroup == cgroup


@every_row(("uptime", "age"), [("50.00", 10.0), ("39.99", 0.0), ("31.00", 0.0), ("29.00", None), ("-", None)])
def test_what_was_started_while_the_table_was_read_is_new(uptime, age):
    """Mutants: ``_rows`` where a negative age is always unknown; where it never is."""
    lines = [f"self 2 2 0 {uptime} -", "p 1 S 0 1 0 1 100 0 - init", "p 2 S 1 2 0 1 200 0 - sh", "a 2 sh"]
    lines += ["p 7 S 1 7 0 1 4000 0 - job", "a 7 job"]
    seconds = table_of(lines).rows[7].process.seconds
    assert (None if isinstance(seconds, Unknown) else seconds) == age
