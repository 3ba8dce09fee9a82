"""reboot: sent once into a drained host that nobody works on, and done when another boot has all its GPUs."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from runbook.errors import ConfigError, ProbeError
from runbook.execution.executor.restart import objection
from runbook.language.arguments import build
from runbook.library.processes.facts.bystanders import bystanders
from runbook.library.processes.facts.table import Process, Row, Table
from runbook.library.scheduler import reboot
from runbook.onhost.boot import LastReboot, ask_boot, ask_boot_id, read_boot, read_boot_id, send_reboot
from runbook.values.command import Completed
from runbook.values.inventory import Container, Host
from runbook.values.plan import Blocked, Change, Restart, Risk
from runbook.values.playbook import Phase, Step
from runbook.values.types import Unknown
from tests.support.probe_driver import SHELLS, Here
from tests.support.real_processes import each
from tests.support.systemd_host import boot
from tests.support.tables import every_row
from tests.support.waiting import soon

shells = pytest.mark.parametrize("shell", each(SHELLS))
OLD, NEW = "11111111-2222-4333-8444-555555555555", "99999999-2222-4333-8444-555555555555"
READY = reboot.State(
    boot_id=OLD, up=100000.0, drained=True, scheduler="drained by root", jobs=(), busy=(), on_bus=8,
    gpus=Unknown(why="the driver is asked after a reboot"), container=False, stopping=False, root=True, last=None,
)  # fmt: skip
LATELY = LastReboot(boot_id=NEW, ago=600.0, gpus=8, words="node-reboot, run R")


def decided(args=None, **changed):
    made = build(reboot.Args, args or {})
    state = replace(READY, **changed)
    return reboot.decide(made, replace(state, forbidden=tuple(reboot._never(made, state))))


def test_a_drained_host_that_nobody_works_on_is_rebooted():
    found = decided()
    assert isinstance(found, Change)
    assert (found.risk, found.restart.boot_id, found.restart.within) == (Risk.REBOOTS, OLD, 900)
    assert [it.key for it in found.targets] == [f"boot:{OLD}"]


@every_row(
    ("changed", "words"),
    [
        ({"drained": False, "scheduler": "IDLE"}, "not drained (IDLE)"),
        ({"jobs": ("job 12 of bob (RUNNING)",)}, "job 12 of bob"),
        ({"jobs": Unknown(why="squeue failed")}, "squeue failed"),
        ({"busy": ("pid 7 of bob (python)",)}, "pid 7 of bob"),
    ],
)
def test_what_a_drain_would_change_blocks_it_until_then(changed, words):
    found = decided(**changed)
    assert isinstance(found, Blocked)
    assert words in found.why
    assert (found.clears, found.then.restart.boot_id) == (True, OLD)


@every_row(
    ("changed", "words"),
    [
        ({"root": False}, "needs root"),
        ({"container": True}, "is a container"),
        ({"stopping": True}, "shut down already"),
        ({"drained": Unknown(why="no scontrol")}, "not known whether the host is drained"),
        ({"busy": Unknown(why="/proc hides")}, "not known who works"),
        ({"last": LATELY}, "was rebooted 10 min ago (node-reboot, run R)"),
        ({"last": replace(LATELY, boot_id=OLD)}, "still in the same boot"),
        ({"last": replace(LATELY, boot_id=OLD, ago=9e6)}, "still in the same boot"),
    ],
)
def test_what_no_drain_would_change_blocks_it_for_good(changed, words):
    found = decided(**changed)
    assert isinstance(found, Blocked)
    assert words in found.why
    assert not found.clears


@every_row(
    ("args", "changed"),
    [
        ({"again": True}, {"last": LATELY}),
        ({"again": True}, {"last": replace(LATELY, boot_id=OLD)}),
        ({"not_again_within": "5m"}, {"last": LATELY}),
        ({}, {"last": replace(LATELY, ago=90000.0)}),
        ({"drain": "none"}, {"drained": Unknown(why="not asked for"), "jobs": Unknown(why="not asked for")}),
        ({"drain": "elsewhere"}, {"drained": False}),
        ({"allow_processes": True}, {"busy": ("pid 7",)}),
        ({"allow_processes": True}, {"busy": Unknown(why="hidden")}),
    ],
)
def test_what_a_person_states_is_enough(args, changed):
    assert isinstance(decided(args, **changed), Change)


@every_row(
    ("args", "after", "words"),
    [
        ({}, {"boot_id": OLD}, "did not reboot"),
        ({}, {"on_bus": 7, "gpus": 7}, "only 7 of 8 GPUs are on the PCI bus"),
        ({}, {"gpus": 7}, "only 7 of 8 GPUs respond"),
        ({}, {"gpus": Unknown(why="nvidia-smi hangs")}, "do not respond: nvidia-smi hangs"),
        ({"expect_gpus": 9}, {"gpus": 8}, "8 of 9 GPUs"),
        ({}, {"gpus": 8}, ""),
        ({"expect_gpus": 0}, {"gpus": 0, "on_bus": 0}, ""),
    ],
)
def test_it_is_done_when_another_boot_has_all_gpus(args, after, words):
    made, then = build(reboot.Args, args), replace(READY, boot_id=NEW)
    then = replace(then, **after)
    assert reboot.settled(made, READY, then) is (words == "")
    assert words in reboot.explain(made, READY, then)


@every_row(
    ("args", "words"),
    [
        ({"force_after": "20m"}, "must be less than `within`"),
        ({"reason": "a\nb"}, "one line"),
        ({"node": "a b"}, "not the name"),
        ({"drain": "no"}, "drain"),
        ({"within": 0}, "within"),
    ],
)
def test_a_mistake_in_a_playbook_is_refused(args, words):
    with pytest.raises(ConfigError, match=words):
        build(reboot.Args, args)


def process(pid, name, uid="1000", state="S"):
    own = Process(pid=pid, start=1, ppid=1, user="bob", state=state, command=name, seconds=1.0)
    return Row(process=own, name=name, argv=(name,), group=pid, terminal=False, threads=1, uid=uid)


def test_processes_of_ordinary_users_count_and_those_of_the_system_and_of_a_login_do_not():
    rows = [
        process(10, "python"), process(11, "systemd"), process(12, "(sd-pam)"), process(13, "sshd"), process(14, "bash", "0"),
        process(15, "dnsmasq", "65534"), process(16, "postgres", "110"), process(17, "python", state="Z"), process(18, "vim"),
    ]  # fmt: skip
    table = Table(rows={it.process.pid: it for it in rows}, way_in=(18,), uid=0)
    assert bystanders(table) == ("pid 10 of bob (python)",)
    assert isinstance(bystanders(replace(table, hidden="hidepid")), Unknown)


# --- the scripts


@pytest.fixture
def notes(tmp_path, monkeypatch):
    """Where a host keeps our notes, for this test alone."""
    place = tmp_path / "notes"
    place.mkdir(mode=0o700)
    (place / ".runbook-locks").touch(mode=0o600)
    monkeypatch.setenv("RUNBOOK_LOCK_PLACES", str(place))
    return place


@pytest.fixture
def programs(tmp_path):
    """A `reboot` and a `systemctl` that note that they were called."""
    for name in ("reboot", "systemctl"):
        (tmp_path / name).write_text(f'#!/bin/sh\necho "$0" >>{tmp_path}/called\nexit $(cat {tmp_path}/code)\n')
        (tmp_path / name).chmod(0o755)
    (tmp_path / "code").write_text("0")
    return tmp_path


def called(programs) -> bool:
    return (programs / "called").exists()


@shells
def test_the_boot_is_the_one_that_the_kernel_names(notes, shell):
    here = Here(shell=SHELLS[shell])
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        mine = file.read().strip()
    boot = read_boot(here.run(ask_boot())[0])
    assert (boot.boot_id, boot.last) == (mine, None)
    assert read_boot_id(here.run(ask_boot_id())[0]) == mine
    assert boot.up > 0


@pytest.mark.real("root")
@pytest.mark.parametrize("shell", ["dash", "bash"])  # busybox has a reboot of its own
def test_a_reboot_is_noted_before_it_is_sent(notes, programs, shell):
    here = Here(path=programs, shell=SHELLS[shell])
    boot = read_boot(here.run(ask_boot())[0])
    done = here.run(send_reboot(boot.boot_id, "node-reboot, run R", 8, 0))[0]
    assert done.exit_code == 0, done.stderr
    assert called(programs)
    last = read_boot(here.run(ask_boot())[0]).last
    assert (last.boot_id, last.gpus, last.words) == (boot.boot_id, 8, "node-reboot, run R")
    assert last.ago < 60
    assert (notes / "rebooted").stat().st_mode & 0o777 == 0o600


@pytest.mark.real("root")
def test_a_host_that_is_in_another_boot_by_then_is_not_rebooted(notes, programs):
    done = Here(path=programs).run(send_reboot(NEW, "x", 8, 0))[0]
    assert (done.exit_code, called(programs), os.listdir(notes)) == (10, False, [".runbook-locks"])


@pytest.mark.real("root")
def test_a_reboot_that_is_refused_leaves_no_note(notes, programs):
    (programs / "code").write_text("1")
    here = Here(path=programs)
    boot = read_boot(here.run(ask_boot())[0])
    assert here.run(send_reboot(boot.boot_id, "x", 8, 0))[0].exit_code == 12
    assert read_boot(here.run(ask_boot())[0]).last is None


@pytest.mark.real("root")
def test_a_reboot_that_cannot_be_noted_is_not_sent(notes, programs):
    (notes / "rebooted").mkdir()
    (notes / "rebooted" / "x").touch()
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        mine = file.read().strip()
    done = Here(path=programs).run(send_reboot(mine, "x", 8, 0))[0]
    assert (done.exit_code, called(programs)) == (12, False)


@pytest.mark.real("root")
def test_a_shutdown_is_not_forced_where_systemd_does_not_run_the_host(notes, programs):
    if os.path.isdir("/run/systemd/system"):
        pytest.skip("systemd runs this machine")
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        mine = file.read().strip()
    done = Here(path=programs).run(send_reboot(mine, "x", 8, 60))[0]
    assert (done.exit_code, called(programs)) == (12, False)


@every_row(
    "lines",
    [
        "boot nothing\nup 1.0",
        f"boot {OLD}\nup soon",
        f"boot {OLD}\nup 1.0\nnow 5\nlast {NEW}\nlast x\nlast 8\nlast y",
        "",
    ],
)
def test_what_is_no_boot_is_unknown(lines):
    with pytest.raises(ProbeError):
        read_boot(Completed(exit_code=0, stdout=lines))


def test_a_clock_that_was_set_back_makes_a_reboot_recent():
    text = f"boot {OLD}\nup 1.0\nnow 5\nlast {NEW}\nlast {int(time.time())}\nlast 8\nlast y"
    assert read_boot(Completed(exit_code=0, stdout=text)).last.ago == 0


@pytest.fixture(scope="module")
def systemd():
    made = boot()
    yield made
    made.stop()


@pytest.mark.real("systemd", "root")
@pytest.mark.slow
def test_systemd_reboots_and_forces_a_shutdown_that_hangs(notes, systemd):
    """Mutants: the forced reboot in a slice that a shutdown stops; a refusal that leaves the note, or the unit."""

    def run(command):
        argv = (*systemd.within, "sh", "-c", command.script, "sh", *command.argv)
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
        return Completed(exit_code=done.returncode, stdout=done.stdout, stderr=done.stderr)

    before = read_boot(run(ask_boot()))
    assert (before.systemd, before.stopping) == (True, False)
    refused = run(send_reboot(before.boot_id, "x", 8, 30))  # this systemd has no reboot.target yet
    assert (refused.exit_code, (notes / "rebooted").exists()) == (12, False), refused
    assert systemd.show("runbook-reboot-force.service", "ActiveState") == "inactive"
    systemd.unit("reboot.target", "[Unit]\nDefaultDependencies=no\nWants=mark.service\n")
    start = "[Service]\nType=oneshot\nExecStart=/bin/touch /run/rebooting\n"
    systemd.unit("mark.service", f"[Unit]\nDefaultDependencies=no\n{start}")
    done = run(send_reboot(before.boot_id, "x", 8, 30))
    assert done.exit_code == 0, done.stderr
    assert soon(lambda: systemd.run("ls", "/run/rebooting", check=False))
    assert systemd.show("runbook-reboot-force.service", "ActiveState") == "active"
    assert systemd.show("runbook-reboot-force.service", "Slice") == "-.slice"
    assert "shutdown.target" not in systemd.show("runbook-reboot-force.service", "Conflicts")


def test_a_container_is_not_rebooted():
    """Mutant: ``objection`` without the container."""
    inside = Host(name="c", transport="docker", container=Container(engine="docker", name="c"))
    context, step = SimpleNamespace(host=inside), Step(id="s", phase=Phase.REMEDIATE, action="reboot")
    assert "this is a container" in objection(context, step, Restart(boot_id="x", within=1.0))
    assert objection(SimpleNamespace(host=Host(name="h")), step, Restart(boot_id="x", within=1.0)) == ""
