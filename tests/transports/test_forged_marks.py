"""A process that another user has given our mark is not ended for it."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys

import pytest

from runbook.connections.sessions.programs import KILL_GROUP, end_group
from runbook.library.processes.components.probe_scripts import COMMON
from tests.support.real_processes import NOBODY, lives, start_of


@pytest.mark.real("root", "setpriv")
@pytest.mark.parametrize("shell", [("dash",), ("bash",), ("busybox", "sh")], ids=lambda it: it[0])
def test_what_left_the_group_is_ended_and_another_user_s_process_with_the_same_mark_is_not(stage, shell):
    """Mutants: kill_group.sh without the uids in ``end_marked``."""
    session = secrets.token_hex(8)
    marked = {**os.environ, "RUNBOOK_SESSION": session}
    sleeper = ["sh", "-c", "echo up; exec sleep 600"]
    group = stage.start(sleeper, env=marked)
    ours = stage.start(sleeper, env=marked)
    theirs = stage.start([*NOBODY, *sleeper], env=marked)
    undumpable = "import ctypes, time; ctypes.CDLL(None).prctl(4, 0); print('up', flush=True); time.sleep(600)"
    looks_like_root_s = stage.start([*NOBODY, "/usr/bin/python3", "-c", undumpable], env=marked)
    assert os.stat(f"/proc/{looks_like_root_s.pid}/environ").st_uid == 0
    orders = KILL_GROUP + end_group(f"{group.pid}:{start_of(group.pid)}", session, 3, "")
    done = subprocess.run(shell, input=orders, capture_output=True, text=True, check=True)
    assert f"over {session}" in done.stdout
    assert done.stderr == ""
    assert (group.wait(60), ours.wait(60)) == (-15, -9)
    assert lives(theirs.pid)
    assert lives(looks_like_root_s.pid)


@pytest.mark.real("root")
@pytest.mark.parametrize("shell", [("dash",), ("bash",), ("busybox", "sh")], ids=lambda it: it[0])
def test_a_process_called_like_a_line_of_the_kernels_is_no_survivor(stage, shell):
    """Mutants: kill_group.sh reading lines of /proc/PID/stat by grep."""
    session = secrets.token_hex(8)
    group = stage.start(["sh", "-c", "echo up; exec sleep 600"])
    naming = (
        "import os, sys, time; comm = open('/proc/self/comm', 'w'); os.setuid(65534); comm.write(sys.argv[1]); "
        "comm.flush(); print('up', flush=True); time.sleep(600)"
    )
    stage.start([sys.executable, "-c", naming, f"\n1) S 1 {group.pid} \n"])
    orders = KILL_GROUP + end_group(f"{group.pid}:{start_of(group.pid)}", session, 3, "")
    done = subprocess.run(shell, input=orders, capture_output=True, text=True, check=True)
    assert f"over {session}" in done.stdout
    assert "survivor" not in done.stdout, "the group is but a defunct process, and no name makes it live"
    assert group.wait(60) == -15


@pytest.mark.real("root", "setpriv", "strace")
def test_the_environment_of_another_user_s_process_is_not_even_read(stage, tmp_path):
    """Mutants: kill_group.sh, probe_scripts.py that read every environment."""
    session = secrets.token_hex(8)
    marked = {**os.environ, "RUNBOOK_SESSION": session}
    sleeper = ["sh", "-c", "echo up; exec sleep 600"]
    group = stage.start(sleeper)
    ours, theirs = stage.start(sleeper, env=marked), stage.start([*NOBODY, *sleeper], env=marked)
    components = "\n".join((COMMON, "set +f; folder=$1; marked"))
    for argv, orders in (
        (["sh"], KILL_GROUP + end_group(f"{group.pid}:{start_of(group.pid)}", session, 3, "")),
        (["sh", "-c", components, "sh", "/none"], ""),
    ):
        trace = tmp_path / "trace"
        watched = ["strace", "-f", "-qq", "-e", "trace=open,openat", "-o", str(trace), *argv]
        assert os.path.exists(f"/proc/{theirs.pid}/environ")
        subprocess.run(watched, input=orders, text=True, capture_output=True, check=True, timeout=60)
        assert f"/proc/{os.getpid()}/environ" in trace.read_text()
        assert f"/proc/{theirs.pid}/environ" not in trace.read_text()
    assert ours.wait(60) == -9
