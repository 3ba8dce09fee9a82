"""The kernel's messages: who was killed, which GPU failed, and when it is not known whether anybody was."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runbook.codec import to_json
from runbook.errors import ConfigError, ProbeError
from runbook.language.arguments import build
from runbook.library.kernel import kernel_log
from runbook.library.kernel.facts import query_script
from runbook.library.system.facts.kernel_messages import HostClock, message
from runbook.text.timestamps import ctime, iso, offset, time_reference, written
from runbook.values.command import Completed, Effect
from runbook.values.types import Unknown
from tests.support.probe_driver import SHELLS, Here, drive
from tests.support.real_processes import each
from tests.support.tables import every_row
from tests.support.waiting import soon, until

shells = pytest.mark.parametrize("shell", each(SHELLS))
searching = pytest.mark.parametrize("shell", ["dash", pytest.param("bash", marks=pytest.mark.soak)])
"""busybox's shell has a dmesg of its own, whatever is on PATH."""
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "dash")
CONTAINER = "ab" * 32


def told(text, **values):
    return drive(kernel_log.probe(build(kernel_log.Args, {"text": text, **values})), Here())


NEW = (
    "[Sun Feb 23 16:24:18 2025] tokio invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0\n"
    "[Sun Feb 23 16:24:18 2025] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=docker-{0}.scope,"
    "mems_allowed=0,oom_memcg=/system.slice/docker-{1}.scope,task_memcg=/system.slice/docker-{1}.scope,"
    "task=python,pid=4711,uid=0\n"
    "[Sun Feb 23 16:24:18 2025] Memory cgroup out of memory: KILLED PROCESS 4711 (python) total-vm:9kB, "
    "anon-rss:7kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:80kB oom_score_adj:0\n"
).format("cd" * 32, CONTAINER)


@every_row(
    ("line", "code", "bus", "pid", "name"),
    [
        (
            "NVRM: Xid (PCI:0000:9b:00): 119, pid=20, name=nvidia-smi, Timeout after 6s",
            119,
            "0000:9b:00.0",
            20,
            "nvidia-smi",
        ),
        ("NVRM: Xid (PCI:0000:3F:00): 46", 46, "0000:3f:00.0", None, None),
        (
            "NVRM: Xid (PCI:0009:01:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen",
            79,
            "0009:01:00.0",
            None,
            None,
        ),
        ("NVRM: Xid (0000:03:00): 13, Graphics Exception", 13, "0000:03:00.0", None, None),
        ("NVRM: Xid (PCI:0000:01:00): 31, pid=7, name=a::b c.d, Ch 8", 31, "0000:01:00.0", 7, "a::b c.d"),
    ],
)
def test_a_gpu_fault_is_read_whatever_is_missing_from_it(line, code, bus, pid, name):
    state = told(line)
    (fault,) = state.xids
    assert (fault.code, fault.bus_id, state.sxids) == (code, bus, ())
    assert fault.pid == pid if pid else isinstance(fault.pid, Unknown)
    assert fault.name == name if name else isinstance(fault.name, Unknown)


@every_row(
    ("line", "device"),
    [
        ("blk_update_request: I/O error, dev nvme0n1, sector 12", "nvme0n1"),
        ("Buffer i/o Error on dev sda1, logical block 7", "sda1"),
        ("EXT4-fs error (device vda): ext4_find_entry:1455: reading directory", "vda"),
        ("EXT4-fs (dm-0): Remounting filesystem read-only", "dm-0"),
        ("nvme nvme1: controller is down; will reset", "nvme1"),
        ("XFS (sdb1): log I/O error -5", "sdb1"),
    ],
)
def test_a_failing_disk_is_named(line, device):
    assert [it.device for it in told(line).io_errors] == [device]


MOMENT = 1740327858.0
CLOCK = HostClock(now=MOMENT + 3600, boot=MOMENT - 500, zone=7200)


