"""What clears its environment and leaves the session is ended with its command, and what was meant to stay is not."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from runbook.connections.sessions.programs import KILL_GROUP, control_group, end_group, greeting
from runbook.errors import Cancelled
from runbook.shell import OUTLIVE
from runbook.values.command import Effect
from tests.support.real_processes import NOBODY, end, gone, lives, living, shows_up, start_of
from tests.support.waiting import soon, until
from tests.transports.client_process import begun, killed
from tests.transports.commands import change, late, look, script
from tests.transports.interrupts import pressing

SHELLS = pytest.mark.parametrize("shell", [("dash",), ("bash",), ("busybox", "sh")], ids=lambda words: words[0])
CGROUP = pytest.mark.real("cgroup", "root")
OWN = "while read -r l; do case $l in 0::*) echo ${l#0::};; esac; done </proc/self/cgroup"
"""Prints the control group of the shell."""


def hides(mark: str, *, orphan: bool) -> str:
    """The line that starts a sleep without our mark in a session of its own; *orphan*: its parent ends at once."""
    sleep = f"sleep {mark} >/dev/null 2>&1"
    return f"env -i PATH=\"$PATH\" setsid sh -c '{sleep}{' &' if orphan else '; :'}'"


def vanished(places: set[Path]) -> bool:
    """Whether none of *places* is there any more, in time."""
    return soon(lambda: not any(place.exists() for place in places))


def tells(place: Path, begun: Path) -> str:
    """The line that writes the control group of the shell to *place*, and then makes the file *begun*."""
    return f"{OWN} >{place}; : >{begun}"


def places(told: str) -> set[Path]:
    """Where the control group is that a command has told of."""
    (line,) = [it for it in told.splitlines() if it.startswith("/")]
    assert "/runbook-command-" in line
    return {Path(f"/sys/fs/cgroup{tree}{line}") for tree in ("", "/unified")}


@pytest.fixture
def ends(mark: str) -> Iterator[None]:
    """What a test leaves on purpose is ended with it."""
    yield
    end(mark)


def test_what_still_descends_from_a_look_is_ended_with_it(connection, mark):
    """Mutants: ``kin`` searched for after the group has ended; ``hidden`` not called."""
    hidden = hides(mark, orphan=False)
    for keys in ({}, {"foreign": True}):
        assert connection.run(script(f"{hidden} & exec sleep {mark}", timeout=1.0, **keys))[0].timed_out
        assert gone(mark)


@CGROUP
def test_whose_parent_has_ended_is_ended_with_a_change_that_times_out(connection, mark, tmp_path):
    """Mutants: shell_programs.py without ``hidden``; a greeting without ``CAGE``; ``uncage`` not called."""
    text = f"{OWN}; {hides(mark, orphan=True)}; : >{tmp_path}/begun; exec sleep {mark}"
    done = late(connection, lambda timeout: change(text, timeout=timeout), tmp_path / "begun")
    assert done.timed_out
    assert done.survivors == ()
    assert gone(mark)
    assert vanished(places(done.stdout))


@CGROUP
def test_whose_parent_has_ended_is_ended_with_a_change_that_is_cancelled(connection, interrupt, mark, tmp_path):
    """Mutants: shell_programs.py without ``hidden``."""
    pressing(interrupt, 2, tmp_path / "begun")
    with pytest.raises(Cancelled):
        connection.run(
            change(f"{hides(mark, orphan=True)}; {tells(tmp_path / 'own', tmp_path / 'begun')}; exec sleep {mark}")
        )
    assert gone(mark)
    assert vanished(places((tmp_path / "own").read_text()))


@CGROUP
def test_what_a_change_that_ended_well_leaves_behind_lives_on_where_it_would_be_without_us(connection, mark, ends):
    """Mutants: ``hidden`` called on ``drop``."""
    (before,) = connection.run(script(OWN))
    (done,) = connection.run(change(f"{OWN}; {hides(mark, orphan=True)}"))
    assert done.exit_code == 0
    assert vanished(places(done.stdout))
    assert connection.run(look("sleep", "9", timeout=1.0))[0].timed_out
    (pid,) = until(lambda: living(mark))
    assert f"0::{before.stdout.strip()}\n" in Path(f"/proc/{pid}/cgroup").read_text()


@CGROUP
def test_what_is_meant_to_outlive_a_change_is_not_ended_when_that_times_out(connection, mark, ends, tmp_path):
    """Mutants: ``outlive`` that does not leave the control group, or keeps the mark."""
    start = f"{OUTLIVE}\n( outlive; setsid sh -c 'sleep {mark} >/dev/null 2>&1 &' ); {hides(mark + '1', orphan=True)}"
    text = f"{OWN}; {start}; : >{tmp_path}/begun; exec sleep 900"
    done = late(connection, lambda timeout: change(text, timeout=timeout), tmp_path / "begun")
    assert done.timed_out
    assert gone(mark + "1")
    assert soon(lambda: len(living(mark)) == 1)
    assert vanished(places(done.stdout))


@CGROUP
def test_no_look_has_a_control_group_nor_has_what_must_not_be_killed(connection):
    """Mutants: connection.py with ``cage=True`` for all."""
    text = f"{OWN}; echo $RUNBOOK_SESSION; sleep 0.1"
    told = connection.run(script(text), script(text, foreign=True), script(text, effect=Effect.SCRATCH))
    (alone,) = connection.run(change(text, unkillable=True))
    for done in (*told, alone):
        own, lane = done.stdout.split()
        assert "runbook-command" not in own
        assert [it for it, _, _ in os.walk("/sys/fs/cgroup") if Path(it).name == control_group(lane)] == []


@CGROUP
@pytest.mark.parametrize("well", [True, False])
def test_when_our_side_is_killed_the_group_goes_with_the_change(well, host, mark, tmp_path, ends):
    """Mutants: ``runbook_end`` not set; no ``trap '' PIPE``; ``begin`` without ``finish``."""
    then = f"sleep {mark} >/dev/null 2>&1 & sleep 1" if well else f"exec sleep {mark}"  # in the process group
    text = f"{hides(mark, orphan=True)}; {tells(tmp_path / 'own', tmp_path / 'told')}; {then}"
    process, _ = begun(host, "write", text, (60,) if well else (3, 20, 60), tmp_path / "told")
    killed(process)
    assert vanished(places((tmp_path / "own").read_text()))
    assert shows_up(mark) if well else gone(mark)


@CGROUP
def test_a_change_that_kills_the_shell_that_runs_it_leaves_no_group(connection, mark, ends):
    """Mutants: ``end_group`` without ``remove_cgroup``."""
    (done,) = connection.run(change(f"{OWN}; {hides(mark, orphan=True)}; sleep 0.2; kill -9 $$; sleep 0.1", timeout=20))
    assert vanished(places(done.stdout))


def finished(shell: tuple[str, ...], group: int) -> None:
    """The process group *group* is ended by *shell*."""
    session = secrets.token_hex(8)
    orders = KILL_GROUP + end_group(f"{group}:{start_of(group)}", session, 3, "")
    done = subprocess.run(shell, input=orders, capture_output=True, text=True, check=True)
    assert f"over {session}" in done.stdout
    assert "survivor" not in done.stdout
    assert done.stderr == ""


@pytest.mark.real("root", "setpriv", "busybox")
@SHELLS
def test_a_descendant_that_hides_is_ended_and_a_stranger_that_claims_to_be_one_is_not(stage, shell, tmp_path):
    """Mutants: kill_group.sh without ``find_descendants``; one cutting at the first ``)``."""
    seen, (hider, group) = tmp_path / "pids", (tmp_path / "hides", tmp_path / "group")
    hider.write_text(f"env -i {' '.join(NOBODY)} setsid sh -c 'echo $$ >&3; exec sleep 600' & echo $$ >&3; wait")
    group.write_text(
        f"exec 3>{seen}; env -i setsid sh {hider} & until [ $(wc -l <{seen}) = 2 ]; do sleep 0.05; done;"
        " printf '\\377\\376) x' >/proc/$$/comm; echo up; exec 4>&-; wait"
    )
    leader = stage.start(["sh", str(group)])
    ours = [int(pid) for pid in seen.read_text().split()]
    rename = f"import ctypes, time; ctypes.CDLL(None).prctl(15, b'\\n) S {leader.pid} 1')"
    theirs = stage.start([*NOBODY, "/usr/bin/python3", "-c", f"{rename}\nprint('up', flush=True); time.sleep(600)"])
    try:
        assert f") S {leader.pid} 1" in Path(f"/proc/{theirs.pid}/stat").read_text()
        finished(shell, leader.pid)
        assert leader.wait(60) in (-15, -9)
        assert soon(lambda: not any(lives(pid) for pid in ours))
        assert lives(theirs.pid)
    finally:
        for pid in filter(lives, ours):
            os.kill(pid, signal.SIGKILL)


@CGROUP
@pytest.mark.real("busybox")
@SHELLS
@pytest.mark.parametrize("owner", [0, 65534])
def test_a_control_group_is_made_in_none_of_another_user_s(owner, shell, tmp_path):
    """Mutants: ``runbook_enter_cgroup`` without ``-O``."""
    trees = [Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified")]
    tree = next(it for it in trees if (it / "cgroup.controllers").exists())
    above, lane = tree / f"runbook-test-{secrets.token_hex(4)}", secrets.token_hex(8)
    above.mkdir()
    try:
        os.chown(above, owner, owner)
        enter = f"echo 0 >{above}/cgroup.procs\n{greeting(lane, alone=True)}\n{OWN}; runbook_leave_cgroup; {OWN}\n"
        done = subprocess.run(["setsid", *shell], input=enter, capture_output=True, text=True, check=True)
        inside = f"{above.relative_to(tree)}"
        if owner:
            assert (f"session {lane} " in done.stdout, " -\n" in done.stdout) == (True, True)
            assert done.stdout.endswith(f"/{inside}\n/{inside}\n")
        else:
            assert f" {above}/{control_group(lane)}\n" in done.stdout
            assert done.stdout.endswith(f"/{inside}/{control_group(lane)}\n/{inside}\n")
        assert [it for it in above.iterdir() if it.is_dir()] == []
    finally:
        with contextlib.suppress(OSError):
            above.rmdir()
