"""Law 9: root does not work in, trust or follow what another user of the host can rename, write or forge.

Real actions, as root, against a directory of another user's and one that another user exchanges all the time. Each
test names the mutants that it has been seen to kill.
"""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from runbook.execution.diagnosis.probe_types import ProbeAnswer, ProbeFailure
from runbook.language.arguments import build
from runbook.library.config.facts.config_file import ask_file, read_file, replace_file
from runbook.library.files import disk_speed, write_probe
from runbook.library.files.facts.removal import ask_entries, read_entries, remove
from runbook.library.processes import components
from runbook.library.processes.facts import open_files_script
from runbook.onhost.path_safety import REFUSED
from runbook.onhost.undo_copies import keep_copy, remove_written, restore_copy, why_not_kept
from runbook.onhost.writing import DesiredPath, ask_place, make, read_place
from runbook.values.command import Command, Completed, Effect
from runbook.values.result import Status
from runbook.values.undo import Ownership
from tests.support.another_user import (
    SHELLS,
    STRANGER,
    TRIES,
    directory,
    exchange_before,
    give,
    listing,
    often,
    swapping,
)
from tests.support.probe_driver import drive
from tests.support.real_processes import Machine, shell
from tests.support.run_step import ACTIONS, see, take
from tests.support.waiting import appears, until

pytestmark = [pytest.mark.real("root", "setpriv")]

NOBODY = 65534
"""A user that every host has a name for."""


def measuring(place: Path) -> Command:
    return Command(script=disk_speed._MEASURE, argv=(str(place), "1"), effect=Effect.SCRATCH)


def probing(place: Path) -> Command:
    return next(write_probe.probe(write_probe.Args(path=str(place))))


def patching(place: Path) -> Command:
    """The write that a probe at a file of the same content leads to."""
    twin = place.parent.parent / "roots" / "a.yaml"
    file = read_file("a", *Machine().run(ask_file(str(twin))))
    return replace_file(replace(file, path=f"{place}/a.yaml", target=f"{place}/a.yaml"), "a: 2\n", (), backup=True)


def writing(place: Path) -> Command:
    twin = place.parent.parent / "roots" / "a.yaml"
    seen = read_place("a", *Machine().run(ask_place(str(twin), follow=False)))
    return make(replace(seen, path=f"{place}/a.yaml"), DesiredPath(text="a: 2\n"), backup=True)


def making(place: Path) -> Command:
    twin = place.parent.parent / "roots" / "none"
    seen = read_place("none", *Machine().run(ask_place(str(twin), follow=False)))
    return make(replace(seen, path=f"{place}/none"), DesiredPath(directory=True), parents=True)


def restoring(place: Path) -> Command:
    twin = place.parent.parent / "roots" / "a.yaml"
    seen = read_place("a", *Machine().run(ask_place(str(twin), follow=False)))
    assert why_not_kept(*Machine().run(keep_copy("r-1", str(twin), seen.digest))) == ""
    return restore_copy(replace(seen, path=f"{place}/a.yaml"), "r-1", seen.digest, Ownership(mode="600"))


def removing(place: Path) -> Command:
    twin = place.parent.parent / "roots" / "a.yaml"
    seen = read_place("a", *Machine().run(ask_place(str(twin), follow=False)))
    return remove_written(replace(seen, path=f"{place}/a.yaml"))


COMMANDS: dict[str, Callable[[Path], Command]] = {
    "disk_speed": measuring,
    "write_probe": probing,
    "config_patch": patching,
    "file": writing,
    "directory": making,
    "restore_file": restoring,
    "restore_file that removes": removing,
}


MODES = pytest.mark.parametrize("mode", [0o755, 0o1777], ids=["their own directory", "a shared directory"])


