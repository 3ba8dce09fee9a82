"""Who has a file open is found by what it is, not by its name alone, and what could not be seen is counted."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest

from runbook.errors import ProbeError
from runbook.library.processes.facts.open_files import ask_holders, read_holders
from runbook.library.processes.facts.table_script import BUDGET
from runbook.values.command import Completed
from tests.support.probe_driver import broken_awk
from tests.support.real_processes import NOBODY, Machine, computed
from tests.support.waiting import state, until


def walk(machine: Machine, *globs: str):
    return read_holders(machine.run(ask_holders(*globs))[0])


def paths(seen, pid):
    return tuple(it.path for it in seen.asked(pid))


def test_holders_of_plain_files_are_found_by_globs_and_others_are_not(machine, stage, tmp_path):
    for name in ("a1", "a2", "b1", "a b"):
        (tmp_path / name).write_text("x")
    one, both = stage.job(f"{tmp_path}/a1"), stage.job(f"{tmp_path}/a2", f"{tmp_path}/a b", f"{tmp_path}/b1")
    idle = stage.job()
    seen = walk(machine, f"{tmp_path}/a*")
    assert seen.present() == (f"{tmp_path}/a b", f"{tmp_path}/a1", f"{tmp_path}/a2")
    assert paths(seen, one.pid) == (f"{tmp_path}/a1",)
    assert set(paths(seen, both.pid)) == {f"{tmp_path}/a2", f"{tmp_path}/a b"}
    assert paths(seen, idle.pid) == ()
    assert paths(seen, os.getpid()) == ()


def test_a_file_of_the_same_name_elsewhere_is_another_file(machine, stage, tmp_path):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "lock").write_text("x")
    other = stage.job(f"{tmp_path}/two/lock")
    assert paths(walk(machine, f"{tmp_path}/one/lock"), other.pid) == ()


@pytest.mark.real("root")
def test_a_device_is_known_by_its_number_whatever_path_a_container_gives_it(machine, stage, tmp_path):
    (tmp_path / "mounted").mkdir()
    for name in ("gpu", "mounted/gpu"):
        subprocess.run(["mknod", str(tmp_path / name), "c", "1", "7"], check=True)
    subprocess.run(["mknod", str(tmp_path / "mounted/other"), "c", "1", "5"], check=True)
    inside, other = stage.job(f"{tmp_path}/mounted/gpu"), stage.job(f"{tmp_path}/mounted/other")
    seen = walk(machine, f"{tmp_path}/gpu")
    assert paths(seen, inside.pid) == (f"{tmp_path}/gpu",)
    assert paths(seen, other.pid) == ()


def test_a_link_is_followed_and_a_deleted_file_is_not_the_new_one(machine, stage, tmp_path):
    (tmp_path / "real").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "lock").write_text("old")
    by_link, old = stage.job(f"{tmp_path}/real"), stage.job(f"{tmp_path}/lock")
    (tmp_path / "lock").unlink()
    (tmp_path / "lock").write_text("new")
    assert paths(walk(machine, f"{tmp_path}/link"), by_link.pid) == (f"{tmp_path}/link",)
    assert paths(walk(machine, f"{tmp_path}/lock"), old.pid) == ()


MAPS = """
import ctypes, os, sys, time
libc = ctypes.CDLL(None)
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
file = os.open(sys.argv[1], os.O_RDWR)
libc.mmap(None, 4096, 3, 1, file, 0)
os.close(file)
print("up", flush=True)
time.sleep(600)
"""


def test_a_file_that_is_only_mapped_is_held_too(machine, stage, tmp_path):
    (tmp_path / "mapped").write_bytes(b"x" * 4096)
    (tmp_path / "mapped2").write_bytes(b"x" * 4096)
    holder = stage.start([sys.executable, "-c", MAPS, f"{tmp_path}/mapped"])
    other = stage.start([sys.executable, "-c", MAPS, f"{tmp_path}/mapped2"])
    seen = walk(machine, f"{tmp_path}/mapped")
    assert paths(seen, holder.pid) == (f"{tmp_path}/mapped",)
    assert paths(seen, other.pid) == ()


def test_a_file_name_with_a_newline_cannot_hide_a_holder_nor_frame_another(machine, stage, tmp_path):
    (tmp_path / "lock").write_text("x")
    victim = stage.job()
    odd = tmp_path / f"x\n/proc/{victim.pid}/fd:\ntotal 0\nlr-x------ 1 0 0 64 Nov 21 01:41 3 -> lock"
    odd.parent.mkdir(parents=True)
    odd.write_text("x")
    held = 'exec 3<"$1" 4<"$2"; echo up; exec sleep 600'
    holder = stage.start(["bash", "-c", held, "bash", str(odd), f"{tmp_path}/lock"])
    seen = walk(machine, f"{tmp_path}/lock")
    assert paths(seen, holder.pid) == (f"{tmp_path}/lock",)
    assert paths(seen, victim.pid) == ()


def test_directories_are_left_out_and_nothing_there_is_an_answer(machine, stage, tmp_path):
    (tmp_path / "folder").mkdir()
    assert walk(machine, f"{tmp_path}/folder", f"{tmp_path}/none*").present() == ()


def test_a_socket_is_not_taken_for_a_file_that_nobody_holds(machine, tmp_path):
    import socket

    with socket.socket(socket.AF_UNIX) as one:
        one.bind(f"{tmp_path}/s")
        assert walk(machine, f"{tmp_path}/s").sockets == (f"{tmp_path}/s",)


@pytest.mark.real("root")
def test_a_defunct_process_whose_thread_lives_still_holds(machine, stage, tmp_path):
    (tmp_path / "lock").write_text("x")
    code = (
        "import ctypes,sys,threading,time; f=open(sys.argv[1]); "
        "threading.Thread(target=lambda: (print('up',flush=True), time.sleep(600))).start(); time.sleep(0.2); "
        "ctypes.CDLL(None).syscall(60 if ctypes.sizeof(ctypes.c_long)==8 and __import__('os').uname().machine=='x86_64' else 93, 0)"
    )
    dying = stage.start([sys.executable, "-c", code, f"{tmp_path}/lock"])
    until(lambda: state(dying.pid) == "Z")
    seen = walk(machine, f"{tmp_path}/lock")
    assert seen.table.rows[dying.pid].process.state == "Z"
    assert not seen.table.rows[dying.pid].defunct
    assert paths(seen, dying.pid) == (f"{tmp_path}/lock",)


@pytest.mark.real("root", "setpriv")
def test_without_root_what_could_not_be_looked_into_is_counted(stage, tmp_path):
    (tmp_path / "lock").write_text("x")
    tmp_path.chmod(0o755)
    for it in tmp_path.parents:
        if it.stat().st_uid == os.getuid() and str(it).startswith("/tmp/"):
            it.chmod(it.stat().st_mode | 0o011)
    root = stage.job(f"{tmp_path}/lock")
    mine = stage.start([*NOBODY, "bash", "-c", f"exec 3<{tmp_path}/lock; echo up; sleep 600"])
    seen = walk(Machine(before=NOBODY), f"{tmp_path}/lock")
    assert paths(seen, mine.pid) == (f"{tmp_path}/lock",)
    assert root.pid in seen.unseen
    assert mine.pid not in seen.unseen
    assert 1 not in seen.unseen
    assert not walk(Machine(), f"{tmp_path}/lock").unseen


def test_a_host_without_stat_is_a_fault_and_not_nobody(stage, tmp_path):
    (tmp_path / "stat").write_text("#!/bin/sh\nexit 127\n")
    (tmp_path / "stat").chmod(0o755)
    with pytest.raises(ProbeError, match="could not be listed"):
        walk(Machine(path=tmp_path), f"{tmp_path}/stat")


def test_a_walk_that_broke_off_is_a_fault_and_not_nobody():
    head = "self 30 30 0 100.0 -\np 1 S 0 0 0 1 5 0 - init\np 30 S 1 30 0 1 9 0 - sh\na 30 sh\n"
    for rest in ("asked /x\n", "asked /x\nseen 1 30\nblind\n", "seen 1\nblind\nwalked 30\n"):
        with pytest.raises(ProbeError, match="could not be listed"):
            read_holders(Completed(exit_code=0, stdout=head + rest))


@pytest.mark.parametrize("call", range(1, 16))
def test_whichever_awk_gives_up_no_holder_is_hidden(stage, tmp_path, call):
    """Mutants: a list whose awk failed, taken for the whole."""
    (tmp_path / "held").write_text("x")
    held = stage.job(f"{tmp_path}/held")
    path = broken_awk(tmp_path, first=call, last=call)
    try:
        seen = walk(Machine(path=path), f"{tmp_path}/held")
    except ProbeError:
        return
    assert paths(seen, held.pid) == (f"{tmp_path}/held",) or held.pid in seen.unseen
    assert stage.word in seen.table.rows[held.pid].line or seen.table.rows[held.pid].cut


def test_the_walk_over_a_thousand_processes_takes_no_minute(stage, tmp_path):
    """Mutants: open_files_script.py with ``listed=${found##*seen}``, which takes a shell the square of what is open."""
    (tmp_path / "lock").write_text("x")
    holder = stage.job(f"{tmp_path}/lock")
    stage.start(["bash", "-c", "for i in $(seq 1000); do sleep 700 3</dev/null 4<&3 5<&3 6<&3 & done; echo up; wait"])
    machine = Machine()
    began = computed()
    seen = walk(machine, f"{tmp_path}/lock")
    spent = computed() - began
    assert len(seen.table.rows) > 1000
    assert paths(seen, holder.pid)
    assert spent < 10, "half a second on a quick machine; the square of it takes a minute"


@pytest.mark.real("root", "setpriv")
def test_a_holder_is_told_of_although_its_user_has_more_processes_than_can_be_told(stage, tmp_path):
    """Mutants: open_files_script.py without the rows of holders that were left out."""
    (tmp_path / "lock").write_text("x")
    user = 100_000 + secrets.randbelow(1_000_000_000)
    crowd = "exec 3<&0; i=0; while [ $i -lt 300 ]; do sleep 100 3<&- <&- & i=$((i+1)); done; sh -c 'exec sleep 100' & echo up; wait"
    with (tmp_path / "lock").open() as lock:
        words = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "sh", "-c", crowd]
        stage.start(words, stdin=lock)
    asked = ask_holders(f"{tmp_path}/lock")
    less = replace(asked, script=asked.script.replace(f"budget={BUDGET}", "budget=2000"))
    seen = read_holders(Machine().run(less)[0])
    held = [it for it in seen.open if seen.table.rows[it].process.user == str(user)]
    assert seen.table.left_out[str(user)] > 100
    assert len(held) >= 2