@every_row(
    ("line", "at"),
    [
        ("[  500.250000] x", MOMENT + 0.25),
        ("<6>[  500.250000][   T12] x", MOMENT + 0.25),
        ("kern  :info  : [  500.250000] x", MOMENT + 0.25),
        ("[Sun Feb 23 18:24:18 2025] x", MOMENT),
        ("2025-02-23T18:24:18,250000+02:00 x", MOMENT + 0.25),
        ("2025-02-23T16:24:18+0000 gpu-01 kernel: x", MOMENT),
        ("2025-02-23T18:24:18.250000+02:00 gpu-01 kernel: [  500.250000] x", MOMENT + 0.25),
        ("Feb 23 18:24:18 gpu-01 kernel: [  500.250000] x", MOMENT),
        ("1740327858.250000 gpu-01 kernel: x", MOMENT + 0.25),
        ("x", None),
    ],
)
def test_a_time_is_read_in_every_form(line, at):
    assert (message(line, CLOCK).text, message(line, CLOCK).at) == ("x", at)


def test_a_line_of_syslog_is_never_from_the_future():
    new_year = iso("2025-01-01T00:10:00Z")
    assert written(ctime("Dec 31 23:59:00", 0, new_year)) == "2024-12-31T23:59:00Z"
    assert written(ctime("Feb 29 01:00:00", 0, new_year)) == "2024-02-29T01:00:00Z"


@given(st.text(max_size=80))
def test_any_line_can_be_read(line):
    message(line, CLOCK)
    to_json(told(f"x{line}"))


@every_row(
    ("value", "ago", "at"),
    [
        ("10m", 600, None),
        ("1h30m", 5400, None),
        (90, 90, None),
        ("@1740327858", None, MOMENT),
        ("2025-02-23T18:24:18.123456789+02:00", None, MOMENT + 0.123456789),
        ("2025-02-23T16:24:18Z", None, MOMENT),
        ("", None, None),
    ],
)
def test_a_moment_is_named_as_people_and_docker_write_it(value, ago, at):
    assert (time_reference(value).ago, time_reference(value).at) == (ago, at)


@every_row("value", ["yesterday", "2025-02-23T16:24:18", "0001-01-01T00:00:00Z", "2025-02-31T00:00:00Z"])
def test_a_moment_that_is_none_is_refused(value):
    with pytest.raises(ConfigError, match=r"is not a point in time|zone|moment"):
        build(kernel_log.Args, {"since": value})
    assert offset("+9900") == 0


def test_only_what_lies_in_the_window_is_told():
    early = NEW.replace("16:24:18", "12:00:00").replace("4711", "1")
    text = early + NEW + NEW.replace("16:24:18", "20:00:00").replace("4711", "3")
    assert [it.pid for it in told(text, around="2025-02-23T16:24:30Z").oom] == [4711]
    assert [it.pid for it in told(text, since="2025-02-23T16:00:00Z", until="2025-02-23T17:00:00Z").oom] == [4711]
    assert told(text, around="2025-02-23T15:00:00Z").oom == ()
    assert [it.pid for it in told(text, around="2025-02-23T15:00:00Z", within="2h").oom] == [4711]


def test_a_log_that_begins_too_late_does_not_say_that_there_was_nothing():
    state = told(NEW, around="2025-02-22T00:00:00Z")
    assert "begins at 2025-02-23T16:24:18Z" in to_json(state)["oom"]["$unknown"]
    assert isinstance(state.xid_codes, Unknown)
    assert isinstance(told("Xid (PCI:0000:01:00): 8", since="2025-02-22T00:00:00Z").xids, Unknown)


@every_row(
    ("line", "uid"),
    [
        (
            "Out of memory: Killed process 7 (python) total-vm:1kB, anon-rss:4kB, file-rss:0kB, UID:1000 pgtables:1kB",
            1000,
        ),
        (
            "Out of memory: Killed process 7 (a UID:0) total-vm:1kB, anon-rss:4kB, file-rss:0kB, UID:1000 pgtables:1",
            1000,
        ),
        ("Killed process 7, UID 1000, (a, UID 0, () total-vm:1kB, anon-rss:4kB, file-rss:0kB", 1000),
    ],
)
def test_whose_process_was_killed_is_what_the_kernel_says_not_its_name(line, uid):
    """Mutant: events.py that searches the whole line."""
    (kill,) = told(f"{line}\n").oom
    assert (kill.uid, kill.pid) == (uid, 7)