def roots_and_yard(ground: Path, mode: int) -> tuple[Path, Path]:
    """A directory of root's, and one of that mode with a stranger's ``real`` in it; a file in both."""
    roots, yard = directory(ground / "roots"), directory(ground / "yard", mode)
    real = give(directory(yard / "real"))
    for folder in (roots, real):
        (folder / "a.yaml").write_text("a: 1\n")
    give(real / "a.yaml")
    if mode == 0o755:
        give(yard)
    return roots, yard


def made_by_root(yard: Path) -> list[str]:
    return sorted(it.name for it in (yard, *yard.rglob("*")) if it.lstat().st_uid == 0)


@MODES
@pytest.mark.parametrize("first", ["directory", "link"])
@pytest.mark.parametrize("name", COMMANDS)
def test_who_exchanges_a_directory_right_before_each_step_gets_nothing_of_roots(ground, name, first, mode):
    """Mutants: scratch_file.sh, config_file_write.sh, file_write.sh with ``cd -P`` instead of the safe ways."""
    roots, yard = roots_and_yard(ground, mode)
    command = COMMANDS[name](yard / "place")
    before = listing(roots)
    exchange = exchange_before(["cd"], yard, roots, first)
    done = Machine().run(replace(command, script=exchange + command.script))[0]
    assert not done.timed_out
    assert listing(roots) == before
    assert made_by_root(yard) in ([], ["yard"])
    assert not [it for it in done.stdout.splitlines() if it.startswith(("began", "write direct", "write fsync"))]


@pytest.mark.soak
@MODES
@pytest.mark.parametrize("name", COMMANDS)
def test_who_exchanges_a_directory_gets_nothing_of_roots_in_200_tries(ground, name, mode):
    """Mutants: scratch_file.sh, config_file_write.sh, file_write.sh with ``cd -P`` instead of the safe ways."""
    roots, yard = roots_and_yard(ground, mode)
    command = COMMANDS[name](yard / "place")
    before = listing(roots)
    with swapping(yard, roots):
        said = often(command)
    assert listing(roots) == before
    roots_own = made_by_root(yard)
    if name == "directory" and mode == 0o1777 and "place" in roots_own:
        # between two exchanges nothing stood there, and where only its owner can rename a new directory it may be made
        assert stat.S_ISDIR((yard / "place").lstat().st_mode)
        roots_own = [it for it in roots_own if it not in ("place", "none")]
    assert roots_own in ([], ["yard"])
    assert not [it for it in said if it.startswith(("began", "write direct", "write fsync"))]


def sleeper(records: str, log: str) -> dict:
    """What `components` is asked for."""
    return {"records": records, "components": [{"name": "one", "argv": ["sh", "-c", "echo up; sleep 60"], "log": log}]}


WRITERS = {
    "config_patch": lambda place: {"path": f"{place}/a.yaml", "set": {"a": 2}},
    "file": lambda place: {"path": f"{place}/new", "content": "x"},
    "components": lambda place: sleeper(f"{place.parent}/records", f"{place}/log"),
    "remove": lambda place: {"paths": [f"{place}/a.yaml"], "allowed_roots": [str(place)]},
}
"""Actions that change files of the host: what they are asked to do in a directory."""

LOOKS = {
    "write_probe": lambda place: {"path": str(place)},
    "disk_speed": lambda place: {"path": str(place), "size": "1MiB", "leave": "0B"},
}
"""Looks that make something of their own for a moment."""


@pytest.fixture
def theirs(ground):
    """A directory of another user's, with files."""
    place = directory(ground / "theirs")
    (place / "a.yaml").write_text("a: 1\n")
    for it in (place, place / "a.yaml"):
        os.chown(it, NOBODY, NOBODY)
    return place