@pytest.mark.real("root", "setpriv", "lab")
def test_a_node_bound_or_made_elsewhere_is_held_too_whatever_its_path_says(machine, stage, tmp_path):
    """Mutants: open_files_script.py looking only at names of nodes and at /dev; leaving out what calls itself /dev/null."""
    stage.plant(2)
    inside = Machine(shell=machine.shell, before=stage.inside)
    make = ": >/mnt/x; mount -t tmpfs none /mnt; : >/mnt/plain; mount --bind /dev/nvidia0 /mnt/plain; mount --bind /dev/nvidia1 /dev/null"
    subprocess.run([*stage.inside, "sh", "-ec", make], check=True)
    bound = stage.start([*NOBODY, "bash", "-c", "exec 3</mnt/plain; echo up; exec sleep 600"])
    dull = stage.start([*NOBODY, "bash", "-c", "exec 3</dev/null; echo up; exec sleep 600"])
    seen = walk(inside, "/dev/nvidia*")
    assert os.readlink(f"/proc/{bound.pid}/fd/3") == "/mnt/plain"
    assert paths(seen, bound.pid) == ("/dev/nvidia0",)
    assert os.readlink(f"/proc/{dull.pid}/fd/3") == "/dev/null"
    assert "/dev/nvidia1" in paths(seen, dull.pid)


