"""A process that another user has given our mark is not ended for it."""

from __future__ import annotations

import os
import secrets
import subprocess

import pytest
from stage import NOBODY, lives
from stage_fixtures import stage

from engine.lanes.program import LEASH

__all__ = ["stage"]


@pytest.mark.real("root", "setpriv")
@pytest.mark.parametrize("shell", [("dash",), ("bash",), ("busybox", "sh")], ids=lambda it: it[0])
def test_what_left_the_group_is_ended_and_another_user_s_process_with_the_same_mark_is_not(stage, shell):
    """Mutants: program.py without the look at the uids in ``escaped``."""
    lane = secrets.token_hex(8)
    marked = {**os.environ, "RUNBOOK_LANE": lane}
    sleeper = ["sh", "-c", "echo up; exec sleep 600"]
    group = stage.start(sleeper, env=marked)
    ours = stage.start(sleeper, env=marked)
    theirs = stage.start([*NOBODY, *sleeper], env=marked)
    undumpable = "import ctypes, time; ctypes.CDLL(None).prctl(4, 0); print('up', flush=True); time.sleep(600)"
    looks_like_root_s = stage.start([*NOBODY, "/usr/bin/python3", "-c", undumpable], env=marked)
    assert os.stat(f"/proc/{looks_like_root_s.pid}/environ").st_uid == 0
    done = subprocess.run([*shell, "-c", LEASH], input=f"finish {group.pid} {lane} 3\n", capture_output=True, text=True,
                          check=True)  # fmt: skip
    assert f"over {lane}" in done.stdout
    assert done.stderr == ""
    assert (group.wait(5), ours.wait(5)) == (-15, -9)
    assert lives(theirs.pid)
    assert lives(looks_like_root_s.pid)