@pytest.mark.parametrize(
    ("action", "way"),
    [
        (action, way)
        for action in WRITERS
        for way in ("in it", "below it", "through a link")
        if (action, way) != ("remove", "through a link")  # it goes by where things really lie
    ],
)
def test_a_plan_says_whose_directory_it_is_and_a_run_writes_nothing(ground, theirs, action, way):
    """Mutants: stat_path.sh ``unsafe`` emptied; config_patch.py, file.py without ``refusal``."""
    place = theirs
    if way == "below it":
        place = directory(theirs / "below")
        (place / "a.yaml").write_text("a: 1\n")
    if way == "through a link":
        roots = directory(ground / "roots")
        (roots / "a.yaml").write_text("a: 1\n")
        place = theirs / "link"
        place.symlink_to(roots)
        os.chown(place, NOBODY, NOBODY, follow_symlinks=False)
    before = listing(ground)
    taken = take(action, WRITERS[action](place))
    assert taken.status == Status.BLOCKED.value
    assert f"{theirs} belongs to nobody" in taken.planned.why
    assert "give the step `become: nobody`" in taken.planned.why
    assert (taken.writes, listing(ground)) == ([], before)


def test_whether_the_owner_can_write_is_tried_out_as_the_owner(theirs):
    """Mutants: write_probe.py that asks as root again; without ``user``; with a file that stays."""
    seen = see("write_probe", LOOKS["write_probe"](theirs), scratch=True)
    assert isinstance(seen, ProbeAnswer), seen
    assert (seen.state.writable, seen.state.user, os.listdir(theirs)) == (True, "nobody", ["a.yaml"])
    theirs.chmod(0o500)
    seen = see("write_probe", LOOKS["write_probe"](theirs), scratch=True)
    assert isinstance(seen, ProbeAnswer), seen
    assert (seen.state.writable, seen.state.errno, seen.state.user) == (False, "EACCES", "nobody")


def test_a_measurement_is_refused_and_says_whose_directory_it_is(theirs):
    """Mutants: scratch_file.sh ``refuse`` telling nothing; disk_speed.py without ``must_not_be_refused``."""
    before = listing(theirs)
    seen = see("disk_speed", LOOKS["disk_speed"](theirs), scratch=True)
    assert isinstance(seen, ProbeFailure), seen
    assert f"{theirs} belongs to nobody" in seen.why
    assert "give the step `become: nobody`" in seen.why
    assert listing(theirs) == before


@pytest.mark.parametrize("action", LOOKS)
def test_in_a_shared_directory_it_is_tried_out_in_one_of_our_own(ground, action):
    shared = directory(ground / "shared", 0o1777)
    assert not isinstance(see(action, LOOKS[action](shared), scratch=True), ProbeFailure)
    assert list(shared.iterdir()) == []


@pytest.mark.parametrize("kind", ["fifo", "device", "link"])
@pytest.mark.parametrize("shell", SHELLS)
def test_a_look_opens_nothing_but_a_regular_file_where_another_user_can_exchange_it(theirs, shell, kind):
    """Mutants: stat_path.sh ``content`` by cat, or without ``nofollow``; ``peek_exposed`` calling everything a file."""
    path = theirs / "x.yaml"
    (theirs / "secret").write_text("s: 1\n")
    for command in (ask_file(str(path)), ask_place(str(path), follow=True)):
        path.unlink(missing_ok=True)
        if kind == "fifo":
            os.mkfifo(path)
        elif kind == "device":
            path.symlink_to("/dev/zero")
        else:  # a link is what it becomes once it was seen to be a file
            path.write_text("a: 1\n")
            seen = "there=yes kind=file exposed=yes"
            swap = f"{seen}; rm -f {path}; ln -s secret {path}"
            command = replace(command, script=command.script.replace(seen, swap))
        done: Completed = Machine(shell=shell).run(command)[0]
        assert not done.timed_out
        assert "s: 1" not in done.stdout
        assert kind != "link" or path.is_symlink() or done.exit_code == REFUSED