@pytest.mark.real("root")
def test_a_device_made_under_another_name_is_held_and_mapped_files_under_another_path_are(machine, stage, tmp_path):
    """Mutants: open_files_script.py looking only at names; ``maps`` searched for the paths of the nodes."""
    for name in ("gpu", "note.txt"):
        subprocess.run(["mknod", str(tmp_path / name), "c", "1", "7"], check=True)
    (tmp_path / "lock").write_bytes(b"x" * 4096)
    os.link(tmp_path / "lock", tmp_path / "other")
    holder = stage.job(f"{tmp_path}/note.txt")
    mapper = stage.start([sys.executable, "-c", MAPS, f"{tmp_path}/other"])
    assert paths(walk(machine, f"{tmp_path}/gpu"), holder.pid) == (f"{tmp_path}/gpu",)
    assert paths(walk(machine, f"{tmp_path}/lock"), mapper.pid) == (f"{tmp_path}/lock",)


def test_an_open_file_that_hangs_whoever_looks_makes_only_its_process_unsure(stage, tmp_path):
    """A file server that is gone; mutants: open_files_script.py without the time limit, or without ``unsure``."""
    (tmp_path / "lock").write_text("x")
    (tmp_path / "far").write_text("x")
    holder = stage.job(f"{tmp_path}/lock")
    hung = stage.job(f"{tmp_path}/far")
    (tmp_path / "xargs").write_text(
        f'#!/bin/sh\n[ "$3" = stat ] || exec {shutil.which("xargs")} "$@"\n'
        f'grep -v "^/proc/{hung.pid}/fd/3$" | {shutil.which("xargs")} "$@"\n'
        "exec sleep 60\n"
    )
    (tmp_path / "xargs").chmod(0o755)
    seen = walk(Machine(path=tmp_path), f"{tmp_path}/lock")
    assert paths(seen, holder.pid) == (f"{tmp_path}/lock",)
    assert hung.pid in seen.unseen
    assert holder.pid not in seen.unseen


