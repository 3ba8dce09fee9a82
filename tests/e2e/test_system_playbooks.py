"""Playbooks for the operating system of hosts, on lab hosts: a silent file server, a full /dev/shm, a clock."""

from __future__ import annotations

import pytest

from tests.support.waiting import until

pytestmark = [pytest.mark.real("lab", "sshd")]


@pytest.mark.real("fuse")
@pytest.mark.soak
def test_a_silent_file_server_is_named_with_those_who_wait_and_nobody_else_comes_to_hang(practice):
    """Mutants: a run that waits for its own stat; a second stat started; the kernel's word on the server ignored."""
    lab = practice("gpu-01=nfs_hang", "gpu-02=healthy")
    words = ("-e", "within=4s", "-e", "watch=1s")
    said = lab.run("nfs-hang", *words, "--yes")
    assert said.writes() == []
    assert said.host("gpu-02")["verdict"] == "healthy", said.out
    assert said.host("gpu-01")["verdict"] == "unresolved"
    assert [it["id"] for it in said.host("gpu-01")["findings"] if it["status"] == "present"] == ["server_silent"]
    found = said.finding("gpu-01", "server_silent")
    assert found["say"].startswith("the server filer-1 does not respond, by the kernel since ")
    assert found["say"].endswith(": /datasets hangs, and 2 processes wait for it: dataloader, python3")
    stuck = lab.exec("gpu-01", "pgrep -fc '^stat -f -c runbook-mount'").strip()
    assert len(lab.run("nfs-hang", *words, "--dry-run", "-v", output="console").out.splitlines()) <= 50
    assert "so no other was started" in lab.run("nfs-hang", *words, "--dry-run").out
    assert (stuck, lab.exec("gpu-01", "pgrep -fc '^stat -f -c runbook-mount'").strip()) == ("1", "1")
    lab.exec("gpu-01", "cp /run/lab/kernel /run/lab/state/kernel; sed -i '/nfs: server/d' /run/lab/kernel")
    alone = lab.run("nfs-hang", *words, "--dry-run", hosts="gpu-01")
    assert "1 mount does not answer: /datasets (fuse.nfs, " in alone.finding("gpu-01", "hangs")["say"]
    lab.exec(
        "gpu-01",
        "cp /run/lab/state/kernel /run/lab/kernel; echo '[9.000000] mlx5_core 0000:3b:00.0 eth0: Link down' >>/run/lab/kernel",
    )
    ours = lab.run("nfs-hang", *words, "--dry-run", hosts="gpu-01")
    assert [it["id"] for it in ours.host("gpu-01")["findings"] if it["status"] == "present"] == ["link_down"], ours.out
    lab.exec("gpu-01", "cp /run/lab/state/kernel /run/lab/kernel; touch /run/lab/state/filer_answers")
    until(lambda: lab.exec("gpu-01", "pgrep -fc '^stat -f -c runbook-mount'").strip() == "0", "the server to answer")
    back = lab.run("nfs-hang", *words)
    assert (back.host("gpu-01")["verdict"], back.writes()) == ("healthy", []), back.out
    assert "responds again" in back.finding("gpu-01", "was_silent")["say"]
    gone = lab.run("nfs-hang", *words, "-e", "expect=[/datasets, /mnt/checkpoints]", "--dry-run", hosts="gpu-01")
    assert gone.finding("gpu-01", "missing")["say"] == "nothing is mounted at /mnt/checkpoints"
    lab.exec("gpu-01", "pkill -9 -f runbook.lab.system.file_server")
    until(
        lambda: lab.exec("gpu-01", "stat -f /datasets >/dev/null 2>&1 || echo dead") == "dead\n", "the mount to be dead"
    )
    dead = lab.run("nfs-hang", *words, "--dry-run", hosts="gpu-01").finding("gpu-01", "failed")
    assert dead["say"].endswith("/datasets (filer-1:/export/datasets): Transport endpoint is not connected")


def test_what_a_dead_job_left_in_shared_memory_goes_and_what_is_mapped_stays(practice):
    """Mutants: what is mapped taken for unused; the free space not measured again."""
    lab = practice("gpu-01=shm_full", "gpu-02=healthy")
    plan = lab.run("shm-full", "--dry-run")
    assert (plan.host("gpu-01")["verdict"], plan.host("gpu-02")["verdict"]) == ("planned", "healthy"), plan.out
    assert plan.writes() == []
    (used,) = plan.finding("gpu-01", "full")["evidence"]["in_use"]
    assert used.startswith("/dev/shm/torch_4711_3141592653_0 (1.5 MiB, uid 0, written 2 h ago")
    said = lab.run("shm-full", "--yes")
    assert said.host("gpu-01")["verdict"] == "resolved", said.out
    assert said.finding("gpu-01", "full")["status"] == "gone"
    assert said.step("gpu-01", "remove_stale")["status"] == "changed"
    assert lab.exec("gpu-01", "ls /dev/shm").split() == ["torch_4711_3141592653_0"]
    again = lab.run("shm-full", "--yes")
    assert (again.host("gpu-01")["verdict"], again.writes()) == ("healthy", []), again.out


@pytest.mark.soak
def test_shared_memory_that_a_living_job_fills_is_left_alone_and_unresolved(practice):
    lab = practice("gpu-01=shm_full")
    fill = "rm /dev/shm/[ns]* /dev/shm/torch_3341*; exec 3<>/dev/shm/torch_9; head -c 6300000 /dev/zero >&3; exec sleep 300 <&3"
    lab.exec("gpu-01", f"(sh -c '{fill}' >/dev/null 2>&1 &); until pgrep -xf 'sleep 300'; do sleep 0.1; done")
    said = lab.run("shm-full", "--yes", "-e", "older_than=0s")
    assert said.host("gpu-01")["verdict"] == "unresolved", said.out
    assert lab.exec("gpu-01", "ls /dev/shm").split() == ["torch_4711_3141592653_0", "torch_9"]


AHEAD = '#!/bin/sh\ncase $* in +%s) echo $(($(/bin/date +%s) + 90)) ;; *) exec /bin/date "$@" ;; esac'


def test_a_clock_that_nobody_sets_or_that_is_far_from_ours_is_named_and_never_stepped(practice):
    """Mutants: the word of chronyd ignored; the difference to this machine not taken."""
    lab = practice("gpu-01=clock_unsynced", "gpu-02=healthy")
    said = lab.run("time-sync", "--yes")
    assert (said.host("gpu-02")["verdict"], said.writes()) == ("healthy", []), said.out
    assert said.host("gpu-01")["verdict"] == "unresolved"
    words = "the clock is not synchronized, by the word of chronyd: chronyd runs, but has no source"
    assert said.finding("gpu-01", "not_synchronized")["say"] == words
    lab.exec("gpu-01", "echo synchronized >/run/lab/state/clock")
    assert lab.run("time-sync", hosts="gpu-01").host("gpu-01")["verdict"] == "healthy"
    lab.exec("gpu-02", f"printf '%s\\n' '{AHEAD}' >/run/lab/bin/date; chmod 755 /run/lab/bin/date")
    far = lab.run("time-sync", "--dry-run", hosts="gpu-02")
    assert far.host("gpu-02")["verdict"] == "unresolved", far.out
    assert "s ahead of this machine's, though chronyd calls it synchronized" in far.finding("gpu-02", "differs")["say"]