def test_a_config_in_another_users_directory_can_be_looked_at_as_long_as_nothing_is_written(theirs):
    assert take("config_patch", {"path": f"{theirs}/a.yaml", "set": {"a": 1}}).status == "ok"
    value = see("config_value", {"read": {"a": {"file": f"{theirs}/a.yaml", "key": "a"}}})
    assert value.state.values == {"a": 1}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_new_owner_of_a_shared_entry_cannot_lead_the_change_of_mode_elsewhere(ground, shell):
    """Mutants: file_write.sh changing the mode by the name, once the entry is theirs."""
    shared, roots = directory(ground / "shared", 0o1777), directory(ground / "roots", 0o700)
    for name in ("folder", "file"):
        there = directory(shared / name) if name == "folder" else shared / name
        if name == "file":
            there.write_text("x")
        seen = read_place(name, *Machine().run(ask_place(str(there), follow=False)))
        command = make(seen, DesiredPath(directory=name == "folder", mode="0777", owner="nobody"))
        swap = f'chmod() {{ mv {there} {there}-old; ln -s {roots} {there}; command chmod "$@"; }}\n'
        done = Machine(shell=shell).run(replace(command, script=swap + command.script))[0]
        assert done.exit_code == 0, done.stderr
        assert roots.stat().st_mode & 0o777 == 0o700
        assert (shared / f"{name}-old").stat().st_mode & 0o777 == 0o777


def test_what_has_other_names_is_not_handed_over(ground):
    (ground / "one").write_text("x")
    os.link(ground / "one", ground / "other")
    taken = take("file", {"path": str(ground / "one"), "owner": "nobody"})
    assert (taken.status, (ground / "one").stat().st_uid) == ("blocked", 0)
    shared = directory(ground / "shared", 0o1777)
    os.link(ground / "one", shared / "x")
    for args in ({"mode": "0666"}, {"content": "y"}):
        taken = take("file", {"path": str(shared / "x"), **args})
        assert (taken.status, "has 3 names" in taken.why) == ("blocked", True)


def trees(folder: Path) -> list[Path]:
    """Directories in *folder*: root's, another user's, and root's with another user's in it."""
    made = [directory(folder / name) for name in ("roots", "theirs", "mixed")]
    os.chown(directory(folder / "mixed" / "theirs"), NOBODY, NOBODY)
    os.chown(folder / "theirs", NOBODY, NOBODY)
    for it in made:
        (it / "file").write_text("x")
    return made


@pytest.mark.parametrize("mode", [0o755, 0o1777])
def test_gnu_removes_what_others_own_from_a_directory_that_nobody_can_exchange(ground, mode):
    place = directory(ground / "place", mode)
    trees(place)
    args = {"paths": [f"{place}/*"], "allowed_roots": [str(place)], "directories": True}
    taken = take("remove", args)
    assert taken.status == "changed", taken.why
    assert list(place.iterdir()) == []


@pytest.mark.real("busybox")
def test_a_removal_by_names_is_refused_where_others_could_lead_it_elsewhere(ground, tmp_path):
    """Mutants: removal_probe.sh, removal_remove.sh ``led_astray`` always false in the probe, or in the write."""
    place = directory(ground / "place")
    made = trees(place)
    machine = Machine(shell=shell("only busybox", tmp_path))
    found = read_entries(machine.run(ask_entries((f"{place}/*",), (str(place),)))[0])
    told = {it.path.rpartition("/")[2]: it.refusal for it in found.entries}
    assert told["roots"] == ""
    assert f"{place}/theirs belongs to nobody" in told["theirs"]
    assert f"{place}/mixed/theirs belongs to nobody" in told["mixed"]
    assert "give the step `become: nobody`" in told["mixed"]
    done = machine.run(remove(found.entries))[0]
    assert [it.exists() for it in made] == [False, True, True]
    assert done.stderr.count("could redirect the rm of this host") == 2