def slow(folder, program, when, before=":"):
    """An xargs whose *program* hangs once it comes to what matches *when*; it has done *before*, and all other lines."""
    real = shutil.which("xargs")
    (folder / "xargs").write_text(
        f'#!/bin/sh\ncase " $* " in *" {program} "*) ;; *) exec {real} "$@" ;; esac\n'
        f"grep -v '{when}' >{folder}/others; cp {folder}/others {folder}/all; {real} \"$@\" <{folder}/others\n"
        f"{before}\n"
        f"[ -e {folder}/over ] || exec sleep 60\n"
    )
    (folder / "xargs").chmod(0o755)
    return Machine(path=folder)


def test_a_line_that_the_time_limit_cuts_off_hides_nobody(stage, tmp_path):
    """Mutants: open_files_script.py with ``echo late``; without the mark behind each name."""
    for name in ("lock", "far"):
        (tmp_path / name).write_text("x")
    holder, hung = stage.job(f"{tmp_path}/lock"), stage.job(f"{tmp_path}/far")
    kept = (tmp_path / "lock").stat()
    cut = f"printf '81a4 {kept.st_dev} {kept.st_ino} 0 0 /proc/{hung.pid!s}'"
    seen = walk(slow(tmp_path, "stat", f"^/proc/{hung.pid}/fd/3$", cut), f"{tmp_path}/lock")
    assert paths(seen, holder.pid) == (f"{tmp_path}/lock",)
    assert hung.pid in seen.unseen
    assert paths(seen, hung.pid) == ()
    assert holder.pid not in seen.unseen