@every_row(
    ("line", "pattern", "counts"),
    [
        ("NVRM: Xid (PCI:[4242]: segfault at 0 ip 0 sp 0 error 4 in x[400000+1000]", "NVRM: Xid", 0),
        ("x[1]: NVRM: Xi[4242]: segfault at 0 ip 0 sp 0 error 4 in x[400000+1000]", "NVRM: Xi", 0),
        ("python[4242]: segfault at 0 ip 0 sp 0 error 4 in NVRM: Xid 79[400000+1000]", "Xid 79", 0),
        ("traps: NVRM Xid[4242] general protection fault ip:0 sp:0 error:0 in a[4+1]", "NVRM Xid", 0),
        ("Out of memory: Killed process 7 (NVRM: Xid) total-vm:1kB", "NVRM", 0),
        ("INFO: task NVRM: Xid 79:12 blocked for more than 120 seconds.", "NVRM", 0),
        ("fuse: Unknown parameter 'NVRM: Xid 79'", "NVRM", 0),
        ("NVRM: Xid (PCI:0000:01:00): 79, pid=1, name=python, GPU has fallen off", "NVRM: Xid", 1),
        ("NVRM: Xid (PCI:0000:01:00): 79, pid=1, name=python, GPU has fallen off", "GPU has", 1),
        ("NVRM: Xid (PCI:0000:01:00): 79, pid=1, name=a, fallen off, GPU is fine", "fallen off", 0),
        ("XFS (sda1): Metadata of `x` corruption detected", "corruption detected", 1),
        ("NVRM: Xid (PCI:0000:01:00): 79, pid=1, name=Xid, GPU has fallen off", "Xid", 1),
        ("Out of memory: Killed process 7 (python) total-vm:1kB", "Killed process .*python", 1),
        ("python[4242]: segfault at 0 ip 0 sp 0 error 4 in x[400000+1000]", "python.*segfault", 1),
        ("traps: python[42] general protection fault ip:0 sp:0 error:0 in a[4+1]", "traps: ", 1),
        ("EXT4-fs error (device sda1): bad block", "EXT4-fs error", 1),
        ("oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task=a,pid=1,uid=0", "CONSTRAINT_MEMCG", 1),
    ],
)
def test_a_signature_that_is_only_in_words_of_a_user_does_not_count(line, pattern, counts):
    """Mutants: kernel_log.py without ``_said_by_the_kernel``; with the kernel's own words left out."""
    assert told(f"{line}\n", signatures={"one": pattern}).counts == {"one": counts}


def test_signatures_are_searched_in_any_case():
    state = told("[1.000000] a SEGFAULT at 0\nb\n", signatures={"crash": "segfault at", "other": "no such"})
    assert (state.counts, state.found) == ({"crash": 1, "other": 0}, ("crash",))
    assert state.matches[0].text == "a SEGFAULT at 0"


@every_row(
    "values",
    [
        {"around": "10m", "since": "10m"},
        {"text": "x", "since": "10m"},
        {"signatures": {"a": "("}},
        {"signatures": {"a": ""}},
        {"since": True},
    ],
)
def test_a_mistake_is_refused(values):
    with pytest.raises(ConfigError):
        build(kernel_log.Args, values)


def journal(folder: Path, lines: str, *, code: int = 0, said: str = "") -> Path:
    """A journalctl that prints *lines*, those after ``--since`` if it is given."""
    folder.mkdir(exist_ok=True)
    (folder / "lines").write_text(lines)
    program = folder / "journalctl"
    program.write_text(
        f"""#!/bin/sh
printf '%s' '{said}' >&2
from=0; while [ $# -gt 0 ]; do [ "$1" = --since ] && from=${{2#@}}; shift; done
awk -v from="$from" '$1 + 0 >= from' '{folder}/lines'
exit {code}
"""
    )
    program.chmod(0o755)
    return folder


