"""What an ordinary user can have the kernel write into its log is not believed to be the kernel's own word (law 9).

The texts are what a kernel 6.18 wrote for user 65534: for a program that faulted, with a file name of the user's own
choice, and for mounts in a user namespace, with options of the user's own choice.
"""

from __future__ import annotations

import pytest

from actions.fake_nvidia_smi import Here, drive
from engine.actions.system import kernel_log
from engine.lang.arguments import build

XID = "NVRM: Xid (PCI:0000:0{}:00): 79, pid=1, name=x, GPU has fallen off the bus."
SEGFAULT = "segfault at 0 ip 000055bfcf013132 sp 00007ffcc9bd6220 error 6 in"
CODE = "[2.500000] Code: 64 ff ff ff c6 05 fd 2e 00 00 01 5d c3 0f 1f 00"
FORGED = {
    "a file that faulted": f"[2.1] NVRM: Xid (PCI:[29936]: {SEGFAULT} {XID.format(1)}[1132,55bfcf013000+1000]\n{CODE}",
    "a trap": f"[2.1] traps: NVRM: GPU[7] trap int3 ip:1 sp:1 error:0 in {XID.format(1)}[1132,55bf+1000]",
    "a driver by its name alone": "[2.1] NVRM: a[7]: " + SEGFAULT + " RmInitAdapter failed fallen off the bus[1,2+3]",
    "lines of a file's name, by util-linux": f"[2.1] a\n      NVRM: Xid (PC[7]: {SEGFAULT} a\n      {XID.format(1)}[1,2+3]",
    "lines of a file's name, by busybox": f"[2.1] a[7]: {SEGFAULT} a\n[2.1] {XID.format(1)}[1,2+3] on CPU 1\n{CODE}",
    "a mount": f"[2.1] tmpfs: Unknown parameter '{XID.format(1)}'",
    "lines of a mount, by util-linux": f"[2.1] tmpfs: Unknown parameter 'a kernel: b\n      kernel: {XID.format(1)}'",
    "lines of a mount, by busybox": f"[2.1] tmpfs: Unknown parameter 'a\n[2.1] {XID.format(1)}'",
    "a directory": f"[2.1] overlayfs: failed to resolve '/{XID.format(1)}': -2",
    "a control group": f"[2.1] oom-kill:constraint=CONSTRAINT_MEMCG,task_memcg=/u/{XID.format(1)},task=a,pid=7,uid=9",
    "a kill": f"[2.1] a[7]: {SEGFAULT} Out of memory: Killed process 1 (python) total-vm:1kB[1,2+3]",
    "a kill in a mount": "[2.1] tmpfs: Unknown parameter 'Out of memory: Killed process 1 (python) total-vm:1kB'",
    "a disk": f"[2.1] a[7]: {SEGFAULT} I/O error, dev sda, sector 1[1,2+3]",
    "a disk in a mount": "[2.1] tmpfs: Unknown parameter 'I/O error, dev sda, sector 1'",
    "a panic": f"[2.1] a[7]: {SEGFAULT} Kernel panic - not syncing[1,2+3]",
    "a hung task": f"[2.1] INFO: task x:1 [7]: {SEGFAULT} y:1 blocked for more than 120 seconds[1,2+3]",
    "memory": f"[2.1] a[7]: {SEGFAULT} [Hardware Error]: Machine check events logged[1,2+3]",
}
TRUE = f"[1.0] {XID.format(8)}\n", f"\n[3.0] {XID.format(9)}\n"


def ring(folder, text):
    """A kernel's log on this machine, without a journal."""
    (folder / "ring").write_text(text)
    for name, line in {"dmesg": f"cat '{folder}/ring'", "journalctl": "exit 1"}.items():
        (folder / name).write_text(f"#!/bin/sh\n{line}\n")
        (folder / name).chmod(0o755)
    return Here(path=folder)


def kept(state):
    """What a kernel_log look says is wrong, whatever it is."""
    lists = (state.oom, state.gpu_faults, state.io_errors, state.panics, state.hung_tasks, state.hardware_errors)
    return [it.bus_id for it in state.xids], [it for found in lists for it in found if "= 8" not in str(it)]


@pytest.mark.parametrize("what", FORGED)
def test_words_of_a_user_in_the_kernels_log_are_no_fault_and_hide_none(tmp_path, what):
    """Mutants: patterns.py with ``len`` for the kernel's own words, or a pattern that may begin anywhere;
    query_script.py without ``carries``, or without the lines that have no time."""
    look = kernel_log.probe(build(kernel_log.Args, {}))
    state = drive(look, ring(tmp_path, TRUE[0] + FORGED[what] + TRUE[1]))
    xids, others = kept(state)
    assert xids == ["0000:08:00.0", "0000:09:00.0"]
    own = [it for it in others if getattr(it, "pid", 0) == 7]  # a control group's: a kill of its user's, in truth
    assert others == own
    assert state.lost_gpus == ("0000:08:00.0", "0000:09:00.0")


@pytest.mark.real("busybox")
def test_the_awk_of_busybox_tells_a_users_lines_apart_too(tmp_path):
    here = ring(tmp_path, TRUE[0] + "\n".join(FORGED.values()) + TRUE[1])
    (tmp_path / "awk").write_text('#!/bin/sh\nexec busybox awk "$@"\n')
    (tmp_path / "awk").chmod(0o755)
    state = drive(kernel_log.probe(build(kernel_log.Args, {})), here)
    assert [it.bus_id for it in state.xids] == ["0000:08:00.0", "0000:09:00.0"]


def test_what_the_driver_says_below_its_own_line_still_counts(tmp_path):
    lines = (
        "[2.1] NVRM: This PCI I/O region assigned to your device:\n      NVRM: BAR0 is 0M @ 0x0 (PCI:0000:06:00.0)\n"
    )
    lines += "[2.1] NVRM: None of the NVIDIA devices were initialized.\n"
    state = drive(kernel_log.probe(build(kernel_log.Args, {})), ring(tmp_path, lines))
    assert [it.bus_id for it in state.gpu_faults] == ["0000:06:00.0"]


def test_messages_of_one_moment_count_each_by_itself(tmp_path):
    """A machine with a coarse clock gives many messages the same time."""
    lines = "[2.1] EXT4-fs error (device sda1): a\n[2.1] Buffer I/O error on dev sdb, logical block 1\n"
    state = drive(kernel_log.probe(build(kernel_log.Args, {})), ring(tmp_path, lines))
    assert [it.device for it in state.io_errors] == ["sda1", "sdb"]


@pytest.mark.parametrize(
    ("group", "container"),
    [
        (f"/system.slice/docker-{'ab' * 32}.scope", "ab" * 32),
        (f"/kubepods/burstable/pod1/{'ab' * 32}", "ab" * 32),
        (f"/user.slice/user-9.slice/user@9.service/app.slice/docker-{'ab' * 32}.scope", None),
        (f"/user.slice/user-9.slice/session-1.scope/{'ab' * 32}", None),
    ],
)
def test_a_user_who_names_a_group_after_a_container_has_killed_nothing_of_it(group, container):
    """Mutant: events.py without ``_A_USERS``. Whose ids the containers have anybody can read in /proc."""
    text = (
        f"[1.0] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg={group},task_memcg={group},task=py,pid=7,uid=9\n"
        "[1.0] Memory cgroup out of memory: Killed process 7 (py) total-vm:1kB, anon-rss:1kB\n"
    )
    (kill,) = drive(kernel_log.probe(build(kernel_log.Args, {"text": text})), Here()).oom
    assert (kill.container == container) if container else ("a user's own" in kill.container.why)