@pytest.mark.soak
@pytest.mark.real("busybox")
def test_who_exchanges_directories_below_a_removal_by_names_loses_in_200_tries(ground, tmp_path):
    """Mutants: removal_probe.sh, removal_remove.sh ``led_astray`` always false.  That a thief can set times back is done here for the thief."""
    roots, place = directory(ground / "roots"), directory(ground / "place")
    tree = directory(place / "tree")
    for folder in (roots, directory(tree / "real")):
        (folder / "keep").write_text("x")
    for it in (tree, tree / "real", tree / "real/keep"):
        give(it)
    found = read_entries(Machine().run(ask_entries((str(tree),), (str(place),)))[0])
    before, command = listing(roots), remove(found.entries)
    unseen = replace(command, script=command.script.replace('[ "$now" = "$seen" ] ||', "true ||"))
    assert unseen != command
    with swapping(tree, roots):
        said = often(unseen, shell("only busybox", tmp_path))
    assert listing(roots) == before
    assert tree.exists()
    assert len([it for it in said if "redirect the rm" in it or "could be redirected" in it]) == TRIES


@pytest.mark.soak
@pytest.mark.real("strace", "busybox")
@pytest.mark.parametrize(("rm", "led"), [(("busybox", "rm"), True), (("rm",), False)], ids=["busybox", "GNU"])
def test_a_removal_by_names_can_be_led_elsewhere_and_that_of_gnu_cannot(ground, rm, led):
    """What the distinction between them rests on: a directory becomes a link after it was seen, before it is opened."""
    roots, tree = directory(ground / "roots"), directory(ground / "tree")
    place = directory(tree / "place")
    (roots / "keep").write_text("x")
    slowly = ["-e", "trace=open,openat,newfstatat,lstat", "-e", "inject=open,openat:delay_enter=1500000"]
    log = ground / "log"
    log.touch()
    with subprocess.Popen(["strace", "-o", str(log), *slowly, *rm, "-rf", str(tree)], stderr=subprocess.DEVNULL) as run:
        while run.poll() is None and '"place"' not in (told := log.read_text()) and f'"{place}"' not in told:
            time.sleep(0.01)  # noqa: TID251 each call that opens takes 1.5 s
        place.rename(ground / "away")
        place.symlink_to(roots)
    assert (roots / "keep").exists() is not led


def test_records_of_components_are_kept_in_no_directory_of_another_users(ground, theirs):
    """Mutants: components_common.sh without ``ours_alone``, in ``place`` or for what is not there yet."""
    before = listing(theirs)
    taken = take("components", sleeper(f"{theirs}/records", f"{ground}/log"))
    assert (taken.status, "give the step `become: nobody`" in taken.planned.why) == ("blocked", True), taken.planned.why
    assert listing(theirs) == before
    directory(theirs / "records")
    directory(theirs / "records" / os.uname().nodename)
    taken = take("components", sleeper(f"{theirs}/records", f"{ground}/log"))
    assert "give the step `become: nobody`" in taken.planned.why
    assert not (ground / "log").exists()
    seen = see("components", sleeper(f"{theirs}/records", f"{ground}/log"))
    assert isinstance(seen, ProbeFailure), "what is written there is not believed either"


def test_a_log_of_a_component_is_led_nowhere(ground, theirs):
    """Mutants: components_start.sh without ``own_log``, or without making the log where everybody makes files."""
    victim = ground / "victim"
    victim.write_text("x")
    shared = directory(ground / "shared", 0o1777)
    args = build(components.Args, sleeper(f"{ground}/records", f"{shared}/log"))
    change = components.decide(args, drive(components.probe(args), Machine()))
    (shared / "log").symlink_to(victim)
    os.chown(shared / "log", NOBODY, NOBODY, follow_symlinks=False)
    done = Machine().run(change.commands[0])[0]
    assert (done.exit_code, victim.read_text()) == (1, "x")
    assert "its log" in done.stderr
    (shared / "log").unlink()
    change = components.decide(args, drive(components.probe(args), Machine()))
    plant = f"ln -s {victim} {shared}/log && chown -h {NOBODY} {shared}/log"  # after the log was seen not to be there
    script = change.commands[0].script
    for before in ("safe_workshop ||", "field cwd;"):
        assert before in script
        script = script.replace(before, f"{plant}; {before}")
    late = replace(change.commands[0], script=script)
    taken = Machine().run(late)[0]
    records = ground / "records" / os.uname().nodename
    pid = int((records / "one.started").read_text().split()[1].partition(":")[0])
    os.killpg(pid, 9)
    assert appears(records / "one.ended"), "its watcher has that to write yet"
    assert (taken.exit_code, victim.read_text()) == (0, "x"), taken.stderr
    assert (shared / "log").is_file()
    assert not (shared / "log").is_symlink()
    assert (shared / "log").stat().st_uid == 0