def ring(folder: Path, text: str, code: int = 0) -> Path:
    """A dmesg that prints *text*."""
    folder.mkdir(exist_ok=True)
    (folder / "ring").write_text(text)
    (folder / "dmesg").write_text(f"#!/bin/sh\ncat '{folder}/ring'\nexit {code}\n")
    (folder / "dmesg").chmod(0o755)
    return folder


def looked(path=None, shell="dash", **values):
    here = Here(path=path, shell=SHELLS[shell])
    state = drive(kernel_log.probe(build(kernel_log.Args, values)), here)
    assert [it.effect for it in here.sent] == [Effect.READ]
    return state


@searching
def test_journal_and_ring_buffer_are_told_together_and_their_clocks_compared(tmp_path, shell):
    boot = float(next(it.split()[1] for it in Path("/proc/stat").read_text().splitlines() if it.startswith("btime")))
    kill = "Out of memory: Killed process {} (a) total-vm:1kB"
    lines = f"{boot + 10:.6f} h kernel: Linux version 9\n{boot + 107:.6f} h kernel: {kill.format(1)}\n"
    journal(tmp_path, lines + f"{boot + 108:.6f} h kernel: the end\n")
    ring(tmp_path, f"[ 100.0] {kill.format(1)}\n[ 101.0] the end\n[ 102.0] {kill.format(2)}\n")
    state = looked(tmp_path, shell)
    assert [it.pid for it in state.oom] == [1, 2]
    assert (state.sources, state.clock_offset) == (("journal", "dmesg"), 7.0)
    assert state.oom[0].seconds == boot + 107
    assert isinstance(looked(tmp_path, shell, since=f"@{boot - 100:.0f}").xids, Unknown)
    assert looked(tmp_path, shell, since=f"@{boot + 20:.0f}").xids == ()
    assert [it.pid for it in looked(tmp_path, shell, around=f"@{boot + 107:.0f}", within="1s").oom] == [1]


@searching
@pytest.mark.parametrize(
    ("lines", "code", "said"),
    [
        ("", 0, "No journal files were found.\n"),
        ("-- No entries --\n", 0, ""),
        ("", 1, "Failed to open\n"),
        ("1740327858.5 h kernel: mine\n", 0, "Hint: You are currently not seeing messages from other users.\n"),
    ],
)
def test_an_empty_journal_is_no_quiet_one(tmp_path, shell, lines, code, said):
    journal(tmp_path, lines, code=code, said=said)
    ring(tmp_path, "dmesg: read kernel buffer failed: Operation not permitted\n", code=1)
    with pytest.raises(
        ProbeError, match=r"cannot be read: journal: .*; dmesg: .*Operation not permitted \(exit code 1"
    ):
        looked(tmp_path, shell)


@searching
def test_what_the_kernel_itself_calls_an_error_is_told_where_no_rule_knows_it(tmp_path, shell):
    """Mutants: what is said at the boot, or what a rule knows, or a warning, or a program's, told as well."""
    ring(
        tmp_path,
        "kern  :err   : [    2.819204] pci 0000:00:01.0: BAR 13: failed to assign [io  size 0x1000]\n"
        "kern  :warn  : [  900.000000] frob 0000:04:00.0: slow\n"
        "kern  :err   : [  901.000000] frob 0000:04:00.0: firmware error 7\n"
        "daemon:err   : [  902.000000] prog[77]: firmware error\n"
        "kern  :crit  : [  903.000000] NVRM: Xid (PCI:0000:01:00): 79, pid=1, GPU has fallen off the bus.\n",
    )
    state = looked(tmp_path, shell)
    assert [it.text for it in state.other_errors] == ["frob 0000:04:00.0: firmware error 7"]
    assert [it.code for it in state.xids] == [79]


@searching
@pytest.mark.slow
def test_a_storm_keeps_its_end_and_says_from_when_on_it_is_complete(tmp_path, shell):
    storm = "".join(f"[{at}.0] NVRM: Xid (PCI:0000:01:00): 8\n" for at in range(1, 25_001))
    state = looked(ring(tmp_path, storm), shell)
    assert len(state.xids) == 200
    assert iso(state.begins) - iso(state.xids[-1].at) == -19_999


