"""``python_stacks``: where Python processes stand, by py-spy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runbook.errors import ProbeError
from runbook.language.arguments import build
from runbook.library.jobs import python_stacks
from runbook.library.jobs.facts.python_stacks import MAX_PROCESSES
from runbook.values.command import Effect
from tests.support.probe_driver import SHELLS, Here, drive
from tests.support.real_processes import each
from tests.support.tables import every_row

LIB = "/opt/venv/lib/python3.11"
SITE = f"{LIB}/site-packages"


def thread(*frames: tuple[str, str, int], name: str = "MainThread", active: bool = False) -> dict:
    """A thread as `py-spy dump --json` prints it (0.4), the innermost frame first."""
    listed = [{"name": it, "filename": file, "short_filename": file.rsplit("/", 1)[-1], "module": None, "line": line,
               "locals": None, "is_entry": False, "is_shim_entry": False} for it, file, line in frames]  # fmt: skip
    return {"pid": 7, "thread_id": 1, "thread_name": name, "os_thread_id": 7, "active": active, "owns_gil": False,
            "frames": listed, "process_info": None}  # fmt: skip


OWN = ("train_step", "/srv/job/train.py", 88)
MAIN = ("<module>", "/srv/job/train.py", 120)


def asked(folder: Path, answers: dict[int, str], pids: list[int], shell: str = "dash") -> python_stacks.State:
    """The state by a py-spy that has *answers*; of another pid it says what the real one says."""
    for pid, text in answers.items():
        (folder / str(pid)).write_text(text)
    spy = folder / "py-spy"
    spy.write_text(
        '#!/bin/sh\nfor pid; do :; done\n[ "$1 $2 $3 $4" = "dump --nonblocking --json --pid" ] || exit 2\n'
        f'[ ! -e {folder}/$pid ] || exec cat {folder}/$pid\necho "Error: Failed to open process $pid" >&2\nexit 1\n'
    )
    spy.chmod(0o755)
    here = Here(path=folder, shell=SHELLS[shell])
    state = drive(python_stacks.probe(build(python_stacks.Args, {"pids": pids})), here)
    assert [command.effect for command in here.sent] == ([Effect.READ] if pids else [])
    return state


@every_row(
    ("frames", "waits_for"),
    [
        ([("all_reduce", f"{SITE}/torch/distributed/distributed_c10d.py", 2806)], "a collective"),
        (
            [("recv", f"{LIB}/socket.py", 10), ("_send_single_request", f"{SITE}/httpx/_client.py", 1010)],
            "an HTTP answer",
        ),
        ([("wait", f"{LIB}/threading.py", 327), ("get", f"{LIB}/queue.py", 171)], "a queue"),
        ([("get_objects", f"{SITE}/ray/_private/worker.py", 866)], "a worker of Ray"),
        ([("poll", f"{LIB}/multiprocessing/popen_fork.py", 27)], "another process"),
        ([("select", f"{LIB}/selectors.py", 468), ("run_forever", f"{LIB}/asyncio/base_events.py", 607)], "an event"),
        ([("acquire", f"{LIB}/threading.py", 320)], "another thread"),
        ([], ""),
    ],
)
def test_the_frames_inside_of_the_programs_own_say_what_it_waits_for(tmp_path_factory, frames, waits_for):
    """Mutants: rows of ``WAITS`` in another order; frames outside of the program's own counted."""
    outside = ("run", f"{SITE}/torch/distributed/run.py", 5)
    stack = json.dumps([thread(MAIN, name="beat", active=True), thread(*frames, OWN, MAIN, outside)])
    (found,) = asked(tmp_path_factory.mktemp("spy"), {7: stack}, [7]).stacks
    assert (found.pid, found.waits_for, found.works, found.at) == (7, waits_for, False, "train_step (train.py:88)")


def test_a_thread_that_computes_waits_for_nothing(tmp_path):
    stack = json.dumps([thread(("sum", f"{SITE}/torch/distributed/x.py", 1), OWN, active=True)])
    (found,) = asked(tmp_path, {7: stack}, [7]).stacks
    assert (found.waits_for, found.works) == ("", True)


@pytest.mark.parametrize("shell", each(SHELLS))
def test_a_process_that_cannot_be_read_has_its_reason_and_the_others_their_stacks(tmp_path, shell):
    state = asked(tmp_path, {7: json.dumps([thread(OWN)]), 9: "no json"}, [7, 8, 9], shell)
    assert [stack.pid for stack in state.stacks] == [7]
    assert state.failed == {"8": "Error: Failed to open process 8", "9": "no json"}


def test_at_most_sixteen_processes_are_asked(tmp_path):
    state = asked(tmp_path, {}, list(range(1, 21)))
    assert (len(state.failed), state.left_out) == (MAX_PROCESSES, 4)
    assert asked(tmp_path, {}, []) == python_stacks.State()


def test_without_py_spy_nothing_is_known(tmp_path):
    with pytest.raises(ProbeError, match="py-spy is not installed"):
        drive(
            python_stacks.probe(build(python_stacks.Args, {"pids": [1]})),
            Here(shell=("env", "PATH=/bin:/usr/bin", "dash")),
        )


def test_only_a_pid_of_a_process_is_asked():
    with pytest.raises(Exception, match="0 is not the pid of a process"):
        build(python_stacks.Args, {"pids": [0]})
