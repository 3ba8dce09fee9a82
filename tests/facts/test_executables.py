"""A protected name protects root's own programs, and nobody who only calls himself so."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys

import pytest

from runbook.library.processes.facts.executables import programs_of
from runbook.library.processes.facts.protected import disguise, protection
from runbook.library.processes.facts.table import Row, Table, ask_processes, read_processes, table_of
from runbook.values.types import Unknown
from tests.support.real_processes import Machine, Stage
from tests.support.waiting import until

pytestmark = pytest.mark.real("root", "setpriv")


@pytest.fixture
def user() -> tuple[str, ...]:
    """Words that make a command that of a user whom no other test has."""
    uid = 100_000 + secrets.randbelow(1_000_000_000)
    return ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups")


@pytest.fixture
def opt(stage: Stage) -> Stage:
    """A stage with an /opt of its own, which is root's."""
    stage.plant(1)
    subprocess.run([*stage.inside, "mount", "-t", "tmpfs", "-o", "mode=755", "none", "/opt"], check=True)
    return stage


def looked(pid: int, machine: Machine | None = None) -> tuple[Row, Table]:
    table = read_processes((machine or Machine()).run(ask_processes())[0])
    return table.rows[pid], table


SHELLS = (
    "bash",
    "dash",
    "python3.11",
    "python3",
    "python",
    "setpriv",
    "unshare",
    "nsenter",
    os.path.basename(os.path.realpath(sys.executable)),
)


def until_it_runs(pid: int) -> None:
    """Wait until the shell of *pid* has become the program that it starts."""
    until(lambda: os.path.basename(os.readlink(f"/proc/{pid}/exe")) not in SHELLS, f"another program than {SHELLS}")


def as_(user, stage, program: str, name: str, *words: str):
    """*program* as that user, called *name*; it is there when this is over."""
    process = stage.start([*user, "bash", "-c", 'echo up; exec -a "$0" "$@"', name, program, *words])
    until_it_runs(process.pid)
    return process


@pytest.mark.parametrize("name", ["sshd: root@notty", "tmux: server", "nvidia-persistenced", "(sd-pam)", "systemd"])
def test_a_first_argument_protects_nobody(machine, stage, user, name):
    """Mutants: processes.py believing every user's names; protected.py ``daemon`` by what a process calls itself."""
    liar = as_(user, stage, "/usr/bin/sleep", name, "600")
    row, table = looked(liar.pid, machine)
    assert protection(row, table) == ""
    assert disguise(row) == f"calls itself {name.split(':')[0]}, runs {os.path.realpath('/usr/bin/sleep')}"


def test_a_binary_of_the_user_s_own_protects_nobody_under_any_name(machine, stage, user, tmp_path):
    """Mutants: executables.py without the owner of the program; without the directories above it."""
    folder = tmp_path / "bin"
    folder.mkdir(mode=0o777)
    for it in (folder, *folder.parents):
        if str(it).startswith("/tmp/"):
            it.chmod(it.stat().st_mode | 0o011)
    folder.chmod(0o777)
    shutil.copy("/usr/bin/sleep", folder / "tmux")
    own = as_(user, stage, f"{folder}/tmux", "tmux", "600")
    row, table = looked(own.pid, machine)
    assert protection(row, table) == ""
    assert disguise(row) == f"calls itself tmux, runs {folder}/tmux"


def test_root_s_own_program_is_protected_whatever_it_calls_itself(machine, stage, user):
    viewer = as_(user, stage, "/usr/bin/tail", "tail", "-f", "/dev/null")
    row, table = looked(viewer.pid, machine)
    assert protection(row, table) == "tail is an editor or a pager, not a job"
    assert disguise(row) == ""


def test_what_any_user_may_write_or_whose_directory_he_may_is_not_root_s(opt, user):
    """Mutants: executables.py without the mode of the program, or of the directories."""
    machine = Machine(before=opt.inside)
    make = "for d in good open loose; do mkdir /opt/$d; cp /usr/bin/sleep /opt/$d/tmux; done; chmod 777 /opt/open; chmod 757 /opt/loose/tmux"
    subprocess.run([*opt.inside, "sh", "-ec", make], check=True)
    started = {it: as_(user, opt, f"/opt/{it}/tmux", "tmux", "600") for it in ("good", "open", "loose")}
    said = {it: protection(*looked(one.pid, machine)) for it, one in started.items()}
    assert said == {"good": "tmux is a terminal that others may be using", "open": "", "loose": ""}