@pytest.mark.real("root", "setpriv")
def test_a_log_that_may_not_be_read_is_unknown_and_never_quiet(tmp_path):
    here = Here(shell=NOBODY)
    if Path("/proc/sys/kernel/dmesg_restrict").read_text().strip() != "1":  # this kernel lets everybody read: play it
        here.path = ring(tmp_path, "", code=1)
        (tmp_path / "dmesg").write_text(
            "#!/bin/sh\necho 'dmesg: read kernel buffer failed: Operation not permitted' >&2; exit 1\n"
        )
        for folder in (it for it in (tmp_path, *tmp_path.parents) if it.stat().st_uid == os.getuid()):
            folder.chmod(folder.stat().st_mode | 0o011)
    with pytest.raises(ProbeError, match=r"dmesg: .*not permitted .*kernel.dmesg_restrict may limit it to root"):
        drive(kernel_log.probe(build(kernel_log.Args, {})), here)


@searching
def test_what_any_user_can_have_written_to_a_log_is_not_the_kernels(tmp_path, shell, monkeypatch):
    """Mutants: query_script.py with the file for everything, or taking `kernel:` anywhere in a line."""
    ring(tmp_path, "dmesg: read kernel buffer failed: Operation not permitted\n", code=1)
    kill = "Out of memory: Killed process {} (a) total-vm:1kB"
    (tmp_path / "messages").write_text(f"Nov 22 10:00:00 h kernel: {kill.format(1)}\n")
    (tmp_path / "kern.log").write_text(
        f"Nov 22 10:00:00 h app[5]: x kernel: {kill.format(2)}\n"
        f"Nov  2 10:00:00 h kernel: {kill.format(3)}\n"
        f"2026-11-22T10:00:00.5+01:00 h kernel: {kill.format(4)}\n"
    )
    script = query_script._ASK.replace("/var/log/", f"{tmp_path}/").replace("command -v journalctl", "false")
    monkeypatch.setattr(query_script, "_ASK", script)
    state = looked(tmp_path, shell)
    assert {it.pid for it in state.oom} == {3, 4}
    (tmp_path / "kern.log").unlink()
    with pytest.raises(ProbeError, match="not permitted"):
        looked(tmp_path, shell)


def test_a_look_that_hangs_is_a_fault():
    probe = kernel_log.probe(build(kernel_log.Args, {}))
    next(probe)
    with pytest.raises(ProbeError, match="in time"):
        probe.send(Completed(exit_code=None, timed_out=True))


def removed(group: Path) -> bool:
    """Whether a control group is gone, now."""
    with contextlib.suppress(OSError):
        group.rmdir()
    return not group.exists()


@contextlib.contextmanager
def little_memory(name: str):
    """A control group of 24 MiB, to put a process in."""
    old = Path("/sys/fs/cgroup/memory")
    group = (old if old.exists() else Path("/sys/fs/cgroup")) / name
    try:
        group.mkdir()
        (group / ("memory.limit_in_bytes" if old.exists() else "memory.max")).write_text(str(24 << 20))
    except OSError as error:
        pytest.skip(f"this machine gives no control group: {error}")
    with contextlib.suppress(OSError):
        (group / "memory.swap.max").write_text("0")
    try:
        yield group
    finally:
        soon(partial(removed, group))


def _first_namespace() -> bool:
    return Path("/proc/self/ns/pid").stat().st_ino == 0xEFFFFFFC  # PROC_PID_INIT_INO, linux/proc_ns.h


