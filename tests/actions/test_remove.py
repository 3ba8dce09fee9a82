"""Removal below allowed roots: what was shown goes, and nothing else ever."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from runbook.errors import ConfigError, ProbeError
from runbook.execution.diagnosis.probe_types import ProbeAnswer, ProbeFailure
from runbook.language.arguments import build
from runbook.library.files import remove
from runbook.library.files.facts.removal import NEVER, Entry, Found, forbidden
from runbook.library.files.facts.removal import remove as removal
from tests.support.probe_driver import drive
from tests.support.real_processes import Machine, each, shell
from tests.support.run_step import see, take, way_to
from tests.support.tables import every_row

SHELLS = ("dash", "bash", "busybox", "only busybox")
ODD = ["plain", "two words", "it's\na line", "-rf", "$HOME", "`id`", "star*"]


@pytest.fixture
def root(tmp_path):
    made = tmp_path / "root"
    made.mkdir()
    return made.resolve()


def plant(folder: Path, *names: str, size: int = 10) -> list[Path]:
    """Files, the first the oldest."""
    made = []
    for at, name in enumerate(names):
        path = folder / name
        path.write_bytes(b"x" * size)
        os.utime(path, (1_700_000_000 + at, 1_700_000_000 + at))
        made.append(path)
    return made


def args(root: Path, *paths: str, **values) -> dict:
    return {"paths": [f"{root}/{it}" for it in paths], "allowed_roots": [str(root)], **values}


def test_what_matches_is_listed_with_its_size_and_removed(root):
    plant(root, *ODD, size=5000)
    (root / ".hidden").touch()
    taken = take("remove", args(root, "*"))
    assert (taken.status, taken.result.verified, taken.result.risk.value) == ("changed", True, "deletes-data"), (
        taken.why
    )
    assert [it.name for it in root.iterdir()] == [".hidden"]
    assert taken.planned.planned is not None
    assert taken.planned.planned.startswith(f"remove 7 matches, 56.0 KiB: {root}/plain (8.0 KiB), ")
    assert any("7 removed; free on the disk by df" in it.stdout for it in taken.result.commands)
    again = take("remove", args(root, "*"))
    assert (again.status, again.writes) == ("ok", [])


@pytest.mark.parametrize("name", each(SHELLS))
def test_every_shell_removes_the_same(root, tmp_path, name):
    plant(root, *ODD)
    (root / "dir/deep").mkdir(parents=True)
    (root / "dir/deep/file").write_bytes(b"x" * 9000)
    machine = Machine(shell=shell(name, tmp_path))
    made = build(remove.Args, args(root, "*", directories=True))
    state = drive(remove.probe(made), machine)
    assert {it.path for it in state.entries} == {f"{root}/{it}" for it in [*ODD, "dir"]}
    assert next(it.bytes for it in state.entries if it.kind == "directory") >= 12 * 1024 - 4096
    command = removal(state.entries)
    done = machine.run(command)[0]
    assert (done.exit_code, done.stderr, [*root.iterdir()]) == (0, "", [])


def test_the_newest_of_each_pattern_are_kept(root):
    plant(root, "a1", "a2", "a3", "b1", "b2", "b3", "b4")
    taken = take("remove", args(root, "a*", "b*", keep_newest=2))
    assert taken.status == "changed"
    assert sorted(it.name for it in root.iterdir()) == ["a2", "a3", "b3", "b4"]
    assert "(4 newer ones kept)" in (taken.planned.planned or "")


def test_what_one_pattern_keeps_no_other_removes(root):
    plant(root, "a1", "a2")
    take("remove", args(root, "a*", "*", "?2", keep_newest=1))
    assert [it.name for it in root.iterdir()] == ["a2"]


@pytest.mark.real("root")
@pytest.mark.parametrize("tool", each(SHELLS))
def test_new_entries_of_one_user_do_not_make_another_users_go(root, tool, tmp_path):
    """Mutant: remove.py keeping the newest of all together: who can write there too had everything else removed."""
    root.chmod(0o1777)
    plant(root, "a", "b", "c")
    for at, name in enumerate(("x", "y", "z")):
        (root / name).touch()
        os.utime(root / name, (4e9 + at, 4e9 + at))
        os.chown(root / name, 65534, 65534)
    probe = remove.probe(build(remove.Args, args(root, "*", keep_newest=2)))
    state = drive(probe, Machine(shell=shell(tool, tmp_path)))
    assert [it.path for it in state.entries] == [f"{root}/a", f"{root}/x"]


def test_of_files_of_the_same_second_the_newest_is_kept(root):
    for at, name in enumerate(["z", "y", "x"]):
        (root / name).touch()
        os.utime(root / name, ns=(0, 1_700_000_000_000_000_000 + at))
    take("remove", args(root, "*", keep_newest=1))
    assert [it.name for it in root.iterdir()] == ["x"]


def test_what_is_young_is_kept(root):
    plant(root, "old")
    (root / "young").touch()
    assert take("remove", args(root, "*", older_than="1d")).status == "changed"
    assert [it.name for it in root.iterdir()] == ["young"]


def test_a_link_is_removed_and_not_what_it_leads_to(root, tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/file").touch()
    (root / "link").symlink_to(tmp_path / "precious")
    (root / "dangling").symlink_to("nowhere")
    (root / "dir").mkdir()
    (root / "dir/inner").symlink_to(tmp_path / "precious")
    assert take("remove", args(root, "*", directories=True)).status == "changed"
    assert [*root.iterdir()] == []
    assert (tmp_path / "precious/file").exists()


def test_a_way_out_of_the_root_by_a_link_is_seen(root, tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/file").touch()
    (root / "link").symlink_to(tmp_path / "precious")
    taken = take("remove", args(root, "link/*"))
    assert (taken.status, taken.writes) == ("blocked", [])
    assert f"{tmp_path}/precious/file lies outside {root}" in taken.why


def test_a_root_that_is_a_link_itself_means_where_it_leads(root, tmp_path):
    plant(root, "a")
    (tmp_path / "alias").symlink_to(root)
    assert take("remove", args(tmp_path / "alias", "a")).status == "changed"
    assert [*root.iterdir()] == []


def test_a_directory_goes_only_if_asked_and_nothing_goes_if_one_may_not(root):
    plant(root, "a")
    (root / "dir").mkdir()
    taken = take("remove", args(root, "*"))
    assert (taken.status, taken.writes) == ("blocked", [])
    assert "`directories: true`" in taken.why
    assert (root / "a").exists()


@pytest.mark.parametrize("paths", [["/etc/passwd"], ["{root}"], ["{root}/../x"], ["{root}/*", "/etc/hostname"]])
def test_nothing_outside_and_no_root_itself_is_removed(root, paths):
    plant(root, "a")
    values = {"paths": [it.format(root=root) for it in paths], "allowed_roots": [str(root)], "directories": True}
    if ".." in paths[0]:
        with pytest.raises(ConfigError, match="not an absolute path"):
            build(remove.Args, values)
        return
    taken = take("remove", values)
    assert (taken.status, taken.writes) == ("blocked", [])
    assert (root / "a").exists()


@pytest.mark.real("lab")
@pytest.mark.parametrize("name", ["mnt", "mnt point"])
@pytest.mark.parametrize("above", ["", "dir/"])
def test_a_mount_point_is_never_removed_not_even_inside(root, name, above):
    place = root / above / name
    place.mkdir(parents=True)
    within = (
        "unshare",
        "-m",
        "sh",
        "-c",
        f"mount --make-rprivate /; mount -t tmpfs none '{place}'; : >'{place}/x'; exec \"$@\"",
        "sh",
    )
    taken = take("remove", args(root, "*", directories=True), within=within)
    assert (taken.status, taken.writes) == ("blocked", [])
    assert "mount point" in taken.why
    seen = see("remove", args(root, "*", directories=True))
    assert isinstance(seen, ProbeAnswer)
    command = removal(seen.state.entries)
    after = f'sh -c "$0" sh "$@"; code=$?; [ -e \'{place}/x\' ] || exit 9; exit $code'
    argv = [*within, "sh", "-c", after, command.script, *command.argv]
    mounted = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert "left alone" in mounted.stderr, "mounted after the probe"
    assert mounted.returncode == 1, "what is mounted there is whole"
    assert place.exists()


def test_what_changed_after_the_plan_is_left_alone_and_named(root):
    old, other, _ = plant(root, "a", "b", "c")

    def meddle():
        old.write_text("new content")
        (root / "d").touch()

    taken = take("remove", args(root, "*"), between=meddle)
    assert taken.status == "changed", taken.why
    assert sorted(it.name for it in root.iterdir()) == ["a", "d"]
    assert not other.exists()
    assert f"left alone, because the plan did not show it: {root}/a" in taken.why


def test_a_newer_one_that_comes_after_the_plan_pushes_no_other_out(root):
    plant(root, "a", "b", "c")
    taken = take("remove", args(root, "*", keep_newest=2), between=lambda: (root / "d").touch())
    assert sorted(it.name for it in root.iterdir()) == ["b", "c", "d"]
    assert taken.status == "changed"


@pytest.mark.parametrize("name", each(SHELLS))
@pytest.mark.parametrize("drift", ["content", "inode", "kind", "parent", "gone"])
def test_the_removal_itself_looks_once_more(root, tmp_path, name, drift):
    folder = root / "in"
    folder.mkdir()
    (path,) = plant(folder, "a")
    machine = Machine(shell=shell(name, tmp_path))
    state = drive(remove.probe(build(remove.Args, args(root, "in/a"))), machine)
    if drift == "content":
        path.write_text("other")
    elif drift == "inode":
        path.rename(folder / "aside")
        plant(folder, "a")
    elif drift == "kind":
        path.unlink()
        path.mkdir()
        os.utime(path, (1_700_000_000, 1_700_000_000))
    elif drift == "parent":
        folder.rename(root / "aside")
        folder.symlink_to(root / "aside")
    else:
        path.unlink()
    done = machine.run(removal(state.entries))[0]
    if drift == "gone":
        assert done.exit_code == 0
    else:
        assert (done.exit_code, "left alone" in done.stderr) == (1, True)
        assert path.exists()


def test_what_will_not_go_is_a_failure_with_its_reason(root):
    plant(root, "a")
    keep, let_go = [("chmod", mode, root) for mode in ("500", "700")]
    if os.geteuid() == 0:
        keep, let_go = [("chattr", flag, root / "a") for flag in ("+i", "-i")]
    if not shutil.which(keep[0]) or subprocess.run(keep, capture_output=True, check=False).returncode:
        pytest.skip("this file system has no immutable files, or this machine no chattr")
    try:
        taken = take("remove", args(root, "a"))
    finally:
        subprocess.run(let_go, check=True)
    assert taken.status == "failed"
    assert "left alone" in taken.why


@pytest.mark.real("root", "setpriv")
def test_a_directory_that_may_not_be_looked_into_is_not_empty(root):
    plant(root, "a")
    for it in way_to(root.parent):
        it.chmod(0o755)
    root.chmod(0o700)
    for pattern in ("*", "a", "*/x"):
        outcome = see(
            "remove", args(root, pattern), within=("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
        )
        assert isinstance(outcome, ProbeFailure), pattern
        assert "cannot access the directory" in outcome.why


def entry(path: str, kind: str = "file") -> Entry:
    return Entry(path=path, kind=kind, inode="1:2", modified=3, moment="", bytes=4, patterns=(0,))


@every_row("path", sorted(NEVER))
def test_directories_of_the_system_are_never_removed(path):
    found = Found(entries=(), roots=("/", "/var", "/usr", path.rpartition("/")[0]), home="/root", mounts=(), now=0)
    assert forbidden(entry(path, "directory"), found, directories=True)


def test_a_root_that_lies_in_another_one_is_not_removed_either():
    found = Found(entries=(), roots=("/data", "/data/sub"), home="/root", mounts=(), now=0)
    assert "is itself an allowed root" in forbidden(entry("/data/sub", "directory"), found, directories=True)


def test_a_home_directory_is_never_removed():
    found = Found(entries=(), roots=("/data",), home="/data/home/me", mounts=(), now=0)
    for path in ("/data/home/me", "/data/home"):
        assert "home directory" in forbidden(entry(path, "directory"), found, directories=True)
    assert not forbidden(entry("/data/home/me/old"), found, directories=True)


def test_a_name_that_cannot_be_named_is_left_alone():
    found = Found(entries=(), roots=("/data",), home="/root", mounts=(), now=0)
    assert "not UTF-8" in forbidden(entry("/data/\udcff"), found, directories=True)


@every_row(
    ("values", "words"),
    [
        ({"paths": ["/a/b"]}, "allowed_roots"),
        ({"paths": [], "allowed_roots": ["/data"]}, "at least 1"),
        ({"paths": ["/a/b"], "allowed_roots": []}, "at least 1"),
        ({"paths": ["~/x"], "allowed_roots": ["/data"]}, "not an absolute path"),
        ({"paths": ["/data/x/"], "allowed_roots": ["/data"]}, "not an absolute path"),
        ({"paths": ["/"], "allowed_roots": ["/data"]}, "not an absolute path"),
        ({"paths": ["/data/./x"], "allowed_roots": ["/data"]}, "not an absolute path"),
        ({"paths": ["/data/x"], "allowed_roots": ["/"]}, "allowed_roots"),
        ({"paths": ["/data/x"], "allowed_roots": ["/var"]}, "too wide to be a root"),
        ({"paths": ["/data/x"], "allowed_roots": ["/dev/shm"]}, "too wide to be a root"),
        ({"paths": ["/data/x"], "allowed_roots": ["/da*"]}, "without globs, ~ and .."),
        ({"paths": ["/data/x"], "allowed_roots": ["~"]}, "without globs, ~ and .."),
        ({"paths": ["/data/x"], "allowed_roots": ["/data"], "keep_newest": -1}, "below 0"),
    ],
)
def test_a_mistake_in_the_arguments_is_refused(values, words):
    with pytest.raises(ConfigError, match=words):
        build(remove.Args, values)


def test_an_answer_that_is_cut_off_is_not_known():
    from runbook.library.files.facts.removal import read_entries
    from runbook.values.command import Completed

    cut = "stats\x000\x0081a4 1:2 3 8 512 x\0entry\0/a\0[... 9 bytes left out ...]\0mounts\0\0"
    for text in ("", "root\0/data\0", "home\0/root\0now\0", cut, "now\0soon\0mounts\0\0"):
        with pytest.raises(ProbeError, match="is truncated"):
            read_entries(Completed(exit_code=0, stdout=text))


def test_a_directory_is_as_old_as_the_latest_of_all_that_is_in_it(root):
    """Mutants: removal.py taking the time of the directory itself."""
    for at, name in enumerate(("old", "at work", "newest")):
        (root / name / "deep").mkdir(parents=True)
        (file,) = plant(root / name / "deep", "file")
        for it in (file, root / name / "deep", root / name):
            os.utime(it, (1_600_000_000 + at, 1_600_000_000 + at))
    os.utime(root / "at work/deep/file")
    taken = take("remove", args(root, "*", directories=True, older_than="1h"))
    assert taken.status == "changed", taken.why
    assert [it.name for it in root.iterdir()] == ["at work"]


@pytest.mark.parametrize("name", each(SHELLS))
@pytest.mark.parametrize("how", ["open", "cwd"])
def test_a_directory_that_a_process_uses_is_left_alone(root, tmp_path, name, how):
    """Mutants: removal.py without ``in_use``, or either of its two probes."""
    (root / "run/ckpt").mkdir(parents=True)
    (root / "run/ckpt/file").touch()
    text = 'exec 3<"$1"/ckpt/file; echo up; sleep 600' if how == "open" else 'cd "$1/ckpt"; echo up; sleep 600'
    words = ["sh", "-c", text, "sh", str(root / "run")]
    user = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert user.stdout
        with user.stdout:
            assert user.stdout.readline() == "up\n"
        machine = Machine(shell=shell(name, tmp_path))
        made = build(remove.Args, args(root, "*", directories=True))
        (done,) = machine.run(removal(drive(remove.probe(made), machine).entries))
        assert "a process is using it or a file in it" in done.stderr
        assert (root / "run/ckpt/file").exists()
    finally:
        os.killpg(user.pid, signal.SIGKILL)
        user.wait()


def test_what_is_written_to_after_the_look_stays(root):
    (root / "run/deep").mkdir(parents=True)
    for it in (root / "run/deep", root / "run"):
        os.utime(it, (1_600_000_000, 1_600_000_000))
    machine = Machine()
    state = drive(remove.probe(build(remove.Args, args(root, "*", directories=True))), machine)
    (root / "run/deep/late").touch()
    (done,) = machine.run(removal(state.entries))
    assert "changed since it was inspected" in done.stderr
    assert (root / "run/deep/late").exists()


@every_row(("path", "roots", "words"), [
    ("/home/somebody", ("/home",), "belongs to the system"),
    ("/etc/ssl", ("/etc",), "too broad"),
])  # fmt: skip
def test_homes_and_roots_that_lead_too_far_are_refused(path, roots, words):
    entry = Entry(path=path, kind="directory", inode="1:2", modified=1, moment="1", bytes=1, patterns=(0,))
    found = Found(entries=(entry,), roots=roots, home="/root", mounts=("/",), now=2)
    assert words in forbidden(entry, found, directories=True)