@pytest.mark.parametrize("name", SHELLS)
@pytest.mark.parametrize("what", ["config_patch", "file"])
def test_a_shell_that_is_killed_in_the_middle_leaves_nothing_that_others_can_read(ground, what, name):
    """Mutants: safe.sh ``safe_workshop`` with mode 755; config_file_write.sh, file_write.sh without ``safe_tidy``."""
    path = directory(ground / "roots") / "a.yaml"
    path.write_text("a: 1\n")
    command = (patching if what == "config_patch" else writing)(ground / "yard" / "place")
    twin = tuple(it.replace(f"{ground}/yard/place/", f"{ground}/roots/") for it in command.argv)
    argv = [*name, "-c", command.script, "sh", *twin]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, start_new_session=True) as run:
        until(lambda: [*path.parent.glob(".runbook-*/**/*")])
        os.killpg(run.pid, signal.SIGKILL)
    (left,) = path.parent.glob(".runbook-*")
    assert left.stat().st_mode & 0o777 == 0o700
    assert path.read_text() == "a: 1\n"
    done = subprocess.run(argv, input=command.stdin.encode(), capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert not [*path.parent.glob(".runbook-*")]


@pytest.mark.real("lab")
@pytest.mark.parametrize("options", ["ro", "size=16k"])
@pytest.mark.parametrize("what", ["config_patch", "file"])
def test_a_disk_that_takes_nothing_is_a_refusal_with_nothing_left(ground, what, options):
    """Mutants: config_file_write.sh, file_write.sh without the trap that takes away what was begun."""
    path = directory(ground / "roots") / "a.yaml"
    path.write_text("a: 1\n")
    command = (patching if what == "config_patch" else writing)(ground / "yard" / "place")
    twin = [it.replace(f"{ground}/yard/place/", f"{ground}/roots/") for it in command.argv]
    setup = f"mount -t tmpfs -o {options.replace('ro', 'mode=755')} none {path.parent}; printf 'a: 1\\n' >{path}"
    fill = (
        f"mount -o remount,ro {path.parent}"
        if options == "ro"
        else f"cat /dev/zero >{path.parent}/full 2>/dev/null || :"
    )
    show = f"ls -A {path.parent}; cat {path}"
    line = f'{setup}; {fill}; script=$1; shift; sh -c "$script" sh "$@" || code=$?; echo "code $code"; {show}'
    # what is seen is the inode for a file whose content stays, and its digest otherwise, so that a twin will do
    argv = ["unshare", "-m", "sh", "-c", line, "sh", command.script, *twin]
    done = subprocess.run(argv, input=command.stdin.encode(), capture_output=True, timeout=60)
    said = done.stdout.decode().split("\n")
    assert said[0] in ("code 12", "code 13"), done.stderr
    assert said[-2] == "a: 1"
    assert set(said[1:-2]) <= {"a.yaml", "full"}
    assert b"nothing was written" in done.stderr


HELD_ELSEWHERE = {
    "command": "it runs what the playbook says, where the playbook says",
    "script": "as command",
    "git_checkout": "tests/actions/test_git_checkout.py",
    "systemd_unit": "it writes by the same script as `file`, to /etc/systemd/system alone",
    "tmux": "tests/actions/test_tmux.py",
    "container": "it asks the Docker engine",
    "docker_prune": "it asks the Docker engine",
    "package": "it asks the package manager",
    "service": "it asks systemd",
    "http": "it asks a server",
    "restore_file": "above, and tests/past_runs/test_undo.py",
    "gpu_reset": "it asks the driver",
    "mig": "it asks the driver",
    "kernel_module": "it asks the kernel, by modprobe",
    "reboot": "it asks systemd; its note goes through SAFE to /var/lib/runbook (tests/shell/test_writing_scripts.py)",
    "scheduler": "it asks the scheduler; its mark goes through SAFE to /var/lib/runbook (the same)",
    "fetch": "it reads by view.sh (tests/shell), and writes in a directory that it has made by SAFE",
    "end": "it ends processes",
    "fuser": "it ends processes",
    "pkill": "it ends processes",
}
"""Actions that change hosts: where they are held against other users, or why they change no files by themselves."""


def test_each_action_that_changes_a_host_is_held_against_other_users():
    changing = {name for name, it in ACTIONS.items() if it.decide or it.scratch}
    assert changing == set(WRITERS) | set(LOOKS) | set(HELD_ELSEWHERE)


_EXCHANGE = r"""
import os, sys
os.chdir(sys.argv[1])
os.symlink(sys.argv[2], "link")
open("plain", "w").close()
os.symlink(os.path.dirname(sys.argv[2]), "leads")
os.mkdir("folder")
open("folder/" + os.path.basename(sys.argv[2]), "w").close()
print("ready", flush=True)
while True:  # the file, and the directory on the way to one, become links to what somebody else has open, and back
    for one, two in (("plain", "job.lock"), ("folder", "on")):
        os.rename(one, two)
        os.rename(two, one)
    for one, two in (("link", "job.lock"), ("leads", "on")):
        os.rename(one, two)
        os.rename(two, one)
"""


@pytest.mark.parametrize("word", ["cd", "stat"])
@pytest.mark.parametrize("first", ["directory", "link"])
def test_who_exchanges_a_directory_for_a_link_right_before_each_step_has_nobody_elses_process_found(
    ground, first, word
):
    """Which files are meant.  Mutants: open_files_nodes.sh without ``theirs``; ``pinned`` that compares nothing."""
    others, theirs = directory(ground / "others"), give(directory(ground / "theirs"))
    (others / "held").write_text("x")
    give(directory(theirs / "real"))
    (theirs / "real" / "held").write_text("y")
    give(theirs / "real" / "held")
    meant = "uid=0 nl='\n'\n" + open_files_script.NODES + "\nIFS=$nl; identified"
    exchange = exchange_before([word], theirs, others, first)
    done = Machine().run(Command(script=exchange + meant, argv=(f"{theirs}/place/held",), effect=Effect.READ))[0]
    assert f" {(others / 'held').stat().st_ino} " not in done.stdout
    assert done.stdout.startswith(("forged", "asked"))


@pytest.mark.soak
def test_who_exchanges_a_file_for_a_link_has_nobody_elses_process_found_in_200_tries(ground):
    """Which files are meant, by two ways.  Mutants: open_files_nodes.sh without ``theirs``; ``pinned`` that compares nothing."""
    held = directory(ground / "others") / "held"
    held.write_text("x")
    theirs = give(directory(ground / "theirs"))
    meant = "uid=0 nl='\n'\n" + open_files_script.NODES + "\nIFS=$nl; identified"
    command = Command(script=meant, argv=(f"{theirs}/job.lock", f"{theirs}/on/held"), effect=Effect.READ)
    become = ("setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups")
    argv = (*become, "/usr/bin/env", "python3", "-c", _EXCHANGE, str(theirs), str(held))
    thief = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    with thief:
        try:
            assert thief.stdout
            assert thief.stdout.readline() == "ready\n"
            said = often(command)
        finally:
            thief.kill()
    assert {it.split()[0] for it in said} >= {"forged", "asked"}, "both were met"
    inode = held.stat().st_ino
    assert not [it for it in said if f" {inode} " in it]