@pytest.mark.real("root")
@shells
def test_a_process_that_really_ran_out_of_memory_is_found(shell):
    if subprocess.run(["dmesg"], capture_output=True, check=False).returncode:
        pytest.skip("this machine's kernel log cannot be read")
    began = time.time()
    with little_memory(f"runbook-test-{time.time_ns()}") as group:
        hog = subprocess.Popen(["sh", "-c", 'echo $$ >"$1/cgroup.procs" && exec tail /dev/zero', "sh", str(group)])
        assert hog.wait(60) == -9

        def told() -> list:
            seen = looked(shell=shell, since="10m", signatures={"x": "y"})
            return [it for it in seen.oom if it.cgroup == f"/{group.name}"]

        (kill,) = until(told)
    assert (kill.scope, kill.name, kill.container) == ("cgroup", "tail", "")
    assert _first_namespace() != (kill.pid != hog.pid), "the kernel counts processes in the first namespace"
    assert began - 30 < kill.seconds < time.time() + 30
    assert kill.pid in [it.pid for it in looked(shell=shell, around=f"@{kill.seconds:.0f}", within="5s").oom]
    earlier = looked(shell=shell, around=f"@{kill.seconds - 20:.0f}", within="5s").oom
    assert kill.pid not in [it.pid for it in (() if isinstance(earlier, Unknown) else earlier)]


def test_a_person_is_told_how_to_look_by_hand():
    lines = kernel_log.by_hand(build(kernel_log.Args, {"since": "10m"}))
    assert lines[0].startswith("journalctl -k -o short-iso --since '600 seconds ago' | grep -iE ")


def test_servers_and_links_are_what_is_known_of_them_also_in_a_log_that_begins_late():
    """So that a playbook may ask for a cause without becoming unknown itself. Mutant: unknown in place of empty."""
    text = "[9.000000] nfs: server filer-1 not responding, still trying\n[9.1] mlx5_core 0000:3b:00.0 eth0: Link down"
    said = drive(kernel_log.probe(build(kernel_log.Args, {"text": text, "this_boot": True})), Here())
    assert [it.server for it in said.file_servers] == ["filer-1"]
    assert [it.device for it in said.links_down] == ["0000:3b:00.0"]
    quiet = drive(kernel_log.probe(build(kernel_log.Args, {"text": "[9.0] usb", "this_boot": True})), Here())
    assert isinstance(quiet.network, Unknown)
    assert (quiet.file_servers, quiet.links_down) == ((), ())


def test_a_log_with_a_gap_is_taken_as_far_as_it_is_kept_only_where_that_is_asked_for():
    """Mutants: a gap accepted without being asked; `complete` that is True in spite of it."""
    state = told("[9.0] usb 1-1: new device", this_boot=True)
    assert isinstance(state.xids, Unknown)
    assert isinstance(state.complete, Unknown)
    kept = told("[9.0] usb 1-1: new device", this_boot=True, accept_gap=True)
    assert (kept.xids, kept.oom, kept.sick_gpus, kept.hung_tasks) == ((), (), (), ())
    assert kept.gap == "it is not known whether the log goes back to the last boot"
    assert isinstance(kept.complete, Unknown)
    assert (told("[9.0] usb 1-1: new device").gap, told("[9.0] usb 1-1: new device").complete) == ("", True)


def test_a_gap_is_accepted_and_messages_that_cannot_be_placed_are_not():
    """Mutants: `accept_gap` for messages whose time is not known, or for a text of no known form."""
    text = "nvme nvme0: resetting"
    asked = {"since": "2025-02-22T00:00:00Z", "accept_gap": True}
    assert isinstance(told(text, **asked).xids, Unknown)
    assert isinstance(told(NEW, **asked).xids, tuple)
    assert isinstance(told("a text about something else", accept_gap=True).xids, Unknown)


def test_a_log_that_cannot_be_read_has_neither_a_known_gap_nor_known_faults():
    """Mutant: _unread without what is new in the State."""
    state = kernel_log._unread(build(kernel_log.Args, {"accept_gap": True}), Unknown(why="no permission"))
    assert all(isinstance(each, Unknown) for each in (state.gap, state.complete, state.taints, state.xids))


def test_an_empty_text_is_searched_too_and_not_the_hosts_log():
    """A playbook may hand on what another step printed, which was nothing.  Mutant: ``if args.text``."""
    asked = kernel_log.probe(build(kernel_log.Args, {"text": ""}))
    with pytest.raises(StopIteration) as answered:
        next(asked)
    assert (answered.value.value.oom, answered.value.value.xids) == ((), ())
