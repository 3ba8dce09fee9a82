"""Looks that make something of their own: they answer truly, and nothing of them is left."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runbook.errors import ConfigError, ProbeError
from runbook.language.arguments import build
from runbook.language.loader import load_playbook
from runbook.library.files import disk_speed, write_probe
from runbook.library.files.facts.dd_output import rate
from runbook.library.files.facts.scratch_script import errno_of
from runbook.protocols import Action
from runbook.values.command import Completed, Effect
from runbook.values.types import Unknown
from tests.actions.local_connection import wired
from tests.support.probe_driver import SHELLS, Here, drive
from tests.support.real_processes import each
from tests.support.tables import every_row
from tests.support.waiting import until

shells = pytest.mark.parametrize("shell", each(SHELLS))
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "dash")


def within(setup: str, shell: str = "dash") -> tuple[str, ...]:
    """A shell in a mount namespace of its own, after *setup*."""
    return ("unshare", "-m", "sh", "-ec", f'{setup}\nexec {" ".join(SHELLS[shell])} "$@"', "sh")


def tried(path, shell=SHELLS["dash"], **values):
    here = Here(shell=shell)
    state = drive(write_probe.probe(build(write_probe.Args, {"path": str(path), **values})), here)
    assert [it.effect for it in here.sent] == [Effect.SCRATCH]
    return state


@shells
@pytest.mark.parametrize("size", [1, 4096, 3_000_000])
def test_a_directory_that_can_be_written_to_is_left_as_it_was(tmp_path, shell, size):
    place = tmp_path / "-a b'c\n$(id)"
    place.mkdir()
    (place / "mine").write_text("x")
    state = tried(place, SHELLS[shell], size=size)
    assert (state.writable, state.step, state.why, state.left_behind) == (True, "", "", "")
    assert state.took >= 0
    assert os.listdir(place) == ["mine"]


@shells
def test_a_directory_that_is_not_there_or_is_none_is_an_answer(tmp_path, shell):
    (tmp_path / "file").write_text("x")
    for place, name in ((tmp_path / "no", "ENOENT"), (tmp_path / "file", "ENOTDIR")):
        state = tried(place, SHELLS[shell])
        assert (state.writable, state.step, state.errno) == (False, "mkdir", name)
    assert state.why == "Not a directory"


@pytest.mark.real("root", "setpriv")
def test_a_directory_that_belongs_to_somebody_else_is_an_answer(tmp_path):
    tmp_path.chmod(0o755)
    state = tried("/etc", NOBODY)
    assert (state.writable, state.step, state.errno, state.why) == (False, "mkdir", "EACCES", "Permission denied")


@pytest.mark.real("lab")
@shells
def test_a_read_only_file_system_is_an_answer(tmp_path, shell):
    state = tried(tmp_path, within(f"mount -t tmpfs -o ro none {tmp_path}", shell))
    assert (state.writable, state.errno) == (False, "EROFS")


@pytest.mark.real("lab")
@shells
def test_a_full_disk_is_told_at_the_step_where_it_shows(tmp_path, shell):
    setup = f"mount -t tmpfs -o size=64k none {tmp_path}"
    listing = f"{setup}; trap 'ls -A {tmp_path} >{tmp_path}-left' EXIT"
    words = ("unshare", "-m", "sh", "-ec", f'{listing}\n{" ".join(SHELLS[shell])} "$@"', "sh")
    state = tried(tmp_path, words, size="1MB")
    assert (state.writable, state.step, state.errno) == (False, "write", "ENOSPC")
    assert Path(f"{tmp_path}-left").read_text() == ""
    assert tried(tmp_path, within(setup, shell), size=100).writable


def test_nothing_is_left_when_time_is_up(tmp_path):
    probe = write_probe.probe(build(write_probe.Args, {"path": str(tmp_path), "at_most": "3s"}))
    command = next(probe)
    slow = 'dd() { command dd "$@"; sleep 60; }\n'  # the file is there, and that is not told
    with wired() as connection:
        (answer,) = connection.run(replace(command, script=slow + command.script))
    with pytest.raises(ProbeError, match="no answer within 3 s"):
        probe.send(answer)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, *(pytest.param(it, marks=pytest.mark.soak) for it in (signal.SIGHUP, signal.SIGINT))]
)
@shells
@pytest.mark.slow
def test_nothing_is_left_when_the_line_goes_down(tmp_path, shell, number):
    command = next(write_probe.probe(build(write_probe.Args, {"path": str(tmp_path), "size": "1GiB"})))
    argv = [*SHELLS[shell], "-c", command.script, "sh", *command.argv]
    with subprocess.Popen(argv, start_new_session=True, stdout=subprocess.DEVNULL) as process:
        assert len(until(lambda: os.listdir(tmp_path))) == 1
        os.killpg(process.pid, number)
        process.wait(60)
    assert os.listdir(tmp_path) == []


@shells
def test_what_a_killed_try_left_is_taken_away_by_a_later_one_and_nothing_else(tmp_path, shell):
    """Mutants: scratch_script.py without ``safe_tidy``."""
    command = next(write_probe.probe(build(write_probe.Args, {"path": str(tmp_path), "size": "1GiB"})))
    argv = [*SHELLS[shell], "-c", command.script, "sh", *command.argv]
    with subprocess.Popen(argv, start_new_session=True, stdout=subprocess.DEVNULL) as process:
        until(lambda: [*tmp_path.glob(".runbook-*/file")])
        (left,) = tmp_path.iterdir()
        assert left.stat().st_mode & 0o777 == 0o700, "nobody else can read what a killed shell leaves"
        os.killpg(process.pid, signal.SIGSTOP)
        assert tried(tmp_path, SHELLS[shell]).writable
        assert left.exists(), "its process lives"
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    (tmp_path / "mine").mkdir()
    assert tried(tmp_path, SHELLS[shell]).writable
    assert os.listdir(tmp_path) == ["mine"]


def test_two_tries_at_the_same_time_do_not_meet(tmp_path):
    command = next(write_probe.probe(build(write_probe.Args, {"path": str(tmp_path), "size": "5MB"})))
    argv = ["dash", "-c", command.script, "sh", *command.argv]
    several = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert ["failed" in it.communicate()[0] for it in several] == [False] * 4
    assert os.listdir(tmp_path) == []


def measured(path, shell=SHELLS["dash"], tools=None, **values):
    here = Here(shell=shell, path=tools)
    values = {"path": str(path), "size": "8MiB", **values}
    state = drive(disk_speed.probe(build(disk_speed.Args, values)), here)
    assert [it.effect for it in here.sent] == [Effect.READ, Effect.SCRATCH]
    return state


@shells
def test_a_disk_is_measured_and_nothing_is_left(tmp_path, shell):
    state = measured(tmp_path, SHELLS[shell], size="32MiB", slow_below=1)
    assert state.write > 1e6
    assert state.slow is (False if state.how == "direct" else state.slow)
    assert os.listdir(tmp_path) == []


def test_slow_is_what_the_step_says(tmp_path):
    assert measured(tmp_path, slow_below="900TB").slow is True


def refusing(folder: Path, what: str) -> Path:
    """A dd that refuses *what*, as on a file system without O_DIRECT."""
    folder.mkdir()
    (folder / "dd").write_text(
        "#!/bin/sh\n"
        f'case " $* " in *{what}*) echo "dd: failed to open: Invalid argument" >&2; exit 1 ;; esac\nexec /bin/dd "$@"\n'
    )
    (folder / "dd").chmod(0o755)
    return folder


def test_where_the_memory_cannot_be_passed_by_reading_is_unknown_and_writing_is_flushed(tmp_path):
    (tmp_path / "disk").mkdir()
    state = measured(tmp_path / "disk", tools=refusing(tmp_path / "tools", "direct"), slow_below=1)
    assert (state.how, state.write > 1e5) == ("fsync", True)
    assert isinstance(state.read, Unknown)
    assert isinstance(state.slow, Unknown)
    assert measured(tmp_path / "disk", tools=tmp_path / "tools", slow_below="900TB").slow is True


def test_a_disk_that_takes_nothing_is_a_fault_with_its_words(tmp_path):
    (tmp_path / "disk").mkdir()
    with pytest.raises(ProbeError, match="disk: Invalid argument"):
        measured(tmp_path / "disk", tools=refusing(tmp_path / "tools", "of="))
    assert os.listdir(tmp_path / "disk") == []


@pytest.mark.real("root", "setpriv")
def test_a_directory_that_takes_no_file_is_a_fault():
    with pytest.raises(ProbeError, match="/etc: Permission denied"):
        measured("/etc", NOBODY)


@shells
def test_it_is_not_begun_where_there_is_no_room(tmp_path, shell):
    here = Here(shell=SHELLS[shell])
    made = build(disk_speed.Args, {"path": str(tmp_path), "size": "8MiB", "leave": "900TiB"})
    with pytest.raises(ProbeError, match=r"are free on .* less than 900.0 TiB"):
        drive(disk_speed.probe(made), here)
    assert [it.effect for it in here.sent] == [Effect.READ]
    with pytest.raises(ProbeError, match="the path does not exist"):
        drive(disk_speed.probe(build(disk_speed.Args, {"path": f"{tmp_path}/no"})), here)


def test_what_is_not_done_in_time_is_at_least_known_to_be_slow(tmp_path):
    made = build(disk_speed.Args, {"path": str(tmp_path), "size": "30GiB", "at_most": "1s", "slow_below": "900TB"})
    with wired() as connection:
        state = drive(disk_speed.probe(made), connection)
    assert (state.slow, isinstance(state.write, Unknown)) == (True, True)
    assert "not done within 1 s" in state.write.why
    assert os.listdir(tmp_path) == []


def names_in_session(session: int) -> set[str]:
    """The names of the processes of that session; read in /proc, as no `ps` may be there."""
    names = set()
    for stat in (pid / "stat" for pid in Path("/proc").glob("[0-9]*")):
        with contextlib.suppress(OSError):
            name, _, rest = stat.read_text(errors="replace").partition("(")[2].rpartition(") ")
            if int(rest.split()[3]) == session:
                names.add(name)
    return names


def measuring(folder: Path, *before: str) -> subprocess.Popen[bytes]:
    """The script of the measuring, under way."""
    probe = disk_speed.probe(build(disk_speed.Args, {"path": str(folder), "size": "4GiB"}))
    command = probe.send(Here().run(next(probe))[0])
    process = subprocess.Popen([*before, "dash", "-c", command.script, "sh", *command.argv], start_new_session=True)
    until(lambda: "dd" in names_in_session(process.pid), "dd")
    return process


def test_nothing_is_left_even_of_what_is_killed_outright(tmp_path):
    with measuring(tmp_path) as process:
        os.killpg(process.pid, signal.SIGKILL)
    assert os.listdir(tmp_path) == []


@pytest.mark.real("lab")
def test_a_file_that_must_keep_its_name_is_deleted_on_the_way_out(tmp_path):
    masked = ("unshare", "-m", "sh", "-ec", 'mount -t tmpfs none /proc; exec "$@"', "sh")
    with measuring(tmp_path, *masked) as process:
        assert len(os.listdir(tmp_path)) == 1
        os.killpg(process.pid, signal.SIGTERM)
    assert os.listdir(tmp_path) == []


@every_row(
    ("text", "speed"),
    [
        ("1073741824 bytes (1.1 GB, 1.0 GiB) copied, 0.5 s, 2.1 GB/s", 2147483648),
        ("1000 bytes (1.0 kB) copied, 2,5 s, 0,4 kB/s", 400),
        ("512 bytes copied, 1.28e-05 s, 40.0 MB/s", 40_000_000),
        ("1048576 bytes (1.0MB) copied, 0.500000 seconds, 2.0MB/s", 2097152),
        ("1000000 bytes (1.0 MB) copied, 0 s, 98.5 MB/s", 98_500_000),
        ("1048576 bytes (1.0MB) copied, 0.000000 seconds, 1.5MB/s", 1572864),
        ("9 bytes copied, 3 s, 3 B/s\n90 bytes copied, 3 s, 30 B/s", 30),
        ("10+0 records in\n10+0 records out", None),
        ("0 bytes copied, 0 s, Infinity B/s", None),
    ],
)
def test_the_rate_is_read_from_every_kind_of_dd(text, speed):
    assert rate(text) == (pytest.approx(speed) if speed else None)


@given(st.text(max_size=60))
def test_any_words_can_be_read(text):
    rate(f"9 bytes copied, {text}")
    assert len(errno_of(text)) == 2


@every_row("kind", [write_probe, disk_speed])
@every_row("values", [{}, {"path": "x"}, {"path": "/x", "size": 0}, {"path": "/x", "at_most": 0}])
def test_a_mistake_is_refused(kind, values):
    with pytest.raises(ConfigError):
        build(kind.Args, values)


def test_an_answer_that_is_none_is_a_fault():
    for kind in (write_probe, disk_speed):
        probe = kind.probe(build(kind.Args, {"path": "/x"}))
        next(probe)
        with pytest.raises(ProbeError):
            probe.send(Completed(exit_code=2, stderr="sh: syntax error"))


def loaded(step):
    text = f"name: t\ndiagnose:\n  - id: x\n    {step}\n    write_probe: {{path: /x}}\n"
    return load_playbook(text, "t.yaml", {"write_probe": Action.of(write_probe)}, lambda *_: ("", ""))


def test_a_step_must_allow_what_leaves_a_trace_for_a_moment():
    assert loaded("scratch: true").diagnose[0].scratch
    with pytest.raises(ConfigError, match=r"t.yaml:5.*removes them \(allow it with `scratch: true`\)"):
        loaded("name: try it")
