"""What clears its environment and leaves the session is ended with its command, by whose descendant it is.

``test_conformance.py`` tries the same where a control group can be had; here there is none.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import time
from pathlib import Path

import pytest
from stage import NOBODY, lives, living
from stage_fixtures import stage

from engine.lanes.program import LEASH
from engine.ports import ConnectOptions
from engine.transports import local
from engine.values.inventory import Host
from transports.test_conformance import end, gone, mark, script

__all__ = ["mark", "stage"]

SHELLS = pytest.mark.parametrize("shell", [("dash",), ("bash",), ("busybox", "sh")], ids=lambda words: words[0])


def finished(shell: tuple[str, ...], group: int) -> None:
    """The process group *group* is ended by a leash that *shell* runs."""
    lane = secrets.token_hex(8)
    done = subprocess.run([*shell, "-c", LEASH], input=f"finish {group} {lane} 3\n", capture_output=True, text=True,
                          check=True)  # fmt: skip
    assert f"over {lane}" in done.stdout
    assert done.stderr == ""


@pytest.mark.real("root", "setpriv", "busybox")
@SHELLS
def test_a_descendant_that_hides_is_ended_and_a_stranger_that_claims_to_be_one_is_not(stage, shell, tmp_path):
    """Mutants: program.py without ``outlived``; ``kin`` seen after the group has ended; ``stat_of`` with ``#*)``."""
    seen, (hides, group) = tmp_path / "pids", (tmp_path / "hides", tmp_path / "group")
    hides.write_text(f"env -i {' '.join(NOBODY)} setsid sh -c 'echo $$ >&3; exec sleep 600' & echo $$ >&3; wait")
    group.write_text(
        f"exec 3>{seen}; env -i setsid sh {hides} & until [ $(wc -l <{seen}) = 2 ]; do sleep 0.05; done;"
        " echo up; exec sleep 600"
    )
    leader = stage.start(["sh", str(group)])
    ours = [int(pid) for pid in seen.read_text().split()]
    rename = f"import ctypes, time; ctypes.CDLL(None).prctl(15, b'\\n) S {leader.pid} 1')"
    theirs = stage.start([*NOBODY, "/usr/bin/python3", "-c", f"{rename}\nprint('up', flush=True); time.sleep(600)"])
    try:
        assert f") S {leader.pid} 1" in Path(f"/proc/{theirs.pid}/stat").read_text()
        finished(shell, leader.pid)
        assert leader.wait(5) == -15
        assert [lives(pid) for pid in ours] == [False, False]
        assert lives(theirs.pid)
    finally:
        for pid in filter(lives, ours):
            os.kill(pid, signal.SIGKILL)


def test_whose_parent_has_ended_is_ended_where_there_is_a_control_group_and_nothing_is_left_of_that(interrupt, mark):
    """Mutants: program.py without ``caged``; without ``rmdir`` in ``uncage``."""
    connection = local.connect(Host(name="here", transport="local"), ConnectOptions(), interrupt)
    try:
        (own,) = connection.run(
            script("while read -r l; do case $l in 0::*) echo ${l#0::};; esac; done </proc/self/cgroup")
        )
        caged = "/runbook-" in own.stdout
        orphan = f"env -i PATH=\"$PATH\" setsid sh -c 'sleep {mark} >/dev/null 2>&1 &'"
        assert connection.run(script(f"{orphan}; exec sleep {mark}", timeout=1.0))[0].timed_out
        assert gone(mark) if caged else living(mark)
    finally:
        connection.close()
        end(mark)
    places = [Path("/sys/fs/cgroup") / tree / own.stdout.strip().lstrip("/") for tree in ("", "unified")]
    assert not caged or vanish(places)


def vanish(places: list[Path], within: float = 10.0) -> bool:
    """Whether none of *places* is there any more, after so many seconds at most."""
    deadline = time.monotonic() + within
    while any(place.exists() for place in places):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
