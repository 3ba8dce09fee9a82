"""Who writes a file: real processes, found by what they have open."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from runbook.errors import ProbeError
from runbook.library.processes import file_writers
from runbook.library.processes.facts.file_writers import ask_writers, read_writers
from runbook.values.command import Completed
from runbook.values.types import Unknown
from tests.support.probe_driver import Here, drive
from tests.support.real_processes import NOBODY, Machine


def writer(stage, log: Path, how: str = ">>", name: str = "python train.py", before: tuple[str, ...] = ()) -> int:
    line = f"exec 3{how}{log}; echo up; exec -a '{name}' sleep 800"
    started = stage.start([*before, "bash", "-c", line])
    return int(started.pid)


def pids(state: file_writers.State) -> list[int]:
    assert not isinstance(state.processes, Unknown), state.processes
    return [process.pid for process in state.processes]


def probe(machine: Machine, *files: Path) -> file_writers.State:
    return drive(file_writers.probe(file_writers.Args(files=tuple(map(str, files)))), machine)


def test_who_appends_to_a_log_is_found_and_who_follows_it_is_not(machine, stage, tmp_path):
    """Mutants: a descriptor for reading counts; a file of the same name counts."""
    log, other = tmp_path / "a log", tmp_path / "elsewhere" / "a log"
    other.parent.mkdir()
    log.touch(), other.touch()
    assert pids(probe(machine, log)) == []
    read, wrote = writer(stage, f"'{log}'", "<"), writer(stage, f"'{log}'")
    writer(stage, f"'{other}'")
    state = probe(machine, log)
    assert pids(state) == [wrote]
    assert read not in pids(state)
    assert state.processes[0].devices == (str(log),)
    assert state.processes[0].command.startswith("python train.py")


def test_no_other_file_is_followed(stage, tmp_path):
    """It may lie on a file system that hangs.  Mutant: every descriptor is followed."""
    log, other = tmp_path / "a.log", tmp_path / "b.log"
    log.touch(), other.touch()
    wrote, elsewhere = writer(stage, log), writer(stage, other)
    lines = [
        line for line in Machine().run(ask_writers([str(log)]))[0].stdout.split("\n") if line.startswith("descriptor ")
    ]
    assert any(f"/proc/{wrote}/" in line for line in lines)
    assert not any(f"/proc/{elsewhere}/" in line for line in lines)


def test_the_writer_of_a_link_s_target_is_found_and_a_file_that_is_not_there_has_none(stage, tmp_path):
    log, link = tmp_path / "run-7.log", tmp_path / "newest.log"
    log.touch()
    link.symlink_to(log)
    wrote = writer(stage, log)
    assert pids(probe(Machine(), log)) == [wrote]
    assert pids(probe(Machine(), tmp_path / "none.log")) == []


def test_who_records_a_terminal_proves_no_job(stage, tmp_path):
    log = tmp_path / "typescript"
    log.touch()
    recorder = tmp_path / "script"
    recorder.write_bytes(Path("/bin/sleep").read_bytes())
    recorder.chmod(0o755)
    pid = int(stage.start(["bash", "-c", f"exec 3>>{log}; echo up; exec {recorder} 800"]).pid)
    state = probe(Machine(), log)
    assert pids(state) == []
    assert [process.pid for process in state.recorders] == [pid]


@pytest.mark.real("root", "setpriv")
def test_what_another_user_has_open_is_unknown_and_not_nothing(stage, tmp_path):
    """Mutant: processes whose open files cannot be read count as those that have none."""
    log = tmp_path / "trainer.log"
    log.touch()
    wrote = writer(stage, log)
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(folder.stat().st_mode | 0o055) if folder.stat().st_uid == os.getuid() and str(
            folder
        ) != "/" else None
    assert pids(probe(Machine(), log)) == [wrote]
    state = probe(Machine(before=NOBODY), log)
    assert isinstance(state.processes, Unknown)
    assert "could not be read" in state.processes.why


def test_a_list_that_was_cut_off_is_no_answer():
    done = Here().run(ask_writers(["/etc/hostname"]))[0]
    assert read_writers(done).processes == ()
    cut = Completed(
        **{
            **{n: getattr(done, n) for n in ("exit_code", "stderr", "seconds")},
            "stdout": done.stdout.replace("walked", ""),
        }
    )
    with pytest.raises(ProbeError, match="could not be listed"):
        read_writers(cut)


def test_the_command_by_hand_is_one_that_names_the_writers(tmp_path):
    log = tmp_path / "x.log"
    assert file_writers.by_hand(file_writers.Args(files=(str(log),))) == (f"lsof -- {log}",)
    assert subprocess.run(["sh", "-nc", f"lsof -- {log}"], check=False).returncode == 0
