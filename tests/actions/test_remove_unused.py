"""Removal of what no process uses: real files, opened and mapped by real processes, also out of sight of their names."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from runbook.errors import ConfigError
from runbook.language.arguments import build
from runbook.library.files import remove
from runbook.library.files.facts.removal import remove as removal
from tests.support.probe_driver import drive
from tests.support.real_processes import NOBODY, SHELLS, Machine, each, shell

pytestmark = pytest.mark.real("root", "lab")
APART = ("unshare", "--pid", "--ipc", "--mount-proc", "--fork")
"""A host of a test's own: whatever else runs on this machine may be hidden even from root."""
shells = pytest.mark.parametrize("named", each(SHELLS))
USER = """
import mmap, os, sys
how, path = sys.argv[1:3]
file = os.open(path, os.O_RDWR)
if how == "mapped":
    memory = mmap.mmap(file, 0)
    for it in os.listdir("/proc/self/fd"):  # Python keeps one of its own
        if os.path.exists("/proc/self/fd/" + it) and os.readlink("/proc/self/fd/" + it) == path:
            os.close(int(it))
print("up", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path) -> Iterator[Path]:
    made = tmp_path / "shm"
    made.mkdir()
    for name in ("torch_1_a", "torch_2_b", "torch_3_c d", "sem.lock", "other"):
        (made / name).write_bytes(b"x" * 5000)
        os.utime(made / name, (1_700_000_000, 1_700_000_000))
    return made


@pytest.fixture
def inside() -> Iterator[tuple[str, ...]]:
    """The words before a command that is to run in namespaces of this test's own."""
    line = "echo up; echo $$; read -r x"
    keeper = subprocess.Popen([*APART, "sh", "-c", line], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert keeper.stdout.readline() == b"up\n"
    (pid,) = Path(f"/proc/{keeper.pid}/task/{keeper.pid}/children").read_text().split()
    yield ("nsenter", "-t", pid, "--pid", "--ipc", "--mount")
    keeper.communicate(b"\n")


@pytest.fixture
def using(inside) -> Iterator:
    """A function that starts a process with a file open, or only mapped into its memory."""
    started = []

    def start(how: str, path: Path) -> None:
        argv = [*inside, sys.executable, "-c", USER, how, str(path)]
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout.readline() == b"up\n"

    yield start
    for it in started:
        it.communicate()


def seen(folder: Path, here: Machine) -> tuple[remove.Args, remove.State]:
    given = {"paths": [f"{folder}/torch_*", f"{folder}/sem.*"], "allowed_roots": [str(folder)], "unused": True}
    args = build(remove.Args, given)
    return args, drive(remove.probe(args), here)


def names(entries) -> list[str]:
    return sorted(it.path.rpartition("/")[2] for it in entries)


@shells
def test_what_a_process_has_open_or_only_mapped_stays_and_the_rest_goes(folder, inside, using, tmp_path, named):
    """Mutants: the maps not read; the open files not read; a name with a blank cut at it."""
    using("open", folder / "torch_2_b")
    using("mapped", folder / "torch_3_c d")
    here = Machine(shell=shell(named, tmp_path), before=inside)
    args, state = seen(folder, here)
    assert (names(state.in_use), names(state.entries)) == (["torch_2_b", "torch_3_c d"], ["sem.lock", "torch_1_a"])
    change = remove.decide(args, state)
    assert "(2 in use kept)" in change.summary
    (done,) = here.run(*change.commands)
    assert done.exit_code == 0, done.stderr
    assert sorted(it.name for it in folder.iterdir()) == ["other", "torch_2_b", "torch_3_c d"]


@pytest.mark.real("lab", "dash")
def test_the_name_of_an_open_file_is_no_error_of_ls(folder, inside, using, tmp_path):
    """Mutant: what nobody could inspect, by words that any user can give a file as its name."""
    odd = tmp_path / "x: Permission denied"
    odd.touch()
    using("open", odd)
    _, state = seen(folder, Machine(before=inside))
    assert "torch_1_a" in names(state.entries)


@shells
def test_what_is_taken_into_use_meanwhile_is_left_alone(folder, inside, using, tmp_path, named):
    """Mutant: not seen again right before the removal."""
    here = Machine(shell=shell(named, tmp_path), before=inside)
    _, state = seen(folder, here)
    assert "torch_1_a" in names(state.entries)
    using("mapped", folder / "torch_1_a")
    (done,) = here.run(removal(state.entries, unused=True))
    assert done.exit_code == 1
    assert "torch_1_a: left alone: a process has it open, or in its memory" in done.stderr
    assert (folder / "torch_1_a").exists()
    assert not (folder / "sem.lock").exists()


@pytest.mark.real("lab", "dash")
def test_a_process_that_knows_the_file_by_another_path_uses_it_too(folder, inside):
    """As one in a container does, whose mounts are its own."""
    line = f"mount --bind {folder} /mnt; exec 3</mnt/torch_1_a; echo up; read -r x"
    words = [*inside, "unshare", "-m", "sh", "-ec", line]
    other = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdout.readline() == b"up\n"
    _, state = seen(folder, Machine(before=inside))
    other.communicate(b"\n")
    assert names(state.in_use) == ["torch_1_a"]


@pytest.mark.real("setpriv", "dash")
def test_who_cannot_see_every_process_removes_nothing(folder, tmp_path):
    """Mutant: what nobody could inspect taken for unused."""
    top = Path(tempfile.gettempdir())
    for it in (folder, *folder.parents):
        if top in it.parents:
            it.chmod(0o755)
    given = {"paths": [f"{folder}/torch_*"], "allowed_roots": [str(folder)], "unused": True}
    args = build(remove.Args, given)
    state = drive(remove.probe(args), Machine(before=NOBODY))
    assert len(state.entries) == 3
    assert all("only root can see which files all processes use" in it for it in state.forbidden)
    (done,) = Machine(before=NOBODY).run(removal(state.entries, unused=True))
    assert done.exit_code == 1
    assert len(list(folder.iterdir())) == 5


@pytest.mark.real("setpriv", "dash")
def test_root_without_the_right_to_look_into_processes_of_others_removes_nothing(folder, inside):
    """As in many containers. Mutant: what ls and grep were denied not minded."""
    other = subprocess.Popen(
        [*inside, *NOBODY, "sh", "-c", "echo up; read -r x"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert other.stdout.readline() == b"up\n"
    weak = ("setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace")
    _, state = seen(folder, Machine(before=(*inside, *weak)))
    other.communicate(b"\n")
    assert len(state.forbidden) == 4
    assert all("not every process could be inspected" in it for it in state.forbidden)


@pytest.mark.real("lab", "dash")
@pytest.mark.parametrize(("spaces", "left"), [(("--pid",), True), (("--pid", "--ipc"), False)])
def test_a_container_with_the_hosts_shared_memory_cannot_know_who_uses_it(folder, tmp_path, spaces, left):
    """Mutant: the namespaces not asked."""
    here = Machine(before=("unshare", *spaces, "--mount-proc", "--fork"))
    given = {"paths": [f"{folder}/torch_*"], "allowed_roots": [str(folder)], "unused": True}
    state = drive(remove.probe(build(remove.Args, given)), here)
    refused = [it for it in state.forbidden if "processes outside of this container may use it" in it]
    assert len(refused) == (3 if left else 0)


@pytest.mark.real("lab", "dash")
def test_links_directories_and_odd_names_are_kept(folder, inside):
    (folder / "torch_dir").mkdir()
    (folder / "torch_link").symlink_to("/etc/passwd")
    (folder / "torch_a\nb").touch()
    _, state = seen(folder, Machine(before=inside))
    assert names(state.in_use) == ["torch_a\nb", "torch_dir", "torch_link"]
    assert state.forbidden == ()


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"allowed_roots": ["/dev/shm"], "unused": False}, "too wide"),
        ({"allowed_roots": ["/dev/shm/x"]}, "too wide"),
        ({"allowed_roots": ["/dev"]}, "too wide"),
        ({"directories": True}, "plain files"),
    ],
)
def test_shared_memory_is_a_root_only_where_what_is_in_use_stays(values, why):
    given = {"paths": ["/dev/shm/torch_*"], "allowed_roots": ["/dev/shm"], "unused": True}
    assert build(remove.Args, given).unused
    with pytest.raises(ConfigError, match=why):
        build(remove.Args, {**given, **values})