def among_many(*globs):
    """A probe for which everybody but root has very many files open."""
    asked = ask_holders(*globs)
    assert "most=65536" in asked.script
    return replace(asked, script=asked.script.replace("most=65536", "most=0"))


@pytest.mark.real("root", "setpriv")
def test_who_has_very_many_files_open_is_looked_into_last_and_hides_no_other(stage, tmp_path):
    """Mutants: open_files_script.py with all processes in one list; without ``late`` behind the list that was cut off."""
    for name in ("lock", "far"):
        (tmp_path / name).write_text("x")
    become = f"exec {' '.join(NOBODY)} sh -c 'echo up; exec sleep 600'"
    theirs, last = (stage.start(["bash", "-c", f"exec 3<{tmp_path}/{it}; {become}"]) for it in ("far", "lock"))
    holder = stage.job(f"{tmp_path}/lock")
    machine = slow(tmp_path, "ls", f"^/proc/{theirs.pid}/fd$")
    (tmp_path / "xargs").write_text(
        (tmp_path / "xargs")
        .read_text()
        .replace("[ -e", f"grep -q '^/proc/{last.pid}/fd$' {tmp_path}/all || exit 0; [ -e")
    )
    seen = read_holders(machine.run(among_many(f"{tmp_path}/lock"))[0])
    assert paths(seen, holder.pid) == (f"{tmp_path}/lock",)
    assert theirs.pid in seen.unseen
    assert holder.pid not in seen.unseen
    assert "of user nobody) could not be read in time" in seen.not_seen()
    (tmp_path / "over").touch()
    (tmp_path / "xargs").unlink()
    seen = read_holders(Machine().run(among_many(f"{tmp_path}/lock"))[0])
    assert {holder.pid, last.pid} <= set(seen.open)
    assert not seen.unseen


@pytest.mark.real("root", "setpriv")
@pytest.mark.soak
def test_who_has_very_much_in_memory_hides_nobody_who_maps_a_file(stage, tmp_path):
    """Mutants: open_files_script.py without ``groups``; without the ``unsure`` of those for whom there was no time."""
    (tmp_path / "lock").write_bytes(b"x" * 4096)
    mapper = stage.start([sys.executable, "-c", MAPS, f"{tmp_path}/lock"])
    theirs = stage.start([*NOBODY, "bash", "-c", "echo up; exec sleep 600"])
    real = shutil.which("xargs")
    (tmp_path / "xargs").write_text(
        f'#!/bin/sh\ncase " $* " in *" grep "*) ;; *) exec {real} "$@" ;; esac\n'
        f"pids=$(cat); case $pids in */proc/{theirs.pid}/maps*) exec sleep 60 ;; esac\n"
        f'printf "%s\\n" "$pids" | {real} "$@"\n'
    )
    (tmp_path / "xargs").chmod(0o755)
    seen = walk(Machine(path=tmp_path), f"{tmp_path}/lock")
    assert paths(seen, mapper.pid) == (f"{tmp_path}/lock",)
    assert theirs.pid in seen.unseen
    assert mapper.pid not in seen.unseen


THREADS = """
import os, sys, threading
held = open(sys.argv[1])
for _ in range(int(sys.argv[2])):
    threading.Thread(target=threading.Event().wait).start()
print("up", flush=True)
import ctypes
ctypes.CDLL(None).syscall(60, 0)  # the first thread ends, and the others go on
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the number of the system call is that of x86-64")
def test_threads_that_outlive_their_process_are_found_however_many(stage, tmp_path):
    """Mutant: open_files_script.py without ``task``."""
    (tmp_path / "lock").write_text("x")
    left = stage.start([sys.executable, "-c", THREADS, f"{tmp_path}/lock", "40"])
    until(lambda: state(left.pid) == "Z")
    seen = walk(Machine(), f"{tmp_path}/lock")
    assert paths(seen, left.pid) == (f"{tmp_path}/lock",)
