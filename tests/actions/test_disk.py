"""File systems: full of data, full of files, read-only, missing, or not telling."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runbook.codec import to_json
from runbook.errors import ConfigError, ProbeError
from runbook.language.arguments import build
from runbook.library.files import disk
from runbook.library.files.facts.filesystems import read_disks
from runbook.protocols import Fails, Holds
from runbook.values.command import Completed, Effect
from runbook.values.types import Unknown
from tests.support.probe_driver import SHELLS, Here, drive
from tests.support.real_processes import each
from tests.support.tables import every_row

shells = pytest.mark.parametrize("shell", each(SHELLS))


def looked(shell="dash", setup="", **values):
    """A probe; *setup* is done before it, in a mount namespace of its own."""
    made = build(disk.Args, values)
    words = ("unshare", "-m", "sh", "-ec", f'{setup}\nexec {" ".join(SHELLS[shell])} "$@"', "sh")
    here = Here(shell=words if setup else SHELLS[shell])
    state = drive(disk.probe(made), here)
    assert [it.effect for it in here.sent] == [Effect.READ]
    return made, state


@shells
def test_space_is_what_the_system_itself_says(tmp_path, shell):
    told = os.statvfs(tmp_path)
    (one,) = looked(shell, paths=[str(tmp_path)])[1].disks
    assert one.size == told.f_blocks * told.f_frsize
    assert abs(one.avail - told.f_bavail * told.f_frsize) < 1 << 30
    used = (told.f_blocks - told.f_bfree) / (told.f_blocks - told.f_bfree + told.f_bavail)
    assert abs(one.percent - 100 * used) < 1
    assert abs(one.inodes_free - told.f_favail) < 100_000
    assert (one.read_only, isinstance(one.kind, str)) == (False, True)


MOUNTED = "mkdir -p '{0}/a b/deep'; mount -t tmpfs -o size=1m,nr_inodes=20 none '{0}/a b'; mkdir '{0}/a b/deep'\n"


@pytest.mark.real("lab")
@shells
def test_a_disk_full_of_data_is_full_whichever_path_on_it_is_asked_for(tmp_path, shell):
    setup = MOUNTED.format(tmp_path) + f"head -c 1000000 /dev/zero >'{tmp_path}/a b/x'"
    made, state = looked(shell, setup, paths=[f"{tmp_path}/a b/deep", "/"], below=95)
    assert (state.disks[0].mount, state.disks[0].kind) == (f"{tmp_path}/a b", "tmpfs")
    assert state.full == (f"{tmp_path}/a b/deep",)
    assert 95 <= state.percent <= 100
    assert state.avail < 100_000
    assert disk.holds(made, state) == Fails(why=f"{state.percent:g} % of {tmp_path}/a b is used")


@pytest.mark.real("lab")
@shells
def test_a_disk_full_of_files_is_full_although_there_is_space(tmp_path, shell):
    setup = (
        MOUNTED.format(tmp_path)
        + f"cd '{tmp_path}/a b'; for i in 1 2 3 4 5 6 7 8 9 a b c d e f g h i; do : >$i || :; done"
    )
    made, state = looked(shell, setup, paths=[f"{tmp_path}/a b"])
    assert (state.full, state.percent < 5, state.inodes_percent > 94) == ((f"{tmp_path}/a b",), True, True)
    assert "of the inodes of" in disk.holds(made, state).why


@pytest.mark.real("lab")
@shells
@pytest.mark.parametrize("how", ["remount,bind,ro", "remount,ro"])
def test_a_read_only_mount_is_told(tmp_path, shell, how):
    setup = MOUNTED.format(tmp_path) + f"mount -o {how} '{tmp_path}/a b'"
    made, state = looked(shell, setup, paths=[f"{tmp_path}/a b", "/"], writable=True)
    assert state.read_only == (f"{tmp_path}/a b",)
    assert disk.holds(made, state) == Fails(why=f"{tmp_path}/a b is mounted read-only")
    assert isinstance(disk.holds(build(disk.Args, {"paths": made.paths}), state), Holds)


@shells
def test_a_path_that_is_not_there_is_said_and_never_guessed(tmp_path, shell):
    made, state = looked(shell, paths=[f"{tmp_path}/no", "/"])
    assert (state.missing, len(state.disks)) == ((f"{tmp_path}/no",), 1)
    assert disk.holds(made, state) == Fails(why=f"{tmp_path}/no does not exist")
    alone = looked(shell, paths=[f"{tmp_path}/no"])[1]
    assert isinstance(alone.percent, Unknown)
    assert isinstance(alone.avail, Unknown)


@shells
def test_a_file_system_without_a_size_is_not_an_empty_one(shell):
    made, state = looked(shell, paths=["/proc"])
    assert "has no size" in to_json(state)["full"]["$unknown"]
    with pytest.raises(ProbeError):
        disk.holds(made, state)


@shells
def test_home_is_the_login_users_and_odd_names_are_only_names(tmp_path, shell, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    odd = tmp_path / "-x $(id) 'q'\n*"
    odd.mkdir()
    state = looked(shell, paths=["~", str(odd), f"~/{odd.name}"])[1]
    assert (len(state.disks), state.missing) == (3, ())


@pytest.mark.real("root", "setpriv")
def test_a_path_that_may_not_be_seen_is_unknown_and_not_missing():
    made = build(disk.Args, {"paths": ["/root/x/y", "/"]})
    nobody = Here(shell=("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "dash"))
    state = drive(disk.probe(made), nobody)
    assert (state.missing, dict(state.unknown)) == ((), {"/root/x/y": "Permission denied"})
    assert isinstance(state.full, Unknown)
    with pytest.raises(ProbeError, match="/root/x/y: Permission denied"):
        disk.holds(made, state)


def test_free_space_can_be_asked_for_in_bytes():
    made, state = looked(paths=["/"], avail_at_least="900TiB")
    assert state.full == ("/",)
    assert disk.holds(made, state).why.endswith("are free on /")


def answered(text, paths=("/x",)):
    return read_disks(Completed(exit_code=0, stdout=text), paths)


HEAD = " Filesystem     1024-blocks     Used Available Capacity Mounted on\n"


def test_a_long_name_of_a_device_may_push_its_numbers_to_another_line():
    text = f"path 0\nblocks\n{HEAD} fileserver.example:/a/very/long export\n                100 90 10 90% /mnt/a b\ninodes\n{HEAD} d - - - - /mnt/a b\n"
    (one,) = answered(text).disks
    assert (one.device, one.mount, one.percent, one.size) == (
        "fileserver.example:/a/very/long export",
        "/mnt/a b",
        90,
        102400,
    )
    assert one.inodes_percent == 0
    assert isinstance(one.read_only, Unknown)


def test_a_file_system_that_is_overdrawn_is_full():
    (one,) = answered(f"path 0\nblocks\n{HEAD} d 100 99 -5 106% /\ninodes\n").disks
    assert one.percent == 100
    assert isinstance(one.inodes_percent, Unknown)


def test_what_df_cannot_say_is_unknown_with_its_words():
    seen = answered("path 0\nlate\npath 1\nblocks\n df: x: Stale file handle\ninodes\n", ("/a", "/b"))
    assert dict(seen.unknown) == {"/a": "its file system did not answer within 8 s", "/b": "df: x: Stale file handle"}
    with pytest.raises(ProbeError, match="network mount"):
        read_disks(Completed(exit_code=None, timed_out=True), ("/a",))


@every_row("values", [{"paths": []}, {"paths": ["x"]}, {"below": 0}, {"paths": ["/"], "below": 101}])
def test_a_mistake_is_refused(values):
    with pytest.raises(ConfigError):
        build(disk.Args, values)


@pytest.mark.real("lab")
def test_the_mount_on_top_is_the_one_that_is_told(tmp_path):
    place = Path(tmp_path)
    setup = f"mount -t tmpfs -o size=1m none {place}; mount -t tmpfs -o size=2m,ro none {place}"
    (one,) = looked("dash", setup, paths=[str(place)])[1].disks
    assert (one.size, one.read_only) == (2 << 20, True)


@pytest.mark.real("lab")
def test_a_file_system_that_went_read_only_under_a_writable_mount_is_told(tmp_path):
    (tmp_path / "b").mkdir()
    setup = f"mkdir {tmp_path}/a; mount -t tmpfs none {tmp_path}/a; mount --bind {tmp_path}/a {tmp_path}/b"
    state = looked("dash", f"{setup}; mount -o remount,ro {tmp_path}/a", paths=[f"{tmp_path}/b"])[1]
    assert state.read_only == (f"{tmp_path}/b",)
