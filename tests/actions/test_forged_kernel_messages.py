"""What an ordinary user can have the kernel write into its log is not believed to be the kernel's own word (law 9).

The texts are what a kernel 6.18 wrote for user 65534: for a program that faulted, with a name or a file name of the
user's own choice, and for mounts in a user namespace, with options of the user's own choice.  Other texts with names of
processes, control groups and interfaces are as Linux's sources print them.
"""

from __future__ import annotations

import json

import pytest

from runbook.language.arguments import build
from runbook.library.kernel import kernel_log
from runbook.library.kernel.facts.sources import read_text
from tests.support.probe_driver import Here, drive
from tests.support.tables import every_row

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


@every_row("what", FORGED)
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


@every_row(
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
    assert (kill.container == container) if container else ("a user created the control group" in kill.container.why)


FAULT = "segfault at 0 ip 000055bfcf013132 sp 00007ffcc9bd6220 error 6 in x[1132,55bf+1000]"
NAMED = (
    "[   2972]  1000  2972     1000      100   49152        0             0 {}",
    "{}[2972]: " + FAULT,
    "traps: {}[2972] general protection fault ip:1 sp:1 error:0 in x[1,55bf+1000]",
    "{}[2972] trap int3 ip:1 sp:1 error:0",
    "{}[2972] bad frame in rt_sigreturn frame:00007ffc ip:1 sp:1 orax:ffff in x[1,55bf+1000]",
    "{}/2972: potentially unexpected fatal signal 11.",
    "{}: potentially unexpected fatal signal 11.",
    "{0}: {0}: potentially unexpected fatal signal 11.",
    "process '{}' started with executable stack",
    "INFO: task {}:2972 blocked for more than 120 seconds.",
    "INFO: task a:7 is blocked on a mutex likely owned by task {}:2972.",
    "CPU: 3 PID: 2972 Comm: {} Not tainted 6.18.0 #1",
    "CPU: 3 UID: 65534 PID: 2972 Comm: {} Kdump: loaded Tainted: P OE 6.18.0 #1",
    "{} invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
    "{} cpuset=/ mems_allowed=0",
    "{}: page allocation failure: order:4, mode:0x40cc0(GFP_KERNEL), nodemask=(null),cpuset=/,mems_allowed=0",
    "Out of memory: Killed process 2972 ({}) total-vm:1kB, anon-rss:1kB, UID:65534 pgtables:1kB oom_score_adj:0",
    "Out of memory: Kill process 2972 ({}) score 9 or sacrifice child",
    "oom_reaper: reaped process 2972 ({}), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB",
    "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,task={},pid=2972,uid=65534",
    'audit: type=1701 audit(1.1:1): auid=9 uid=9 pid=2972 comm="{}" exe="/x" sig=11 res=1',
    "warning: `{}' uses 32-bit capabilities (legacy support in use)",
    "{} (2972): drop_caches: 3",
    "mmap: {} (2972) uses deprecated remap_file_pages() syscall.",
    "mmap: {} (2972): VmData 1 exceed data ulimit 0. Update limits or use boot option ignore_rlimit_data.",
    "x86/split lock detection: #AC: {}/2972 took a split_lock trap at address: 0x1",
    "netlink: 32 bytes leftover after parsing attributes in process `{}'.",
    "{} (2972) used greatest stack depth: 10416 bytes left",
    "{}[2972] is installing a program with bpf_probe_write_user helper that may corrupt user memory!",
    "{}",
    "{}\n[2.1] [2972]: " + FAULT,
    "traps: {}\n      [2972] general protection fault ip:1 sp:1 error:0",
    "program {} is using a deprecated SCSI ioctl, please convert it to SG_IO",
)
NAMES = (
    "ice Link Down", "ena Link Down", "sfc: Link Up", "BUG: a", "Kernel panic", "EDAC 1 UE", "I/O error", "a: [#1]",
    "soft lockup", "JBD2: error", "nvme timeout", "Oops - x", "XFS: error", "tg3 Link Down",
)  # fmt: skip


@every_row("name", NAMES)
@every_row("line", NAMED)
def test_the_name_of_a_process_is_no_message_of_the_kernel(line, name):
    """Mutants: users_words.py without ``_NAME_BEFORE``, ``_NAME_BEHIND``, ``_NAME_FIRST``, ``_BEGUN`` or ``_ALL``;
    patterns.py with the whole text searched."""
    said = f"[2.1] {line.format(name)}\n"
    state = kernel_log._state(build(kernel_log.Args, {"text": said}), read_text(said))
    assert (state.network, state.panics, state.hardware_errors, state.io_errors) == ((), (), (), ())
    assert (state.lockups, state.gpu_faults, state.xids, state.file_servers) == ((), (), (), ())


GROUPS = (
    "cgroup: fork rejected by pids controller in /user.slice/{}",
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/{0},mems_allowed=0,oom_memcg=/{0},task_memcg=/{0},task=a",
    "Memory cgroup stats for /user.slice/{}:",
    "Tasks in /user.slice/{} are going to be killed due to memory.oom.group set",
    "Task in /user.slice/{0} killed as a result of limit of /user.slice/{0}",
    "a cpuset={} mems_allowed=0",
)
LONG = (
    "mlx5_core 0000:18:00.0 ib1: Link down", "nvme nvme0: I/O 1 QID 2 timeout, reset controller", "Kernel panic - not syncing",
    "BUG: unable to handle kernel", "EDAC MC0: 1 UE memory read error", "I/O error, dev sda, sector 1",
    "systemd-oomd[1]: Killed x due to y", "systemd-journald[1]: Missed 7 kernel messages",
    "watchdog: BUG: soft lockup - CPU#1 stuck for 22s!", "Out of memory and no killable processes",
)  # fmt: skip


@every_row("name", LONG)
@every_row("line", GROUPS)
def test_the_name_of_a_control_group_is_no_message_of_the_kernel(line, name):
    """Mutants: users_words.py without ``_REST``; patterns.py with ``oomd`` and ``missed`` found anywhere."""
    said = f"[2.1] {line.format(name.replace('/', '-'))}\n"
    signature = {"one": name.replace("/", "-").split(" ")[0] + " .*" + name.split(" ")[-1].replace("/", "-")}
    state = kernel_log._state(build(kernel_log.Args, {"text": said, "signatures": signature}), read_text(said))
    assert (state.network, state.panics, state.hardware_errors, state.io_errors) == ((), (), (), ())
    assert (state.lockups, state.oomd_kills, state.no_victim, state.counts) == ((), (), (), {"one": 0})


@every_row("line", ["nvmetimeout: renamed from dummy0", "nvme: renamed from timeout", "br0: port 1(nvmeerror) entered blocking state",
    "IPv6: ADDRCONF(NETDEV_CHANGE): [#1]: link becomes ready", "BTRFSerror: entered promiscuous mode",
    "F2FS-fs.error: Caught", "bond0: (slave [#1]): Enslaving as an active interface"])  # fmt: skip
def test_the_name_of_an_interface_is_no_message_of_the_kernel(line):
    """Mutant: users_words.py without ``_INTERFACE``."""
    state = kernel_log._state(build(kernel_log.Args, {}), read_text(f"[2.1] {line}\n"))
    assert (state.network, state.panics, state.hardware_errors, state.io_errors) == ((), (), (), ())


@every_row("line", [it for it in NAMED if it.startswith(("Out of memory: Killed", "INFO: task {}"))])
def test_a_victim_keeps_the_name_that_the_kernel_gives(line):
    state = kernel_log._state(build(kernel_log.Args, {}), read_text(f"[2.1] {line.format('BUG: a [7] in b')}\n"))
    assert [it.name for it in (*state.oom, *state.hung_tasks)] == ["BUG: a [7] in b"]


def test_a_fault_of_a_file_with_a_long_name_is_no_xid():
    text = f"[2.1] {XID.format(1)}: a: potentially unexpected fatal signal 11.\n"
    assert kernel_log._state(build(kernel_log.Args, {}), read_text(text)).xids == ()


@every_row("line", [it for it in NAMED if "\n" not in it])
def test_a_newline_in_the_name_of_a_process_begins_no_message_in_an_entry_of_the_journal(line):
    """Mutant: users_words.py with a name that ends at a newline."""
    entry = {"MESSAGE": line.format("ice Link Down\n"), "__REALTIME_TIMESTAMP": "1795309323000000"}
    state = kernel_log._state(build(kernel_log.Args, {}), read_text(json.dumps(entry)))
    assert (state.network, state.panics, state.hardware_errors, state.io_errors) == ((), (), (), ())