def test_a_program_that_an_upgrade_has_deleted_stays_protected(opt, user):
    """Mutants: executables.py without ``(deleted)``."""
    subprocess.run([*opt.inside, "cp", "/usr/bin/sleep", "/opt/tmux"], check=True)
    old = as_(user, opt, "/opt/tmux", "tmux", "600")
    assert os.readlink(f"/proc/{old.pid}/exe") == "/opt/tmux"
    subprocess.run([*opt.inside, "sh", "-ec", "cp /usr/bin/sleep /opt/new; mv /opt/new /opt/tmux"], check=True)
    assert os.readlink(f"/proc/{old.pid}/exe") == "/opt/tmux (deleted)"
    assert protection(*looked(old.pid, Machine(before=opt.inside)))


OPENS = """
import os, sys
os.execve(os.open(f"/proc/{sys.argv[1]}/root{sys.argv[2]}", os.O_PATH), ["tail", "600"], {})
"""


@pytest.mark.real("lab")
@pytest.mark.parametrize("path", ["/opt/there/tail", "/opt/gone/tail (deleted)"])
@pytest.mark.parametrize("way", ["inside", "by the file alone"])
def test_a_mount_namespace_of_the_user_s_own_gives_a_program_no_name(opt, machine, user, path, way):
    """In it he may put root's sleep where root's tail is: the path and the owner look right, the inode tells.

    From outside he may run that file, too. Mutants: executables.py without the comparison of inodes; believing
    ``(deleted)`` where a link is left; ``foreign`` taken for ``same``.
    """
    sleep, folder = os.path.realpath("/usr/bin/sleep"), os.path.dirname(path)
    make = "mkdir /opt/there /opt/gone; cp /usr/bin/tail /opt/there"
    subprocess.run([*opt.inside, "sh", "-ec", make], check=True)
    run = f"'{path}' 600" if way == "inside" else "sleep 600"
    setup = f"mount -t tmpfs none {folder}; : >'{path}'; mount --bind {sleep} '{path}'; echo up; exec {run}"
    forger = opt.start([*user, "unshare", "--user", "--map-root-user", "--mount", "sh", "-ec", setup])
    until_it_runs(forger.pid)
    if way != "inside":
        forger = opt.start([*user, sys.executable, "-c", OPENS, str(forger.pid), path], up=False)
        until_it_runs(forger.pid)
    assert os.readlink(f"/proc/{forger.pid}/exe") == path
    assert os.stat(f"/proc/{forger.pid}/exe").st_uid == 0
    row, table = looked(forger.pid, Machine(shell=machine.shell, before=opt.inside))
    assert protection(row, table) == ""


def test_an_sshd_that_a_user_has_started_himself_is_no_way_into_the_host(stage, user):
    """Mutants: processes.py without the parent of a server."""
    lines = [
        "self 30 30 0 100.0 -", "p 1 S 0 0 0 1 5 0 - init", "p 30 S 1 30 0 1 9 0 - sh", "a 30 sh",
        "p 40 S 1 40 0 1 9 0 - sshd", "a 40 sshd: listener", "p 41 S 40 41 0 1 9 7 - sshd", "a 41 sshd: u@notty",
        "p 50 S 1 50 0 1 9 7 - sshd", "a 50 sshd: u@notty", "exe 41 same /usr/sbin/sshd", "exe 50 same /usr/sbin/sshd",
        "inode 8:9 0 81ed 1 /proc/41/exe", "inode 8:9 0 81ed 1 /proc/50/exe", "file 8:9 0 81ed 1 /usr/sbin/sshd",
        *(f"file 8:2 0 41ed 3 {it}" for it in ("/usr/sbin", "/usr", "/.")),
    ]  # fmt: skip

    table = table_of(lines)
    assert protection(table.rows[41], table) == "sshd is a remote access service"
    assert protection(table.rows[50], table) == ""
    assert disguise(table.rows[50]) == "calls itself sshd, runs /usr/sbin/sshd"


def test_without_root_a_protected_name_is_neither_believed_nor_free_to_be_ended(stage, user):
    """Mutants: processes.py ``_names_of`` without the unknown."""
    other = ("setpriv", "--reuid=77777", "--regid=77777", "--clear-groups")
    liar = as_(user, stage, "/usr/bin/sleep", "tmux", "600")
    row, table = looked(liar.pid, Machine(before=other))
    assert isinstance(protection(row, table), Unknown)
    mine = as_(other, stage, "/usr/bin/sleep", "tmux", "600")
    row, table = looked(mine.pid, Machine(before=other))
    assert protection(row, table) == "tmux is a terminal that others may be using"


def test_lines_of_a_program_that_are_not_there_are_no_trust():
    assert programs_of([("exe", "5 same /usr/bin/tmux")])[5].roots is False
